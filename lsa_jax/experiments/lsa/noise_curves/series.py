"""The series of a noise curve: names, arrangements and levels of a sweep, and its runs."""

from pathlib import Path
from typing import NamedTuple

import ml_collections
import pandas as pd

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.runs import Runs

PLACES = ("placement", "image_size", "background_size")

# For results that lack the size of their test set and its number of classes.
_CLASSES, _TEST_IMAGES = {"cifar2": 2, "vehicles": 4}, 10_000


class Axis(NamedTuple):
    """Words for the setting that grows along the figure, for its start and for its end."""

    unit: str
    start: str
    end: str


AXES = {
    "noise": Axis("noise", "zero-noise", "at the highest noise"),
    "background_size": Axis("background", "no-background", "on the largest background"),
}


class Series(NamedTuple):
    """A curve of the figure: key of `LEARNERS`, name, and the settings of its runs."""

    learner: str
    label: str
    settings: dict[str, object]


class Arrangement(NamedTuple):
    """A way of placing images on backgrounds.

    Attributes:
        name: in words; empty where the sweep has one arrangement.
        settings: of its runs.
        axis: setting that grows along the figure.
        start: level without noise, or without a background.
        levels: of the sweep, increasing.
    """

    name: str
    settings: dict[str, object]
    axis: str
    start: float
    levels: list[float]

    @property
    def suffix(self) -> str:
        """Returns the end of a claim's item: the name in brackets, empty without a name."""
        return f" ({self.name})" if self.name else ""

    def at(self, *levels: float) -> dict[str, object]:
        """Returns the settings of the arrangement's runs at some levels."""
        return self.settings | {self.axis: levels}


def arrangement_name(
    placement: str, image_size: float, background_size: float | None = None
) -> str:
    """Returns an arrangement in words."""
    on = "" if background_size is None else f" on {background_size:g}"
    return f"{image_size:g}{on}, {placement.replace('_', ' ')}"


def label_of(config: ml_collections.ConfigDict, learner: str, width: float) -> str:
    """Returns the name of a series, with its width where there are several."""
    several = learner == "ntk_finite" and len(config.sweep.ntk_width_factor) > 1
    return LEARNERS[learner].label + f", width {width:g}" * several


def series_of(config: ml_collections.ConfigDict) -> list[Series]:
    """Returns the series of a sweep, in its order."""
    points = SETTINGS.sweep(config)
    pairs = dict.fromkeys((point["learner"], point["width_factor"]) for point in points)
    return [
        Series(
            learner, label_of(config, learner, width), {"learner": learner, "width_factor": width}
        )
        for learner, width in pairs
    ]


def arrangements(config: ml_collections.ConfigDict) -> list[Arrangement]:
    """Returns the arrangements of a sweep, in its order."""
    axis, levels = config.figure_axis, {}
    names = [name for name in PLACES if name != axis]
    for point in SETTINGS.sweep(config):
        row = {name: point.get(f"data.{name}", config.data[name]) for name in PLACES} | point
        levels.setdefault(tuple(row[name] for name in names), set()).add(row[axis])
    found = []
    for values, own in levels.items():
        where = dict(zip(names, values, strict=True))
        name = arrangement_name(**where) if len(levels) > 1 else ""
        start = 0.0 if axis == "noise" else where["image_size"]
        found.append(Arrangement(name, where, axis, start, sorted(own)))
    return found


def runs_of(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Runs:
    """Returns the runs of a sweep for claims, with the outcomes that its folder has.

    Images of a test set are the same for all seeds; stars are drawn for each seed.
    """
    data = config.data
    classes = len(data.classes) or _CLASSES.get(data.task, 10)
    defaults = {"num_test": data.num_test or _TEST_IMAGES, "num_classes": classes}
    known = results.reindex(columns=list(defaults)).astype(float).fillna(defaults)
    kept = outcomes.read(workdir, results["id"])
    counted = results.assign(**known)
    return Runs.of(SETTINGS.sweep(config), counted, kept, fresh=data.dataset == "stars")


def curves(results: pd.DataFrame, config: ml_collections.ConfigDict) -> pd.DataFrame:
    """Returns the finished results with the columns that tables and figures need.

    These are `series`, `arrangement`, `level` and `retained`: test accuracy in percent of the
    accuracy of the same series, arrangement and seed at the start of the axis, missing where that
    was not run.
    """
    table, axis = results[results["status"] == "ok"].copy(), config.figure_axis
    table["series"] = [
        label_of(config, row.learner, row.width_factor) for row in table.itertuples()
    ]
    ways = arrangements(config)
    places = list(ways[0].settings)
    names = {tuple(way.settings.values()): way.name for way in ways}
    table["arrangement"] = [names[tuple(row)] for row in table[places].itertuples(index=False)]
    table["level"] = table[axis]
    starts = table[axis] == (0 if axis == "noise" else table["image_size"])
    same = [table[name] for name in ("series", "arrangement", "seed")]
    start = table["test_accuracy"].where(starts).groupby(same).transform("max")
    return table.assign(retained=100 * table["test_accuracy"] / start)
