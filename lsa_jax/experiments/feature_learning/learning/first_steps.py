"""One Step as a sweep has it: other rates of step 1, what it leaves of the start, both classifiers.

Why One Step is at chance has three explanations, which the sweep takes apart: the rate of step 1,
what it leaves of the initial weights, and the classifier on its features.
"""

from typing import NamedTuple

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import doubt
from lsa_jax.experiments.feature_learning.learning.measured import measured_gain
from lsa_jax.experiments.feature_learning.learning.rows import rows_of
from lsa_jax.reporting import claims as rule
from lsa_jax.reporting import intervals
from lsa_jax.reporting.report import Claim

# From this accuracy on features suffice.
SUFFICES = 0.99


class FirstStep(NamedTuple):
    """One Step as the sweep has it.

    Attributes:
        rate: of step 1.
        leftover: what step 1 leaves of the initial weights, over its rate.
        exact: whether the classifier is the best one, by least squares, or descent's.
    """

    rate: float
    leftover: float
    exact: bool


def _classifier(exact: bool) -> str:
    return "the best classifier" if exact else "descent"


def first_steps(fine: pd.DataFrame) -> dict[FirstStep, pd.DataFrame]:
    """Returns the seeds of One Step by what it is, in the order of the rates."""
    rows = fine[fine["learner"].isin(("one_step", "one_step_exact"))]
    if rows.empty or not {"first_rate", "leftover"} <= set(rows):
        return {}
    rows = rows.assign(exact=rows["learner"] == "one_step_exact")
    groups = rows.groupby(["first_rate", "leftover", "exact"])
    return {FirstStep(rate, left, bool(exact)): own for (rate, left, exact), own in groups}


def _changed_alone(
    found: dict[FirstStep, pd.DataFrame], own: FirstStep, num_test: int
) -> list[Claim]:
    """Returns what each explanation gains by itself, and what all of them lose without it.

    The paper's One Step as configured here is one end; the best classifier on the features of the
    largest rate that was run, with the least left of the start, is the other.
    """
    other = FirstStep(max(of.rate for of in found), min(of.leftover for of in found), True)
    claims = []
    for field, words in (
        ("rate", f"step 1's rate at {other.rate:g}"),
        ("leftover", f"{other.leftover:g} of the start left"),
        ("exact", "the best classifier"),
    ):
        if getattr(own, field) == getattr(other, field):
            continue
        one = own._replace(**{field: getattr(other, field)})
        all_but = other._replace(**{field: getattr(own, field)})
        for first, last, item in (
            (own, one, f"gained by {words} alone"),
            (all_but, other, f"lost by all three without {words}"),
        ):
            if first in found and last in found:
                item = f"points of test accuracy, One Step: {item}"
                claims.append(measured_gain(item, found[first], found[last], num_test))
    return claims


def _suffices(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, item: str, unless: str, **side: float
) -> Claim:
    """Returns the claim that features of some steps are above or below `SUFFICES`, in percent."""
    percent, num_test = 100 * rows["test_accuracy"], config.data.num_test
    error = 100 * intervals.binomial_error(percent.mean() / 100, num_test)
    options = {"examples_error": error, "unless": unless, **side}
    claim = rule.compare(item, "features need the second step", percent, **options)
    claim = doubt(claim, [rows], config.sweep.seed, ("test_accuracy", "cosine"), num_test)
    return claim.within(0.0, 100.0)


def _no_second(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> str:
    """Says that no classifier is shown to do with features of two steps; empty if one is.

    Without it nothing tells that what one step lacks is a second one.
    """
    for name in ("two_step", "two_step_exact"):
        rows = rows_of(config, fine, name)
        if _suffices(config, rows, name, "", above=100 * SUFFICES).status == "shown":
            return ""
    return f"Two Step is not shown to be above {100 * SUFFICES:g} %"


def _needs_second(
    config: ml_collections.ConfigDict, best: dict[FirstStep, pd.DataFrame], unless: str
) -> list[Claim]:
    """Returns whether the best classifier after one step is below `SUFFICES` at every rate.

    The kind of step whose interval reaches furthest up decides.
    """
    item = f"best classifier after one step, at every rate run, below {100 * SUFFICES:g} %"
    below = {"below": 100 * SUFFICES}
    claims = [_suffices(config, rows, item, unless, **below) for rows in best.values()]
    ranks = {"not shown": 2, "undecided": 1}
    worst = max(claims, key=lambda claim: (ranks.get(claim.status, 0), claim.high or 0.0))
    if worst.status == "not run":
        return [worst]
    return [worst._replace(ours=f"at most {worst.ours:.2f} %")]


def first_step_claims(
    config: ml_collections.ConfigDict, fine: pd.DataFrame, unless: str
) -> list[Claim]:
    """Returns whether features of one step suffice at some rate, from which on, and why."""
    found = first_steps(fine)
    if len(found) < 2:
        return []
    best = {of: rows for of, rows in found.items() if of.exact}
    unless = unless or _no_second(config, fine)
    claims = _needs_second(config, best, unless) if best else []
    for leftover, exact in sorted({(of.leftover, of.exact) for of in found}):
        own = {of.rate: rows for of, rows in found.items() if of[1:] == (leftover, exact)}
        if len(own) < 2:
            continue
        enough = [r for r, rows in own.items() if rows["test_accuracy"].min() >= SUFFICES]
        item = f"least rate of step 1 at which one step suffices, {100 * SUFFICES:g} % or more: "
        item += f"{_classifier(exact)}, {leftover:g} of the start left"
        ours = f"{min(enough):g}" if enough else f"none up to {max(own):g}"
        percent = {r: rule.cell(100 * rows["test_accuracy"], ".2f") for r, rows in own.items()}
        listed = ", ".join(f"{cell} at {rate:g}" for rate, cell in percent.items())
        claims.append(rule.measured(item, "", f"{ours} (test %: {listed})"))
    one_step = FirstStep(config.first_rate, config.leftover, False)
    return claims + _changed_alone(found, one_step, config.data.num_test)


def first_step_table(found: dict[FirstStep, pd.DataFrame]) -> pd.DataFrame:
    """Returns a line a rate and what is left of the start: the accuracy of both classifiers."""
    lines: dict[tuple[float, float], dict[str, str]] = {}
    for of, rows in found.items():
        line = lines.setdefault(
            of[:2],
            {
                "rate of step 1": f"{of.rate:g}",
                "of the start left, over the rate": f"{of.leftover:g}",
                "size of <w, x>": "",
                "cosine": rule.cell(rows["cosine"], ".4f"),
            },
        )
        line[f"{_classifier(of.exact)}, test %"] = rule.cell(100 * rows["test_accuracy"], ".2f")
        if of.exact and "feature_size" in rows:
            line["size of <w, x>"] = rule.cell(rows["feature_size"], ".2g")
    return pd.DataFrame(list(lines.values())).fillna("")
