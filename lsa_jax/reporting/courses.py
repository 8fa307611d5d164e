"""The courses of runs: rows of `metrics.jsonl` as numbers against steps, and as small curves.

Names of measures of lazy and rich are those of `training.measures`; any run may have them.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

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
    """Whether a row of `metrics.jsonl` holds measures, and where they were taken, alone."""
    found = [name for name in row if name not in COUNTERS]
    return bool(found) and all(map(is_measure, found))


def is_measure(column: str) -> bool:
    """Whether a column holds a measure, of the network or of one of its layers."""
    return column.split("/")[0] in NAMES


# Metrics to draw, in order of preference; otherwise runs' first number.
_PREFERRED = ("test_accuracy", "test_error", "validation_loss", "test_loss", "train_loss", "loss")

WIDTH, HEIGHT = 100.0, 40.0  # of a curve's drawing, in its own units
_MOST_POINTS = 60


def numbers(row: dict[str, Any]) -> dict[str, float]:
    """Returns the numbers of a row that can be drawn against the steps."""
    return {
        name: float(value)
        for name, value in row.items()
        if name not in COUNTERS and isinstance(value, int | float) and math.isfinite(value)
    }


def counter(rows: list[dict[str, Any]]) -> str:
    """Returns the column that numbers the rows; "row" where none does."""
    return next((c for c in COUNTERS if rows and all(c in row for row in rows)), "row")


def steps(rows: list[dict[str, Any]]) -> list[int]:
    """Returns each row's place on the horizontal axis; its number where nothing counts."""
    name = counter(rows)
    return [number if name == "row" else int(row[name]) for number, row in enumerate(rows)]


class Course(NamedTuple):
    """One run's curve: its points as SVG writes them, and a description."""

    points: str
    about: str


def metric(runs: Iterable[list[dict[str, Any]]]) -> str | None:
    """Returns the metric to draw of runs, by their rows; None where they have no numbers."""
    names = list(dict.fromkeys(name for rows in runs for row in rows for name in numbers(row)))
    preferred = [name for name in _PREFERRED if name in names]
    return next(iter(preferred + names), None)


def _thinned(places: Sequence[Any]) -> list[Any]:
    """Returns at most so many of the places as a curve needs, evenly, with the first and last."""
    count = min(len(places), _MOST_POINTS)
    return [places[n] for n in np.linspace(0, len(places) - 1, count).round().astype(int)]


def draw(runs: dict[str, list[dict[str, Any]]]) -> tuple[str | None, dict[str, Course]]:
    """Returns the metric to draw, and each run's curve on axes that all of them share.

    `runs` has the rows of `metrics.jsonl` by run id; runs of fewer than two rows with the metric
    are left out.
    """
    name = metric(runs.values())
    curves = {}
    for run_id, rows in runs.items():
        places = zip(steps(rows), map(numbers, rows), strict=True)
        curve = [(step, row[name]) for step, row in places if name in row]
        if len(curve) > 1:
            curves[run_id] = curve
    if not curves:
        return None, {}
    values = [value for curve in curves.values() for _, value in curve]
    low, high = min(values), max(values)
    right = max(step for curve in curves.values() for step, _ in curve)

    def place(step: int, value: float) -> str:
        x, y = step / (right or 1) * WIDTH, (value - low) / ((high - low) or 1) * HEIGHT
        return f"{x:.1f},{HEIGHT - y:.1f}"

    courses = {}
    for run_id, curve in curves.items():
        (first, start), (last, end) = curve[0], curve[-1]
        unit = counter(runs[run_id])
        about = (
            f"{name} {start:.4g} at {unit} {first}, {end:.4g} at {unit} {last}; "
            f"axis {low:.4g} to {high:.4g}"
        )
        courses[run_id] = Course(" ".join(place(*p) for p in _thinned(curve)), about)
    return name, courses
