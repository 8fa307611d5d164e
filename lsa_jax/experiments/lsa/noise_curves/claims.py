"""What the paper claims of noise curves, beside what came out."""

from typing import NamedTuple

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa import numbers
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.series import (
    NOTHING,
    HeldOut,
    Planned,
    Runs,
    Series,
    arrangement_name,
    at_level,
    equal_seeds,
    runs_of,
)
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import intervals
from lsa_jax.reporting.doubts import doubted, few_examples
from lsa_jax.reporting.report import Claim

# A percentage counts as the paper's when it is this near, in points, and nearer if the paper has
# another learner's near it.
TOLERANCE = 3.0

_CLASSES = {"cifar2": 2, "vehicles": 4, "tiny_imagenet": 200}
_TEST_IMAGES = {"vehicles": 4000, "digits": 360, "svhn": 26_032} | dict.fromkeys(
    ("mnist", "cifar10", "tiny_imagenet"), 10_000
)

_TIED = "the network is not shown to keep more"

_USUAL = HeldOut(10_000, 10)


class Axis(NamedTuple):
    """How the report speaks of what grows along the figure: its start and its end."""

    unit: str
    start: str
    end: str


AXES = {
    "noise": Axis("noise", "zero-noise", "at the highest noise"),
    "background_size": Axis("background", "no-background", "on the largest background"),
}


def make_claims(
    table: pd.DataFrame,
    paper_item: str | None,
    axis: str = "noise",
    test: HeldOut = _USUAL,
    planned: Planned = (),
) -> list[Claim]:
    """Returns the paper's claims on a figure of this kind, and its numbers where it prints them.

    The claim of section 6: as noise (or the background) grows the network keeps more of its
    accuracy than the NTK. Where a fixed kernel is asked for and that is not shown, no number that
    agrees with the paper's is: learners that are all alike could have it.

    Args:
        table: of `series.curves`, made with the same `planned`.
        paper_item: the figure's, or None.
        axis: what grows along the figure.
        test: the test that accuracies are of.
        planned: settings of the runs that the sweep asks for. The figure's end and its series are
            theirs; what is left of a series without one of them shows nothing.
    """
    cells = numbers.TEST_ACCURACY_PERCENT.get(paper_item, {})
    known = {arrangement_name(*key): _retained(of) for key, of in cells.items()}
    runs, claims, ties = runs_of(table, axis, planned), [], {}
    for arrangement in [*runs.asked["arrangement"].unique()] or [""]:
        own = runs.where(arrangement=arrangement)
        paper = known.get(arrangement, numbers.RETAINED.get(paper_item))
        end, where = float(own.asked["level"].max()), f" ({arrangement})" if arrangement else ""
        same = paper.percent if paper and paper.noise == end else {}
        gaps = _gap_claims(_retained_at(own, end, test), same, AXES[axis], where, test)
        claims += gaps.values()
        statuses = {gaps[series].status for series in _fixed_kernels(own)}
        ties[arrangement] = _TIED if statuses and "shown" not in statuses else ""
        if paper:
            found = _retained_at(own, paper.noise, test)
            claims += _retained_claims(found, paper, where, ties[arrangement], test)
        if paper_item in numbers.ON_PAR_AT_ZERO_NOISE:
            margin = numbers.ON_PAR_AT_ZERO_NOISE[paper_item]
            claims += _on_par_claims(own, gaps, margin, test)
    return claims + _cell_claims(runs, cells, ties, test)


def _retained(accuracies: dict[str, dict[float, float]]) -> numbers.Retained:
    """Returns the percentage retained from the first to the last noise level, by learner."""
    percent = {
        learner: round(100 * of[max(of)] / of[min(of)], 2) for learner, of in accuracies.items()
    }
    return numbers.Retained(max(map(max, accuracies.values())), percent)


_BySeries = dict[tuple[str, str], Series]


def _fixed_kernels(runs: Runs) -> list[str]:
    """Returns the series, of those asked for, of kernels that do not learn."""
    pairs = runs.asked[["learner", "series"]].drop_duplicates().to_numpy()
    learned = {learner for learner, known in LEARNERS.items() if known.is_learned_kernel}
    return [series for learner, series in pairs if learner not in {"network", *learned}]


def _retained_at(runs: Runs, level: float, test: HeldOut) -> _BySeries:
    """Returns what is retained at a level, by learner and series."""
    names = runs.asked[["learner", "series"]].drop_duplicates().itertuples(index=False)
    return {
        (learner, series): at_level(runs.where(learner=learner, series=series), level, test)
        for learner, series in names
    }


def _retained_claims(
    found: _BySeries, paper: numbers.Retained, where: str, tied: str, test: HeldOut
) -> list[Claim]:
    """Compares what is retained at the paper's highest noise with the paper."""
    claims = []
    for learner, percent in paper.percent.items():
        ours = {name: series for (of, name), series in found.items() if of == learner}
        margin = deciding.margin_of(percent, list(paper.percent.values()), TOLERANCE)
        for name, series in (ours or {LEARNERS[learner].label: NOTHING}).items():
            within = f"within {margin:.3g}{where}"
            item = f"% of zero-noise accuracy retained at noise {paper.noise:g}, {name}, {within}"
            unless = series.warning or tied
            options = {"examples_error": series.error, "unless": unless, "digits": 2}
            claim = deciding.agree(item, percent, series.retained, margin, **options)
            refuted = [few_examples(test.count), series.equal]
            claims.append(doubted(claim, [series.lost], refuted))
    return claims


def _gap_claims(
    found: _BySeries, percent: dict[str, float], axis: Axis, where: str, test: HeldOut
) -> dict[str, Claim]:
    """Compares what network and NTKs retain at the end of the axis, seed by seed, by series.

    `percent` is the paper's by learner; empty where the axis does not end where the paper's does.
    """
    network = found.get(("network", LEARNERS["network"].label), NOTHING)
    missing = {
        (of, LEARNERS[of].label): NOTHING for of in percent if of not in {k for k, _ in found}
    }
    claims = {}
    for (learner, name), series in (found | missing).items():
        item = f"points of accuracy retained {axis.end}, network minus {name}{where}"
        gaps = network.retained - series.retained
        if LEARNERS[learner].is_learned_kernel:  # the papers' are fixed
            claims[name] = deciding.not_run(item, "-", series.lost or network.lost)
            if gaps.notna().any():
                claims[name] = deciding.measured(item, "-", round(float(gaps.mean()), 2), gaps)
        elif learner != "network":
            known = learner in percent
            paper = round(percent["network"] - percent[learner], 2) if known else "above 0"
            claim = deciding.compare(
                item,
                paper,
                gaps,
                above=0.0,
                examples_error=float(np.hypot(network.error, series.error)),
                unless=network.warning or series.warning,
                digits=2,
            )
            refuted = [few_examples(test.count), series.equal if network.equal else ""]
            claims[name] = doubted(claim, [network.lost, series.lost], refuted)
    return claims


def _cell_claims(runs: Runs, cells: dict, ties: dict[str, str], test: HeldOut) -> list[Claim]:
    """Compares test accuracies with those that the paper prints, cell by cell."""
    claims = []
    for key, accuracies in cells.items():
        names = ("placement", "image_size", "background_size")
        here = runs.where(**dict(zip(names, key, strict=True)))
        arrangement = arrangement_name(*key)
        unless = ties.get(arrangement, ties.get("", ""))
        for learner, of in accuracies.items():
            for noise, paper in of.items():
                found = here.where(learner=learner, noise=noise)
                label = LEARNERS[learner].label
                rivals = [other[noise] for other in accuracies.values()]
                margin = deciding.margin_of(paper, rivals, TOLERANCE)
                within = f"within {margin:.3g} ({arrangement})"
                item = f"test accuracy (%) of the {label}, noise {noise:g}, {within}"
                accuracy = found.table["test_accuracy"]
                error = intervals.binomial_error(accuracy.mean(), test.count)
                options = {"examples_error": 100 * error, "unless": unless, "digits": 2}
                claim = deciding.agree(item, paper, 100 * accuracy, margin, **options)
                refuted = [few_examples(test.count), equal_seeds(found.table)]
                claims.append(doubted(claim, [found.lost], refuted))
    return claims


def _on_par_claims(runs: Runs, gaps: dict[str, Claim], margin: float, test: HeldOut) -> list[Claim]:
    """Compares accuracies at zero noise, which the paper finds on a par, or close by.

    That speaks for the paper where accuracies are above chance and noise parts them.
    """
    quiet = runs.where(level=0)
    label = LEARNERS["network"].label
    network = quiet.where(series=label)
    accuracy = network.table.set_index("seed")["test_accuracy"]
    claims = []
    for series in _fixed_kernels(runs):
        found = quiet.where(series=series)
        own = found.table.set_index("seed")["test_accuracy"]
        warning = deciding.chance_warning(own.mean(), test.classes, test.count, test.largest)
        if not warning and gaps[series].status != "shown":
            warning = _TIED
        error = intervals.difference_error(accuracy.mean(), own.mean(), test.count)
        item = f"points of accuracy at zero noise, network minus {series}, within {margin:g}"
        options = {"examples_error": 100 * error, "unless": warning, "digits": 2}
        claim = deciding.agree(item, 0.0, 100 * (accuracy - own), margin, **options)
        equal = equal_seeds(found.table) if equal_seeds(network.table) else ""
        refuted = [few_examples(test.count), equal]
        claims.append(doubted(claim, [network.lost, found.lost], refuted))
    return claims


def accuracies(table: pd.DataFrame, test: HeldOut) -> list[Claim]:
    """Returns the test accuracy of each series at each level: of learners without the network."""
    claims = []
    for (series, level), own in table.groupby(["series", "level"], sort=False):
        percent = 100 * own.set_index("seed")["test_accuracy"]
        error = 100 * intervals.binomial_error(float(own["test_accuracy"].mean()), test.count)
        item = f"test accuracy (%) of the {series}, at {level:g}"
        claims.append(deciding.measured(item, "-", round(float(percent.mean()), 2), percent, error))
    return claims


def examples_of(data: ml_collections.ConfigDict, table: pd.DataFrame) -> HeldOut:
    """Returns the test of a sweep: as its runs have counted it, or by its settings.

    That of a data set without a number is taken whole.

    Args:
        data: the settings of the data.
        table: a row a run.
    """
    if {"num_test", "num_classes"} <= set(table) and table["num_test"].notna().any():
        sizes = (int(table[name].dropna().iloc[0]) for name in ("num_test", "num_classes"))
        return HeldOut(*sizes, deciding.largest_of(table))
    classes = len(data.classes) or _CLASSES.get(data.task) or _CLASSES.get(data.dataset, 10)
    count = data.num_test or _TEST_IMAGES.get(data.task) or _TEST_IMAGES.get(data.dataset, 500)
    return HeldOut(count, classes)
