"""Lazy or rich: the answer on a network and its kernels, by `reporting.grades`."""

import pandas as pd

from lsa_jax.reporting.claims import above_chance, fitted
from lsa_jax.reporting.grades import Answer, grade
from lsa_jax.reporting.runs import Runs


def decide(runs: Runs) -> Answer:
    """Returns the answer on one task.

    Args:
        runs: at one number of examples: `learner`, `seed`, `test_accuracy`, `num_test`,
            `num_classes`, of networks `train_accuracy` and, where it was measured,
            `linearization_error`, and of kernels `ridge`, where a seed has several.
    """
    runs = _at_best_ridge(runs)
    conditions = (
        above_chance("the network", learner="network"),
        fitted("the network", learner="network"),
    )
    learned, unfitted = (condition.unmet(runs) for condition in conditions)
    return grade(runs, learned=learned, unfitted=unfitted)


def _at_best_ridge(runs: Runs) -> Runs:
    """Returns the runs, with kernels of several ridges at the one of best mean accuracy."""
    rows = runs.finished
    if "ridge" not in rows or not rows.duplicated(["learner", "seed"]).any():
        return runs
    kept = []
    for _, own in rows.groupby("learner", sort=False):
        means = own.groupby("ridge", dropna=False)["test_accuracy"].transform("mean")
        several = own.duplicated(["learner", "seed"]).any()
        kept.append(own[means == means.max()] if several else own)
    return runs._replace(finished=pd.concat(kept).drop_duplicates(["learner", "seed"]))
