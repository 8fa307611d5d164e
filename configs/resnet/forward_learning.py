r"""Allen-Zhu and Li 2019, section 3: the base signal is learned first, then the composite one.

    python -m launch.sweep --config=configs/resnet/forward_learning.py \
        --workdir=runs/forward_learning

The winner of a search as in figure 2 (a) is trained once more and measured every few epochs: the
error of a linear read-out of F from the first layer's features, and the shares of F and of G(F) in
the outputs. ResNet, three-layer network and the ResNet's NTK at width 200.

Three seeds; ":small" has fewer candidates. Both run on a CPU.
"""

from lsa_jax.experiments.resnet.hierarchical.settings import QUICK, RUNGS, SETTINGS, SMALL_RUNGS
from lsa_jax.sweep.variants import configurations

_SMALL = SMALL_RUNGS | {
    "search.learning_rates": (0.1,),
    "search.weight_decays": (0.005,),
    "search.kernel_learning_rates": (0.02, 0.05),
    "search.kernel_weight_decays": (0.005, 0.05),
    "watch_every": 10,
}

get_config = configurations(
    SETTINGS,
    full=RUNGS
    | {
        "title": "What is learned when: base signal first, composite one after",
        "question": "epochs",
        "num_train": 500,
        "search.learning_rates": (0.05, 0.1, 0.2),
        "search.weight_decays": (0.001, 0.002, 0.005, 0.01),
        "search.kernel_learning_rates": (0.005, 0.01, 0.02, 0.05, 0.1),
        "search.kernel_weight_decays": (0.001, 0.005, 0.02, 0.1),
        "sweep.series": (("3resnet", "all"), ("3layer", "all")),
        "sweep.baselines": (("3resnet", "ntk"),),
        "sweep.seed": (0, 1, 2),
        "sweep.baseline_seed": (0, 1, 2),
        "sweep.width": (200,),
    },
    small=_SMALL,
    quick=QUICK
    | {
        "num_probe": 60,
        "epochs": 4,
        "fall_epoch": 2,
        "watch_every": 2,
        "sweep.baselines": (("2layer", "ntk"),),
    },
)
