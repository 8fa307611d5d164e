"""Claims, tables and pictures of a ResNet's filters: two clusters a block, gradients that agree.

Source of the claims: Shi, Wei and Liang (ICLR 2022), appendix E.4.1: figures 20, 21, table 7.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.filter_clouds.settings import SETTINGS
from lsa_jax.experiments.feature_learning.numbers import (
    FILTER_CLUSTERS,
    GRADIENT_COSINES,
    RESNET_TEST_ACCURACY,
)
from lsa_jax.experiments.feature_learning.pictures import draw_places
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import Claim, Condition, above_chance, decide_all, shown
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, mean_of, minus, value
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

# Smallest difference from cosines of random directions. By chance the cosine of two gradients of
# ResNet(8) differs from 0 by 0.04, and that of the centres over its blocks by as much.
MARGIN = 0.2
# Largest distance of an accuracy from the paper's, in points, and of a cosine: the paper's own two
# widths differ by 0.15 in the median. Expected standard deviations over seeds.
POINTS, COSINE = 3.0, 0.1
POINTS_SD, COSINE_SD = 0.5, 0.05
# Fewer filters have no direction of their own: two random ones have a centre near both.
FEWEST_FILTERS = 3

BLOCKS = (1, 2, 3, 4)
PAIRS = ("v1_v2", "v1_v3", "v2_v3")


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on each width, agreement with printed numbers last."""
    claims = []
    for filters in config.sweep.filters:
        count = round(config.near_share * filters)
        few = "" if count >= FEWEST_FILTERS else f"{count}, {FEWEST_FILTERS} needed"
        enough = Condition("clusters have enough filters", lambda runs, few=few: few)
        learned = (above_chance(f"ResNet({filters})", filters=filters), enough)
        claims += _claims_of(config, filters, learned)
        claims += _printed_claims(filters, learned) if filters in FILTER_CLUSTERS else []
    return claims


def _claims_of(config: Config, filters: int, learned: tuple[Condition, ...]) -> list[Claim]:
    """Returns the claims on a width's centres, gradients and turns."""

    def over_blocks(measure: str) -> Statistic:
        return mean_of([value(f"block{b}_{measure}", filters=filters) for b in BLOCKS])

    name, epochs = f"ResNet({filters})", (0, *config.epochs)
    # The least cosine of two of the three mean gradients in the paper, of this width or of any.
    widths = [filters] if filters in GRADIENT_COSINES else GRADIENT_COSINES
    least = min(GRADIENT_COSINES[width][pair] for width in widths for pair in PAIRS)
    parted = Claim(
        item=f"cosine of the two centres, untrained minus trained, mean over blocks, {name}",
        paper=f"above {MARGIN:g}: training parts them",
        statistic=minus(over_blocks("start_centres_cosine"), over_blocks("centres_cosine")),
        above=MARGIN,
        conditions=learned,
    )
    agree = Claim(
        item=f"cosine of two of the three mean gradients, mean of the pairs, {name}",
        paper=f"above {least:g}, the paper's least: they agree",
        statistic=mean_of([value(pair, filters=filters) for pair in PAIRS]),
        above=least,
        conditions=learned,
    )
    if len(epochs) < 3:
        return [parted, agree]
    early, late = (over_blocks("moved_{}_{}".format(*ends)) for ends in (epochs[:2], epochs[-2:]))
    turned = shown(Claim(item="", statistic=early, above=MARGIN), "filters turn early")
    slower = Claim(
        item=f"mean turn (1 - cosine) up to epoch {epochs[1]} minus from there to {epochs[-1]}, "
        f"{name}",
        statistic=minus(early, late),
        above=0.0,
        conditions=(*learned, turned),
    )
    return [parted, agree, slower]


def _printed_claims(filters: int, learned: tuple[Condition, ...]) -> list[Claim]:
    """Returns agreement with the numbers that the paper prints of a width."""
    printed = []
    for block, cosines in zip(BLOCKS, FILTER_CLUSTERS[filters], strict=True):
        end = value(f"block{block}_centres_cosine", filters=filters)
        start = value(f"block{block}_start_centres_cosine", filters=filters)
        # Centres that lie as the paper's before training are no result of it.
        parted = Claim(item="", statistic=minus(start, end), above=COSINE)
        own = (*learned, shown(parted, "training parts the centres"))
        printed.append((f"the two centres, block {block}", cosines[2], end, own))
    for pair in PAIRS:
        words = "the mean gradients {} and {}".format(*pair.split("_"))
        cosine = value(pair, filters=filters)
        printed.append((words, GRADIENT_COSINES[filters][pair], cosine, learned))
    percent = Claim(
        item=f"test accuracy in %, ResNet({filters}), within {POINTS:g} points",
        statistic=accuracy(filters=filters),
        paper=RESNET_TEST_ACCURACY[filters],
        within=POINTS,
        seed_sd=POINTS_SD,
        digits=2,
    )
    return [percent] + [
        Claim(
            item=f"cosine of {words}, ResNet({filters}), within {COSINE:g}",
            statistic=cosine,
            paper=number,
            within=COSINE,
            seed_sd=COSINE_SD,
            conditions=conditions,
        )
        for words, number, cosine, conditions in printed
    ]


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


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
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
