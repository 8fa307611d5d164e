"""Statistics of errors on test examples that each seed draws: at one setting, or of several."""

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


def error(
    column: str = "test_error", *, tries: int = 1, chosen: int = 1, **settings: object
) -> Statistic:
    """Returns the statistic of an error, on a logarithmic scale.

    One seed has the error of its test examples: the mean square of n normal numbers varies by
    sqrt(2 / n) of itself. Several seeds have Student's interval. The best of several settings has a
    wider interval, by Bonferroni's correction.

    Args:
        column: of the error.
        tries: settings of which this may be the best.
        chosen: candidates of which each seed has the one with the least test error.
        **settings: of the runs.
    """

    def statistic(runs: Runs) -> Sample:
        sample = of_seeds(runs.where(**settings), column, lambda count: (2 / count) ** 0.5)
        logs = np.log(sample.values.clip(lower=_LEAST))
        sample = sample._replace(values=logs, scale="log")
        if tries * chosen == 1 or logs.empty:
            return sample
        return sample._replace(ends=lambda tail: _corrected(sample, tries, chosen, tail))

    return statistic


def by_cell(
    own: Runs, by: Sequence[str], *, column: str = "test_error", best: bool = False, chosen: int = 1
) -> dict[tuple, Sample]:
    """Returns the errors at several settings, each as one that may be the best where `best`."""
    groups = list(own.finished.groupby(list(by), dropna=False))
    one = error(column, tries=len(groups) if best else 1, chosen=chosen)
    samples = {key: one(own._replace(finished=rows)) for key, rows in groups}
    return {key: sample for key, sample in samples.items() if len(sample.values)}


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
        by: columns of the settings, such as the width.
        claim: about all errors, or about one or more, which may be the best by luck.
        bound: of the claim.
        column: as in `error`.
        chosen: likewise.
        **settings: likewise.
    """
    sign, limit, best = -1 if claim == "all below" else 1, np.log(bound), claim == "one below"

    def place(sample: Sample) -> tuple[int, float]:
        low, high = sorted(sign * end for end in ends(sample))
        return (high >= sign * limit) + (low >= sign * limit), high if best else low

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**settings)
        found = by_cell(own, by, column=column, best=best, chosen=chosen)
        decides = min(found.values(), key=place, default=Sample(pd.Series(dtype=float)))
        return decides._replace(lost=own.lost(column))

    return statistic


def _corrected(sample: Sample, tries: int, chosen: int, tail: float) -> tuple[float, float]:
    """Returns the interval of the best of several settings, whose seeds each chose a candidate.

    The choice makes the error of every seed too small, so its allowance does not shrink with seeds.
    """
    seeds = len(sample.values)
    spread = half_length(variance(sample), seeds, tail / tries) if seeds > 1 else 0.0
    of_examples = scipy.stats.norm.isf(tail / (tries * chosen)) * sample.error
    reach = np.hypot(spread, of_examples if seeds == 1 or chosen > 1 else 0.0)
    mean = float(sample.values.mean())
    return mean - reach, mean + reach
