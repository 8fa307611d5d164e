"""Statistics of errors on test examples that each seed draws, at several settings."""

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import scipy.stats

from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, ends, half_length, variance

# No error is taken to be smaller.
_LEAST = 1e-30


def of_seeds(own: Runs, column: str, error: Callable[[int], float]) -> Sample:
    """Returns a column by seed, for one seed with the error that its test examples give it."""
    counts = own.finished["num_test"]
    return Sample(
        own.by_seed(column),
        shared=False,
        error=error(int(counts.min())) if len(counts) else 0.0,
        count=int(counts.min()) if len(counts) else None,
        lost=own.lost(column),
        equal=own.equal_seeds(),
    )


def by_cell(
    own: Runs, by: Sequence[str], *, column: str = "test_error", best: bool = False, chosen: int = 1
) -> dict[tuple, Sample]:
    """Returns errors at several settings, on a logarithmic scale.

    One seed has the error of its test examples: the mean square of n normal numbers varies by
    sqrt(2 / n) of itself. Several seeds have Student's interval.

    Args:
        own: the runs.
        by: columns of the settings, such as the width.
        column: of the errors.
        best: whether each may be the best of all by luck, for which Bonferroni's correction allows.
        chosen: candidates; each seed uses the one with its least test error.
    """
    groups, samples = list(own.finished.groupby(list(by), dropna=False)), {}
    tries = len(groups) if best else 1
    for key, rows in groups:
        cell = of_seeds(own._replace(finished=rows), column, lambda count: (2 / count) ** 0.5)
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
    **settings: object,
) -> Statistic:
    """Returns the error that decides a claim about the errors at several settings.

    That is one whose whole interval is on the side where it decides by itself, such as below a
    bound that all are to be above; else one whose interval contains the bound; else the one that
    comes nearest to it.

    Args:
        by: as in `by_cell`; likewise `column` and `chosen`.
        claim: about all errors, or about one or more, which may be the best by luck.
        bound: of the claim.
        column: see `by`.
        chosen: see `by`.
        **settings: of the runs.
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


def _corrected(sample: Sample, tries: int, chosen: int) -> Sample:
    """Returns one of several samples, whose seeds each chose a candidate, with a wider interval.

    The choice makes the error of every seed too small, so its allowance does not shrink with seeds.
    """
    seeds, mean = len(sample.values), float(sample.values.mean())

    def wider(tail: float) -> tuple[float, float]:
        spread = half_length(variance(sample), seeds, tail / tries) if seeds > 1 else 0.0
        allowed = scipy.stats.norm.isf(tail / (tries * chosen)) * sample.error
        reach = np.hypot(spread, allowed if seeds == 1 or chosen > 1 else 0.0)
        return mean - reach, mean + reach

    return sample._replace(ends=wider)
