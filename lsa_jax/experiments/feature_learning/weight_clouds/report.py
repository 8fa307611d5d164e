"""The report on directions of neurons: how they cluster with time, and their pictures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import answers_a_constant, doubt
from lsa_jax.experiments.feature_learning.held_out import HeldOut, held_out
from lsa_jax.experiments.feature_learning.learning.pictures import (
    NEAR,
    draw_pictures,
    table_of_pictures,
)
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import (
    cell,
    compare,
    every,
    measured,
    not_run,
    spread,
)
from lsa_jax.reporting.report import Claim, Report

# Directions form clusters if their silhouette is above this: a "reasonable structure", Kaufman and
# Rousseeuw (1990), Finding Groups in Data.
STRUCTURE = 0.5

# Numbers of clusters among which the best one is looked for.
COUNTS = (2, 3, 4, 5, 6)

# What seeds differ in, if only in the directions of their neurons.
_MEASURES = ("test_accuracy", "silhouette", "share_covered", "covered", "least_covered")
_MEASURES += ("own_centre_cosine", "centres_cosine", "same_sign_cosine", "cosine_with_start")

_COLUMNS = {
    "test_accuracy": "test accuracy",
    "cosine_with_start": "cosine with own start",
    "same_sign_cosine": "cosine, same output sign",
    "opposite_sign_cosine": "cosine, opposite sign",
    "own_centre_cosine": "cosine with own centre",
    "centres_cosine": "least cosine of two centres",
    "silhouette": "silhouette",
    "best_count": "best number of clusters",
    "covered": "best cosine a cluster of data, mean",
    "least_covered": "best cosine a cluster of data, least",
    "share_covered": f"share of clusters of data with a cosine of {NEAR:g}",
}


def make_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what the pictures show beside where directions are after training.

    A neuron within `NEAR` of a cluster's centre is nearer to it than to any other: centres are
    corners of a cube, and half way between neighbours the cosine is sqrt(1 - 1 / k), 0.89 at most
    for k up to 5.
    """
    fine = results[results["status"] == "ok"]
    scales = list(config.sweep.init_std) or [None]
    if len(scales) == 1:
        return _claims(config, fine, "")
    column = fine.get("init_std", pd.Series(index=fine.index, dtype=float))
    return [
        claim
        for std in scales
        for claim in _claims(config, fine[column == std], f", initial scale {std:.2g}")
    ]


def _claims(config: ml_collections.ConfigDict, fine: pd.DataFrame, of: str) -> list[Claim]:
    """Returns the claims of one scale of the initial weights; `of` names it.

    On images they are of clusters and of how many there are.
    """
    clusters = _claim(config, fine, of)
    if config.data.dataset == "gaussian_mixture":
        item = f"cosine of the nearest neuron, least over clusters{of}"
        if fine.empty:
            return [clusters, not_run(item, "")]
        least = fine["least_covered"]
        return [clusters, measured(item, "", round(least.mean(), 3), least)]
    item = f"number of clusters, {COUNTS[0]} to {COUNTS[-1]}, with the largest silhouette{of}"
    if fine.empty:
        return [clusters, not_run(item, config.clusters)]
    counts = fine["best_count"].dropna()
    unless = "" if clusters.status == "shown" else "weights are not shown to form clusters"
    holds, listed = counts == config.clusters, ", ".join(f"{count:g}" for count in counts)
    claim = every(item, config.clusters, holds, listed, luck=1 / len(COUNTS), unless=unless)
    return [clusters, doubt(claim, [fine], config.sweep.seed, _MEASURES)]


def _claim(config: ml_collections.ConfigDict, fine: pd.DataFrame, of: str) -> Claim:
    """Returns the claim that clusters form, or that those of a mixture are found."""
    if config.data.dataset == "gaussian_mixture":
        name, item = "share_covered", f"share of clusters with a neuron at a cosine of {NEAR:g}"
        paper = "1: every centre is covered by some neurons"
    else:
        name, item = "silhouette", f"silhouette of {config.clusters} clusters of directions"
        paper = f"above {STRUCTURE:g}: weights form clusters"
    item += of
    if fine.empty:
        return not_run(item, paper)
    data = config.data
    test = HeldOut(data.num_test, 0.5)
    if data.dataset != "gaussian_mixture":
        test = held_out(data.dataset, data.classes, data.num_test)
    unless = answers_a_constant(fine["test_accuracy"], test.largest, test.images)
    if not unless and (fine[name] <= fine[f"start_{name}"]).any():
        unless = "no more than before training"
    values = fine[name].dropna()  # a number that is not there is no exception
    if name == "silhouette":
        claim = compare(item, paper, values, above=STRUCTURE, unless=unless)
    else:
        ours = round(float(values.mean()), 4)
        claim = every(item, paper, values == 1, ours, unless=unless, spread=spread(values))
    return doubt(claim, [fine], config.sweep.seed, _MEASURES, test.images)


def _draw(rows: list[dict[str, Any]]) -> Any:
    """Draws one run's neurons; a mixture's centres in red and orange by label, as in the paper."""
    titles = [f"after {row['picture']} steps" for row in rows]
    labels = rows[0]["mark_labels"]
    colors = tuple("#D62728" if label > 0 else "#FF8C00" for label in labels)
    return draw_pictures(rows, titles, colors) if colors else draw_pictures(rows, titles)


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the table, the claims and the pictures of the first seed."""
    fine = results[results["status"] == "ok"]
    if "init_std" not in fine:
        fine = fine.assign(init_std=config.init_std)
    measured, pictures = [], {}
    for std, points in fine.groupby("init_std"):
        for place, point in enumerate(points["id"]):
            rows = files.read_metrics(workdir, point)
            own = {"id": point, "initial scale": f"{std:.2g}"}
            measured += [row | own for row in rows if "step" in row]
            if place == 0:
                pictures[std] = [row for row in rows if "picture" in row]
    curves = pd.DataFrame(measured)
    tables, figures, extra = [], {}, {"curves": curves}
    if len(curves):
        groups = curves.groupby(["initial scale", "step"])
        shown = {n: h for n, h in _COLUMNS.items() if n in curves}
        table = pd.DataFrame({label: groups[name].apply(cell) for name, label in shown.items()})
        tables = [("Directions of the neurons by step", table.reset_index())]
    for place, (std, rows) in enumerate(pictures.items()):
        name = "weights" if place == 0 else f"weights_{std:.2g}"
        figures[name] = functools.partial(_draw, rows)
        extra[name] = table_of_pictures(rows)
    scales = list(config.sweep.init_std) or [config.init_std]
    listed = " and ".join(f"{std:.3g}" for std in scales)
    notes = [
        "Means over seeds ± their standard deviation; pictures are of the first seed. The paper "
        f"gives neither loss nor rate, batch or initial scale: {config.loss}, "
        f"{config.learning_rate:g}, {config.batch_size} and entries of standard deviation "
        f"{listed} are ours. Directions cluster where initial weights are small; "
        "with large ones they hardly turn while the accuracy rises all the same. Stars are the "
        "centres of a mixture, dots near one have its colour; on images colours are the signs of "
        "the output weights."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=make_claims(config, results),
        figures=figures,
        extra_tables=extra,
        notes=notes,
    )
