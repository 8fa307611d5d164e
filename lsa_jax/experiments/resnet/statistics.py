"""Statistics of errors on test examples that each seed draws, at several settings."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy

from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, ends, half_length, variance

# No error is taken to be smaller.
_LEAST = 1e-30


def of_seeds(own: Runs, column: str, error: Callable[[int], float]) -> Sample:
    """Returns a column by seed, for one seed with the error due to its test examples."""
    counts = own.finished["num_test"]
    count = int(counts.min()) if len(counts) else None
    return Sample(
        own.by_seed(column),
        shared=False,
        error=error(count) if count else 0.0,
        count=count,
        lost=own.lost(column),
        equal=own.equal_seeds(),
    )


def by_cell(
    own: Runs, by: Sequence[str], *, column: str = "test_error", best: bool = False, chosen: int = 1
) -> dict[tuple, Sample]:
    """Returns errors at several settings, such as widths, on a logarithmic scale.

    One seed has the error due to its test examples, several seeds have Student's interval. `best`
    is whether the best setting is of interest, for which Bonferroni's correction allows; each seed
    uses the best of `chosen` candidates.
    """
    groups, samples = list(own.finished.groupby(list(by), dropna=False)), {}
    tries = len(groups) if best else 1
    for key, rows in groups:
        runs = own._replace(finished=rows)
        cell = of_seeds(runs, column, lambda count, r=runs: _relative_error(r, count))
        cell = cell._replace(values=np.log(cell.values.clip(lower=_LEAST)), scale="log")
        if len(cell.values):
            samples[key] = _corrected(cell, tries, chosen) if tries * chosen > 1 else cell
    return samples


def decisive(
    by: Sequence[str],
    claim: Literal["all above", "all below", "one below"],
    bound: float,
    *,
    column: str = "test_error",
    chosen: int = 1,
    **settings: Any,
) -> Statistic:
    """Returns the error that decides a claim about the errors at several settings.

    The first that exists of: an error whose whole interval decides by itself, such as below a bound
    that all are claimed to be above; one whose interval contains the bound; the nearest error. See
    `by_cell`.
    """
    sign, best = -1 if claim == "all below" else 1, claim == "one below"

    def place(sample: Sample) -> tuple[int, float]:
        low, high = sorted(sign * float(end) for end in ends(sample))
        not_below = sum(end >= sign * math.log(bound) for end in (low, high))
        return not_below, high if best else low

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        found = by_cell(own, by, column=column, best=best, chosen=chosen)
        decides = min(found.values(), key=place, default=Sample(pd.Series(dtype=float)))
        return decides._replace(lost=own.lost(column))

    return statistic


def _relative_error(runs: Runs, count: int) -> float:
    """Returns the relative standard error of a mean squared error.

    That of the kept errors; without them, sqrt(2 / n) as for squares of n normal numbers.
    """
    rows = runs.finished
    ids = rows["id"] if "id" in rows else []
    kept = [
        np.square(runs.outcomes[one].values, dtype=float) for one in ids if one in runs.outcomes
    ]
    if not kept or len(kept) < len(rows):
        return (2 / count) ** 0.5
    return float(np.mean([own.std() / max(own.mean(), _LEAST) / len(own) ** 0.5 for own in kept]))


def _corrected(sample: Sample, tries: int, chosen: int) -> Sample:
    """Widens the interval of one of several samples, whose seeds each chose a candidate.

    The choice makes the error of every seed too small, so its allowance does not shrink with seeds.
    """
    seeds, mean = len(sample.values), float(sample.values.mean())

    def wider(tail: float) -> tuple[float, float]:
        spread = half_length(variance(sample), seeds, tail / tries) if seeds > 1 else 0.0
        allowed = scipy.stats.norm.isf(tail / (tries * chosen)) * sample.error
        reach = np.hypot(spread, allowed if seeds == 1 or chosen > 1 else 0.0)
        return mean - reach, mean + reach

    return sample._replace(ends=wider)
