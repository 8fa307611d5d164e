"""The report on the filters of a ResNet: clusters by block, gradients' cosines, pictures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.filter_clouds.claims import BLOCKS, make_claims
from lsa_jax.experiments.feature_learning.filter_clouds.settings import sweep
from lsa_jax.experiments.feature_learning.learning.pictures import draw_places
from lsa_jax.experiments.feature_learning.numbers import FILTER_CLUSTERS, GRADIENT_COSINES
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_CLUSTERS = "Clusters of filters at the end"
_GRADIENTS = "Cosines of mean gradients in the first steps (table 7)"
_TEST_IMAGES = 2000  # of two of CIFAR-10's classes


def _cell(values: pd.Series) -> str:
    return mean_and_spread(values, ".4f", ".3f")


def _cluster_lines(filters: int, rows: pd.DataFrame) -> list[dict[str, object]]:
    lines, none = [], [(None,) * 3] * len(BLOCKS)
    for block, printed in zip(BLOCKS, FILTER_CLUSTERS.get(filters, none), strict=True):
        line = {"network": f"ResNet({filters})", "block": block}
        for name, number in zip(("first", "second", "centres"), printed, strict=True):
            line[f"{name} cosine, paper"] = "" if number is None else f"{number:.4f}"
            line[f"{name} cosine, ours"] = _cell(rows[f"block{block}_{name}_cosine"])
        untrained = _cell(rows[f"block{block}_start_centres_cosine"])
        lines.append(line | {"centres cosine, untrained": untrained})
    return lines


def _gradient_lines(filters: int, rows: pd.DataFrame) -> list[dict[str, str]]:
    paper = GRADIENT_COSINES.get(filters, {})
    return [
        {"network": f"ResNet({filters})", "": "cos({}, {})".format(*pair.split("_"))}
        | {"paper": f"{paper[pair]:.4f}" if paper else "", "ours": _cell(rows[pair])}
        for pair in next(iter(GRADIENT_COSINES.values()))
    ]


def draw(pictures: list[dict[str, Any]]) -> Any:
    """Draws one row a block and one column an epoch: filters as dots, centres as stars."""
    import matplotlib.pyplot as plt

    epochs = sorted({row["picture"] for row in pictures})
    figure, axes = plt.subplots(
        len(BLOCKS),
        len(epochs),
        figsize=(3.2 * len(epochs), 3.2 * len(BLOCKS)),
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
    runs = Runs.of(sweep(config), results, outcomes.read(workdir, results["id"]))
    if "num_test" not in results:  # older results
        runs = runs.assign(num_test=config.data.num_test or _TEST_IMAGES)
    fine = runs.finished
    figures, curves = {}, []
    tables = {name: [] for name in ("Test accuracy", _CLUSTERS, _GRADIENTS)}
    for filters, rows in fine.groupby("filters") if len(fine) else ():
        accuracy = {"filters": filters, "test_accuracy": _cell(rows["test_accuracy"])}
        tables["Test accuracy"].append(accuracy)
        tables[_CLUSTERS] += _cluster_lines(int(filters), rows)
        tables[_GRADIENTS] += _gradient_lines(int(filters), rows)
        for place, point in enumerate(rows["id"]):
            history = files.read_metrics(workdir, point)
            curves += [{"id": point} | row for row in history if "picture" not in row]
            if place == 0:
                pictures = [row for row in history if "picture" in row]
                figures[f"filters_{filters}"] = functools.partial(draw, pictures)
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
        tables=[(name, pd.DataFrame(lines)) for name, lines in tables.items() if lines],
        claims=decide_all(make_claims(config), runs),
        figures=figures,
        extra_tables={"curves": pd.DataFrame(curves)},
        notes=notes,
    )
