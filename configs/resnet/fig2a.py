"""Figure 2 (a), Allen-Zhu and Li 2019: all layers trained, beside kernels, N = 500.

    python -m launch.sweep --config=configs/resnet/fig2a.py --workdir=runs/fig2a

Test error against the width for three-layer ResNet, three- and two-layer networks: every layer
trained, the last alone (conjugate kernel), and the NTK, each by SGD with the best of a grid of
learning rates and weight decays; beside them the kernels solved exactly, at width 200 and infinite.
Trained networks have three seeds, each with its own search, kernels one.

43 min 36 s on 2 CPU cores with two devices, 18 of them for 3layer(all) at width 1,000. Median error
of the ResNet at widths 50 to 1,000 after the last epoch 0.29, 0.07, 0.02, 0.14, 0.14, at the best
epoch 0.18, 0.07, 0.02, 0.06, 0.07. 2layer(all) stays at 2.01 and more, kernels by SGD at 8.5,
infinite NTK at 6.5, infinite conjugate kernel at 5.2. 3layer(all) does at 1.91; at width 1,000 one
seed of three comes below k alpha^2 = 1.35: 0.88, 1.98, 1.92.

With rate 0.1 and decay 0.01 the initial size of its m x m matrix decides there: 0.50, 2.09, 2.00
where products were rounded otherwise; half of it (init "fans") gave 0.44, 0.86, 1.27, and init
"width" 1.82, 2.12, 1.75, with 0.38, 0.14, 0.05, 0.16, 0.13 for the ResNet. At width 50 its error
varies with the seed more than with these: 0.13 to 0.52 over eight seeds, with a median of 0.30, and
0.04 to 0.63 with "fans", with 0.30 too (0.23 where the rate 0.2 is kept to the end). With init
"fan_in" three of these eight do not learn.

":narrow" has 20 seeds of the ResNet at width 50, 90 s on a busy machine: least 0.036, median 0.29,
most 1.39. With --config.init=fans it has the same numbers: the two differ in m x m matrices alone,
and this network has none.
"""

import ml_collections

from lsa_jax.experiments.resnet.hierarchical import settings
from lsa_jax.sweep.variants import choose, set_fields

_NETS = ("3resnet", "3layer", "2layer")

_SMALL = settings.SMALL_RUNGS | {
    "search.learning_rates": (0.05, 0.1),
    "search.weight_decays": (0.002, 0.005, 0.01),
    "search.kernel_learning_rates": (0.02, 0.05),
    "search.kernel_weight_decays": (0.005, 0.05),
    "sweep.width": (50, 100, 200),
    "sweep.exact": tuple((net, "last_exact") for net in _NETS),
}

# How far the error at the narrowest width that learns varies with the seed.
_NARROW = _SMALL | {
    "sweep.seed": tuple(range(20)),
    "sweep.width": (50,),
    "sweep.baselines": (),
    "sweep.exact": (),
    "sweep.limits": (),
    "sweep.series": (("3resnet", "all"),),
}

_QUICK = settings.QUICK | {
    "epochs": 4,
    "fall_epoch": 2,
    "search.learning_rates": (0.02, 0.05),
    "search.kernel_learning_rates": (0.01,),
    "search.kernel_weight_decays": (0.001,),
    "search.rung_epochs": (2,),
    "search.rung_keep": (1,),
    "search.kernel_rung_keep": (1,),
    "sweep.width": (50,),
    "sweep.baselines": (("3layer", "ntk"), ("2layer", "last")),
    "sweep.exact": (("3resnet", "last_exact"), ("2layer", "ntk_exact")),
    "sweep.exact_width": (6,),
    "sweep.limits": (("3layer", "ntk_infinite"),),
}


def get_config(variant: str = "full") -> ml_collections.ConfigDict:
    """Returns the figure in one of the variants full, small, quick, narrow."""
    config = set_fields(
        settings.default_config(),
        settings.RUNGS
        | {
            "title": "Test error against the width, all layers trained, N = 500 (figure 2 a)",
            "question": "width",
            "num_train": 500,
            "search.learning_rates": (0.005, 0.02, 0.05, 0.1, 0.2),
            "search.weight_decays": (0.001, 0.002, 0.005, 0.01, 0.02),
            "search.kernel_learning_rates": (0.005, 0.01, 0.02, 0.05, 0.1),
            "search.kernel_weight_decays": (0.001, 0.005, 0.02, 0.1),
            "sweep.series": tuple((net, "all") for net in _NETS),
            "sweep.baselines": tuple((n, k) for k in ("last", "ntk") for n in _NETS),
            "sweep.seed": (0, 1, 2),
            "sweep.width": (20, 50, 100, 200, 500, 1000),
            "sweep.exact": tuple((n, k) for k in ("last_exact", "ntk_exact") for n in _NETS),
            "sweep.exact_width": (200,),
            "sweep.limits": tuple(
                (n, k) for k in ("ntk_infinite", "conjugate_infinite") for n in _NETS
            ),
        },
    )
    return choose(config, variant, {"small": _SMALL, "quick": _QUICK, "narrow": _NARROW})
