"""The report on the filters of a ResNet: clusters by block, gradients' cosines, pictures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.filter_clouds.claims import BLOCKS, make_claims
from lsa_jax.experiments.feature_learning.filter_clouds.settings import SETTINGS
from lsa_jax.experiments.feature_learning.numbers import FILTER_CLUSTERS, GRADIENT_COSINES
from lsa_jax.experiments.feature_learning.pictures import draw_places
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_TEST_IMAGES = 2000  # of two of CIFAR-10's classes


def _cell(values: pd.Series) -> str:
    return mean_and_spread(values, ".4f", ".3f")


def _printed(number: float | None) -> str:
    return "" if number is None else f"{number:.4f}"


def _tables(fine: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns the paper's numbers and ours: accuracies, clusters by block, gradients' cosines."""
    accuracies, clusters, gradients = [], [], []
    for filters, rows in fine.groupby("filters"):
        network = {"network": f"ResNet({filters})"}
        accuracies.append(network | {"test accuracy": _cell(rows["test_accuracy"])})
        paper = FILTER_CLUSTERS.get(int(filters), [(None,) * 3] * len(BLOCKS))
        for block, numbers in zip(BLOCKS, paper, strict=True):
            line = network | {"block": block}
            for name, number in zip(("first", "second", "centres"), numbers, strict=True):
                line[f"{name} cosine, paper"] = _printed(number)
                line[f"{name} cosine, ours"] = _cell(rows[f"block{block}_{name}_cosine"])
            untrained = _cell(rows[f"block{block}_start_centres_cosine"])
            clusters.append(line | {"centres cosine, untrained": untrained})
        cosines = GRADIENT_COSINES.get(int(filters), {})
        for pair in next(iter(GRADIENT_COSINES.values())):
            cells = {"paper": _printed(cosines.get(pair)), "ours": _cell(rows[pair])}
            gradients.append(network | {"": "cos({}, {})".format(*pair.split("_"))} | cells)
    return [
        ("Test accuracy", pd.DataFrame(accuracies)),
        ("Clusters of filters at the end", pd.DataFrame(clusters)),
        ("Cosines of mean gradients in the first steps (table 7)", pd.DataFrame(gradients)),
    ]


def _draw(pictures: list[dict[str, Any]]) -> Any:
    """Draws one row a block and one column an epoch: filters as dots, centres as stars."""
    import matplotlib.pyplot as plt

    epochs = sorted({row["picture"] for row in pictures})
    size = (3.2 * len(epochs), 3.2 * len(BLOCKS))
    figure, axes = plt.subplots(
        len(BLOCKS), len(epochs), figsize=size, squeeze=False, layout="constrained"
    )
    for row in pictures:
        axis = axes[row["block"] - 1, epochs.index(row["picture"])]
        draw_places(axis, row, ("#2CA02C", "#D62728"))
        axis.set(title=f"block {row['block']}, epoch {row['picture']}")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and one picture a width, of its first seed."""
    runs = Runs.of(SETTINGS.sweep(config), results, outcomes.read(workdir, results["id"]))
    if "num_test" not in results:  # older results
        runs = runs.assign(num_test=config.data.num_test or _TEST_IMAGES)
    figures, curves = {}, []
    for filters, rows in runs.finished.groupby("filters"):
        for run in rows["id"]:
            history = files.read_metrics(workdir, run)
            curves += [{"id": run} | row for row in history if "picture" not in row]
            pictures = [row for row in history if "picture" in row]
            figures.setdefault(f"filters_{filters}", functools.partial(_draw, pictures))
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
        tables=_tables(runs.finished),
        claims=decide_all(make_claims(config), runs),
        figures=figures,
        extra_tables={"curves": pd.DataFrame(curves)},
        notes=notes,
    )
