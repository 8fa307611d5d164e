"""How a quantity grows with k: power laws fitted on logarithmic scales."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Shaped

# Nothing is shown of how a quantity grows over fewer k.
LEAST_POINTS = 3

_Numbers = Shaped[np.ndarray | pd.Series, " n"]


class PowerLaw(NamedTuple):
    """quantity = factor k^exponent, by least squares on logarithms.

    Attributes:
        exponent: the slope.
        error: its standard error; NaN for two points.
        low: lower end of the slope's 95% interval (Student's t); NaN for two points.
        high: upper end.
        factor: the quantity at k = 1.
    """

    exponent: float
    error: float
    low: float
    high: float
    factor: float


def fit_power_law(k: _Numbers, quantity: _Numbers, tail: float = 0.025) -> PowerLaw | None:
    """Fits a power law to positive quantities; None for fewer than two different k.

    The standard error counts deviations from a straight line as noise. For an exact quantity it
    measures how straight the line is.
    """
    k, quantity = np.asarray(k, float), np.asarray(quantity, float)
    if len(np.unique(k)) < 2 or not (quantity > 0).all():
        return None
    fit = scipy.stats.linregress(np.log(k), np.log(quantity))
    error = reach = np.nan
    if len(k) > 2:
        # SciPy has no error of a line through equal numbers, which is 0.
        error = fit.stderr if np.ptp(quantity) else 0.0
        reach = error * scipy.stats.t.isf(tail, len(k) - 2)
    found = (fit.slope, error, fit.slope - reach, fit.slope + reach, np.exp(fit.intercept))
    return PowerLaw(*map(float, found))


def describe(fit: PowerLaw, interval: bool = False) -> str:
    """Returns the exponent in words, ± its standard error (none for two points)."""
    if np.isnan(fit.error):
        return f"{fit.exponent:.3f} (two k)"
    ends = f" ({fit.low:.2f} to {fit.high:.2f})" if interval else ""
    return f"{fit.exponent:.3f} ± {fit.error:.3f}{ends}"


class Growth(NamedTuple):
    """The exponent between two neighbouring k, of a quantity that is known to within a margin.

    Attributes:
        values: by seed.
        below: by how much less their mean may be for that margin.
        above: by how much more.
    """

    values: pd.Series
    below: float
    above: float

    def reach(self, tail: float) -> float:
        """Returns half of Student's interval over seeds; infinite for one seed."""
        seeds = len(self.values)
        if seeds < 2:
            return np.inf
        return float(scipy.stats.t.isf(tail, seeds - 1) * self.values.std() / seeds**0.5)


def growths_of(
    k: Shaped[pd.Series, " n"],
    seed: Shaped[pd.Series, " n"],
    quantity: Shaped[pd.Series, " n"],
    within: float,
) -> list[Growth]:
    """Returns the exponents between neighbouring k, over the seeds that both have.

    The quantity is positive, and too large by less than `within`, the steps between evaluations.
    """
    table = pd.DataFrame({"k": k, "seed": seed, "value": quantity})
    table = table.pivot(index="seed", columns="k", values="value")
    found = []
    for low, high in zip(table.columns, table.columns[1:], strict=False):
        both, apart = table[[low, high]].dropna(), np.log(high / low)
        late = np.log(both / (both - within).clip(lower=0.0)).mean() / apart
        values = np.log(both[high] / both[low]) / apart
        found.append(Growth(values, float(late[high]), float(late[low])))
    return found


def reached_from(k: _Numbers, reached: _Numbers) -> float | None:
    """Returns the smallest k from which on all reach the target; None where the largest does not.

    k may repeat (seeds); all of one k must have reached the target.
    """
    k = np.asarray(k, float)
    missed = k[~np.asarray(reached, bool)]
    above = k[k > missed.max(initial=-np.inf)]
    return float(above.min()) if len(above) else None
