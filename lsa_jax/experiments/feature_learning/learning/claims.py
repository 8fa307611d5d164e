"""Claims on learned and fixed features: tables 1 to 5, figure 15, and what one step does.

Source: Shi, Wei and Liang (ICLR 2022), section 6 and appendices E.1 to E.3.1.
"""

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
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, highest, minus, value

# How far a test accuracy may be from the paper's, in points, and a cosine. Less where another
# number of the same table is near.
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
    if config.paper_item in SAME_RUNS:
        return claims
    return [
        *claims,
        *_order_claims(config),
        *_first_step_claims(config),
        *_compared_claims(config),
    ]


def _percent(config: ml_collections.ConfigDict, name: str, **changed: object) -> Statistic:
    """Returns a row's test accuracy in percent, with other values of the fields given."""
    return accuracy(**settings_of(config, name, **changed))


def _neurons(config: ml_collections.ConfigDict, name: str, column: str, least: float) -> Statistic:
    return value(column, bounds=(least, 1.0), **settings_of(config, name))


def _measured(item: str, statistic: Statistic) -> Claim:
    return Claim(item=item, statistic=statistic, digits=2)


def _margin(number: float, others: list[float]) -> float:
    """Returns half the distance to the nearest number a point away or more, at most `POINTS`."""
    apart = [abs(number - other) for other in others]
    return min([POINTS, *(distance / 2 for distance in apart if distance > 1)])


def _table_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the numbers that a table prints, beside ours: test accuracies and cosines.

    Where the network does not have the paper's accuracy, other rows are not compared. Numbers that
    stand elsewhere are left out: of runs that another table has, where that table's margin
    contains the paper's number here; and the cosine of features with another classifier.
    """
    paper = FEATURE_LEARNING[config.paper_item]
    other = FEATURE_LEARNING.get(SAME_RUNS.get(config.paper_item), {})
    learned = shown(_accuracy_claim(config, "network"), "the network has the paper's accuracy")
    claims = []
    for name in swept_rows(config):
        _, structured, heading, printed = ROWS[name]
        if printed is None:
            continue
        conditions = (learned,) if name != "network" else ()
        if not structured:
            conditions += (fitted(f"the {heading}", **settings_of(config, name)),)
        _, percent, cosine = paper[printed]
        if not other or abs(percent - other[printed][1]) > POINTS:
            claims.append(_accuracy_claim(config, name, conditions))
        if cosine is None or name.endswith("_exact"):
            continue
        if not other or abs(cosine - other[printed][2]) > COSINE:
            claims.append(
                Claim(
                    item=f"cosine of the nearest neuron, {heading}, within {COSINE:g}",
                    statistic=_neurons(config, name, "cosine", -1.0),
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
    paper = FEATURE_LEARNING[config.paper_item]
    percent = paper[ROWS[name].printed][1]
    margin = _margin(percent, [row[1] for row in paper.values()])
    return Claim(
        item=f"test accuracy in %, {ROWS[name].heading}, within {margin:.3g} points",
        statistic=_percent(config, name),
        paper=percent,
        within=margin,
        seed_sd=POINTS_SD,
        conditions=conditions,
        # Without structure in its inputs the network fits them and guesses.
        primary=name == "memorise" and config.paper_item == MAIN,
        digits=2,
    )


def _order_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns by how much the network is above both kinds of fixed features, where the paper's is.

    All learners take the same number of updates.
    """
    paper = FEATURE_LEARNING.get(config.paper_item)
    return [
        Claim(
            item=f"points of test accuracy, Network minus {ROWS[name].heading}",
            statistic=minus(_percent(config, "network"), _percent(config, name)),
            above=0.0,
            primary=config.paper_item == MAIN,
            digits=2,
        )
        for name in ("ntk", "random_features")
        if paper is None or paper["network"][1] > paper[name][1]
    ]


def _unprinted_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns accuracies that the paper does not print, and Two Step, its theorems', above NTK."""
    claims = _cluster_claims(config) if config.data.labels == "vectors" else []
    names = [name for name in swept_rows(config) if ROWS[name].printed]
    claims += [
        _measured(f"test accuracy in %, {ROWS[name].heading}", _percent(config, name))
        for name in names
    ]
    return claims + [
        _measured(
            f"points of test accuracy, {ROWS[name].heading} minus NTK",
            minus(_percent(config, name), _percent(config, "ntk")),
        )
        for name in ("two_step", "two_step_exact")
        if {name, "ntk"} <= {*names}
    ]


def _cluster_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims that training turns many neurons to the truth, and one closely.

    Random features of a seed have the neurons that its network starts with.

    Source: appendix E.3.1, figure 15, which prints no number.
    """
    near, start = (
        _neurons(config, name, "share_near", 0.0) for name in ("network", "random_features")
    )
    share = Claim(
        item=f"share of neurons within {config.angle:g} degrees of the truth or its negative, "
        "Network minus its start",
        paper=f"above {CLUSTER:g}: neurons form clusters (figure 15)",
        statistic=minus(near, start),
        above=CLUSTER,
    )
    cosine = Claim(
        item="cosine of the nearest neuron, Network",
        paper=f"above {LEARNED:g}: neurons form clusters (figure 15)",
        statistic=_neurons(config, "network", "cosine", -1.0),
        above=LEARNED,
        conditions=(shown(share, "neurons form a cluster"),),
    )
    return [share, cosine]


def _first_step_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claim that features need the second step."""
    if "one_step_exact" not in config.sweep.learner:
        return []
    two = Claim(item="", statistic=_percent(config, "two_step"), above=SUFFICES)
    return [
        Claim(
            item="test accuracy in %, best classifier after one step, largest over rates of step 1",
            paper=f"below {SUFFICES:g}: features need the second step (section 6)",
            statistic=highest(
                [
                    _percent(config, "one_step_exact", first_rate=rate, leftover=leftover)
                    for rate, leftover in first_steps(config)
                ]
            ),
            below=SUFFICES,
            conditions=(shown(two, f"Two Step is above {SUFFICES:g} %"),),
            primary=config.paper_item == MAIN,
            digits=2,
        )
    ]


def _compared_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns test accuracies after other first steps and updates, and with other weights."""
    tables = comparisons(config)
    claims = [
        _measured(f"test accuracy in %, {words}", _percent(config, name, **changed))
        for heading, lines in tables.items()
        for words, name, changed in lines
        if heading != RATES and settings_of(config, name, **changed) != settings_of(config, name)
    ]
    return claims + [
        _measured(
            f"points of test accuracy, {words} minus {before.removeprefix('NTK ')}",
            minus(_percent(config, "ntk", **after), _percent(config, "ntk", **fewer)),
        )
        for (before, _, fewer), (words, _, after) in itertools.pairwise(tables[UPDATES])
    ]
