"""Claims on noise curves and on a kernel that learns, stated before any run, and their series.

Karp et al. (NeurIPS 2021), section 6: as noise, or the background, grows the network keeps more of
its accuracy than an NTK. Percentages are corrected for chance where learners are compared, and
plain where they are compared with the paper's numbers.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import pandas as pd

from lsa_jax.experiments.lsa import numbers
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.reporting.claims import Claim, Condition, above_chance, fitted, in_all, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic, binomial_error
from lsa_jax.reporting.statistics import accuracy, minus, retained
from lsa_jax.sweep.fields import Config

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

PLACES = ("placement", "image_size", "background_size")
_NETWORK, _MACHINE = {"learner": "network"}, {"learner": "rfm"}
_Conditions = tuple[Condition, ...]


# Words for the setting that grows along the figure, for its start and for its end.
AXES = {
    "noise": ("noise", "zero-noise", "at the highest noise"),
    "background_size": ("background", "no-background", "on the largest background"),
}


class Arrangement(NamedTuple):
    """A way of placing images on backgrounds."""

    name: str  # in words; empty where the sweep has one arrangement
    start: float  # level without noise, or without a background
    levels: list[float]  # of the sweep, increasing

    @property
    def suffix(self) -> str:
        """Returns the end of a claim's item: the name in brackets, empty without a name."""
        return f" ({self.name})" if self.name else ""

    def at(self, *levels: float) -> dict[str, object]:
        """Returns the settings of the arrangement's runs at some levels."""
        return {"arrangement": self.name, "level": levels}


def arrangement_name(
    placement: str, image_size: float, background_size: float | None = None
) -> str:
    """Returns an arrangement in words."""
    on = "" if background_size is None else f" on {background_size:g}"
    return f"{image_size:g}{on}, {placement.replace('_', ' ')}"


def runs_of(config: Config, runs: Runs) -> Runs:
    """Returns the runs, on noise or the size of backgrounds `labelled`."""
    if config.figure_axis not in AXES:
        return runs
    both = [labelled(config, rows) for rows in runs[:2]]
    if both[0]["arrangement"].nunique() == 1:  # it needs no name
        both = [rows.assign(arrangement="") for rows in both]
    return runs._replace(planned=both[0], finished=both[1])


def labelled(config: Config, rows: pd.DataFrame) -> pd.DataFrame:
    """Returns runs with the columns that claims, tables and figures are about.

    `series` is the learner's name, with its width where there are several; the others are those of
    an `Arrangement`, `level` being on the figure's axis.
    """
    axis, several = config.figure_axis, len(config.sweep.ntk_width_factor) > 1
    # The one point of launch.run sweeps none of these.
    known = {name: config[name] for name in ("learner", "width_factor", "noise")}
    known |= {name: config.data[name] for name in PLACES}
    rows = rows.assign(**{name: value for name, value in known.items() if name not in rows})
    places = rows[[name for name in PLACES if name != axis]].to_dict("records")
    widths = zip(rows["learner"], rows["width_factor"], strict=True)
    return rows.assign(
        series=[
            LEARNERS[name].label + f", width {width:g}" * (several and name == "ntk_finite")
            for name, width in widths
        ],
        arrangement=[arrangement_name(**place) for place in places],
        level=rows[axis],
        start=0.0 if axis == "noise" else rows["image_size"],
    )


def arrangements(runs: Runs) -> list[Arrangement]:
    """Returns the arrangements of the planned runs, in their order."""
    return [
        Arrangement(name, rows["start"].iloc[0].item(), sorted(rows["level"].unique().tolist()))
        for name, rows in runs.planned.groupby("arrangement", sort=False)
    ]


def make_claims(config: Config, runs: Runs) -> list[Claim]:
    """Returns the claims of a sweep over noise or the size of backgrounds, by its planned runs.

    Without a network, or with one level alone, accuracies are measured.
    """
    item, ways = config.paper_item, arrangements(runs)
    series = runs.planned.groupby("series", sort=False)["learner"].first().to_dict()
    grows = any(way.levels[-1] > way.start for way in ways)
    if not item and ("network" not in config.sweep.learner or not grows):
        return [_accuracy(name, way, at) for name in series for way in ways for at in way.levels]
    kernels = [name for name, learner in series.items() if learner != "network"]
    fixed = [name for name in kernels if not LEARNERS[series[name]].is_learned_kernel]
    claims, differ = [], {}
    for way in ways:
        gaps = {name: _gap(name, series[name], way, config) for name in kernels}
        claims += gaps.values()
        # Learners that are alike could agree with the paper's numbers, fitted or not.
        differ[way.name] = tuple(
            _keeps_more(name, replace(gaps[name], conditions=gaps[name].conditions[:-1]))
            for name in fixed
        )
        if paper := numbers.RETAINED.get(item):
            compared = [(name, own) for name, own in series.items() if own in paper.percent]
            claims += [_percentage(*own, way, paper, differ[way.name]) for own in compared]
        if margin := numbers.ON_PAR_AT_ZERO_NOISE.get(item):
            claims += [_on_par(name, way, margin, gaps[name]) for name in fixed]
    for key, cells in numbers.TEST_ACCURACY_PERCENT.get(item, {}).items():
        conditions = differ.get(arrangement_name(*key) if len(ways) > 1 else "", ())
        claims += _cells(key, cells, conditions)
    return claims


def _accuracy(name: str, way: Arrangement, level: float) -> Claim:
    item = f"test accuracy (%) of the {name}, at {level:g}{way.suffix}"
    return Claim(item, accuracy(series=name, **way.at(level)))


def _kept(settings: Mapping[str, object], way: Arrangement) -> Statistic:
    """Returns the percentage of accuracy above chance that is left at the end of the axis."""
    start, end = (accuracy(**settings, **way.at(at)) for at in (way.start, way.levels[-1]))
    return lambda runs: retained(start, end, chance=100 * runs.chance())(runs)


def _gap(name: str, learner: str, way: Arrangement, config: Config) -> Claim:
    """Returns the claim that the network keeps more; kernels that have learned are measured."""
    own, start = {"series": name}, way.at(way.start)
    gap = Claim(
        f"points of accuracy above chance retained {AXES[config.figure_axis][-1]}, network "
        f"minus {name}{way.suffix}",
        minus(_kept(_NETWORK, way), _kept(own, way)),
    )
    if LEARNERS[learner].is_learned_kernel:
        return gap
    return replace(
        gap,
        paper="above 0: the network keeps more (section 6)",
        above=0.0,
        conditions=(
            above_chance("the network", **_NETWORK, **start),
            above_chance(f"the {name}", **own, **start),
            fitted(f"the {name}", **own, **way.at(way.start, way.levels[-1])),
        ),
        primary=config.paper_item in PRIMARY,
    )


def _keeps_more(name: str, gap: Claim) -> Condition:
    return shown(gap, f"the network keeps more than the {name}")


def _on_par(name: str, way: Arrangement, margin: float, gap: Claim) -> Claim:
    item = f"points of accuracy at zero noise, network minus {name}, within {margin:g}{way.suffix}"
    both = (accuracy(**own, **way.at(way.start)) for own in (_NETWORK, {"series": name}))
    agreement = {"paper": 0.0, "within": margin, "seed_sd": SEED_SD}
    return Claim(item, minus(*both), conditions=(_keeps_more(name, gap),), **agreement)


def _percentage(
    name: str, learner: str, way: Arrangement, paper: numbers.Retained, conditions: _Conditions
) -> Claim:
    start, end = (accuracy(series=name, **way.at(level)) for level in (way.start, paper.noise))
    learns = above_chance(f"the {name}", series=name, **way.at(way.start))
    item = f"% of zero-noise accuracy retained at noise {paper.noise:g}, {name}, {{}}{way.suffix}"
    return _agrees(item, learner, paper.percent, retained(start, end), (learns, *conditions))


def _cells(key: tuple[str, int, int], cells: numbers.Cells, conditions: _Conditions) -> list[Claim]:
    """Returns the claims on the test accuracies that the paper prints of an arrangement."""
    where, claims = dict(zip(PLACES, key, strict=True)), []
    for learner, noise in ((learner, noise) for learner, of in cells.items() for noise in of):
        item = f"test accuracy (%) of the {LEARNERS[learner].label}, noise {noise:g}, {{}} "
        paper = {name: of[noise] for name, of in cells.items()}
        ours = accuracy(learner=learner, noise=noise, **where)
        claims.append(
            _agrees(f"{item}({arrangement_name(*key)})", learner, paper, ours, conditions)
        )
    return claims


def _agrees(
    item: str,
    learner: str,
    paper: Mapping[str, float],
    statistic: Statistic,
    conditions: _Conditions,
) -> Claim:
    """Returns the claim that a number agrees with the paper's learner, not with its other one."""
    margin = min(TOLERANCE, (max(paper.values()) - min(paper.values())) / 2)
    agreement = {"paper": paper[learner], "within": margin, "seed_sd": SEED_SD}
    return Claim(item.format(f"within {margin:.3g}"), statistic, conditions=conditions, **agreement)


def claims_on_updates(config: Config) -> list[Claim]:
    """Returns the claims on the feature machine of a sweep that reports every update."""

    def after(updates: int) -> Statistic:
        return accuracy(f"{AFTER_UPDATE}{updates}", optional=True, **_MACHINE)

    gain = Claim(
        "points of test accuracy that the updates gain",
        minus(after(config.rfm.updates), after(0)),
        above=0.0,
        conditions=(above_chance("the machine", **_MACHINE),),
    )
    published = numbers.PUBLISHED.get(config.paper_item or "")
    if published is None:
        return [gain]

    words = f"at most {published.num_train:,} training images, as published"
    few = in_all(words, lambda rows: rows["num_train"] <= published.num_train, **_MACHINE)
    known, last = (shown(gain, "the updates gain something"), few), len(published.percent) - 1
    claims = [gain]
    for updates, when in ((0, "before any update"), (last, f"after {last} update(s)")):
        percent = published.percent[updates]
        least = percent - MARGIN
        as_good = Claim(
            f"test accuracy (%) of the recursive feature machine {when}",
            after(updates),
            paper=f"above {least:g}: at most {MARGIN:g} points below the published {percent:g}",
            above=least,
            paper_error=100 * binomial_error(percent / 100, published.num_test),
            conditions=known,
        )
        claims.append(as_good)
    return claims
