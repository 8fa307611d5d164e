"""Claims and report of a kernel that learns: accuracy after each update, beside published ones.

Published accuracies are of one run on `Published.num_test` test images, which give their error.
"""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.series import runs_of
from lsa_jax.experiments.lsa.numbers import PUBLISHED, Published
from lsa_jax.reporting.claims import Claim, Condition, decide_all
from lsa_jax.reporting.conditions import above_chance, shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic, binomial_error
from lsa_jax.reporting.statistics import accuracy, minus
from lsa_jax.reporting.write import mean_and_spread

# Points by which an accuracy may stay below a published one, stated before any run.
MARGIN = 2.0

_MACHINE = {"learner": "rfm"}
_COLUMN = "test_accuracy_update_"


def _columns(fine: pd.DataFrame) -> list[str]:
    """Returns the names of the accuracies after each update, in order."""
    found = [name for name in fine if name.startswith(_COLUMN)]
    return sorted(found, key=lambda name: int(name.removeprefix(_COLUMN)))


def _table(fine: pd.DataFrame, columns: list[str], published: Published | None) -> pd.DataFrame:
    """Returns one row a learner, one column an update: mean ± standard deviation over seeds."""
    rows = []
    for learner, own in fine.groupby("learner", sort=False):
        cells = {f"update {i}": mean_and_spread(100 * own[c], ".2f") for i, c in enumerate(columns)}
        if learner != "rfm":
            cells = {"update 0": mean_and_spread(100 * own["test_accuracy"], ".2f")}
        rows.append({"learner": LEARNERS[learner].label, **cells})
    if published is not None:
        cells = {f"update {i}": f"{percent:.1f}" for i, percent in enumerate(published.percent)}
        rows.append({"learner": "published", **cells})
    return pd.DataFrame(rows).fillna("")


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims on the machine of a sweep that reports every update."""

    def after(updates: int) -> Statistic:
        return accuracy(f"{_COLUMN}{updates}", optional=True, **_MACHINE)

    gain = Claim(
        item="points of test accuracy that the updates gain",
        statistic=minus(after(config.rfm.updates), after(0)),
        above=0.0,
        conditions=(above_chance("the machine", **_MACHINE),),
        digits=2,
    )
    published = PUBLISHED.get(config.paper_item or "")
    if published is None:
        return [gain]
    claims, last = [gain], len(published.percent) - 1
    for updates in (0, last):
        percent = published.percent[updates]
        when = f"after {updates} update(s)" if updates else "before any update"
        least = percent - MARGIN
        claims.append(
            Claim(
                item=f"test accuracy (%) of the recursive feature machine {when}",
                paper=f"above {least:g}: at most {MARGIN:g} points below the published {percent:g}",
                statistic=after(updates),
                above=least,
                paper_error=100 * binomial_error(percent / 100, published.num_test),
                conditions=(shown(gain, "the updates gain something"), _as_few(published)),
                digits=2,
            )
        )
    return claims


def _as_few(published: Published) -> Condition:
    """Returns the condition that no more training images are used than in the publication."""

    def unmet(runs: Runs) -> str:
        most = runs.where(**_MACHINE).finished["num_train"].max()
        return "" if most <= published.num_train else f"{most:,.0f}"

    return Condition(f"at most {published.num_train:,} training images, as published", unmet)


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


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns table, claims and figure of a sweep that shows every update."""
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    if fine.empty:
        return Report(config.title, [], [], {}, notes=["No run has finished."])
    published, columns = PUBLISHED.get(config.paper_item or ""), _columns(fine)
    machine = fine[fine["learner"] == "rfm"]
    notes = [
        f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation, on "
        f"{fine['num_train'].iloc[0]:,.0f} training and {fine['num_test'].iloc[0]:,.0f} test "
        "images."
    ]
    if published is not None:
        notes.append(f"Published: {published.source}.")
    return Report(
        title=config.title,
        tables=[
            ("Test accuracy (%) after each update", _table(fine, columns, published)),
            *_times(machine, published),
        ],
        claims=decide_all(make_claims(config), runs_of(config, results, workdir)),
        figures={"updates": functools.partial(_draw, fine, columns, published)},
        notes=notes,
    )
