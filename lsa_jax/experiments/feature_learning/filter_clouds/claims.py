"""Claims on filters of a ResNet: two clusters a block part, and gradients agree.

Source: Shi, Wei and Liang (ICLR 2022), appendix E.4.1: figures 20 and 21, table 7.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.numbers import (
    FILTER_CLUSTERS,
    GRADIENT_COSINES,
    RESNET_TEST_ACCURACY,
)
from lsa_jax.reporting.claims import Claim, Condition, above_chance, shown
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, mean_of, minus, value

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


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
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


def _claims_of(
    config: ml_collections.ConfigDict, filters: int, learned: tuple[Condition, ...]
) -> list[Claim]:
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
