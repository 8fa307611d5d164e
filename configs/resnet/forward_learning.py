r"""Allen-Zhu and Li 2019, section 3: the base signal is learned first, then the composite one.

    python -m launch.sweep --config=configs/resnet/forward_learning.py \
        --workdir=runs/forward_learning

The winner of a search as in figure 2 (a) is trained once more and looked at every few epochs: how
well the first layer's features give F by a linear read-out, and how much of F and of G(F) is in the
outputs. ResNet, three-layer network and the ResNet's NTK at width 200.

Three seeds of the networks, one of the NTK; ":small" has fewer candidates. Both run on a CPU.
"""

import ml_collections

from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.sweep.variants import choose, set_fields

_SMALL = settings.SMALL_RUNGS | {
    "search.learning_rates": (0.1,),
    "search.weight_decays": (0.005,),
    "search.kernel_learning_rates": (0.02, 0.05),
    "search.kernel_weight_decays": (0.005, 0.05),
    "watch_every": 10,
}

_QUICK = settings.QUICK | {
    "num_probe": 60,
    "epochs": 4,
    "fall_epoch": 2,
    "watch_every": 2,
    "sweep.baselines": (("2layer", "ntk"),),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick."""
    config = set_fields(
        settings.default_config(),
        settings.RUNGS
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
            "sweep.width": (200,),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK})
