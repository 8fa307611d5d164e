"""The series of a noise curve: how runs are told apart, and what a series retains at a level."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import intervals
from lsa_jax.reporting.doubts import lost_runs, no_sample

# The bootstrap of percentages retained draws from here.
_KEY = 0

# What differs between seeds wherever anything was drawn, even where all test examples are right.
_DRAWN = ("test_accuracy", "test_loss", "train_loss", "kernel_distance")

# What names a run's series, its arrangement and its level.
_SETTINGS = ("learner", "width_factor", "noise", "placement", "image_size", "background_size")

Planned = Sequence[Mapping[str, object]]


class HeldOut(NamedTuple):
    """The test that accuracies are of.

    Attributes:
        count: examples.
        classes: labels to guess among.
        largest: share of the most frequent one; None where it is not kept, and labels count as
            equally frequent.
    """

    count: int
    classes: int
    largest: float | None = None


class Series(NamedTuple):
    """A series at a level.

    Attributes:
        retained: in percent, by seed.
        error: that the test examples make of it.
        warning: that its start is near chance; empty if it is not.
        lost: names the runs at the start and at the level that have no result; empty of none.
        equal: says that all seeds have the same results; empty if they do not.
    """

    retained: pd.Series
    error: float = 0.0
    warning: str = ""
    lost: str = ""
    equal: str = ""


NOTHING = Series(pd.Series(dtype=float))


def arrangement_name(placement: str, image_size: float, background_size: float) -> str:
    """Returns how images lie on their backgrounds, in words."""
    return f"{image_size:g} on {background_size:g}, {placement.replace('_', ' ')}"


def swept(points: Planned) -> list[dict[str, object]]:
    """Returns swept settings under the names that they have in the results."""
    return [{name.removeprefix("data."): v for name, v in p.items()} for p in points]


def told_by(table: pd.DataFrame, points: Planned) -> list[dict[str, object]]:
    """Returns swept settings as `swept` does, without those that a table of results lacks."""
    return [{name: v for name, v in point.items() if name in table} for point in swept(points)]


def _series_name(learner: str, width: float, all_widths: list[float]) -> str:
    several = learner == "ntk_finite" and len(all_widths) > 1
    return f"{LEARNERS[learner].label}, width {width:g}" if several else LEARNERS[learner].label


def _arrangements(runs: pd.DataFrame, axis: str) -> list[str]:
    """Returns how each run's image lies on its background; empty where all runs do it alike."""
    columns = ["placement", "image_size", *(["background_size"] if axis == "noise" else [])]
    if not set(columns) <= set(runs) or len(runs[columns].drop_duplicates()) < 2:
        return [""] * len(runs)
    if axis == "noise":
        return [arrangement_name(*row) for row in runs[columns].itertuples(index=False)]
    return [f"{row.image_size:g}, {row.placement}" for row in runs.itertuples()]


def _named(runs: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Adds the `series`, `arrangement` and `level` of runs, and whether the axis `starts` there."""
    widths = runs.loc[runs["learner"] == "ntk_finite", "width_factor"].unique().tolist()
    names = [_series_name(row.learner, row.width_factor, widths) for row in runs.itertuples()]
    start = 0 if axis == "noise" else runs["image_size"]
    return runs.assign(
        series=names,
        arrangement=_arrangements(runs, axis),
        level=runs[axis],
        starts=runs[axis] == start,
    )


def _runs(done: pd.DataFrame, planned: Planned) -> pd.DataFrame:
    """Returns the settings of all runs: first those that were asked for, then those there are.

    What is not swept is in all of them as in the first one that there is.
    """
    known = done[[name for name in _SETTINGS if name in done]]
    first = known.iloc[0].to_dict() if len(known) else {}
    asked = [first | point for point in swept(planned)]
    return pd.DataFrame(asked + known.to_dict("records"), columns=known.columns)


def curves(results: pd.DataFrame, axis: str = "noise", planned: Planned = ()) -> pd.DataFrame:
    """Returns the results that are finished, ready to be drawn against an axis of the sweep.

    Beside what they have, rows get: `series`, who learns; `arrangement`, how images lie on their
    backgrounds, if that differs; `level`, where on the axis; `starts`, whether that is the start of
    the axis (zero noise, or a background as small as the image); `start_accuracy`, there, of the
    same series, arrangement and seed, missing where there is no such run; and `retained`, test
    accuracy in percent of it.

    Args:
        results: one row a run.
        axis: what grows along the figure.
        planned: settings of the runs that the sweep asks for; series and arrangements have the
            same names whichever of them are finished.
    """
    table = results[results["status"] == "ok"].copy()
    named = _named(_runs(table, planned), axis)[len(planned) :]
    for name in ("series", "arrangement", "level", "starts"):
        table[name] = named[name].to_numpy()
    same = ["series", "arrangement", "seed"]
    quiet = table[table["starts"]].set_index(same)["test_accuracy"]
    reference = pd.MultiIndex.from_frame(table[same]).map(quiet.to_dict())
    table["start_accuracy"] = np.asarray(reference, float)
    table["retained"] = 100 * table["test_accuracy"] / table["start_accuracy"]
    return table


def equal_seeds(
    rows: pd.DataFrame,
    columns: Sequence[str] = _DRAWN,
    setting: Sequence[str] = ("level",),
) -> str:
    """Says that two seeds or more have the same results; empty if not.

    Args:
        rows: of what is compared, with a column `seed`.
        columns: of results; those that there are count.
        setting: what differs between the runs of a seed.
    """
    if rows["seed"].nunique() < 2:  # then the test examples decide
        return ""
    return no_sample(rows, [name for name in columns if name in rows], setting)


class Runs(NamedTuple):
    """Some runs of a sweep.

    Attributes:
        asked: a row a run that is asked for, named as those of `curves` are, with its `point`: the
            swept settings under the names that they have in the results.
        table: of `curves`, those that are finished.
    """

    asked: pd.DataFrame
    table: pd.DataFrame

    def where(self, **settings: object) -> "Runs":
        """Returns those that have these settings."""
        return Runs(*(_having(runs, settings) for runs in self))

    @property
    def lost(self) -> str:
        """Names those that are asked for and have no result; empty of none."""
        points = [point for point in self.asked["point"] if point is not None]
        return lost_runs(points, self.table, ["test_accuracy"])


def _having(runs: pd.DataFrame, settings: Mapping[str, object]) -> pd.DataFrame:
    for name, value in settings.items():
        runs = runs[runs[name] == value]
    return runs


def runs_of(table: pd.DataFrame, axis: str, planned: Planned) -> Runs:
    """Returns the runs that a sweep asks for, or, where nobody says which, those that there are.

    Args:
        table: of `curves`, made with the same.
        axis: what grows along the figure.
        planned: settings of the runs that are asked for.
    """
    named = _named(_runs(table, planned), axis)
    asked = named[: len(planned)] if planned else named
    return Runs(asked.assign(point=swept(planned) or None), table)


def at_level(runs: Runs, level: float, test: HeldOut) -> Series:
    """Returns what one series retains at a level, with the error that its test examples make.

    Args:
        runs: of the series.
        level: where on the axis.
        test: the test that accuracies are of.
    """
    ends = Runs(*(some[some["starts"] | (some["level"] == level)] for some in runs))
    here = runs.table[runs.table["level"] == level].set_index("seed")
    retained = here["retained"].dropna()
    if retained.empty:
        return Series(retained, lost=ends.lost)
    accuracy, start = (float(here[name].mean()) for name in ("test_accuracy", "start_accuracy"))
    return Series(
        retained,
        100 * intervals.ratio_error(accuracy, start, test.count, _KEY),
        deciding.chance_warning(start, test.classes, test.count, test.largest),
        ends.lost,
        equal_seeds(ends.table),
    )
