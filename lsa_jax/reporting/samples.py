"""Samples of a statistic over seeds and test examples, and their confidence intervals."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy

from lsa_jax.reporting.runs import Runs

# Probability outside of a 95 % interval, on either side.
TAIL = 0.025
ScaleName = Literal["linear", "log", "fisher"]
# From natural units to the scale on which an interval is computed, and back.
SCALES: dict[ScaleName, tuple[Callable, Callable]] = {
    "linear": (lambda v: v, lambda v: v),
    "log": (np.log, np.exp),
    "fisher": (np.arctanh, np.tanh),
}
DOMAINS = {"linear": (-np.inf, np.inf), "log": (0.0, np.inf), "fisher": (-1.0, 1.0)}
_MOST_SEEDS = 1000


class Sample(NamedTuple):
    """Measurements of one statistic."""

    values: pd.Series  # by seed, on the scale
    # [seeds, examples], whose rows have the means `values`; None where runs kept no outcomes.
    examples: np.ndarray | None = None
    shared: bool = True  # whether the seeds have the same test examples
    error: float = 0.0  # standard error of a value due to its test examples, without `examples`
    # By how much a value times the number of examples changes with one outcome. Equal outcomes have
    # the error of one more example in either direction.
    unit: float = 1.0
    count: int | None = None  # test examples of a run; None where the statistic has none
    scale: ScaleName = "linear"  # see `SCALES`
    exact: bool = False  # computed rather than estimated: the values have no interval
    lost: str = ""  # names planned runs without a result
    equal: bool = False  # whether all seeds have equal results, so that nothing was drawn
    tests: tuple[str, ...] = ()  # by seed, which test set the examples are of
    # Independent runs behind the statistic, where it is not one value a run; 1 where `ends` are
    # those of one run, as it would vary with the seed.
    units: int | None = None
    extra: float = 0.0  # standard error of a number that was subtracted, such as the paper's
    # `(tail) -> (low, high)` of statistics with an interval of their own.
    ends: Callable[[float], tuple[float, float]] | None = None
    bounds: tuple[float, float] = (-np.inf, np.inf)  # possible values; intervals end there


Statistic = Callable[[Runs], Sample]


class Variance(NamedTuple):
    """Variance of a mean over seeds, by cause."""

    of_seeds: float  # between seeds, to be divided by their number
    of_examples: float  # due to shared test examples: more seeds leave it as it is


def interval(sample: Sample) -> Callable[[float], tuple[float, float]]:
    """Returns `tail -> (low, high)` of a sample's mean, see `ends`."""
    mean = float(sample.values.mean())
    if sample.exact:
        return lambda tail: (mean, mean)
    if sample.ends is not None:
        return sample.ends
    found = variance(sample)

    def both(tail: float) -> tuple[float, float]:
        reach = half_length(found, len(sample.values), tail)
        return mean - reach, mean + reach

    return both


def ends(sample: Sample, tail: float = TAIL) -> tuple[float, float]:
    """Returns the ends of the interval of a sample's mean, on the sample's scale.

    Student's t over seeds, and in quadrature the error that the seeds have in common, of the
    normal distribution: that of shared test examples, crossed with the seeds (Owen, 2007; Owen and
    Eckles, 2012). Where each seed draws its own test set, the spread over seeds contains the error
    of the examples. One quantile for both parts, with Satterthwaite's degrees of freedom, covers
    92 % in place of 95 % at three seeds that differ by more than their examples do.

    Low and high are equal for exact values, NaN where nothing bounds the error.
    """
    return interval(sample)(tail)


def variance(sample: Sample) -> Variance:
    """Returns the variance of a sample's mean, by what causes it."""
    seeds, d = len(sample.values), sample.examples
    spread = float(sample.values.var(ddof=1)) if seeds > 1 else 0.0
    if d is None:
        of_examples = sample.error**2 if sample.shared or seeds == 1 else 0.0
        own = sample.count is not None and not sample.shared  # each seed's own test set
        least = 2 * (sample.unit / sample.count) ** 2 if own else 0.0
        return Variance(max(spread, least), of_examples + sample.extra**2)
    count = d.shape[1]
    least = 2 * (sample.unit / count) ** 2  # one more example in either direction
    of_examples = 0.0
    if seeds == 1:
        of_examples = max(float(d.var(ddof=1)) / count, least)
    elif sample.shared:
        # Of the crossed effects: what examples vary by beyond the noise of seed by example.
        columns = d.mean(0)
        residual = d - d.mean(1)[:, None] - columns + d.mean()
        noise = (residual**2).sum() / ((seeds - 1) * (count - 1))
        of_examples = max((seeds * columns.var(ddof=1) - noise) / (seeds * count), least)
    return Variance(max(spread, least), of_examples + sample.extra**2)


def half_length(variance: Variance, seeds: int, tail: float) -> float:
    """Returns half the length of an interval over so many seeds; NaN where nothing bounds it."""
    # Quantiles of scipy.special take a hundredth of the time of scipy.stats; plans ask for many.
    normal = -float(scipy.special.ndtri(tail))
    if seeds < 2:
        return normal * variance.of_examples**0.5 if variance.of_examples else np.nan
    student = -float(scipy.special.stdtrit(seeds - 1, tail))
    of_seeds = student * (variance.of_seeds / seeds) ** 0.5
    return float(np.hypot(of_seeds, normal * variance.of_examples**0.5))


def needed(sample: Sample, distance: float, tail: float = TAIL) -> str:
    """Returns how many seeds or test examples would part a mean from a number, in words.

    The number is at this distance on the sample's scale, within the interval of this tail.
    """
    seeds, (low, high) = len(sample.values), ends(sample, tail)
    if sample.ends is not None and sample.units == 1 and distance > 0 and high > low:
        of_seeds = ((high - low) / (2 * scipy.stats.norm.isf(tail))) ** 2
        count = _fewest(Variance(of_seeds, 0.0), 2, distance, tail)
        words = f"about {count} seeds" if count else f"more than {_MOST_SEEDS} seeds"
        return f"{words}, if seeds vary as the interval of this one"
    if sample.ends is not None or not distance > 0:
        return "more seeds or test examples"
    of_seeds, of_examples = variance(sample)
    if seeds < 2 and not of_examples:
        return "2 seeds or more"
    fixed, times = scipy.stats.norm.isf(tail) * of_examples**0.5, 1.0
    if seeds < 2 or fixed >= distance:
        times = 2 * (fixed / distance) ** 2  # half of the variance is left to the seeds
    words = ["2 seeds or more"] if seeds < 2 else []
    if seeds > 1:
        count = _fewest(Variance(of_seeds, of_examples / times), seeds, distance, tail)
        if count is None:
            words = [f"more than {_MOST_SEEDS} seeds"]
        elif count > seeds or times == 1:
            words = [f"about {max(count, seeds + 1)} seeds"]
    if times != 1:
        words.append(f"about {times:.1f} times as many test examples")
    return " and ".join(words)


def _fewest(variance: Variance, first: int, distance: float, tail: float) -> int | None:
    """Returns the fewest seeds, from a first number on, whose half length is below a distance."""
    more = range(first, _MOST_SEEDS + 1)
    return next((n for n in more if half_length(variance, n, tail) < distance), None)


def binomial_error(accuracy: float, examples: int) -> float:
    """Returns an accuracy's standard error, by Agresti and Coull (1998): not 0 at 0 or 1."""
    share = (accuracy * examples + 2) / (examples + 4)
    return float(np.sqrt(share * (1 - share) / (examples + 4)))


def share_ends(successes: int, trials: int, tail: float = TAIL) -> tuple[float, float]:
    """Returns the exact interval of a share of trials (Clopper and Pearson, 1934)."""
    found = scipy.stats.binomtest(successes, trials).proportion_ci(1 - 2 * tail)
    return float(found.low), float(found.high)


def fieller(
    top: float, bottom: float, top_variance: float, bottom_variance: float, tail: float
) -> tuple[float, float]:
    """Returns Fieller's (1954) interval of a ratio of two uncorrelated means.

    Infinite on both sides where the bottom cannot be told from 0.
    """
    q = scipy.stats.norm.isf(tail) ** 2
    a, b, c = bottom**2 - q * bottom_variance, top * bottom, top**2 - q * top_variance
    if a <= 0:
        return -np.inf, np.inf
    root = np.sqrt(max(b**2 - a * c, 0.0))
    return float((b - root) / a), float((b + root) / a)
