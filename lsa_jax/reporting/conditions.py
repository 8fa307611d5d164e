"""Conditions of claims: statements that must hold before a claim says anything about the paper."""

import numpy as np

from lsa_jax.reporting.claims import Claim, Condition, chance_warning, decide
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import accuracy

# A learner has fitted its training set from this accuracy on: the one definition for all claims.
FITTED = 0.99
_SINGLE_PRECISION = 1e-6


def shown(claim: Claim, words: str) -> Condition:
    """Returns the condition that another claim is shown, by one seed or more."""
    known: list[tuple[Runs, str]] = []  # claims that share the condition are of the same runs

    def unmet(runs: Runs) -> str:
        if not known or known[0][0] is not runs:
            known[:] = [(runs, decide(claim, runs).status)]
        status = known[0][1]
        return "" if status.startswith("shown") else status

    return Condition(words, unmet)


def unless_refuted(statistic: Statistic, condition: Condition) -> Condition:
    """Returns a condition of a claim about every run, which one exception refutes without it."""

    def unmet(runs: Runs) -> str:
        return "" if (statistic(runs).values == 0).any() else condition.unmet(runs)

    return Condition(f"{condition.words}, unless refuted", unmet)


def fitted(words: str, **settings: object) -> Condition:
    """Returns the condition that all runs with these settings have fitted their training set."""

    def unmet(runs: Runs) -> str:
        accuracies = runs.where(**settings).finished.reindex(columns=["train_accuracy"])
        least = accuracies["train_accuracy"].astype(float).min(skipna=False)
        if not len(accuracies) or least >= FITTED - _SINGLE_PRECISION:
            return ""
        share = "an unknown share" if np.isnan(least) else f"{100 * least:.4g} %"
        return f"{share} of the training set right, {100 * FITTED:g} % needed"

    return Condition(f"{words} fits its training set", unmet)


def enough(setting: str, least: int, words: str, **settings: object) -> Condition:
    """Returns the condition that finished runs have so many values of a setting."""

    def unmet(runs: Runs) -> str:
        there = runs.where(**settings).finished.get(setting)
        count = 0 if there is None else there.nunique()
        return "" if count >= least else f"{count}, {least} needed"

    return Condition(words, unmet)


def above_chance(
    words: str,
    *,
    classes: int = 2,
    column: str = "test_accuracy",
    chance: str = "chance",
    **settings: object,
) -> Condition:
    """Returns the condition that test accuracies exceed that of the best constant answer.

    Args:
        words: the learner.
        classes: number of classes, for results that have neither the column `chance` nor
            `num_classes`.
        column: the accuracy.
        chance: the column of the accuracy of the best constant answer.
        settings: of its runs.
    """

    def unmet(runs: Runs) -> str:
        found = accuracy(column, unit=1.0, **settings)(runs)
        if not len(found.values):
            return ""
        constant = runs.where(**settings).chance(classes, chance)
        return chance_warning(float(found.values.mean()), classes, found.count, constant)

    return Condition(f"{words} is above chance", unmet)
