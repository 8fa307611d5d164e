"""The report on learned and fixed features: the paper's tables beside ours, curves, pictures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.learning.pictures import (
    draw_pictures,
    table_of_pictures,
)
from lsa_jax.experiments.feature_learning.learning.settings import rate_of
from lsa_jax.experiments.feature_learning.learning.training import FEW_EXAMPLES
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting import claims as rule
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import draw_mean, tidy
from lsa_jax.reporting.report import Claim, Report

# How far from the paper a result may be: percentage points of test accuracy (fewer where another
# row of the same table is near) and cosines.
POINTS, COSINE = 3.0, 0.02
# A balanced accuracy this near to 1/2 is that of a constant.
_CONSTANT = 1e-3

# Rows of the paper's tables: learner, structured, heading.
_ROWS = {
    "network": ("network", True, "Network"),
    "ntk": ("ntk", True, "NTK"),
    "random_features": ("random_features", True, "random features"),
    "one_step": ("one_step", True, "One Step"),
    "one_step_exact": ("one_step_exact", True, "One Step, best classifier"),
    "two_step": ("two_step", True, "Two Step"),
    "two_step_exact": ("two_step_exact", True, "Two Step, best classifier"),
    "without_structure": ("network", False, "Network w/o structure"),
    "memorise": ("memorise", False, "Network w/o structure, to the end"),
    "ntk_without": ("ntk", False, "NTK w/o structure"),
    "random_features_without": ("random_features", False, "random features w/o structure"),
}
# The paper's network without structure fits its training examples, as this one does.
_PRINTED = {
    "memorise": "without_structure",
    "one_step_exact": "one_step",
    "two_step_exact": "two_step",
}
# From this accuracy on One Step's features suffice.
SUFFICES = 0.99
_EXACT = ("one_step_exact", "two_step_exact")
_COLORS = {"network": "#0072B2", "ntk": "#D55E00", "random_features": "#009E73"}


def rows_of(config: ml_collections.ConfigDict, results: pd.DataFrame, name: str) -> pd.DataFrame:
    """Returns the points of one row of the table: a learner at its rate, all seeds."""
    learner, structured, _ = _ROWS[name]
    columns = ["learner", "structured", "rate", "id", "train_accuracy", "test_accuracy"]
    columns += ["test_balanced_accuracy", "cosine", "class_weights", "leftover"]
    found = results.reindex(columns=list(dict.fromkeys([*results.columns, *columns])))
    chosen = (found["learner"] == learner) & (found["structured"] == structured)
    for name in ("class_weights", "leftover"):
        chosen &= found[name].isna() | (found[name] == config[name])
    return found[chosen & (found["rate"] == rate_of(config, learner))]


def _table(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> pd.DataFrame:
    paper = FEATURE_LEARNING.get(config.paper_item, {})
    lines = []
    for name, (_, _, heading) in _ROWS.items():
        rows = rows_of(config, fine, name)
        if rows.empty:
            continue
        printed = [
            "" if number is None else f"{number:g}" for number in paper.get(name, (None,) * 3)
        ]
        line = {"": heading}
        for (measure, factor, digits, label), theirs in zip(
            (
                ("train_accuracy", 100, 2, "train %"),
                ("test_accuracy", 100, 2, "test %"),
                ("cosine", 1, 4, "cosine"),
            ),
            printed,
            strict=True,
        ):
            line |= {
                f"{label}, paper": theirs,
                f"{label}, ours": rule.cell(rows[measure] * factor, f".{digits}f"),
            }
        few = rows.get("test_first_accuracy", pd.Series(dtype=float))
        line[f"test %, first {FEW_EXAMPLES}"] = rule.cell(few * 100, ".2f")
        line["balanced test %"] = rule.cell(rows["test_balanced_accuracy"] * 100, ".2f")
        line["share near"] = rule.cell(rows["share_near"])
        lines.append(line)
    return pd.DataFrame(lines)


def _order_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns by how much the network is above both kinds of fixed features, where the paper's is.

    The error of the network's own mean counts as well.
    """
    paper = FEATURE_LEARNING.get(config.paper_item, {})
    network = rows_of(config, fine, "network")["test_accuracy"]
    claims = []
    for name in ("ntk", "random_features"):
        if paper and paper["network"][1] <= paper[name][1]:
            continue
        fixed = rows_of(config, fine, name)["test_accuracy"]
        error = rule.difference_error(network.mean(), fixed.mean(), config.data.num_test)
        error = np.hypot(error, (rule.spread(network) or 0.0) / np.sqrt(max(len(network), 1)))
        item = f"points of test accuracy, Network minus {_ROWS[name][2]}"
        gap, options = 100 * (network.mean() - fixed), {"examples_error": float(100 * error)}
        claims.append(rule.compare(item, "above 0", gap, above=0.0, digits=2, **options))
    return claims


def _row_claims(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, name: str, unless: str
) -> list[Claim]:
    """Compares one row with the paper's: test accuracy and, where printed, the cosine."""
    paper = FEATURE_LEARNING[config.paper_item]
    _, printed, cosine = paper[_PRINTED.get(name, name)]
    heading, test = _ROWS[name][2], rows["test_accuracy"] * 100
    margin = rule.margin_of(printed, [row[1] for row in paper.values()], POINTS)
    if len(rows) and (abs(rows["test_balanced_accuracy"] - 0.5) < _CONSTANT).all():
        unless = "a constant answer"
    error = 100 * rule.binomial_error(test.mean() / 100, config.data.num_test)
    item = f"test accuracy in %, {heading}, within {margin:.3g} points"
    options = {"unless": unless, "examples_error": error, "digits": 2}
    claims = [rule.agree(item, printed, test, margin, **options)]
    if cosine is not None and name != "memorise":
        item = f"cosine of the nearest neuron, {heading}, within {COSINE:g}"
        claims.append(rule.agree(item, cosine, rows["cosine"], COSINE, unless=unless))
    return claims


def make_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns the paper's numbers beside ours, shown where they are near enough.

    Then the order that the figure shows. Where the network is not shown to be above fixed features,
    a number that agrees does not speak for the paper; where it does not have the paper's accuracy,
    no other row does.
    """
    fine = results[results["status"] == "ok"]
    order = _order_claims(config, fine)
    if config.paper_item is None:
        return order
    tied = any(claim.status in ("undecided", "not shown") for claim in order)
    unless, claims = "fixed features do as well" if tied else "", []
    exact = [name for name in _EXACT if name in config.sweep.learner]
    for name in ("network", *FEATURE_LEARNING[config.paper_item], "memorise", *exact):
        if name == "network" and claims:
            continue
        claims += _row_claims(config, rows_of(config, fine, name), name, unless)
        if claims[0].status != "shown":
            unless = unless or "the network's accuracy is not shown to be the paper's"
    return claims + order + _other_claims(config, fine)


def _other_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what no number of the paper is about: step 1's other rates, other class weights."""
    claims = []
    if "one_step_exact" in config.sweep.learner and config.sweep.first_rate:
        found = _by_first_rate(fine)
        enough = [rate for rate, rows in found if rows["test_accuracy"].min() >= SUFFICES]
        ours = f"{min(enough):g}" if enough else "none of those run"
        item = f"least rate of step 1 at which one step suffices, accuracy {SUFFICES:g} or more"
        paper = "none: One Step is at chance"
        claims.append(rule.measured(item, paper, ours) if found else rule.not_run(item, paper))
    for weights, learner, rows in _by_weights(config, fine):
        item = f"test accuracy in %, {_ROWS[learner][2]}, class weights: {weights}"
        number = FEATURE_LEARNING.get(config.paper_item, {}).get(learner, (None, ""))[1]
        accuracy = rows["test_accuracy"] * 100
        claims.append(rule.measured(item, number, round(accuracy.mean(), 2), accuracy))
    return claims


def _by_first_rate(fine: pd.DataFrame) -> list[tuple[float, pd.DataFrame]]:
    """Returns the seeds of the best linear model after one step that forgets, by step 1's rate."""
    if "leftover" not in fine:
        return []
    rows = fine[(fine["learner"] == "one_step_exact") & (fine["leftover"] == 0)]
    return list(rows.groupby("rate"))


def _by_weights(
    config: ml_collections.ConfigDict, fine: pd.DataFrame
) -> list[tuple[str, str, pd.DataFrame]]:
    """Returns (weighting, learner, its seeds) of the weightings other than the configuration's."""
    if "class_weights" not in fine:
        return []
    rows = fine[fine["structured"] & (fine["class_weights"] != config.class_weights)]
    return [(*key, own) for key, own in rows.groupby(["class_weights", "learner"], sort=False)]


def _other_tables(
    config: ml_collections.ConfigDict, fine: pd.DataFrame
) -> list[tuple[str, pd.DataFrame]]:
    tables = []
    for heading, found in (
        ("Best linear model after one step, by the rate of step 1", _by_first_rate(fine)),
        (
            "Other class weights",
            [
                (f"{_ROWS[learner][2]}, {weights}", rows)
                for weights, learner, rows in _by_weights(config, fine)
            ],
        ),
    ):
        lines = [
            {
                "": name if isinstance(name, str) else f"{name:g}",
                "train %": rule.cell(rows["train_accuracy"] * 100, ".2f"),
                "test %": rule.cell(rows["test_accuracy"] * 100, ".2f"),
                "balanced test %": rule.cell(rows["test_balanced_accuracy"] * 100, ".2f"),
                "cosine": rule.cell(rows["cosine"], ".4f"),
            }
            for name, rows in found
        ]
        if lines:
            tables.append((heading, pd.DataFrame(lines)))
    return tables


def _sensitivity(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> pd.DataFrame:
    """Returns the fixed features' test accuracy by rate, as the paper gives none."""
    lines = []
    for name in ("ntk", "random_features"):
        rows = fine[(fine["learner"] == name) & fine["structured"]]
        if "class_weights" in rows:
            rows = rows[rows["class_weights"] == config.class_weights]
        for rate, at in rows.groupby("rate"):
            lines.append(
                {
                    "": _ROWS[name][2],
                    "rate": f"{rate:g}",
                    "test %": rule.cell(at["test_accuracy"] * 100, ".2f"),
                    "seeds": str(len(at)),
                }
            )
    return pd.DataFrame(lines)


def _histories(
    config: ml_collections.ConfigDict, fine: pd.DataFrame, workdir: Path
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Returns the curves of the table's rows, one line an evaluation, and the pictures."""
    curves, pictures = [], []
    for name in _ROWS:
        for point in rows_of(config, fine, name)["id"]:
            for row in files.read_metrics(workdir, point):
                if "picture" in row:
                    pictures.append(row)
                else:
                    curves.append({"row": name, "id": point, **row})
    return pd.DataFrame(curves), pictures


def draw_curves(curves: pd.DataFrame) -> Any:
    """Draws mean test accuracy against updates: solid with structure, dashed without."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    drawn = {"network", "ntk", "random_features", "without_structure"}
    drawn |= {"ntk_without", "random_features_without"}
    for name, rows in curves.groupby("row", sort=False) if len(curves) else ():
        if name not in drawn:
            continue
        learner, structured, heading = _ROWS[name]
        draw_mean(
            axis,
            rows["test_accuracy"] * 100,
            rows["step"],
            color=_COLORS[learner],
            limits=(0, 100),
            linestyle="-" if structured else "--",
            label=heading,
        )
    axis.set(xlabel="updates", ylabel="test accuracy (%)")
    tidy(axis)
    axis.legend(frameon=False, fontsize="small")
    return figure


_TITLES = ["at the start", "after one step", "after two steps"]


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims, the curves and the pictures of a sweep."""
    fine = results[results["status"] == "ok"]
    curves, pictures = _histories(config, fine, workdir) if len(fine) else (pd.DataFrame(), [])
    tables = []
    if len(fine):
        tables = [("Accuracy and cosine of the nearest neuron", _table(config, fine))]
        by_rate = _sensitivity(config, fine)
        if len(by_rate):
            tables.append(("Fixed features by learning rate", by_rate))
        tables += _other_tables(config, fine)
    figures = {"curves": functools.partial(draw_curves, curves)}
    extra = {"curves": curves}
    if pictures:
        figures["weights"] = functools.partial(draw_pictures, pictures, _TITLES)
        extra["weights"] = table_of_pictures(pictures)
    rates = f"{config.rate:g} (network), {config.ntk_rate:g} (NTK)"
    notes = [
        "Means over seeds ± their standard deviation. Cosine is that of the nearest neuron with "
        f"sum_j M_j over A; share near is that of the neurons within {config.angle:g} degrees of "
        "it or of its negative. Learners take the same number of updates; trained to the end is "
        f"{config.memorise.epochs} epochs of Adam.",
        "The paper gives no learning rates, batches' optimiser or test size: momentum "
        f"{config.momentum:g} with rates {rates}, {config.random_features_rate:g} (random "
        f"features), {config.data.num_test} test examples are ours; train is as many training "
        "examples. Step 1 keeps "
        f"{config.leftover:g} eta of the initial weights, which One Step's cosine depends on.",
        f"Classes are weighed alike in these updates: {config.class_weights} (appendix F; the rest "
        "of the paper has no weights). A best classifier is that of least squares in float64.",
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=make_claims(config, results),
        figures=figures,
        extra_tables=extra,
        notes=notes,
    )
