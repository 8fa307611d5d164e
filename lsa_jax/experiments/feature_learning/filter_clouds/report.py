"""Claims, table and pictures of a ResNet's filters: two clusters a block, gradients that agree.

Source of the claims: Shi, Wei and Liang (ICLR 2022), appendix E.4.1: figures 20, 21, table 7.
"""

import functools
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.experiments.feature_learning.numbers import RESNET
from lsa_jax.experiments.feature_learning.pictures import draw_places, read_courses
from lsa_jax.reporting.claims import Claim, Condition, above_chance, shown
from lsa_jax.reporting.curves import subplots
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
CENTRES = tuple(f"block{block}_centres_cosine" for block in BLOCKS)
_TEST_IMAGES = 2000  # of two of CIFAR-10's classes


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on each width, agreement with printed numbers last."""
    claims = []
    for filters in config.sweep.filters:
        count = round(config.near_share * filters)
        few = "" if count >= FEWEST_FILTERS else f"{count}, {FEWEST_FILTERS} needed"
        enough = Condition("clusters have enough filters", lambda runs, few=few: few)
        learned = (above_chance(f"ResNet({filters})", filters=filters), enough)
        claims += _claims_of(config, filters, learned)
        if filters in RESNET:
            claims += _printed_claims(filters, learned)
    return claims


def _claims_of(config: Config, filters: int, learned: tuple[Condition, ...]) -> list[Claim]:
    """Returns the claims on a width's centres, gradients and turns."""

    def over_blocks(measure: str) -> Statistic:
        return mean_of([value(f"block{b}_{measure}", filters=filters) for b in BLOCKS])

    name, epochs = f"ResNet({filters})", (0, *config.epochs)
    # The least cosine of two of the three mean gradients in the paper, of this width or of any.
    widths = [filters] if filters in RESNET else RESNET
    least = min(RESNET[width][pair] for width in widths for pair in PAIRS)
    claims = [
        Claim(
            f"cosine of the two centres, untrained minus trained, mean over blocks, {name}",
            minus(over_blocks("start_centres_cosine"), over_blocks("centres_cosine")),
            paper=f"above {MARGIN:g}: training parts them",
            above=MARGIN,
            conditions=learned,
        ),
        Claim(
            f"cosine of two of the three mean gradients, mean of the pairs, {name}",
            mean_of([value(pair, filters=filters) for pair in PAIRS]),
            paper=f"above {least:g}, the paper's least: they agree",
            above=least,
            conditions=learned,
        ),
    ]
    if len(epochs) > 2:
        early, late = (over_blocks(f"moved_{a}_{b}") for a, b in (epochs[:2], epochs[-2:]))
        turned = shown(Claim("", early, above=MARGIN), "filters turn early")
        item = f"mean turn (1 - cosine) up to epoch {epochs[1]} minus from there to {epochs[-1]}, "
        conditions = (*learned, turned)
        claims.append(Claim(item + name, minus(early, late), above=0.0, conditions=conditions))
    return claims


def _printed_claims(filters: int, learned: tuple[Condition, ...]) -> list[Claim]:
    """Returns agreement with the printed accuracy and cosines, of centres and of gradients."""
    name, paper = f"ResNet({filters})", RESNET[filters]
    agreement = {"paper": 100 * paper["test_accuracy"], "within": POINTS, "seed_sd": POINTS_SD}
    item = f"test accuracy in %, {name}, within {POINTS:g} points"
    claims = [Claim(item, accuracy(filters=filters), **agreement)]
    for column in (*CENTRES, *PAIRS):
        end, conditions = value(column, filters=filters), learned
        if column in CENTRES:
            # Centres that lie as the paper's before training are no result of it.
            start = value(column.replace("centres", "start_centres"), filters=filters)
            parted = Claim("", minus(start, end), above=COSINE)
            conditions = (*learned, shown(parted, "training parts the centres"))
        item = f"{column.replace('_', ' ')}, {name}, within {COSINE:g}"
        agreement = {"paper": paper[column], "within": COSINE, "seed_sd": COSINE_SD}
        claims.append(Claim(item, end, conditions=conditions, **agreement))
    return claims


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the paper's numbers and ours by width, and the centres' cosines before training."""
    untrained = [name.replace("centres", "start_centres") for name in CENTRES]
    return pd.DataFrame(
        {
            "network": f"ResNet({filters})",
            "number": name.replace("_", " "),
            "paper": RESNET.get(filters, {}).get(name),
            "ours": mean_and_spread(own[name], ".4f", ".3f"),
        }
        for filters, own in rows.groupby("filters")
        for name in (*RESNET[128], *untrained)
    )


def _draw(pictures: list[dict[str, Any]]) -> Any:
    """Draws filters as dots and their centres as stars: a row a block, a column an epoch."""
    epochs = sorted({row["picture"] for row in pictures})
    figure, axes = subplots(len(BLOCKS), len(epochs), 3.2, 3.2)
    for row in pictures:
        axis = axes[row["block"] - 1, epochs.index(row["picture"])]
        draw_places(axis, row, ("#2CA02C", "#D62728"))
        axis.set(title=f"block {row['block']}, epoch {row['picture']}")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and one picture a width, of its first seed."""
    if "num_test" not in runs.finished:  # older results
        runs = runs.assign(num_test=config.data.num_test or _TEST_IMAGES)
    curves, pictures = read_courses(workdir, runs.finished, ["id"])
    first = runs.finished.groupby("filters")["id"].first()
    note = (
        "Means over seeds ± their standard deviation. Filters are those of the last convolution of "
        "each block. The paper picked two clusters by hand; here they are the share "
        f"{config.near_share:g} of the filters nearest to either centre of spherical 2-means, and "
        "a centre is their mean direction. The centres of two clusters so found lie apart in "
        "untrained filters, too, and three unrelated gradients of equal length have a cosine of "
        "0.58 with their mean."
    )
    return Report(
        tables=[("The paper's numbers and ours", _table(runs.finished))],
        claims=make_claims(config),
        runs=runs,
        figures={
            f"filters_{filters}": functools.partial(_draw, pictures[run])
            for filters, run in first.items()
        },
        extra_tables={"curves": curves},
        notes=[note],
    )
