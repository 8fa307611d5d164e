"""Claims on noise curves and on a kernel that learns, stated before any run, and their series.

Karp et al. (NeurIPS 2021), section 6: as noise, or the background, grows the network keeps more of
its accuracy than an NTK. Percentages are corrected for chance where learners are compared, and
plain where they are compared with the paper's numbers.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from lsa_jax.experiments.lsa import numbers
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import Claim, Condition, above_chance, fitted, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, binomial_error
from lsa_jax.reporting.statistics import accuracy, minus, retained
from lsa_jax.sweep.fields import Config

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


def label_of(config: Config, learner: str, width: float) -> str:
    """Returns the name of a series, with its width where there are several."""
    several = learner == "ntk_finite" and len(config.sweep.ntk_width_factor) > 1
    return LEARNERS[learner].label + f", width {width:g}" * several


def series_of(config: Config) -> list[Series]:
    """Returns the series of a sweep, in its order."""
    points = SETTINGS.sweep(config)
    pairs = dict.fromkeys((point["learner"], point["width_factor"]) for point in points)
    return [
        Series(
            learner, label_of(config, learner, width), {"learner": learner, "width_factor": width}
        )
        for learner, width in pairs
    ]


def arrangements(config: Config) -> list[Arrangement]:
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


def runs_of(config: Config, results: pd.DataFrame, workdir: Path) -> Runs:
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


def curves(results: pd.DataFrame, config: Config) -> pd.DataFrame:
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


# Largest difference from a number of the paper, in points.
TOLERANCE = 3.0
# Expected standard deviation over seeds, in points: networks of figure 4 had 0.3 to 1.1.
SEED_SD = 1.0
# Figures 4 and 6.
PRIMARY = (*numbers.RETAINED, "lsa/fig6_mnist")
# Points by which a learned kernel's accuracy may stay below a published one.
MARGIN = 2.0
# Column of the test accuracy after an update, but for the update's number.
AFTER_UPDATE = "test_accuracy_update_"

_NETWORK, _MACHINE = {"learner": "network"}, {"learner": "rfm"}
_Conditions = tuple[Condition, ...]


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims of a sweep over noise or the size of backgrounds.

    Without a network, or with one level alone, accuracies are measured.
    """
    item, ways, series = config.paper_item, arrangements(config), series_of(config)
    grows = any(way.levels[-1] > way.start for way in ways)
    if not item and ("network" not in config.sweep.learner or not grows):
        return [_accuracy(own, way, at) for own in series for way in ways for at in way.levels]
    kernels = [own for own in series if own.learner != "network"]
    fixed = [own for own in kernels if not LEARNERS[own.learner].is_learned_kernel]
    claims, differ = [], {}
    for way in ways:
        gaps = {own.label: _gap(own, way, item) for own in kernels}
        claims += gaps.values()
        # Learners that are alike could agree with the paper's numbers, fitted or not.
        conditions = tuple(
            _keeps_more(own, replace(gaps[own.label], conditions=gaps[own.label].conditions[:-1]))
            for own in fixed
        )
        differ[tuple(way.settings.values())] = conditions
        if paper := numbers.RETAINED.get(item):
            compared = [own for own in series if own.learner in paper.percent]
            claims += [_percentage(own, way, paper, conditions) for own in compared]
        if margin := numbers.ON_PAR_AT_ZERO_NOISE.get(item):
            claims += [_on_par(own, way, margin, gaps[own.label]) for own in fixed]
    for key, cells in numbers.TEST_ACCURACY_PERCENT.get(item, {}).items():
        claims += _cells(key, cells, differ.get(key, ()))
    return claims


def _accuracy(own: Series, way: Arrangement, level: float) -> Claim:
    return Claim(
        item=f"test accuracy (%) of the {own.label}, at {level:g}{way.suffix}",
        statistic=accuracy(**own.settings, **way.at(level)),
        digits=2,
    )


def _kept(settings: Mapping[str, object], way: Arrangement) -> Statistic:
    """Returns the percentage of accuracy above chance that is left at the end of the axis."""

    def statistic(runs: Runs) -> Sample:
        start, end = (accuracy(**settings, **way.at(at)) for at in (way.start, way.levels[-1]))
        return retained(start, end, chance=100 * runs.chance())(runs)

    return statistic


def _gap(own: Series, way: Arrangement, item: str | None) -> Claim:
    """Returns the claim that the network keeps more; kernels that have learned are measured."""
    start, ends = way.at(way.start), way.at(way.start, way.levels[-1])
    gap = Claim(
        item=f"points of accuracy above chance retained {AXES[way.axis].end}, network minus "
        f"{own.label}{way.suffix}",
        statistic=minus(_kept(_NETWORK, way), _kept(own.settings, way)),
        digits=2,
    )
    if LEARNERS[own.learner].is_learned_kernel:
        return gap
    return replace(
        gap,
        paper="above 0: the network keeps more (section 6)",
        above=0.0,
        conditions=(
            above_chance("the network", **_NETWORK, **start),
            above_chance(f"the {own.label}", **own.settings, **start),
            fitted(f"the {own.label}", **own.settings, **ends),
        ),
        primary=item in PRIMARY,
    )


def _keeps_more(own: Series, gap: Claim) -> Condition:
    return shown(gap, f"the network keeps more than the {own.label}")


def _on_par(own: Series, way: Arrangement, margin: float, gap: Claim) -> Claim:
    start = way.at(way.start)
    return Claim(
        item=f"points of accuracy at zero noise, network minus {own.label}, within {margin:g}"
        f"{way.suffix}",
        statistic=minus(accuracy(**_NETWORK, **start), accuracy(**own.settings, **start)),
        paper=0.0,
        within=margin,
        seed_sd=SEED_SD,
        conditions=(_keeps_more(own, gap),),
        digits=2,
    )


def _percentage(
    own: Series, way: Arrangement, paper: numbers.Retained, conditions: _Conditions
) -> Claim:
    start, end = (accuracy(**own.settings, **way.at(at)) for at in (way.start, paper.noise))
    item = f"% of zero-noise accuracy retained at noise {paper.noise:g}, {own.label}, {{}}"
    learns = above_chance(f"the {own.label}", **own.settings, **way.at(way.start))
    conditions = (learns, *conditions)
    return _agrees(item + way.suffix, own.learner, paper.percent, retained(start, end), conditions)


def _cells(key: tuple[str, int, int], cells: numbers.Cells, conditions: _Conditions) -> list[Claim]:
    """Returns the claims on the test accuracies that the paper prints of an arrangement."""
    where = dict(zip(PLACES, key, strict=True))
    return [
        _agrees(
            f"test accuracy (%) of the {LEARNERS[learner].label}, noise {noise:g}, {{}} "
            f"({arrangement_name(*key)})",
            learner,
            {name: of[noise] for name, of in cells.items()},
            accuracy(learner=learner, noise=noise, **where),
            conditions,
        )
        for learner, of_learner in cells.items()
        for noise in of_learner
    ]


def _agrees(
    item: str,
    learner: str,
    paper: Mapping[str, float],
    statistic: Statistic,
    conditions: _Conditions,
) -> Claim:
    """Returns the claim that a number agrees with the paper's learner, not with its other one."""
    margin = min(TOLERANCE, (max(paper.values()) - min(paper.values())) / 2)
    return Claim(
        item=item.format(f"within {margin:.3g}"),
        statistic=statistic,
        paper=paper[learner],
        within=margin,
        seed_sd=SEED_SD,
        conditions=conditions,
        digits=2,
    )


def claims_on_updates(config: Config) -> list[Claim]:
    """Returns the claims on the feature machine of a sweep that reports every update.

    Published accuracies are of one run on `Published.num_test` test images, which give their error.
    """

    def after(updates: int) -> Statistic:
        return accuracy(f"{AFTER_UPDATE}{updates}", optional=True, **_MACHINE)

    gain = Claim(
        item="points of test accuracy that the updates gain",
        statistic=minus(after(config.rfm.updates), after(0)),
        above=0.0,
        conditions=(above_chance("the machine", **_MACHINE),),
        digits=2,
    )
    published = numbers.PUBLISHED.get(config.paper_item or "")
    if published is None:
        return [gain]
    conditions = (shown(gain, "the updates gain something"), _as_few(published))
    claims, last = [gain], len(published.percent) - 1
    for updates, when in ((0, "before any update"), (last, f"after {last} update(s)")):
        percent = published.percent[updates]
        least = percent - MARGIN
        claims.append(
            Claim(
                item=f"test accuracy (%) of the recursive feature machine {when}",
                paper=f"above {least:g}: at most {MARGIN:g} points below the published {percent:g}",
                statistic=after(updates),
                above=least,
                paper_error=100 * binomial_error(percent / 100, published.num_test),
                conditions=conditions,
                digits=2,
            )
        )
    return claims


def _as_few(published: numbers.Published) -> Condition:
    """Returns the condition that no more training images are used than in the publication."""

    def unmet(runs: Runs) -> str:
        most = runs.where(**_MACHINE).finished["num_train"].max()
        return "" if most <= published.num_train else f"{most:,.0f}"

    return Condition(f"at most {published.num_train:,} training images, as published", unmet)
