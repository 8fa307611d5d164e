"""Figure 2 (b), Allen-Zhu and Li 2019: hidden layers trained, and kernels, N = 1,000.

    python -m launch.sweep --config=configs/resnet/fig2b.py --workdir=runs/fig2b

As figure 2 (a), with the output layer fixed at its initial values in the networks. The full finite
NTK is solved exactly in (a) alone: with 1,000 examples it has 15,000 rows. Networks have three
seeds, kernels one.

Widths to 1,000; ":small" has widths to 200, fewer candidates and five seeds of all. Both run on a
CPU.
"""

from lsa_jax.experiments.resnet.hierarchical.settings import QUICK, RUNGS, SETTINGS, SMALL_RUNGS
from lsa_jax.sweep.variants import configurations

_NETS = ("3resnet", "3layer", "2layer")

_SMALL = SMALL_RUNGS | {
    "search.learning_rates": (0.2, 0.5),
    "search.weight_decays": (0.0002, 0.0005, 0.001),
    "search.kernel_learning_rates": (0.02, 0.05),
    "search.kernel_weight_decays": (0.005, 0.05),
    "sweep.seed": tuple(range(5)),
    "sweep.baseline_seed": tuple(range(5)),
    "sweep.width": (50, 100, 200),
}

get_config = configurations(
    SETTINGS,
    full=RUNGS
    | {
        "title": "Test error against the width, hidden layers trained, N = 1,000 (figure 2 b)",
        "question": "width",
        "num_train": 1000,
        "search.learning_rates": (0.05, 0.1, 0.2, 0.5, 1.0),
        "search.weight_decays": (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01),
        "search.kernel_learning_rates": (0.005, 0.01, 0.02, 0.05, 0.1),
        "search.kernel_weight_decays": (0.001, 0.005, 0.02, 0.1),
        "sweep.series": tuple((net, "hidden") for net in _NETS),
        "sweep.baselines": tuple((n, k) for k in ("last", "ntk") for n in _NETS),
        "sweep.seed": (0, 1, 2),
        "sweep.width": (20, 50, 100, 200, 500, 1000),
        "sweep.exact": tuple((net, "last_exact") for net in _NETS),
        "sweep.exact_width": (200,),
        "sweep.limits": tuple(
            (n, k) for k in ("ntk_infinite", "conjugate_infinite") for n in _NETS
        ),
    },
    small=_SMALL,
    quick=QUICK
    | {
        "epochs": 4,
        "fall_epoch": 2,
        "search.kernel_learning_rates": (0.01,),
        "search.kernel_weight_decays": (0.001,),
        "sweep.seed": (0, 1),
        "sweep.width": (200,),
        "sweep.series": (("3resnet", "hidden"),),
        "sweep.baselines": (("2layer", "hidden"),),
        "sweep.exact": (),
        "sweep.limits": (("2layer", "conjugate_infinite"),),
    },
)
