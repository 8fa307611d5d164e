r"""Theorem 2, Allen-Zhu and Li 2019: error against the number of examples, ResNet and kernels.

    python -m launch.sweep --config=configs/resnet/sample_complexity.py \
        --workdir=runs/sample_complexity

Kernels, solved exactly with the best ridge, learn F and then stay at k alpha^2, until N is of the
order that the composite signal's degree asks for. Theorem 2 (arXiv, section 7.1) is about linear F
and G one product of its k outputs: the first two tasks; where d = 30 and k = 8 no kernel has a risk
of alpha^2 / 16 = 0.0056 with N to C(30, 8) / 1000 = 5,852, and no regression on as many features
(theorem 3), which takes more examples than features to test. In the paper's experiment (d = 30,
degrees 2 and 4) kernels need more examples than can be had; with d = 16 they do not.

Three seeds of networks, one of kernels; ":small" has three of all, but one of the N above 2,000
that no claim reads, and fewer N. Both run on a CPU.
"""

from typing import Any

import ml_collections

from lsa_jax.experiments.resnet.hierarchical.settings import QUICK, RUNGS, SETTINGS, SMALL_RUNGS
from lsa_jax.sweep.variants import configurations

_SMALL = SMALL_RUNGS | {
    "search.learning_rates": (0.05, 0.1),
    "search.weight_decays": (0.001, 0.005, 0.01),
    "sweep.baseline_seed": (0, 1, 2),
    "sweep.num_train": (100, 250, 500, 1000, 2000),
    "sweep.exact_num_train": (100, 250, 500, 1000, 2000, 8000),
    "sweep.limit_num_train": (100, 250, 500, 1000, 2000, 5852),
}

get_config = configurations(
    SETTINGS,
    full=RUNGS
    | {
        "title": "Test error against the number of examples (theorem 2)",
        "question": "samples",
        "search.learning_rates": (0.02, 0.05, 0.1),
        "search.weight_decays": (0.0005, 0.001, 0.002, 0.005, 0.01),
        "sweep.tasks": ((30, 1, 8, 8), (16, 1, 4, 4), (30, 2, 4), (16, 2, 2)),
        "sweep.series": (("3resnet", "all"),),
        "sweep.exact": (("2layer", "last_exact"), ("3layer", "last_exact")),
        "sweep.exact_width": (5852,),
        "sweep.seed": (0, 1, 2),
        "sweep.width": (200,),
        "sweep.num_train": (100, 200, 350, 500, 750, 1000, 2000, 4000),
        "sweep.limits": (
            ("2layer", "ntk_infinite"),
            ("3layer", "ntk_infinite"),
            ("3layer", "conjugate_infinite"),
            ("none", "gaussian"),
            ("none", "arc_cosine"),
        ),
        "sweep.exact_num_train": (100, 200, 350, 500, 750, 1000, 2000, 4000, 8000),
        "sweep.limit_num_train": (100, 200, 350, 500, 750, 1000, 2000, 4000, 5852, 8000),
    },
    small=_SMALL,
    quick=QUICK
    | {
        "ridges": (1e-2,),
        "bandwidths": (1.0,),
        "sweep.tasks": ((8, 2, 2), (14, 1, 7, 7)),
        "sweep.exact_width": (3,),
        "sweep.num_train": (40,),
        "sweep.exact_num_train": (40,),
        "sweep.limit_num_train": (40,),
        "sweep.limits": (("none", "gaussian"), ("none", "arc_cosine")),
    },
)


def get_sweep(config: ml_collections.ConfigDict) -> list[dict[str, Any]]:
    """Returns every point; N above 2,000 in the first seed alone, but for theorem 2's task."""
    theorem2 = config.sweep.tasks[0][:2]
    return [
        point
        for point in SETTINGS.sweep(config)
        if point["seed"] == 0
        or point["num_train"] <= 2000
        or (point["d"], point["base_degree"]) == theorem2
        or point["learner"] == "all"
    ]
