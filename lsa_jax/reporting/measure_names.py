"""Names of measures along training, and their labels in figures.

The measures themselves are those of `training.measures`.
"""

from collections.abc import Mapping
from typing import Any

NAMES = {
    "kernel_distance": "1 - cosine of the kernel\nwith that at the start",
    "kernel_velocity": "distance of the kernel from\nthe one before, over the time",
    "kernel_alignment": "CKA of the kernel\nwith that at the start",
    "target_alignment": "CKA of the kernel\nwith the targets",
    "weight_movement": "movement of the weights,\nover their size",
    "agop_correlation": "correlation of $W^T W$ with\nthe gradient outer product",
    "low_rank_distance": "low rank distance of\nthe last features",
    "effective_rank": "effective rank of\nthe last features",
    "linearization_gap": "part of the change that\nthe linearisation misses",
    "sharpness": "largest eigenvalue of\nthe loss's Hessian",
}

# The one of the trained function and its loss: of runs of `training.train`, which has both.
OF_LOSS = ("sharpness",)

# Those of a network.
OF_NETWORKS = tuple(name for name in NAMES if name not in OF_LOSS)

# Those of networks in which no dense layer or convolution is found.
OF_ANY = (
    *("kernel_distance", "kernel_velocity", "kernel_alignment", "target_alignment"),
    *("weight_movement", "linearization_gap"),
)

# Those of the weights alone, which take no examples.
OF_WEIGHTS = ("weight_movement",)

# The time of the velocity is in epochs of runs that are trained by epochs, in steps of others.

# A run's columns next to the measures at its end: the number of training examples that they are
# taken on, and the time of measuring over that of training, both without compilation.
EXAMPLES, SHARE = "measured_examples", "measuring_share"


# Columns that number the rows of `metrics.jsonl`, in order of preference.
COUNTERS = ("step", "epoch")


def is_measured_alone(row: Mapping[str, Any]) -> bool:
    """Whether a row of `metrics.jsonl` holds measures, and where they were taken, but nothing else.

    A row of nothing is not one.
    """
    found = [name for name in row if name not in COUNTERS]
    return bool(found) and all(map(is_measure, found))


def is_measure(column: str) -> bool:
    """Whether a column holds a measure, of the network or of one of its layers."""
    return column.split("/")[0] in NAMES
