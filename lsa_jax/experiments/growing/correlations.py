"""Claims on rank correlations over operators, by intervals of Fisher's z."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.growing.doubts import FEWEST_OPERATORS, without
from lsa_jax.reporting.claims import compare, spread
from lsa_jax.reporting.doubts import doubted
from lsa_jax.reporting.report import Claim


def rank_error(operators: pd.Series) -> float:
    """Returns the standard error of the inverse hyperbolic tangent of Spearman's correlation.

    Over the fewest operators of any seed, n: its square is 1.06 / (n - 3); infinite of three.

    Source: Fieller, Hartley and Pearson (1957).
    """
    spare = float(operators.min()) - 3
    return float(np.sqrt(1.06 / spare)) if spare > 0 else np.inf


def transformed(correlations: pd.Series, operators: pd.Series) -> pd.Series:
    """Returns the inverse hyperbolic tangents of Spearman's correlations over so many operators.

    An order that agrees in full has no finite one, and is taken as half a step away: without ties
    the next lower correlation of n operators is 1 - 12 / (n^3 - n).
    """
    counts = operators.astype(float)
    most = 1 - 6 / (counts**3 - counts)
    return np.arctanh(correlations.astype(float).clip(-most, most))


def correlate(
    item: str,
    paper: str | float,
    values: pd.Series,
    operators: pd.Series,
    *,
    above: float = -1.0,
    below: float = 1.0,
    unless: str = "",
) -> Claim:
    """Returns a claim on rank correlations: what stands in for test examples are operators.

    Its interval is one of Fisher's z, over seeds and operators, and its ends are those of the
    correlation. Seeds that have none, as losses are equal, leave what would be shown undecided.

    Args:
        item: what is compared, in words; the bounds are added to it.
        paper: the paper's number or statement.
        values: correlations, one a seed.
        operators: of each seed.
        above: what their mean has to exceed.
        below: what it has to stay below.
        unless: as in `claims.compare`.
    """
    item += f", above {above:g}" if above > -1 else ""
    item += f", below {below:g}" if below < 1 else ""
    if values.isna().all() and len(values):
        return Claim(item, paper, "", None, "undecided", note=without(values, "correlation"))
    if operators.min() < FEWEST_OPERATORS:
        mean = round(float(values.mean()), 4)
        return Claim(item, paper, mean, spread(values), "undecided")  # why is said by all claims
    with np.errstate(divide="ignore"):
        limits = {"above": float(np.arctanh(above)), "below": float(np.arctanh(below))}
    found = transformed(values, operators)
    claim = compare(
        item, paper, found, examples_error=rank_error(operators), unless=unless, **limits
    )
    if claim.status == "not run":
        return claim
    ends = [None if end is None else float(f"{np.tanh(end):.4g}") for end in claim[5:7]]
    claim = claim._replace(
        ours=round(float(values.mean()), 4), spread=spread(values), low=ends[0], high=ends[1]
    )
    return doubted(claim._replace(note=_of_operators(claim.note)), [without(values, "correlation")])


def not_told_apart(early: pd.Series, initial: pd.Series, operators: pd.Series) -> str:
    """Says why an early loss foretells no more than the loss on growing; empty where it does.

    It does where all of an interval of the difference is above 0: of Fisher's z, seed by seed, and
    over operators. The errors of operators are added as those of independent correlations, which
    overstates them where both are positive. Losses on growing that are equal foretell nothing.
    Fewer operators than decide anything say so themselves.

    Args:
        early: rank correlations of an early loss with the final one, one a seed.
        initial: those of the loss on growing.
        operators: of each seed.
    """
    if operators.min() < FEWEST_OPERATORS:
        return ""
    known = initial.astype(float).fillna(0.0)
    more = transformed(early, operators) - transformed(known, operators)
    error = float(np.sqrt(2)) * rank_error(operators)
    claim = compare("", "", more, above=0.0, examples_error=error)
    if claim.status == "undecided":
        return f"whether the loss on growing tells less is undecided: {_of_operators(claim.note)}"
    return "the loss on growing tells as much" if claim.status == "not shown" else ""


def _of_operators(note: str) -> str:
    return note.replace("test examples", "operators")
