"""Claims on learned and fixed features: tables 1 to 5, figure 15, and the effect of one step.

Source: Shi, Wei and Liang (ICLR 2022), section 6 and appendices E.1 to E.3.1.
"""

import functools
import itertools
import math
from typing import Any, NamedTuple

from lsa_jax.experiments.feature_learning.learning.settings import (
    described,
    first_steps,
    longer_kernels,
)
from lsa_jax.experiments.feature_learning.numbers import FEATURE_LEARNING
from lsa_jax.reporting.claims import Claim, Condition, fitted, shown
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy, highest, minus, value
from lsa_jax.sweep.fields import Config

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


class TableRow(NamedTuple):
    """One row of a table; `printed` is the paper's row that it is compared with, if any."""

    learner: str
    structured: bool
    heading: str
    printed: str | None = None


# The paper's network without structure fits its training examples. Which of our two such rows does
# so depends on the table.
ROWS = {
    "network": TableRow("network", True, "Network", "network"),
    "ntk": TableRow("ntk", True, "NTK", "ntk"),
    "random_features": TableRow("random_features", True, "random features", "random_features"),
    "one_step": TableRow("one_step", True, "One Step", "one_step"),
    "one_step_exact": TableRow("one_step_exact", True, "One Step, best classifier", "one_step"),
    "two_step": TableRow("two_step", True, "Two Step", "two_step"),
    "two_step_exact": TableRow("two_step_exact", True, "Two Step, best classifier", "two_step"),
    "without_structure": TableRow("network", False, "Network w/o structure", "without_structure"),
    "memorise": TableRow(
        "memorise", False, "Network w/o structure, to the end", "without_structure"
    ),
    "ntk_without": TableRow("ntk", False, "NTK w/o structure"),
    "random_features_without": TableRow("random_features", False, "random features w/o structure"),
}

RATES, UPDATES = "Fixed features by learning rate", "NTK by number of updates"


def settings_of(config: Config, name: str, **changed: object) -> dict[str, object]:
    """Returns the columns of settings of a row's runs, with some fields of other values."""
    own = {"learner": ROWS[name].learner, "structured": ROWS[name].structured}
    found = described({**config, **own, **changed})
    return {field: value for field, value in found.items() if field != "seed"}


def swept_rows(config: Config) -> list[str]:
    """Returns the rows that a sweep has."""
    axes = config.sweep
    learners = {True: axes.learner, False: axes.unstructured_learner}
    return [name for name, row in ROWS.items() if row.learner in learners[row.structured]]


def comparisons(config: Config) -> dict[str, list[tuple[str, str, dict[str, object]]]]:
    """Returns the lines of the tables of other rates, first steps, updates and class weights.

    A line has its words, a row, and the fields that differ from the configuration.
    """
    axes, fixed = config.sweep, {"ntk": "ntk_rate", "random_features": "random_features_rate"}
    weights = {config.class_weights, *axes.class_weights}
    own = {"steps": config.steps, "ntk_rate": config.ntk_rate}
    kernels = [
        (k["steps"], k["ntk_rate"]) for k in (own | of for of in ({}, *longer_kernels(config)))
    ]
    return {
        RATES: [
            (f"{ROWS[name].heading}, rate {rate:g}", name, {field: rate})
            for name, field in fixed.items()
            for rate in sorted({config[field], *axes[field]})
            if name in axes.learner
        ],
        "One Step by rate of step 1, start left over the rate, and classifier": [
            (
                f"{ROWS[name].heading}, rate {rate:g}, {left:g} of the start left",
                name,
                {"first_rate": rate, "leftover": left},
            )
            for rate, left in sorted(first_steps(config))
            for name in ("one_step", "one_step_exact")
            if name in axes.learner
        ],
        UPDATES: [
            (f"NTK after {steps} updates at {rate:g}", "ntk", {"steps": steps, "ntk_rate": rate})
            for steps, rate in sorted(kernels, key=math.prod)
            if "ntk" in axes.learner
        ],
        "Class weights": [
            (f"{ROWS[name].heading}, class weights: {of}", name, {"class_weights": of})
            for name in axes.weighted_learner * (len(weights) > 1)
            for of in sorted(weights)
        ],
    }


def _percent(words: str, statistic: Statistic, **options: Any) -> Claim:
    return Claim(item=f"test accuracy in %, {words}", statistic=statistic, digits=2, **options)


def _points(
    words: str, first: dict[str, object], second: dict[str, object], **options: Any
) -> Claim:
    difference = minus(accuracy(**first), accuracy(**second))
    return Claim(
        item=f"points of test accuracy, {words}", statistic=difference, digits=2, **options
    )


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims of a table, or of a sweep whose numbers the paper does not print."""
    claims = _table_claims(config) if config.paper_item else _unprinted_claims(config)
    if config.paper_item not in SAME_RUNS:
        claims += _order_claims(config) + _first_step_claims(config) + _compared_claims(config)
    return claims


def _table_claims(config: Config) -> list[Claim]:
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


def _accuracy_claim(config: Config, name: str, conditions: tuple[Condition, ...] = ()) -> Claim:
    """Returns the agreement of a row's test accuracy with the paper's.

    The margin is half the distance to the nearest number of the table that is a point away or more.
    """
    paper = FEATURE_LEARNING[config.paper_item]
    percent = paper[ROWS[name].printed][1]
    apart = [abs(percent - row[1]) for row in paper.values()]
    margin = min([POINTS, *(distance / 2 for distance in apart if distance > 1)])
    return _percent(
        f"{ROWS[name].heading}, within {margin:.3g} points",
        accuracy(**settings_of(config, name)),
        paper=percent,
        within=margin,
        seed_sd=POINTS_SD,
        conditions=conditions,
        # Without structure in its inputs the network fits them and guesses.
        primary=name == "memorise" and config.paper_item == MAIN,
    )


def _unprinted_claims(config: Config) -> list[Claim]:
    """Returns accuracies that the paper does not print, and by how much Two Step exceeds the NTK.

    Two Step is the network of the theorems.
    """
    of, names = functools.partial(settings_of, config), swept_rows(config)
    two_step = [name for name in ("two_step", "two_step_exact") if {name, "ntk"} <= {*names}]
    printed = [name for name in names if ROWS[name].printed]
    return [
        *(_cluster_claims(config) if config.data.labels == "vectors" else []),
        *(_percent(ROWS[name].heading, accuracy(**of(name))) for name in printed),
        *(_points(f"{ROWS[n].heading} minus NTK", of(n), of("ntk")) for n in two_step),
    ]


def _cluster_claims(config: Config) -> list[Claim]:
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


def _order_claims(config: Config) -> list[Claim]:
    """Returns the claims that the network exceeds fixed features, where the paper's network does.

    All learners take the same number of updates.
    """
    paper, of = FEATURE_LEARNING.get(config.paper_item), functools.partial(settings_of, config)
    main = {"above": 0.0, "primary": config.paper_item == MAIN}
    return [
        _points(f"Network minus {ROWS[name].heading}", of("network"), of(name), **main)
        for name in ("ntk", "random_features")
        if paper is None or paper["network"][1] > paper[name][1]
    ]


def _first_step_claims(config: Config) -> list[Claim]:
    """Returns the claim that features need the second step."""
    if "one_step_exact" not in config.sweep.learner:
        return []
    two = Claim(item="", statistic=accuracy(**settings_of(config, "two_step")), above=SUFFICES)
    kinds = [
        settings_of(config, "one_step_exact", first_rate=rate, leftover=leftover)
        for rate, leftover in first_steps(config)
    ]
    return [
        _percent(
            "best classifier after one step, largest over rates of step 1",
            highest([accuracy(**kind) for kind in kinds]),
            paper=f"below {SUFFICES:g}: features need the second step (section 6)",
            below=SUFFICES,
            conditions=(shown(two, f"Two Step is above {SUFFICES:g} %"),),
            primary=config.paper_item == MAIN,
        )
    ]


def _compared_claims(config: Config) -> list[Claim]:
    """Returns test accuracies after other first steps and updates, and with other weights."""
    tables, of = comparisons(config), functools.partial(settings_of, config)
    lines = [line for heading, lines in tables.items() if heading != RATES for line in lines]
    return [
        _percent(words, accuracy(**of(name, **changed)))
        for words, name, changed in lines
        if of(name, **changed) != of(name)
    ] + [
        _points(
            f"{words} minus {before.removeprefix('NTK ')}", of("ntk", **after), of("ntk", **fewer)
        )
        for (before, _, fewer), (words, _, after) in itertools.pairwise(tables[UPDATES])
    ]
