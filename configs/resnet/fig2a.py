"""Figure 2 (a), Allen-Zhu and Li 2019: all layers trained, and kernels, N = 500.

    python -m launch.sweep --config=configs/resnet/fig2a.py --workdir=runs/fig2a

Test error against the width for three-layer ResNet, three- and two-layer networks: every layer
trained, the last alone (conjugate kernel), and the NTK, each by SGD with the best of a grid of
learning rates and weight decays; and the kernels solved exactly, at width 200 and infinite.
Each seed has a search of its own; networks have three seeds, kernels one. The paper leaves open
whether it reports the last or the best epoch; here it is the last.

Initial matrices have the paper's text's size (N(0, 1/m)) where they are m x m and its footnote's,
1/(sqrt(fan in) + sqrt(fan out)), elsewhere (init "mixed"), which was chosen after a look at the
others: --config.init=fans has the footnote's for all, "width" the text's for all.

Widths to 1,000; ":small" has widths to 200, fewer candidates and five seeds of all. ":narrow" has
20 seeds of the three-layer networks, with and without skip, at width 50. All run on a CPU.
"""

from lsa_jax.experiments.resnet.hierarchical.settings import QUICK, RUNGS, SETTINGS, SMALL_RUNGS
from lsa_jax.sweep.variants import configurations

_NETS = ("3resnet", "3layer", "2layer")

_SMALL = SMALL_RUNGS | {
    "search.learning_rates": (0.05, 0.1),
    "search.weight_decays": (0.002, 0.005, 0.01),
    "search.kernel_learning_rates": (0.02, 0.05),
    "search.kernel_weight_decays": (0.005, 0.05),
    "sweep.seed": tuple(range(5)),
    "sweep.baseline_seed": tuple(range(5)),
    "sweep.width": (50, 100, 200),
    "sweep.exact": tuple((net, "last_exact") for net in _NETS),
}

# How far the error at the narrowest width that learns varies with the seed, and a network that
# does not learn there.
_NARROW = _SMALL | {
    "sweep.seed": tuple(range(20)),
    "sweep.baseline_seed": (0,),
    "sweep.width": (50,),
    "sweep.baselines": (),
    "sweep.exact": (),
    "sweep.limits": (),
    "sweep.series": (("3resnet", "all"), ("3layer", "all")),
}

_QUICK = QUICK | {
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

get_config = configurations(
    SETTINGS,
    full=RUNGS
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
    small=_SMALL,
    quick=_QUICK,
    narrow=_NARROW,
)
