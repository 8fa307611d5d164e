"""The report on the filters of a ResNet: clusters by block, gradients' cosines, pictures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import answers_a_constant, doubt
from lsa_jax.experiments.feature_learning.learning.pictures import draw_places
from lsa_jax.experiments.feature_learning.numbers import (
    FILTER_CLUSTERS,
    GRADIENT_COSINES,
    RESNET_TEST_ACCURACY,
)
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import agree, cell, compare, not_run
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.intervals import binomial_error
from lsa_jax.reporting.report import Claim, Report

_CLUSTERS = ("first_cosine", "second_cosine", "centres_cosine")
_BLOCKS = (1, 2, 3, 4)

# How far cosines have to be from those of random directions. By chance the cosine of two gradients
# of ResNet(8) differs from 0 by 0.04, and that of the centres over its blocks by as much.
MARGIN = 0.2

# An accuracy counts as the paper's when it is this near.
POINTS = 3.0
# A cosine likewise; the paper's own two widths differ by 0.15 in the median.
COSINE = 0.1

# A cluster of fewer filters has no direction of its own: two random ones have a centre near both.
FEWEST_FILTERS = 3

_PAIRS = ["v1_v2", "v1_v3", "v2_v3"]
_FORMS = (".4f", ".3f")
_TEST_IMAGES = 2000  # of two of CIFAR-10's classes


def _cluster_table(fine: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for filters, rows in fine.groupby("filters"):
        paper = FILTER_CLUSTERS.get(int(filters))
        for block in _BLOCKS:
            line = {"network": f"ResNet({filters})", "block": block}
            for place, name in enumerate(_CLUSTERS):
                label = name.replace("_", " ")
                line[f"{label}, paper"] = f"{paper[block - 1][place]:.4f}" if paper else ""
                line[f"{label}, ours"] = cell(rows[f"block{block}_{name}"], *_FORMS)
            line["centres cosine, untrained"] = cell(
                rows[f"block{block}_start_centres_cosine"], *_FORMS
            )
            lines.append(line)
    return pd.DataFrame(lines)


def _gradient_table(fine: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for filters, rows in fine.groupby("filters"):
        paper = GRADIENT_COSINES.get(int(filters), {})
        for name in next(iter(GRADIENT_COSINES.values())):
            theirs = f"{paper[name]:.4f}" if paper else ""
            pair = "cos({}, {})".format(*name.split("_"))
            network = f"ResNet({filters})"
            lines.append(
                {"network": network, "": pair, "paper": theirs, "ours": cell(rows[name], *_FORMS)}
            )
    return pd.DataFrame(lines)


def _pair_bound(filters: int) -> float:
    """Returns the least cosine of two of the three mean gradients in the paper."""
    tables = GRADIENT_COSINES.get(filters) or min(
        GRADIENT_COSINES.values(), key=lambda table: min(table[pair] for pair in _PAIRS)
    )
    return min(tables[pair] for pair in _PAIRS)


def _mean(rows: pd.DataFrame, form: str) -> pd.Series:
    """Returns a measure's mean over the blocks, seed by seed."""
    return rows[[form.format(block) for block in _BLOCKS]].mean(axis=1)


def _number_claims(name: str, filters: int, rows: pd.DataFrame, unless: str) -> list[Claim]:
    """Returns the cosines that figures 20 and 21 and table 7 print of this width beside ours.

    Centres that lie as the paper's before training do not speak for it.
    """
    if filters not in FILTER_CLUSTERS:
        return []
    printed = {
        f"the two centres, block {block}": (cosines[2], f"block{block}_centres_cosine")
        for block, cosines in zip(_BLOCKS, FILTER_CLUSTERS[filters], strict=True)
    }
    for pair in _PAIRS:
        words = "{} and {}".format(*pair.split("_"))
        printed[f"the mean gradients {words}"] = (GRADIENT_COSINES[filters][pair], pair)
    claims = []
    for words, (number, column) in printed.items():
        item = f"cosine of {words}, {name}, within {COSINE:g}"
        claim = agree(item, number, rows[column], COSINE, unless=unless)
        if column not in _PAIRS:
            start = rows[column.replace("_centres", "_start_centres")]
            parted = compare("", "", start - rows[column], above=COSINE)
            why = "" if parted.status == "shown" else "training is not shown to part them"
            claim = doubted(claim, [why])
        claims.append(claim)
    return claims


def _claims_of(config: ml_collections.ConfigDict, filters: int, rows: pd.DataFrame) -> list[Claim]:
    """Returns the claims on one width; of a network near chance none but its accuracy counts."""
    name, epochs = f"ResNet({filters})", [0, *config.epochs]
    accuracy, examples = rows["test_accuracy"], config.data.num_test or _TEST_IMAGES
    unless = answers_a_constant(accuracy, 0.5, examples)
    if round(config.near_share * filters) < FEWEST_FILTERS:
        unless = unless or f"clusters of fewer than {FEWEST_FILTERS} filters"
    apart = _mean(rows, "block{}_start_centres_cosine") - _mean(rows, "block{}_centres_cosine")
    item = f"cosine of the two centres, untrained minus trained, mean over blocks, {name}"
    paper = f"above {MARGIN:g}: training parts them"
    claims = [compare(item, paper, apart, above=MARGIN, unless=unless)]
    pairs, bound = rows[_PAIRS].mean(axis=1), _pair_bound(filters)
    item = f"cosine of two of the three mean gradients, mean of the pairs, {name}"
    paper = f"above {bound:g}, the paper's least: they agree"
    claims.append(compare(item, paper, pairs, above=bound, unless=unless))
    if len(epochs) > 2:
        early, late = (
            _mean(rows, f"block{{}}_moved_{first}_{last}")
            for first, last in (epochs[:2], epochs[-2:])
        )
        item = f"mean turn (1 - cosine) up to epoch {epochs[1]} minus from there to {epochs[-1]}, "
        claim = compare(item + name, "above 0", early - late, above=0.0, unless=unless)
        turned = compare("", "", early, above=MARGIN).status == "shown"
        hardly = "" if turned else f"filters are not shown to turn by more than {MARGIN:g} early"
        claims.append(doubted(claim, [hardly]))
    printed = RESNET_TEST_ACCURACY.get(filters)
    if printed is not None:
        error = 100 * binomial_error(accuracy.mean(), examples)
        item = f"test accuracy in %, {name}, within {POINTS:g} points"
        claims.append(agree(item, printed, 100 * accuracy, POINTS, examples_error=error))
    claims += _number_claims(name, filters, rows, unless)
    measures = ["test_accuracy", *_PAIRS, *(f"block{b}_centres_cosine" for b in _BLOCKS)]
    return [doubt(claim, [rows], config.sweep.seed, measures, examples) for claim in claims]


def make_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what figures 20 and 21 and table 7 show beside what came out."""
    fine, claims = results[results["status"] == "ok"], []
    for filters in results["filters"].unique() if "filters" in results else ():
        rows = fine[fine["filters"] == filters]
        if rows.empty:
            claims.append(not_run(f"clusters and gradients, ResNet({filters})", ""))
        else:
            claims += _claims_of(config, int(filters), rows)
    return claims


def draw(pictures: list[dict[str, Any]]) -> Any:
    """Draws one row a block and one column an epoch: filters as dots, centres as stars."""
    import matplotlib.pyplot as plt

    epochs = sorted({row["picture"] for row in pictures})
    figure, axes = plt.subplots(
        len(_BLOCKS),
        len(epochs),
        figsize=(3.2 * len(epochs), 3.2 * len(_BLOCKS)),
        squeeze=False,
        layout="constrained",
    )
    for row in pictures:
        axis = axes[row["block"] - 1, epochs.index(row["picture"])]
        draw_places(axis, row, ("#2CA02C", "#D62728"))
        axis.set(title=f"block {row['block']}, epoch {row['picture']}")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and one picture a width, of its first seed."""
    fine = results[results["status"] == "ok"]
    figures, tables, curves = {}, [], []
    for filters, rows in fine.groupby("filters") if len(fine) else ():
        for place, point in enumerate(rows["id"]):
            history = files.read_metrics(workdir, point)
            curves += [{"id": point} | row for row in history if "picture" not in row]
            if place == 0:
                pictures = [row for row in history if "picture" in row]
                figures[f"filters_{filters}"] = functools.partial(draw, pictures)
    if len(fine):
        accuracy = fine.groupby("filters")["test_accuracy"].apply(cell, *_FORMS).reset_index()
        tables = [
            ("Test accuracy", accuracy),
            ("Clusters of filters at the end", _cluster_table(fine)),
            ("Cosines of mean gradients in the first steps (table 7)", _gradient_table(fine)),
        ]
    share = np.round(100 * config.near_share, 1)
    notes = [
        "Means over seeds ± their standard deviation. Filters are those of the last convolution of "
        "each block. The paper picked two clusters by hand; here they are the "
        f"{share:g} % of the filters nearest to either centre of spherical 2-means, and a centre "
        "is their mean direction. Gradients are those of the filter of the last block nearest to "
        f"the first centre, in thirds of the first {config.gradient_steps} steps. The "
        "centres of two clusters so found lie apart in untrained filters, too, and three unrelated "
        "gradients of equal length have a cosine of 0.58 with their mean."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=make_claims(config, results),
        figures=figures,
        extra_tables={"curves": pd.DataFrame(curves)},
        notes=notes,
    )
