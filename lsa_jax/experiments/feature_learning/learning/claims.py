"""Claims on learned and fixed features: tables 1 to 5, figure 15, and the effect of one step.

Source: Shi, Wei and Liang (ICLR 2022), section 6 and appendices E.1 to E.3.1.
"""

import functools
import itertools

import ml_collections

from lsa_jax.experiments.feature_learning.learning.rows import (
    RATES,
    ROWS,
    UPDATES,
    comparisons,
    settings_of,
    swept_rows,
)
from lsa_jax.experiments.feature_learning.learning.settings import first_steps
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import fitted, shown
from lsa_jax.reporting.statistics import accuracy, highest, minus, value

# Largest distance of a test accuracy from the paper's, in points, and of a cosine. Less where
# another number of the same table is near.
POINTS, COSINE = 3.0, 0.02
# Expected standard deviations over seeds: that of 10,000 fair coins in points, as each seed draws a
# test set, and that of the nearest of 600 random directions in 500 dimensions.
POINTS_SD, COSINE_SD = 0.5, 0.004
# Features suffice from this test accuracy on, in percent.
SUFFICES = 99.0
# A neuron is learned if it is as near to the truth as the paper's are in every table, up to COSINE.
LEARNED = min(table["network"][2] for table in FEATURE_LEARNING.values()) - COSINE
# The second step turns only neurons whose bias lies between the kinks, 0 and 1: of biases of mean
# zero, half at most. Clusters form if it turns half of those to the truth.
CLUSTER = 0.25

# The work's main table, whose claims are primary.
MAIN = "feature_learning/table1"
# In coordinates of an orthonormal dictionary training does not depend on the dimension: these
# tables have the runs of table 1, but for the cosines of neurons that keep some of their start.
SAME_RUNS = {"feature_learning/table3_d100": MAIN, "feature_learning/table3_d2000": MAIN}


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims of a table, or of a sweep whose numbers the paper does not print."""
    claims = _table_claims(config) if config.paper_item else _unprinted_claims(config)
    if config.paper_item not in SAME_RUNS:
        claims += _order_claims(config) + _first_step_claims(config) + _compared_claims(config)
    return claims


def _table_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns agreement with the numbers that a table prints: test accuracies and cosines.

    Where the network does not have the paper's accuracy, other rows are not compared. Two kinds of
    numbers are left out: of runs that another table has, where that table's margin contains the
    paper's number here; and the cosine of features with another classifier.
    """
    paper = FEATURE_LEARNING[config.paper_item]
    other = FEATURE_LEARNING.get(SAME_RUNS.get(config.paper_item), {})
    learned = shown(_accuracy_claim(config, "network"), "the network has the paper's accuracy")
    claims = []
    for name in swept_rows(config):
        _, structured, heading, printed = ROWS[name]
        if printed is None:
            continue
        own = settings_of(config, name)
        conditions = (learned,) if name != "network" else ()
        conditions += () if structured else (fitted(f"the {heading}", **own),)
        _, percent, cosine = paper[printed]
        if not other or abs(percent - other[printed][1]) > POINTS:
            claims.append(_accuracy_claim(config, name, conditions))
        if cosine is None or name.endswith("_exact"):
            continue
        if not other or abs(cosine - other[printed][2]) > COSINE:
            claims.append(
                Claim(
                    item=f"cosine of the nearest neuron, {heading}, within {COSINE:g}",
                    statistic=value("cosine", bounds=(-1.0, 1.0), **own),
                    paper=cosine,
                    within=COSINE,
                    seed_sd=COSINE_SD,
                    conditions=conditions,
                )
            )
    return claims


def _accuracy_claim(
    config: ml_collections.ConfigDict, name: str, conditions: tuple[Condition, ...] = ()
) -> Claim:
    """Returns the agreement of a row's test accuracy with the paper's.

    The margin is half the distance to the nearest number of the table that is a point away or more.
    """
    paper = FEATURE_LEARNING[config.paper_item]
    percent = paper[ROWS[name].printed][1]
    apart = [abs(percent - row[1]) for row in paper.values()]
    margin = min([POINTS, *(distance / 2 for distance in apart if distance > 1)])
    return Claim(
        item=f"test accuracy in %, {ROWS[name].heading}, within {margin:.3g} points",
        statistic=accuracy(**settings_of(config, name)),
        paper=percent,
        within=margin,
        seed_sd=POINTS_SD,
        conditions=conditions,
        # Without structure in its inputs the network fits them and guesses.
        primary=name == "memorise" and config.paper_item == MAIN,
        digits=2,
    )


def _unprinted_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns accuracies that the paper does not print, and by how much Two Step exceeds the NTK.

    Two Step is the network of the theorems.
    """
    of, names = functools.partial(settings_of, config), swept_rows(config)
    two_step = [name for name in ("two_step", "two_step_exact") if {name, "ntk"} <= {*names}]
    return [
        *(_cluster_claims(config) if config.data.labels == "vectors" else []),
        *(
            Claim(
                item=f"test accuracy in %, {ROWS[name].heading}",
                statistic=accuracy(**of(name)),
                digits=2,
            )
            for name in names
            if ROWS[name].printed
        ),
        *(
            Claim(
                item=f"points of test accuracy, {ROWS[name].heading} minus NTK",
                statistic=minus(accuracy(**of(name)), accuracy(**of("ntk"))),
                digits=2,
            )
            for name in two_step
        ),
    ]


def _cluster_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims that training turns many neurons to the truth, and one closely.

    Random features of a seed have the neurons that its network starts with.

    Source: appendix E.3.1, figure 15, which prints no number.
    """
    network, start = (settings_of(config, name) for name in ("network", "random_features"))
    near = functools.partial(value, "share_near", bounds=(0.0, 1.0))
    share = Claim(
        item=f"share of neurons within {config.angle:g} degrees of the truth or its negative, "
        "Network minus its start",
        paper=f"above {CLUSTER:g}: neurons form clusters (figure 15)",
        statistic=minus(near(**network), near(**start)),
        above=CLUSTER,
    )
    cosine = Claim(
        item="cosine of the nearest neuron, Network",
        paper=f"above {LEARNED:g}: neurons form clusters (figure 15)",
        statistic=value("cosine", bounds=(-1.0, 1.0), **network),
        above=LEARNED,
        conditions=(shown(share, "neurons form a cluster"),),
    )
    return [share, cosine]


def _order_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims that the network exceeds fixed features, where the paper's network does.

    All learners take the same number of updates.
    """
    paper, of = FEATURE_LEARNING.get(config.paper_item), functools.partial(settings_of, config)
    return [
        Claim(
            item=f"points of test accuracy, Network minus {ROWS[name].heading}",
            statistic=minus(accuracy(**of("network")), accuracy(**of(name))),
            above=0.0,
            primary=config.paper_item == MAIN,
            digits=2,
        )
        for name in ("ntk", "random_features")
        if paper is None or paper["network"][1] > paper[name][1]
    ]


def _first_step_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claim that features need the second step."""
    if "one_step_exact" not in config.sweep.learner:
        return []
    two = Claim(item="", statistic=accuracy(**settings_of(config, "two_step")), above=SUFFICES)
    kinds = [
        settings_of(config, "one_step_exact", first_rate=rate, leftover=leftover)
        for rate, leftover in first_steps(config)
    ]
    return [
        Claim(
            item="test accuracy in %, best classifier after one step, largest over rates of step 1",
            paper=f"below {SUFFICES:g}: features need the second step (section 6)",
            statistic=highest([accuracy(**kind) for kind in kinds]),
            below=SUFFICES,
            conditions=(shown(two, f"Two Step is above {SUFFICES:g} %"),),
            primary=config.paper_item == MAIN,
            digits=2,
        )
    ]


def _compared_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns test accuracies after other first steps and updates, and with other weights."""
    tables, of = comparisons(config), functools.partial(settings_of, config)
    lines = [line for heading, lines in tables.items() if heading != RATES for line in lines]
    return [
        Claim(
            item=f"test accuracy in %, {words}",
            statistic=accuracy(**of(name, **changed)),
            digits=2,
        )
        for words, name, changed in lines
        if of(name, **changed) != of(name)
    ] + [
        Claim(
            item=f"points of test accuracy, {words} minus {before.removeprefix('NTK ')}",
            statistic=minus(accuracy(**of("ntk", **after)), accuracy(**of("ntk", **fewer))),
            digits=2,
        )
        for (before, _, fewer), (words, _, after) in itertools.pairwise(tables[UPDATES])
    ]
