"""The report on learned and fixed features: the paper's tables beside ours, curves, pictures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import doubt
from lsa_jax.experiments.feature_learning.learning.clusters import COSINE, cluster_claims
from lsa_jax.experiments.feature_learning.learning.comparisons import (
    comparison_claims,
    comparison_tables,
)
from lsa_jax.experiments.feature_learning.learning.measured import (
    measured_accuracy,
    measured_gain,
)
from lsa_jax.experiments.feature_learning.learning.pictures import (
    draw_pictures,
    table_of_pictures,
)
from lsa_jax.experiments.feature_learning.learning.rows import ROWS, rows_of
from lsa_jax.experiments.feature_learning.learning.training import FEW_EXAMPLES
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting import claims as rule
from lsa_jax.reporting import files, intervals
from lsa_jax.reporting.curves import draw_mean, tidy
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.report import Claim, Report

# How far from the paper a result may be, in percentage points of test accuracy; less where another
# row of the same table is near.
POINTS = 3.0
# The paper's network without structure has 100 % of its training examples right. One that has less
# than this is another.
FITS = 0.99
# What seeds differ in, if only in the directions of their neurons.
MEASURES = ("test_accuracy", "train_accuracy", "test_balanced_accuracy", "cosine", "share_near")
# A balanced accuracy this near to 1/2 is that of a constant.
_CONSTANT = 1e-3

# What the paper's network without structure is, after 600 updates or trained to the end, depends on
# which of them fits its training examples.
_PRINTED = {
    "memorise": "without_structure",
    "one_step_exact": "one_step",
    "two_step_exact": "two_step",
}
_EXACT = ("one_step_exact", "two_step_exact")
_COLORS = {"network": "#0072B2", "ntk": "#D55E00", "random_features": "#009E73"}


def _table(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> pd.DataFrame:
    paper = FEATURE_LEARNING.get(config.paper_item, {})
    lines = []
    for name, (_, _, heading) in ROWS.items():
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


def _doubted(
    config: ml_collections.ConfigDict, claim: Claim, *rows: pd.DataFrame, tested: bool = True
) -> Claim:
    """Returns a claim on some rows as undecided where their runs are no sample."""
    examples = config.data.num_test if tested else np.inf
    return doubt(claim, rows, config.sweep.seed, MEASURES, examples)


def _order_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns by how much the network is above both kinds of fixed features, where the paper's is.

    Seeds are those of the problem and its examples: differences are of the same seed.
    """
    paper = FEATURE_LEARNING.get(config.paper_item, {})
    network = rows_of(config, fine, "network")
    claims = []
    for name in ("ntk", "random_features"):
        if paper and paper["network"][1] <= paper[name][1]:
            continue
        fixed = rows_of(config, fine, name)
        item = f"points of test accuracy, Network minus {ROWS[name][2]}"
        above, below = (rows.set_index("seed")["test_accuracy"] for rows in (network, fixed))
        gap = 100 * (above - below).dropna()
        error = 100 * intervals.difference_error(above.mean(), below.mean(), config.data.num_test)
        claim = rule.compare(item, "above 0", gap, above=0.0, examples_error=error, digits=2)
        claims.append(_doubted(config, claim, network, fixed))
    return claims


def _unfit(rows: pd.DataFrame) -> str:
    """Says how many seeds of a network without structure do not fit their training examples."""
    less = (~(rows["train_accuracy"] >= FITS)).sum()
    return f"{less} of {len(rows)} seeds do not fit their training examples" if less else ""


def _row_claims(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, name: str, unless: str
) -> list[Claim]:
    """Compares one row with the paper's: test accuracy and, where printed, the cosine."""
    paper = FEATURE_LEARNING[config.paper_item]
    _, printed, cosine = paper[_PRINTED.get(name, name)]
    heading, test = ROWS[name][2], rows["test_accuracy"] * 100
    margin = rule.margin_of(printed, [row[1] for row in paper.values()], POINTS)
    balanced = rows["test_balanced_accuracy"]
    if len(rows) and balanced.isna().any():
        unless = unless or "it may be a constant answer: no balanced accuracy is there"
    elif len(rows) and (abs(balanced - 0.5) < _CONSTANT).all():
        unless = "a constant answer"
    error = 100 * intervals.binomial_error(test.mean() / 100, config.data.num_test)
    item = f"test accuracy in %, {heading}, within {margin:.3g} points"
    options = {"unless": unless, "examples_error": error, "digits": 2}
    claim = rule.agree(item, printed, test, margin, **options).within(0.0, 100.0)
    claims = [_doubted(config, claim, rows)]
    if cosine is not None:
        item = f"cosine of the nearest neuron, {heading}, within {COSINE:g}"
        claim = rule.agree(item, cosine, rows["cosine"], COSINE, unless=unless)
        claims.append(_doubted(config, claim.within(-1.0, 1.0), rows, tested=False))
    if _PRINTED.get(name, name) == "without_structure":
        # Neither what is as the paper's nor what is not speaks of a network that fits.
        return [doubted(claim, refuted=[_unfit(rows)]) for claim in claims]
    return claims


def _unprinted_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns the accuracies of a sweep whose numbers the paper does not print.

    And how Two Step, which its theorem is about, stands to the NTK.
    """
    num_test, claims, found = config.data.num_test, [], {}
    for name, (_, _, heading) in ROWS.items():
        rows = rows_of(config, fine, name)
        if len(rows):
            found[name] = rows
            item = f"test accuracy in %, {heading}"
            claims.append(measured_accuracy(item, "", 100 * rows["test_accuracy"], num_test))
    for name in ("two_step", "two_step_exact"):
        if name in found and "ntk" in found:
            item = f"points of test accuracy, {ROWS[name][2]} minus NTK"
            claims.append(measured_gain(item, found["ntk"], found[name], num_test))
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
        clusters = cluster_claims(config, fine) if config.data.labels == "vectors" else []
        claims = order + clusters + _unprinted_claims(config, fine)
        return claims + comparison_claims(config, fine, "")
    tied = any(claim.status in ("undecided", "not shown") for claim in order)
    unless = "the network is not shown to be above fixed features" if tied else ""
    claims: list[Claim] = []
    exact = [name for name in _EXACT if name in config.sweep.learner]
    for name in ("network", *FEATURE_LEARNING[config.paper_item], "memorise", *exact):
        if name == "network" and claims:
            continue
        claims += _row_claims(config, rows_of(config, fine, name), name, unless)
        if claims[0].status != "shown":
            unless = unless or "the network's accuracy is not shown to be the paper's"
    return claims + order + comparison_claims(config, fine, unless)


def _histories(
    config: ml_collections.ConfigDict, fine: pd.DataFrame, workdir: Path
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Returns the curves of the table's rows, one line an evaluation, and the pictures."""
    curves, pictures = [], []
    for name in ROWS:
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
        learner, structured, heading = ROWS[name]
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
        tables += comparison_tables(config, fine)
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
