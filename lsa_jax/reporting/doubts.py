"""What speaks against relying on numbers of several seeds, and what becomes of a claim then.

What is left where other runs failed shows nothing. One seed, seeds that are equal to the last bit
and a handful of test examples tell nothing of others: they refute nothing either.
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lsa_jax.reporting.report import Claim

# With fewer, a number of test examples is not taken to be normal, and its interval is none.
FEWEST_EXAMPLES = 30
_MOST_NAMED = 3


def few_examples(count: float) -> str:
    """Says whether test examples are too few to decide anything; empty if they are not."""
    return f"{count:g} test examples are too few" if count < FEWEST_EXAMPLES else ""


def lost_runs(
    planned: Sequence[Mapping[str, object]], rows: pd.DataFrame, columns: Sequence[str] = ()
) -> str:
    """Names the runs that a sweep asks for and that have no result; empty of none.

    Args:
        planned: their settings.
        rows: results of those that did not fail.
        columns: in which they have to have finite numbers.
    """
    finite = np.isfinite(rows.reindex(columns=list(columns)).astype(float)).all(axis=1)
    missing = []
    for names, points in itertools.groupby(planned, key=tuple):
        there = rows[finite].reindex(columns=list(names)).itertuples(index=False, name=None)
        found = set(there)
        missing += [point for point in points if tuple(point.values()) not in found]
    return named_runs("have no result", missing, len(planned))


def named_runs(what: str, points: Sequence[Mapping[str, object]], of: int) -> str:
    """Says which runs something is true of, by their settings; empty of none.

    Args:
        what: is true of them, in words that follow "runs".
        points: their settings.
        of: number of all runs.
    """
    if not points:
        return ""
    told = [", ".join(f"{n} {v}" for n, v in point.items()) for point in points[:_MOST_NAMED]]
    more = len(points) - _MOST_NAMED
    told += [f"{more} more"] * (more > 0)
    return f"{len(points)} of {of} runs {what}: {'; '.join(told)}"


def no_sample(rows: pd.DataFrame, columns: Sequence[str], setting: Sequence[str] = ()) -> str:
    """Says why seeds are no sample of anything; empty if they are, and where nothing was run.

    Args:
        rows: of what is compared, with a column `seed`.
        columns: whose numbers are equal in all seeds where nothing was drawn.
        setting: what differs between the runs of a seed.
    """
    if rows.empty:
        return ""
    seeds = rows["seed"].nunique()
    if seeds < 2:
        return "it would take 2 seeds or more"
    numbers = rows[list(columns)].nunique()
    if setting:
        numbers = rows.groupby(list(setting))[list(columns)].nunique()
    return f"all of {seeds} seeds are equal" if (numbers <= 1).all(axis=None) else ""


def doubted(claim: Claim, against: Sequence[str] = (), refuted: Sequence[str] = ()) -> Claim:
    """Returns a claim as undecided where something speaks against it.

    Args:
        claim: to be doubted; what was not run stays so, and has the reasons in its note.
        against: reasons not to take it as shown; those that are empty count for nothing.
        refuted: reasons to take it neither as shown nor as refuted.
    """
    if claim.status == "measured":
        return claim
    reasons = [why for why in refuted if why]
    if claim.status != "not shown":
        reasons = [why for why in against if why] + reasons
    if not reasons:
        return claim
    known = claim.note.split("; ") if claim.note else []
    note = "; ".join(dict.fromkeys([*reasons, *known]))
    status = "not run" if claim.status == "not run" else "undecided"
    return claim._replace(status=status, note=note)
