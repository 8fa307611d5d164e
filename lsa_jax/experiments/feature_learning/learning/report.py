"""The report on learned and fixed features: the paper's tables and ours, curves, pictures."""

import functools
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.experiments.feature_learning.learning.claims import (
    ROWS,
    SAME_RUNS,
    comparisons,
    make_claims,
    settings_of,
)
from lsa_jax.experiments.feature_learning.learning.learners import FEW_EXAMPLES
from lsa_jax.experiments.feature_learning.learning.settings import planned
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.experiments.feature_learning.pictures import draw_pictures, table_of_pictures
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

_COLORS = dict(zip(("network", "ntk", "random_features"), PALETTE, strict=False))
_TITLES = ["at the start", "after one step", "after two steps"]
# Columns of the tables: heading, measure, factor, form. The paper prints the first three.
_COLUMNS = (
    ("train %", "train_accuracy", 100, ".2f"),
    ("test %", "test_accuracy", 100, ".2f"),
    ("cosine", "cosine", 1, ".4f"),
    (f"test %, first {FEW_EXAMPLES}", "test_first_accuracy", 100, ".2f"),
    ("balanced test %", "test_balanced_accuracy", 100, ".2f"),
    ("share near", "share_near", 1, ".3f"),
    ("size of <w, x>", "feature_size", 1, ".2g"),
)


def _line(heading: str, rows: pd.DataFrame, printed: tuple = ()) -> dict[str, str]:
    """Returns one line of a table: each number of the paper, where it has one, before ours."""
    line = {"": heading}
    for place, (label, measure, factor, form) in enumerate(_COLUMNS):
        if place < len(printed):
            number = printed[place]
            line[f"{label}, paper"] = "" if number is None else f"{number:g}"
        values = rows.reindex(columns=[measure])[measure].astype(float)
        line[label] = mean_and_spread(factor * values, form)
    return line


def _tables(config: Config, runs: Runs) -> list[tuple[str, pd.DataFrame]]:
    """Returns the paper's table with ours, and the comparisons that have several lines."""

    def rows_of(name: str, **changed: object) -> pd.DataFrame:
        return runs.where(**settings_of(config, name, **changed)).finished

    paper = FEATURE_LEARNING.get(config.paper_item)
    main = [
        _line(row.heading, rows, paper.get(name, (None,) * 3) if paper else ())
        for name, row in ROWS.items()
        if len(rows := rows_of(name))
    ]
    found = {"Accuracy and cosine of the nearest neuron": main} if main else {}
    for heading, lines in comparisons(config).items():
        own = [
            _line(words, rows)
            for words, name, changed in lines
            if len(rows := rows_of(name, **changed))
        ]
        found |= {heading: own} if len(own) > 1 else {}
    return [(heading, pd.DataFrame(lines)) for heading, lines in found.items()]


def _draw_curves(curves: pd.DataFrame) -> Any:
    """Draws mean test accuracy against updates: solid with structure, dashed without."""
    figure, ((axis,),) = subplots(1, 1, 6, 4)
    for name, rows in curves.groupby("row", sort=False) if len(curves) else ():
        learner, structured, heading, _ = ROWS[name]
        if learner in _COLORS:
            style = {"color": _COLORS[learner], "linestyle": "-" if structured else "--"}
            accuracy = 100 * rows["test_accuracy"]
            draw_mean(axis, accuracy, rows["step"], limits=(0, 100), label=heading, **style)
    axis.set(xlabel="updates", ylabel="test accuracy (%)")
    axis.legend(frameon=False, fontsize="small")
    return figure


def _notes(config: Config) -> list[str]:
    notes = [
        "Means over seeds ± their standard deviation. Cosine is that of the nearest neuron with "
        f"sum_j M_j over A; share near is the share of neurons within {config.angle:g} degrees of "
        "it or of its negative. Learners take the same number of updates; trained to the end is "
        f"{config.memorise.epochs} epochs of Adam.",
        "The paper gives no learning rates, optimiser of the minibatches or test size: momentum "
        f"{config.momentum:g} with rates {config.rate:g} (network), {config.ntk_rate:g} (NTK), "
        f"{config.random_features_rate:g} (random features) and {config.data.num_test} test "
        "examples are ours; train is the accuracy on as many training examples. Step 1 keeps "
        f"{config.leftover:g} eta of the initial weights, which One Step's cosine depends on.",
        f"Updates in which both classes have equal weight: {config.class_weights} (appendix F; the "
        "rest of the paper has no weights). A best classifier is that of least squares in float64.",
    ]
    if config.paper_item in SAME_RUNS:
        notes.append(
            "Training does not depend on the dimension, as inputs are coordinates in an "
            "orthonormal dictionary: accuracies are those of table 1, which states their claims."
        )
    return notes


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims, the curves and the pictures of a sweep."""
    # Each seed draws its test set.
    runs = Runs.of(planned(config), results, outcomes.read(workdir, results["id"]), fresh=True)
    runs = runs.assign(num_test=config.data.num_test)
    rows = [
        {"row": name, "id": run} | row
        for name in ROWS
        for run in runs.where(**settings_of(config, name)).finished["id"]
        for row in files.read_metrics(workdir, run)
    ]
    curves = pd.DataFrame([row for row in rows if "picture" not in row])
    figures, extra = {"curves": functools.partial(_draw_curves, curves)}, {"curves": curves}
    if pictures := [row for row in rows if "picture" in row]:
        figures["weights"] = functools.partial(draw_pictures, pictures, _TITLES)
        extra["weights"] = table_of_pictures(pictures)
    return Report(
        title=config.title,
        tables=_tables(config, runs),
        claims=decide_all(make_claims(config), runs),
        figures=figures,
        extra_tables=extra,
        notes=_notes(config),
    )
