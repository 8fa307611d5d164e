"""Errors of seeds beside bounds: at one setting, or at several at once, such as widths.

Intervals are of logarithms of errors, over seeds and test examples. What is least of several, or
was chosen by its test error, has to be below a bound by as much wider an interval: Bonferroni's.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import scipy.stats

from lsa_jax.reporting.claims import compare, not_run, spread
from lsa_jax.reporting.doubts import doubted, few_examples
from lsa_jax.reporting.intervals import REACH, TAIL
from lsa_jax.reporting.report import Claim, Status

At = Literal["every", "some"]
# Of several settings, the one that decides has the first of these: one exception refutes "every".
_FIRST: dict[At, tuple[Status, ...]] = {
    "every": ("not shown", "undecided", "shown"),
    "some": ("shown", "undecided", "not shown"),
}


def logarithms(errors: pd.Series) -> pd.Series:
    """Returns logarithms of errors, of which none is taken to be below 1e-30."""
    return np.log(errors.astype(float).clip(lower=1e-30))


def examples_error(num_test: int) -> float:
    """Returns the standard error of an error's logarithm that the test examples make.

    The mean square of n normal numbers has a relative error of sqrt(2 / n): an estimate.
    """
    return float(np.sqrt(2 / num_test))


def cells(
    rows: pd.DataFrame, axis: str, places: Iterable[Hashable], seeds: Sequence[int]
) -> dict[Hashable, pd.Series]:
    """Returns the error of every seed at every place; NaN where a run failed or is not there.

    Args:
        rows: of one learner.
        axis: column that the places are in, such as the width.
        places: that the sweep asks for; None is that of a learner that has no such column.
        seeds: likewise.
    """
    found = {}
    for place in places:
        here = rows if place is None else rows[rows[axis] == place]
        found[place] = here.groupby("seed")["test_error"].median().reindex(list(seeds))
    return found


def gaps(errors: Iterable[pd.Series]) -> str:
    """Says how many runs have no error, from whose survivors nothing is shown; empty if none."""
    finite = np.concatenate([np.isfinite(e.astype(float)) for e in errors] or [np.ones(0, bool)])
    return (
        "" if finite.all() else f"{(~finite).sum()} of {len(finite)} runs failed or are not there"
    )


def candidates(rows: pd.DataFrame) -> int:
    """Returns of how many candidates a search has the one of least test error; 1 if of none."""
    tried = rows.reindex(columns=["candidates"])["candidates"].astype(float).max()
    return 1 if np.isnan(tried) else int(tried)


def errors_claim(
    names: Sequence[str],
    errors: pd.Series,
    *,
    num_test: int,
    unless: str = "",
    above: float = 0.0,
    below: float = np.inf,
    refuted_from: float = 0.0,
    tries: int = 1,
    chosen_of: int = 1,
) -> Claim:
    """Compares errors of seeds with bounds, on a logarithmic scale; ours is their median.

    Args:
        names: item, and what the paper says.
        errors: one a seed; one that is not finite is that of a run that failed.
        num_test: test examples.
        unless: as in `claims.compare`.
        above: what they have to exceed.
        below: what they have to stay below.
        refuted_from: what they have to exceed to refute that, where it is more than `below`.
        tries: of how many settings this may be the best.
        chosen_of: of how many candidates each seed has the one with the least test error.
    """
    failed = gaps([errors])
    unless = unless or failed
    errors = errors[np.isfinite(errors.astype(float))]
    with np.errstate(divide="ignore"):
        limits = {"above": float(np.log(above)), "below": float(np.log(below))}
    error = examples_error(num_test) * _reach(tries * chosen_of) / REACH
    values = _widened(logarithms(errors), tries)
    claim = compare(*names, values, **limits, examples_error=error, unless=unless)
    if claim.status == "not run":
        return claim._replace(note=failed)
    ends = [None if end is None else float(np.exp(end)) for end in (claim.low, claim.high)]
    claim = claim._replace(
        ours=float(errors.median()), spread=spread(errors), low=ends[0], high=ends[1]
    )
    if claim.status == "not shown" and claim.low < refuted_from:
        claim = doubted(claim, refuted=[f"it may be below {refuted_from:g}, and not {below:g}"])
    return doubted(claim, refuted=[no_sample(errors, num_test)])


def no_sample(values: pd.Series, num_test: int) -> str:
    """Says why seeds or test examples are no sample that could decide anything; empty if they are.

    Seeds that are equal to the last bit have not been drawn, or drew nothing that matters.
    """
    if len(values) > 1 and values.nunique() == 1:
        return f"all of {len(values)} seeds are equal"
    return few_examples(num_test)


def errors_at(
    at: At,
    names: Sequence[str],
    errors: Mapping[Hashable, pd.Series],
    *,
    below: float = np.inf,
    unless: str = "",
    **options,
) -> Claim:
    """Compares errors with bounds at several settings at once, and returns what decides.

    At every one: all intervals have to be on the claim's side, and no run may be missing. At some:
    one interval has to, that of so many settings at once; and none may be missing to refute it.

    Args:
        at: every or some.
        names: item, and what the paper says.
        errors: of seeds, by setting, as `cells` returns them.
        below: as in `errors_claim`.
        unless: likewise.
        **options: of `errors_claim`.
    """
    failed = gaps(errors.values())
    unless = unless or (failed if at == "every" else "")
    tries = len(errors) if at == "some" else 1
    found = [
        errors_claim(names, e, below=below, unless=unless, tries=tries, **options)
        for e in errors.values()
    ]
    ran = [claim for claim in found if claim.status != "not run"]
    if not ran:
        return not_run(*names, note=failed)
    # The worst of every, the best of some; that is the least, but for every one below a bound.
    sign = -1 if at == "every" and below < np.inf else 1
    end = "high" if below < np.inf else "low"
    claim = min(ran, key=lambda c: (_FIRST[at].index(c.status), sign * (getattr(c, end) or 0.0)))
    refuted = at == "some" and claim.status == "not shown"
    return doubted(claim, refuted=[failed]) if refuted else claim


def as_measured(claim: Claim) -> Claim:
    """Returns a claim of which the paper says nothing that could be shown."""
    return claim if claim.status == "not run" else claim._replace(status="measured")


def _reach(tries: int) -> float:
    """Returns how many standard errors an interval reaches that is one of several at once."""
    return float(scipy.stats.norm.isf((1 - TAIL) / tries))


def _widened(values: pd.Series, tries: int) -> pd.Series:
    """Moves values away from their mean, so that its interval is that of one of several at once."""
    free = len(values) - 1
    if free < 1 or tries == 1:
        return values
    wider = scipy.stats.t.isf((1 - TAIL) / tries, free) / scipy.stats.t.isf(1 - TAIL, free)
    return values.mean() + wider * (values - values.mean())
