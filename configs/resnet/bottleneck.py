"""Beyond Allen-Zhu and Li 2019: is it the skip or the bottleneck that learns?

    python -m launch.sweep --config=configs/resnet/bottleneck.py --workdir=runs/bottleneck

The paper's ResNet has both a skip and, through U = V A, a bottleneck of the outputs' width. Here
each is also there without the other, every layer trained, in the setting of figure 2 (a). Each has
three seeds.

":small" has two widths, fewer candidates and five seeds. Both run on a CPU.
"""

from lsa_jax.experiments.resnet.hierarchical.settings import QUICK, RUNGS, SETTINGS, SMALL_RUNGS
from lsa_jax.sweep.variants import configurations

_SMALL = SMALL_RUNGS | {
    "search.learning_rates": (0.05, 0.1),
    "search.weight_decays": (0.002, 0.005, 0.01),
    "sweep.width": (100, 200),
    "sweep.seed": tuple(range(5)),
    "sweep.baseline_seed": tuple(range(5)),
}

get_config = configurations(
    SETTINGS,
    full=RUNGS
    | {
        "title": "Test error with and without skip and bottleneck, N = 500",
        "question": "nets",
        "num_train": 500,
        "search.learning_rates": (0.005, 0.02, 0.05, 0.1, 0.2),
        "search.weight_decays": (0.001, 0.002, 0.005, 0.01, 0.02),
        "sweep.series": (("3resnet", "all"), ("3layer_bottleneck", "all")),
        "sweep.baselines": (("3resnet_full", "all"), ("3layer", "all"), ("2layer", "all")),
        "sweep.seed": (0, 1, 2),
        "sweep.baseline_seed": (0, 1, 2),
        "sweep.width": (20, 50, 100, 200, 500),
    },
    small=_SMALL,
    quick=QUICK
    | {
        "sweep.series": (("3layer_bottleneck", "all"),),
        "sweep.baselines": (("3resnet_full", "all"),),
    },
)
