"""Claims on filters of a ResNet: two clusters a block part, and gradients agree.

Source: Shi, Wei and Liang (ICLR 2022), appendix E.4.1: figures 20 and 21, table 7.
"""

import ml_collections

from lsa_jax.experiments.feature_learning.numbers import (
    FILTER_CLUSTERS,
    GRADIENT_COSINES,
    RESNET_TEST_ACCURACY,
)
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import above_chance, shown
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, mean_of, minus, value

# How far cosines have to be from those of random directions. By chance the cosine of two gradients
# of ResNet(8) differs from 0 by 0.04, and that of the centres over its blocks by as much.
MARGIN = 0.2
# How far an accuracy may be from the paper's, in points, and a cosine: the paper's own two widths
# differ by 0.15 in the median. Expected standard deviations over seeds.
POINTS, COSINE = 3.0, 0.1
POINTS_SD, COSINE_SD = 0.5, 0.05
# Fewer filters have no direction of their own: two random ones have a centre near both.
FEWEST_FILTERS = 3

BLOCKS = (1, 2, 3, 4)
PAIRS = ("v1_v2", "v1_v3", "v2_v3")


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims on each width, those beside printed numbers last."""
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
    name, epochs = f"ResNet({filters})", (0, *config.epochs)

    def over_blocks(measure: str) -> Statistic:
        return mean_of([value(f"block{b}_{measure}", filters=filters) for b in BLOCKS])

    start, end = over_blocks("start_centres_cosine"), over_blocks("centres_cosine")
    # The least cosine of two of the three mean gradients in the paper.
    tables = (
        [GRADIENT_COSINES[filters]] if filters in GRADIENT_COSINES else GRADIENT_COSINES.values()
    )
    least = min(table[pair] for table in tables for pair in PAIRS)
    claims = [
        Claim(
            item=f"cosine of the two centres, untrained minus trained, mean over blocks, {name}",
            paper=f"above {MARGIN:g}: training parts them",
            statistic=minus(start, end),
            above=MARGIN,
            conditions=learned,
        ),
        Claim(
            item=f"cosine of two of the three mean gradients, mean of the pairs, {name}",
            paper=f"above {least:g}, the paper's least: they agree",
            statistic=mean_of([value(pair, filters=filters) for pair in PAIRS]),
            above=least,
            conditions=learned,
        ),
    ]
    if len(epochs) > 2:
        early, late = (
            over_blocks("moved_{}_{}".format(*ends)) for ends in (epochs[:2], epochs[-2:])
        )
        turned = shown(Claim(item="", statistic=early, above=MARGIN), "filters turn early")
        claims.append(
            Claim(
                item=f"mean turn (1 - cosine) up to epoch {epochs[1]} minus from there to "
                f"{epochs[-1]}, {name}",
                statistic=minus(early, late),
                above=0.0,
                conditions=(*learned, turned),
            )
        )
    return claims


def _printed_claims(filters: int, learned: tuple[Condition, ...]) -> list[Claim]:
    """Returns the numbers that the paper prints of a width, beside ours."""
    name, printed = f"ResNet({filters})", {}
    for block, cosines in zip(BLOCKS, FILTER_CLUSTERS[filters], strict=True):
        start, end = (
            value(f"block{block}_{when}centres_cosine", filters=filters) for when in ("start_", "")
        )
        # Centres that lie as the paper's before training are no result of it.
        parted = Claim(item="", statistic=minus(start, end), above=COSINE)
        own = (*learned, shown(parted, "training parts the centres"))
        printed[f"the two centres, block {block}"] = cosines[2], end, own
    for pair in PAIRS:
        words = "the mean gradients {} and {}".format(*pair.split("_"))
        printed[words] = GRADIENT_COSINES[filters][pair], value(pair, filters=filters), learned
    claims = [
        Claim(
            item=f"cosine of {words}, {name}, within {COSINE:g}",
            statistic=cosine,
            paper=number,
            within=COSINE,
            seed_sd=COSINE_SD,
            conditions=conditions,
        )
        for words, (number, cosine, conditions) in printed.items()
    ]
    percent = Claim(
        item=f"test accuracy in %, {name}, within {POINTS:g} points",
        statistic=accuracy(filters=filters),
        paper=RESNET_TEST_ACCURACY[filters],
        within=POINTS,
        seed_sd=POINTS_SD,
        digits=2,
    )
    return [percent, *claims]
