"""The report on a kernel that learns: accuracy after each update, beside what others published.

Published accuracies are of one run on `Published.num_test` test images each, of which their error
is known. Ours may stay `MARGIN` points below them, as decided beforehand.
"""

import functools
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.noise_curves import settings
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.series import Planned, equal_seeds, told_by
from lsa_jax.experiments.lsa.numbers import PUBLISHED, Published
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import intervals
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.doubts import doubted, few_examples, lost_runs
from lsa_jax.reporting.report import Claim, Report

# Points by which an accuracy may stay below a published one.
MARGIN = 2.0

_COLUMN = "test_accuracy_update_"
_NOT_LEARNED = "the updates are not shown to gain anything"


def _columns(fine: pd.DataFrame) -> list[str]:
    """Returns the names of the accuracies after each update, in order."""
    found = [name for name in fine if name.startswith(_COLUMN)]
    return sorted(found, key=lambda name: int(name.removeprefix(_COLUMN)))


def _table(fine: pd.DataFrame, columns: list[str], published: Published | None) -> pd.DataFrame:
    """Returns one row a learner, one column an update: mean ± standard deviation over seeds."""
    rows = []
    for learner, own in fine.groupby("learner", sort=False):
        cells = {f"update {i}": deciding.cell(100 * own[c], ".2f") for i, c in enumerate(columns)}
        if learner != "rfm":
            cells = {"update 0": deciding.cell(100 * own["test_accuracy"], ".2f")}
        rows.append({"learner": LEARNERS[learner].label, **cells})
    if published is not None:
        cells = {f"update {i}": f"{percent:.1f}" for i, percent in enumerate(published.percent)}
        rows.append({"learner": "published", **cells})
    return pd.DataFrame(rows).fillna("")


def make_claims(fine: pd.DataFrame, item: str | None, planned: Planned = ()) -> list[Claim]:
    """Returns what the machine of finished runs reaches, beside a published one.

    Args:
        fine: finished runs of all learners: `learner`, `seed`, `num_train`, `num_test`,
            `num_classes` and, of the machine, accuracies after each update.
        item: of `PUBLISHED`, or None.
        planned: settings of the runs that the sweep asks for; what is left of the machine's without
            one of them shows nothing.
    """
    machine, columns = fine[fine["learner"] == "rfm"], _columns(fine)
    asked = [point for point in told_by(fine, planned) if point["learner"] == "rfm"]
    lost = lost_runs(asked, machine, columns)
    if machine.empty or len(columns) < 2:
        return [deciding.not_run("points of test accuracy that the updates gain", "above 0", lost)]
    few = few_examples(int(machine["num_test"].iloc[0]))
    refuted = [few, equal_seeds(machine, columns, ["learner"])]
    gain = doubted(_gain(machine, columns, item), [lost], refuted)
    published = PUBLISHED.get(item or "")
    if published is None:
        return [gain]
    unless = _chance(machine, columns) or ("" if gain.status == "shown" else _NOT_LEARNED)
    reached = [_not_below(place, machine, columns, published, unless) for place in (0, -1)]
    return [gain, *(doubted(claim, [lost], refuted) for claim in reached)]


def _chance(machine: pd.DataFrame, columns: list[str]) -> str:
    """Returns the warning that the machine is near chance in the end; empty where it is not."""
    num_test, classes = (int(machine[name].iloc[0]) for name in ("num_test", "num_classes"))
    largest = deciding.largest_of(machine)
    return deciding.chance_warning(machine[columns[-1]].mean(), classes, num_test, largest)


def _gain(machine: pd.DataFrame, columns: list[str], item: str | None) -> Claim:
    """Compares accuracies after the last update with those before the first, seed by seed."""
    first, last = machine[columns[0]], machine[columns[-1]]
    both = intervals.difference_error(first.mean(), last.mean(), int(machine["num_test"].iloc[0]))
    percent = PUBLISHED[item].percent if item in PUBLISHED else ()
    return deciding.compare(
        "points of test accuracy that the updates gain",
        round(percent[-1] - percent[0], 1) if percent else "above 0",
        100 * (last - first),
        above=0.0,
        examples_error=100 * both,
        unless=_chance(machine, columns),
        digits=2,
    )


def _not_below(
    place: int, machine: pd.DataFrame, columns: list[str], published: Published, unless: str
) -> Claim:
    """Compares the accuracy before the first or after the last update with the published one."""
    updates, percent = len(published.percent) - 1, published.percent[place]
    when = "before any update" if place == 0 else f"after {updates} update(s)"
    item = f"test accuracy (%) of the recursive feature machine {when}"
    item += f", no more than {MARGIN:g} points below the published"
    if int(machine["num_train"].iloc[0]) > published.num_train:
        note = f"published of {published.num_train:,} training images; accepted: as many or fewer"
        return deciding.not_run(item, percent, note)
    if place and len(columns) != len(published.percent):
        return deciding.not_run(item, percent, f"published after {updates} update(s)")
    accuracy, num_test = machine[columns[place]], int(machine["num_test"].iloc[0])
    errors = (
        intervals.binomial_error(accuracy.mean(), num_test),
        intervals.binomial_error(percent / 100, published.num_test),
    )
    return deciding.compare(
        item,
        percent,
        100 * accuracy,
        above=percent - MARGIN,
        examples_error=100 * float(np.hypot(*errors)),
        unless=unless,
        digits=2,
    )


def _times(machine: pd.DataFrame, published: Published | None) -> list[tuple[str, pd.DataFrame]]:
    """Returns what a kernel matrix of the training images takes; none where none was timed."""
    if "matrix_seconds" not in machine or machine["matrix_seconds"].isna().all():
        return []
    count = int(machine["num_train"].iloc[0])
    rows = [{"of": "ours", "images": count, "seconds": f"{machine['matrix_seconds'].median():.1f}"}]
    if published is not None and published.matrix_seconds is not None:
        theirs = f"{published.matrix_seconds:.1f} (a GPU that is not named)"
        rows.append({"of": "published", "images": published.num_train, "seconds": theirs})
    return [("Kernel matrix of the training images", pd.DataFrame(rows))]


def _draw(fine: pd.DataFrame, columns: list[str], published: Published | None) -> Any:
    """Draws test accuracy against the number of updates; bands are ± 1 standard deviation."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for learner, own in fine.groupby("learner", sort=False):
        color, label = LEARNERS[learner].colors[0], LEARNERS[learner].label
        if learner != "rfm":
            axis.axhline(100 * own["test_accuracy"].mean(), color=color, label=label, ls="--")
            continue
        values = pd.concat([100 * own[column] for column in columns])
        at = pd.Series(np.repeat(np.arange(len(columns)), len(own)), values.index)
        values, at = values.reset_index(drop=True), at.reset_index(drop=True)
        draw_mean(axis, values, at, color=color, label=label, marker="o", markersize=4)
    if published is not None:
        theirs = {"color": PALETTE[6], "marker": "s", "ls": ":", "markersize": 4}
        axis.plot(range(len(published.percent)), published.percent, label="published", **theirs)
    axis.set(xlabel="updates", ylabel="test accuracy (%)", xticks=range(len(columns)))
    tidy(axis)
    axis.legend(frameon=False)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame) -> Report:
    """Returns table, claims and figure of a sweep that shows every update."""
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    if fine.empty:
        return Report(config.title, [], [], {}, notes=["No run has finished."])
    published, columns = PUBLISHED.get(config.paper_item or ""), _columns(fine)
    machine = fine[fine["learner"] == "rfm"]
    notes = [
        f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation: "
        f"{fine['num_train'].iloc[0]:,.0f} training and {fine['num_test'].iloc[0]:,.0f} test "
        f"images. An accuracy counts as no more than {MARGIN:g} points below the published where "
        "all of its 95 % interval over seeds and test images, theirs included, is."
    ]
    if published is not None:
        notes.append(f"Published: {published.source}.")
    return Report(
        title=config.title,
        tables=[
            ("Test accuracy (%) after each update", _table(fine, columns, published)),
            *_times(machine, published),
        ],
        claims=make_claims(fine, config.paper_item, settings.sweep(config)),
        figures={"updates": functools.partial(_draw, fine, columns, published)},
        notes=notes,
    )
