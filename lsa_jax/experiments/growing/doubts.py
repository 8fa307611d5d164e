"""What speaks against relying on the numbers of a few seeds and operators.

One seed, seeds that are equal to the last bit and three operators or fewer decide nothing: any
three are in the order of their final losses once in six times by luck. What is left where seeds or
operators failed, or where equal losses have no order, shows nothing.
"""

from collections.abc import Sequence

import ml_collections
import pandas as pd

from lsa_jax.reporting.report import Claim

FEWEST_OPERATORS = 4
_ONE_SEED = "it would take 2 seeds or more"


def missing_seeds(config: ml_collections.ConfigDict, seeds: Sequence[int] | pd.Series) -> str:
    """Names the seeds that a sweep asks for and that have no numbers; empty of none."""
    there, asked = set(seeds), config.sweep.seed
    lost = [f"{seed}" for seed in asked if seed not in there]
    return f"{len(lost)} of {len(asked)} seeds have no numbers: {', '.join(lost)}" if lost else ""


def missing_operators(config: ml_collections.ConfigDict, numbers: pd.DataFrame) -> str:
    """Names the seeds of which not all operators came to their end; empty of none."""
    axes = config.sweep
    asked = len(axes.index) * len(axes.block_size) * len(axes.source)
    few = numbers[numbers["operators"] < asked]
    pairs = zip(few["seed"], few["operators"], strict=True)
    named = [f"seed {seed} has {count:g} of {asked} operators" for seed, count in pairs]
    return "; ".join(named)


def few_operators(numbers: pd.DataFrame) -> str:
    """Says that there are too few operators to decide anything; empty where there are not."""
    few = (numbers["operators"] < FEWEST_OPERATORS).any()
    return f"it would take {FEWEST_OPERATORS} operators or more" if few else ""


def no_sample(rows: pd.DataFrame, columns: Sequence[str]) -> str:
    """Says that there is one seed, or that seeds are equal in all columns; empty if neither."""
    if len(rows) < 2:
        return _ONE_SEED if len(rows) else ""
    return f"all of {len(rows)} seeds are equal" if (rows[columns].nunique() <= 1).all() else ""


def without(values: pd.Series, what: str) -> str:
    """Says in how many seeds something has no number; empty if in none."""
    lost = int(values.isna().sum())
    return f"{lost} of {len(values)} seeds have no {what}" if lost else ""


def doubted(claim: Claim, against: Sequence[str] = (), refuted: Sequence[str] = ()) -> Claim:
    """Returns a claim as undecided where something speaks against it.

    Args:
        claim: to be doubted; what was not run stays so, with the reasons in its note.
        against: reasons not to take it as shown; those that are empty count for nothing.
        refuted: reasons to take it neither as shown nor as refuted.
    """
    reasons = [why for why in refuted if why]
    if claim.status != "not shown":
        reasons = [why for why in against if why] + reasons
    if not reasons:
        return claim
    known = claim.note.split("; ") if claim.note else []
    note = "; ".join(dict.fromkeys([*reasons, *known]))
    status = "not run" if claim.status == "not run" else "undecided"
    return claim._replace(status=status, note=note)
