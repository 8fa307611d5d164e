"""What speaks against relying on a number of several seeds: runs without one, and no sample.

What is left where others failed shows nothing. One seed, or seeds that are equal to the last bit,
tell nothing of others: they refute nothing either.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from lsa_jax.reporting.report import Claim

_MOST_NAMED = 3


def lost(
    planned: Sequence[Mapping[str, object]], rows: pd.DataFrame, columns: Sequence[str] = ()
) -> str:
    """Names the runs that a sweep asks for and that have no result; empty of none.

    Args:
        planned: their settings, all with the same names.
        rows: results of those that did not fail.
        columns: in which they have to have finite numbers.
    """
    if not planned:
        return ""
    found = rows.reindex(columns=[*planned[0], *columns])
    finite = np.isfinite(found[list(columns)].astype(float)).all(axis=1)
    there = set(found.loc[finite, list(planned[0])].itertuples(index=False, name=None))
    missing = [point for point in planned if tuple(point.values()) not in there]
    if not missing:
        return ""
    named = [", ".join(f"{n} {v}" for n, v in point.items()) for point in missing[:_MOST_NAMED]]
    more = len(missing) - _MOST_NAMED
    named += [f"{more} more"] * (more > 0)
    return f"{len(missing)} of {len(planned)} runs have no result: {'; '.join(named)}"


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
