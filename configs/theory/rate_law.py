"""The best rate along the dial: constant in lazy training, alpha^(2 - 2 / L) in rich training?

    python -m launch.sweep --config=configs/theory/rate_law.py --workdir=runs/theory_rate_law

Atanasov et al. (2024): for networks of L layers whose outputs are divided by gamma, the best rate
grows as gamma^2 and, where gamma is large, as gamma^(2 / L). Here as the rate on
w = alpha (theta - theta_0), for ReLU networks of 2, 3 and 4 layers on digits by full-batch gradient
descent on squared errors; the paper's networks see each example once. The best rate is that of the
least training loss after a fixed number of steps, by the same fit as in
`lazy_rich/learning_rates.py`. Below alpha = 1 the swept rates fall with it, at any depth. ":small"
has narrower networks, fewer steps and output scales, and three seeds of twelve.
"""

from lsa_jax.experiments.theory.laws.settings import SETTINGS
from lsa_jax.sweep.variants import configurations

get_config = configurations(
    SETTINGS,
    full={
        "title": "The best rate along the dial",
        "law": "rate",
        "width": 64,
        "num_train": 128,
        "steps": 1000,
        "sweep.depth": (2, 3, 4),
        "sweep.output_scale": tuple(2.0**p for p in (-10, -8, -6, -4, -3, -2, -1, 0, 2, 4, 6, 9)),
        "sweep.learning_rate": tuple(2.0 ** (half / 2) for half in range(-12, 17)),
        "sweep.with_scale": True,
        "sweep.seed": tuple(range(12)),
    },
    small={
        "width": 32,
        "num_train": 64,
        "steps": 300,
        "sweep.output_scale": tuple(2.0**p for p in (-9, -7, -5, -3, 0, 3, 6)),
        "sweep.learning_rate": tuple(2.0 ** (half / 2) for half in range(-10, 14)),
        "sweep.seed": (0, 1, 2),
    },
    quick={
        "width": 4,
        "num_train": 8,
        "num_test": 8,
        "steps": 4,
        "sweep.depth": (2,),
        "sweep.output_scale": (0.125, 0.25, 1.0, 4.0),
        "sweep.learning_rate": (0.1, 1.0, 10.0),
        "sweep.seed": (0, 1),
    },
)
