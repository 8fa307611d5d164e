"""Intervals of what was measured: over seeds, over test examples, over both.

Intervals are of 95 %. Everything random takes an explicit key.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Float

LEVEL = 0.95
TAIL = (1 + LEVEL) / 2
# An interval of a number whose error is known reaches so many errors.
REACH = float(scipy.stats.norm.ppf(TAIL))
_RESAMPLES = 2000

Values = Sequence[float] | np.ndarray | pd.Series


class Interval(NamedTuple):
    """A mean over seeds and where it may be.

    Attributes:
        mean: over seeds.
        low: lower end; not-a-number where there is nothing to tell how far it may be off.
        high: upper end.
        seeds: how many values there are.
        spread: their standard deviation; not-a-number for fewer than two.
        examples_error: standard error from the draw of test examples.
    """

    mean: float
    low: float
    high: float
    seeds: int
    spread: float
    examples_error: float


def half_length(spread: float, seeds: int, examples_error: float) -> float:
    """Returns half the length of an interval: that of seeds and that of examples, in quadrature."""
    of_examples = REACH * examples_error
    if seeds < 2:
        return of_examples if examples_error > 0 else np.nan
    return float(
        np.hypot(scipy.stats.t.ppf(TAIL, seeds - 1) * spread / np.sqrt(seeds), of_examples)
    )


def over_seeds(values: Values, examples_error: float = 0.0) -> Interval:
    """Returns the interval of a mean over seeds: Student's t, missing values left out.

    Args:
        values: one a seed.
        examples_error: standard error of each from the draw of its test examples, which seeds may
            share; with one seed it is all there is.
    """
    found = pd.Series(values, dtype=float).dropna()
    mean = float(found.mean()) if len(found) else np.nan
    spread = float(found.std()) if len(found) > 1 else np.nan
    reach = half_length(spread, len(found), examples_error)
    return Interval(mean, mean - reach, mean + reach, len(found), spread, examples_error)


def binomial_error(accuracy: float, examples: int) -> float:
    """Returns an accuracy's standard error, by Agresti and Coull (1998): not 0 at 0 or 1."""
    share = (accuracy * examples + 2) / (examples + 4)
    return float(np.sqrt(share * (1 - share) / (examples + 4)))


def difference_error(
    first: float, second: float, examples: int, both: float | None = None
) -> float:
    """Returns the standard error of a difference of two accuracies on the same examples.

    Args:
        first: an accuracy.
        second: the other.
        examples: of the test.
        both: share of examples that both have right: the paired error, of McNemar (1947). Without
            it errors count as independent, which they exceed where one's mistakes are the other's.
    """
    if both is None:
        return float(np.hypot(binomial_error(first, examples), binomial_error(second, examples)))
    # One more example of either kind: no error is 0.
    only = np.array([first - both, second - both]) * examples + 1
    only /= examples + 2
    return float(np.sqrt((only.sum() - (only[0] - only[1]) ** 2) / (examples + 2)))


def ratio_error(top: float, bottom: float, examples: int, key: int) -> float:
    """Returns the standard error of a ratio of accuracies: bootstrap over their test examples."""
    rng = np.random.default_rng(key)
    drawn = [
        rng.binomial(examples + 4, (share * examples + 2) / (examples + 4), size=_RESAMPLES)
        for share in (top, bottom)
    ]
    return float(np.std(drawn[0] / np.maximum(drawn[1], 1)))


def jackknife(
    seeds: Sequence[Any] | np.ndarray, statistic: Callable[[list[Any]], float]
) -> Float[np.ndarray, " seeds"]:
    """Returns a value a seed for a statistic of all seeds at once, for `compare` and `over_seeds`.

    Their mean is the statistic, and their spread tells its error as the spread of numbers of seeds
    tells that of their mean: Tukey's (1958) pseudo-values, moved to the statistic itself.

    Args:
        seeds: what it is computed from.
        statistic: `(some of the seeds) -> number`.
    """
    seeds = list(seeds)
    count, found = len(seeds), statistic(seeds) if seeds else np.nan
    if count < 2:
        return np.full(count, found)
    without = np.array([statistic(seeds[:at] + seeds[at + 1 :]) for at in range(count)])
    return found - (count - 1) * (without - without.mean())
