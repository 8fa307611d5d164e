"""A series of a noise curve at one level: what it retains, and what speaks against that number."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import intervals
from lsa_jax.reporting.doubts import lost_runs, no_sample

# The bootstrap of percentages retained draws from here.
_KEY = 0

# What tells the runs of two series, or of two arrangements of images, apart.
_APART = ("learner", "width_factor", "placement", "image_size", "background_size")

Planned = Sequence[Mapping[str, object]]


class HeldOut(NamedTuple):
    """The test that accuracies are of: how many examples, and how many labels to guess among."""

    count: int
    classes: int


class Series(NamedTuple):
    """A series at a level.

    Attributes:
        retained: in percent, by seed.
        error: that the test examples make of it.
        warning: that its start is near chance; empty if it is not.
        lost: names the runs at the start and at the level that have no result; empty of none.
        equal: says that all seeds have the same accuracies; empty if they do not.
    """

    retained: pd.Series
    error: float = 0.0
    warning: str = ""
    lost: str = ""
    equal: str = ""


NOTHING = Series(pd.Series(dtype=float))


def asked_for(points: Planned) -> list[dict[str, object]]:
    """Returns swept settings under the names that they have in the results."""
    return [{name.removeprefix("data."): v for name, v in p.items()} for p in points]


def lost_at(own: pd.DataFrame, levels: Sequence[object], axis: str, planned: Planned) -> str:
    """Names the runs of one series that have no result at some levels; empty of none.

    Args:
        own: the series' results.
        levels: along the axis.
        axis: the results' column that grows along the figure.
        planned: settings of the runs that the sweep asks for, as `asked_for` names them.
    """
    one = own.iloc[0]
    names = [name for name in _APART if name in own and name != axis]
    points = [
        point
        for point in planned
        if all(point.get(name, one[name]) == one[name] for name in names)
        and point.get(axis, levels[0]) in levels
    ]
    return lost_runs(points, own, ["test_accuracy"])


def equal_seeds(rows: pd.DataFrame) -> str:
    """Says that two seeds or more have the same accuracies at every level; empty if not."""
    if rows["seed"].nunique() < 2:  # then the test examples decide
        return ""
    return no_sample(rows, ["test_accuracy"], ["level"])


def at_level(own: pd.DataFrame, level: float, test: HeldOut, axis: str, planned: Planned) -> Series:
    """Returns what one series retains at a level, with the error that its test examples make."""
    here = own[own["level"] == level].set_index("seed")
    retained = here["retained"].dropna()
    if retained.empty:
        return Series(retained)
    accuracy, start = (float(here[name].mean()) for name in ("test_accuracy", "start_accuracy"))
    ends = [0.0 if axis == "noise" else float(own["image_size"].iloc[0]), level]
    return Series(
        retained,
        100 * intervals.ratio_error(accuracy, start, test.count, _KEY),
        deciding.chance_warning(start, test.classes, test.count),
        lost_at(own, ends, axis, planned),
        equal_seeds(own[own["level"].isin(ends)]),
    )
