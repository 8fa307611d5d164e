"""How fast quantities fall with the size of the sample, and accuracy between two models.

A curve a m^b is fitted through the largest quantity of each size, as by `scipy.optimize.curve_fit`
(Karp, thesis, 2024, section 2.2 and appendix A.1): least squares in the quantity itself, so that
the small sizes count most. The interval by subsampling is ours.
"""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
import scipy.optimize
from jaxtyping import Float

from lsa_jax.experiments.stability.samples import QUANTITIES
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic, binomial_error
from lsa_jax.sweep.fields import Config

# Resamples of the pairs are drawn from here: equal tables give equal reports.
_SEED = 0
# A subsample has one of so many pairs.
_SHARE = 5
# Of fewer pairs, intervals by subsampling are too short: of two pairs they contain the exponent in
# three of four tables.
LEAST_PAIRS = 4
_MOST_TEST_IMAGES = 10_000

_CONVERGED = (1, 2, 3, 4)  # of MINPACK's results

CURVE = ["learner", "perturbation", "seed", "step"]
# The exponent less that of the loss gap, its interval, and the same of each subsample of the pairs.
DIFFERENCE = ("less_gap", "less_gap_low", "less_gap_high", "less_gap_subsampled")
# Columns of arrays, which no file holds.
SUBSAMPLED = {"exponent": "subsampled", "less_gap": "less_gap_subsampled"}
# Figure A.1: the loss gap below a size, and from it on.
RANGES = ("loss_gap_below", "loss_gap_above")


class Decay(NamedTuple):
    """A quantity against m."""

    exponent: float  # b of a m^b through the maxima
    factor: float  # a
    low: float  # lower end of the 95 % interval of b, by subsampling
    high: float  # upper end
    subsampled: Float[np.ndarray, " resamples"]  # b of subsamples; NaN for subsamples without a fit


def power_fit(m: Float[np.ndarray, " sizes"]) -> Callable:
    """Returns `values [sizes] -> (a, b)` of the least-squares curve a m^b through them.

    It is None for fewer than three sizes, values that are not positive and finite, or no
    convergence.
    """
    # In units of a typical size: the same curve, but a of the values' own order of magnitude.
    unit = np.exp(np.mean(np.log(m)))
    place, logs = m / unit, np.log(m / unit)

    def fit(values: np.ndarray) -> tuple[float, float] | None:
        if len(m) < 3 or not (values > 0).all() or not np.isfinite(values).all():
            return None
        slope, intercept = np.polyfit(logs, np.log(values), 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the status is looked at
            (factor, exponent), status = scipy.optimize.leastsq(
                lambda curve: curve[0] * place ** curve[1] - values,
                (np.exp(intercept), slope),
                maxfev=5000,
            )
        if status not in _CONVERGED:
            return None
        return float(factor * unit**-exponent), float(exponent)

    return fit


def fit_decay(
    m: Float[np.ndarray, " sizes"], samples: list[Float[np.ndarray, " _"]], resamples: int
) -> Decay | None:
    """Fits the maxima of each size, with an interval from subsamples of a fifth of the pairs.

    The bootstrap of a maximum is not consistent: 63 % of its resamples have the sample's own.
    Subsampling (Politis, Romano and Wolf, 1999) covers the exponent in 96 to 100 % of tables with
    normal, uniform, exponential, lognormal and Pareto tails, and in about 90 % where tails grow
    shorter or longer with m. `m` rises, and `samples` has the quantity of every pair by size.

    Returns None where the maxima have no fit, or a pair has no finite number: it may be the
    largest.
    """
    if not all(np.isfinite(values).all() for values in samples):
        return None
    maxima = np.array([values.max() for values in samples])
    fit_values = power_fit(m)
    if (fit := fit_values(maxima)) is None:
        return None
    rng = np.random.default_rng(_SEED)
    subsampled = np.full(resamples, np.nan)
    for place in range(resamples if min(map(len, samples)) >= LEAST_PAIRS else 0):
        parts = [rng.permutation(values)[: max(len(values) // _SHARE, 1)] for values in samples]
        if (again := fit_values(np.array([part.max() for part in parts]))) is not None:
            subsampled[place] = again[1]
    factor, exponent = fit
    return Decay(exponent, factor, *interval(exponent, subsampled), subsampled)


def interval(
    estimate: float, values: Float[np.ndarray, " resamples"], tail: float = TAIL
) -> tuple[float, float]:
    """Returns the symmetric interval by subsampling, of an exponent or a difference of two.

    Subsamples of the same number have the same pairs in two fits, so that differences are paired.
    One without a fit is infinitely far away. Both ends are NaN where there are too many of these,
    or for a tail (the probability on either side) rarer than one subsample.
    """
    if tail < min(TAIL, 0.5 / len(values)):
        return np.nan, np.nan
    away = np.nan_to_num(np.abs(values - estimate), nan=np.inf)
    reach = np.quantile(away, 1 - 2 * tail, method="higher")
    if np.isinf(reach):
        return np.nan, np.nan
    return float(estimate - reach), float(estimate + reach)


def fit_all(pairs: pd.DataFrame, resamples: int, start: int | None = None) -> pd.DataFrame:
    """Returns one row a curve and quantity: its fit, and a description of its pairs.

    The description has `pairs`, the distinct pairs at the size with the fewest; `sizes`, their
    number; `train_accuracy`, a mean over pairs, the least of all sizes; and `tied`, the least size
    at which all pairs have one value of the quantity. `start` is the size at which the two `RANGES`
    of the loss gap meet; None fits all sizes at once.
    """
    rows = []
    for curve, found in pairs.groupby(CURVE, sort=False):
        of = {quantity: (quantity, found) for quantity in QUANTITIES}
        if start is not None:
            small = found["m"] < start
            of = {
                name: ("loss_gap", found[s])
                for name, s in zip(RANGES, (small, ~small), strict=True)
            }
        distinct = found.drop_duplicates(["m", *QUANTITIES]).groupby("m").size()
        shared = dict(zip(CURVE, curve, strict=True))
        shared |= {"pairs": int(distinct.min()), "sizes": len(distinct)}
        shared["train_accuracy"] = float((1 - found.groupby("m")["train_error"].mean()).min())
        gap = None
        for name, (quantity, own) in of.items():  # the loss gap is the first
            sizes = own.groupby("m")[quantity]
            samples = [values.to_numpy(float) for _, values in sizes]
            fit = fit_decay(np.array([m for m, _ in sizes], float), samples, resamples)
            counts = sizes.nunique()
            columns = {"quantity": name, "tied": float(counts.index[counts == 1].min())}
            columns |= {} if fit is None else fit._asdict()
            if fit is not None and gap is not None:
                less, subsampled = fit.exponent - gap.exponent, fit.subsampled - gap.subsampled
                found_less = (less, *interval(less, subsampled), subsampled)
                columns |= dict(zip(DIFFERENCE, found_less, strict=True))
            gap = fit if name == "loss_gap" else gap
            rows.append(shared | columns)
    columns = [*CURVE, "quantity", "pairs", "sizes", "train_accuracy", "tied"]
    return pd.DataFrame(rows, columns=[*columns, *Decay._fields, *DIFFERENCE])


def exponent(
    quantity: str, column: str = "exponent", *, count: int | None = None, **settings: object
) -> Statistic:
    """Returns the statistic of exponents by trial; one trial has the interval of its pairs.

    "less_gap" is the exponent less that of the loss gap, on the same subsamples; `count` is of the
    test examples, which all pairs share.
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(quantity=quantity, **settings)
        values = own.by_seed(column)
        found = Sample(values, count=count, lost=own.lost(column), equal=own.equal_seeds())
        if len(values) != 1:
            return found
        subsampled = own.finished.set_index("seed").loc[values.index[0], SUBSAMPLED[column]]
        return found._replace(units=1, ends=lambda tail: interval(values.iloc[0], subsampled, tail))

    return statistic


def fall_table(config: Config, paths: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a path: falls of accuracy in points, accuracies at the ends, examples.

    A fall is the lower accuracy of both models less the lowest one between them; NaN where a path
    lacks a model, a place between them or a finite accuracy. `paths` has one row a path and alpha.
    """
    path, rows, keys = config.connectivity, [], [*CURVE, "m", "pair"]
    for names, found in paths.groupby(keys) if len(paths) else ():
        row = dict(zip(keys, names, strict=True))
        row |= {"chance": found["chance"].max()} if "chance" in found else {}
        counts = {"train": row["m"], "test": config.data.num_test or _MOST_TEST_IMAGES}
        at_end = np.isclose(found["alpha"], 0) | np.isclose(found["alpha"], 1)
        between = found["alpha"].between(0, 1) & ~at_end
        for split, count in counts.items():
            accuracies = found[f"{split}_accuracy"].astype(float)
            ends = accuracies[at_end]
            whole = len(ends) == 2 and between.any() and np.isfinite(accuracies).all()
            lowest = min(ends.min(), accuracies[between].min())
            row[f"{split}_fall"] = 100 * (ends.min() - lowest) if whole else np.nan
            row[f"{split}_accuracy"] = ends.mean()
            row[f"num_{split}"] = min(count, path[f"num_{split}"] or count)
        rows.append(row)
    if not rows:
        return pd.DataFrame(columns=keys)
    table = pd.DataFrame(rows)
    # Of a size, as a network's fit is judged by the mean over pairs.
    return table.assign(train_accuracy=table.groupby("m")["train_accuracy"].transform("mean"))


def fall(split: str) -> Statistic:
    """Returns the statistic of falls of accuracy in points: means of trials, or one trial's paths.

    Paths of a trial share the start and the order of examples. Paths share their test examples,
    whose error is added, and each has its own sample S, so that the spread over paths contains the
    error of the training accuracy.
    """

    def statistic(runs: Runs) -> Sample:
        rows, column = runs.finished.reset_index(drop=True), f"{split}_fall"
        if rows.empty:
            return Sample(pd.Series(dtype=float), lost=runs.lost(column))
        trials = rows.groupby("seed").mean(numeric_only=True)
        own = trials if len(trials) > 1 else rows
        values, end = own[column].dropna(), float(rows[f"{split}_accuracy"].mean())
        count = int(rows[f"num_{split}"].min())
        accuracies = (end, max(end - values.mean() / 100, 0.0))
        drawn = own.filter(regex="_(fall|accuracy)$")
        return Sample(
            values,
            shared=split == "test",
            error=100 * float(np.hypot(*(binomial_error(one, count) for one in accuracies))),
            count=count,
            lost=runs.lost(column),
            equal=len(own) > 1 and bool((drawn.nunique() <= 1).all()),
            units=len(trials),
        )

    return statistic
