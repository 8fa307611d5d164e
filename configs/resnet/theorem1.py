"""Theorem 1, Allen-Zhu and Li 2019: the ResNet's error against alpha, all layers trained.

    python -m launch.sweep --config=configs/resnet/theorem1.py --workdir=runs/theorem1

SGD gets to a risk of order alpha^4, with more examples the smaller alpha is; an answer that has F
right and knows nothing of G has k alpha^2. The theorem's constant, (k p_G C_s(G))^4, is far above
any error here, so the claim takes the least that it can be, 1. N is 1,000, as in figure 3, and
4,000. Exponents between neighbouring alphas are measured: 4 where the bound limits the error, 0
where the missed part of F or the end of training does.

Five seeds, six alphas; ":small" has three of each, and fewer candidates. Both run on a CPU.
"""

from lsa_jax.experiments.resnet.hierarchical.settings import QUICK, RUNGS, SETTINGS, SMALL_RUNGS
from lsa_jax.sweep.variants import configurations

_SMALL = SMALL_RUNGS | {
    "search.learning_rates": (0.05, 0.1),
    "search.weight_decays": (0.0001, 0.0005, 0.002),
    "sweep.alpha": (0.15, 0.3, 0.6),
    "sweep.seed": (0, 1, 2),
}

get_config = configurations(
    SETTINGS,
    full=RUNGS
    | {
        "title": "Test error against alpha (theorem 1)",
        "question": "alpha",
        "search.learning_rates": (0.02, 0.05, 0.1, 0.2),
        "search.weight_decays": (0.0001, 0.0005, 0.001, 0.002),
        "sweep.series": (("3resnet", "all"),),
        "sweep.alpha": (0.1, 0.15, 0.2, 0.3, 0.45, 0.6),
        "sweep.num_train": (1000, 4000),
        "sweep.seed": (0, 1, 2, 3, 4),
    },
    small=_SMALL,
    quick=QUICK | {"sweep.alpha": (0.2, 0.4), "sweep.num_train": (40,)},
)
