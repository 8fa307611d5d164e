"""How fast a quantity falls with the size of the sample: a m^b through the largest of each size.

Karp (thesis, 2024), section 2.2 and appendix A.1: `scipy.optimize.curve_fit` on the maxima, which
is least squares in the quantity itself, so that the small sizes count most. Beside it the slope on
logarithmic axes and the fit through the means; the interval, by subsampling, is ours.
"""

import warnings
from typing import NamedTuple

import numpy as np
import scipy.optimize
from jaxtyping import Float

from lsa_jax.reporting.samples import TAIL

# Resamples of the pairs are drawn from here: equal tables give equal reports.
_SEED = 0

# A subsample has one of so many pairs.
_SHARE = 5

# Of fewer pairs, intervals by subsampling are too short: of two pairs they contain the exponent in
# three of four tables.
LEAST_PAIRS = 4


class Decay(NamedTuple):
    """A quantity against m.

    Attributes:
        exponent: b of a m^b through the maxima.
        factor: a.
        low: lower end of the 95% interval of b, by subsampling.
        high: upper end.
        log_slope: slope of the logarithms of the maxima.
        mean_exponent: b through the means.
        subsampled: b of subsamples; NaN for those without a fit.
    """

    exponent: float
    factor: float
    low: float
    high: float
    log_slope: float
    mean_exponent: float
    subsampled: Float[np.ndarray, " resamples"]


def _power(m: np.ndarray, factor: float, exponent: float) -> np.ndarray:
    return factor * m**exponent


def fit_power(
    m: Float[np.ndarray, " sizes"], values: Float[np.ndarray, " sizes"]
) -> tuple[float, float] | None:
    """Returns (a, b) of the least-squares curve a m^b.

    Returns None for fewer than three sizes, values that are not positive and finite, or no
    convergence.
    """
    m, values = np.asarray(m, float), np.asarray(values, float)
    if len(m) < 3 or not (values > 0).all() or not np.isfinite(values).all():
        return None
    # In units of a typical size: the same curve, but a of the values' own order of magnitude.
    unit = np.exp(np.mean(np.log(m)))
    slope, intercept = np.polyfit(np.log(m / unit), np.log(values), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.optimize.OptimizeWarning)  # its errors are not used
        try:
            found, _ = scipy.optimize.curve_fit(
                _power, m / unit, values, p0=(np.exp(intercept), slope), maxfev=5000
            )
        except RuntimeError:
            return None
    return float(found[0] * unit ** -found[1]), float(found[1])


def fit_decay(
    m: Float[np.ndarray, " sizes"], samples: list[Float[np.ndarray, " _"]], resamples: int
) -> Decay | None:
    """Fits the maxima of each size, with an interval from subsamples of a fifth of the pairs.

    The bootstrap of a maximum is not consistent (63% of the resamples have the sample's own), so
    that it finds exponents in noise. Subsampling, Politis and Romano (1994), has what a maximum of
    a fifth of the pairs varies by, in place of one of all: of heavy tails the logarithm of either
    varies alike, of light ones that of the subsample more, and the interval is too long.

    The interval is the symmetric one of Politis, Romano and Wolf, Subsampling (1999). Of made-up
    pairs with and without a power law (3, 5 and 8 sizes, 4 to 90 pairs; normal, uniform,
    exponential, lognormal and Pareto tails) 96% to 100% of such intervals contain the exponent,
    and as many that of a difference. What the subsamples vary by about their median, upright or
    reflected, contains it in as few as three of four tables of heavy tails. Where tails grow
    shorter or longer with m, the maximum of a fifth of the pairs falls otherwise than that of all,
    and about 90% of the symmetric intervals contain the exponent.

    Args:
        m: sizes, rising.
        samples: the quantity of every pair, by size.
        resamples: how many subsamples. Those without a fit (a maximum that is not positive) count
            as infinitely far off; where that is one in twenty, or there are fewer pairs than
            `LEAST_PAIRS`, there is no interval.

    Returns:
        The fit, or None where the maxima have none, or where a pair has no finite number, which
        may be the largest. Missing parts are not-a-number.
    """
    if not all(np.isfinite(values).all() for values in samples):
        return None
    maxima = np.array([values.max() for values in samples])
    fit = fit_power(m, maxima)
    if fit is None:
        return None
    rng = np.random.default_rng(_SEED)
    subsampled = np.full(resamples, np.nan)
    for place in range(resamples if min(map(len, samples)) >= LEAST_PAIRS else 0):
        drawn = [
            rng.permutation(values)[: max(len(values) // _SHARE, 1)].max() for values in samples
        ]
        if (again := fit_power(m, np.array(drawn))) is not None:
            subsampled[place] = again[1]
    low, high = interval(fit[1], subsampled)
    mean_fit = fit_power(m, np.array([values.mean() for values in samples]))
    return Decay(
        exponent=fit[1],
        factor=fit[0],
        low=low,
        high=high,
        log_slope=float(np.polyfit(np.log(m), np.log(maxima), 1)[0]),
        mean_exponent=np.nan if mean_fit is None else mean_fit[1],
        subsampled=subsampled,
    )


def interval(
    estimate: float, values: Float[np.ndarray, " resamples"], tail: float = TAIL
) -> tuple[float, float]:
    """Returns the symmetric interval by subsampling, of an exponent or a difference of two.

    Subsamples with the same number have the same pairs in two fits: their draws depend on nothing
    but the numbers of pairs, so that the difference of two exponents is paired.

    Args:
        estimate: from all pairs.
        values: from each subsample; those that are not numbers count as infinitely far away.
        tail: probability outside of the interval on either side.

    Returns:
        Both ends, NaN where too many subsamples have no number, or for tails that are rarer than
        one subsample.
    """
    if tail < min(TAIL, 0.5 / len(values)):
        return np.nan, np.nan
    away = np.nan_to_num(np.abs(values - estimate), nan=np.inf)
    reach = np.quantile(away, 1 - 2 * tail, method="higher")
    if np.isinf(reach):
        return np.nan, np.nan
    return float(estimate - reach), float(estimate + reach)
