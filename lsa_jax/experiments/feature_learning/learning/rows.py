"""Rows of the paper's tables: learners at settings of their own."""

import math
from typing import NamedTuple

import ml_collections

from lsa_jax.experiments.feature_learning.learning.settings import (
    described,
    first_steps,
    longer_kernels,
)
from lsa_jax.sweep.variants import set_fields


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


def settings_of(
    config: ml_collections.ConfigDict, name: str, **changed: object
) -> dict[str, object]:
    """Returns the columns of settings of a row's runs, with some fields of other values."""
    own = {"learner": ROWS[name].learner, "structured": ROWS[name].structured, **changed}
    found = described(set_fields(config.copy_and_resolve_references(), own))
    return {field: value for field, value in found.items() if field != "seed"}


def swept_rows(config: ml_collections.ConfigDict) -> list[str]:
    """Returns the rows that a sweep has."""
    axes = config.sweep
    learners = {True: axes.learner, False: axes.unstructured_learner}
    return [name for name, row in ROWS.items() if row.learner in learners[row.structured]]


def comparisons(
    config: ml_collections.ConfigDict,
) -> dict[str, list[tuple[str, str, dict[str, object]]]]:
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
