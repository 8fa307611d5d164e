"""The fits of all curves, one row each, beside a description of the pairs they are through."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.fits import Decay, fit_decay, interval
from lsa_jax.experiments.stability.measures import QUANTITIES

CURVE = ["learner", "perturbation", "seed", "step"]
FIT_COLUMNS = ["exponent", "factor", "low", "high", "log_slope", "mean_exponent"]
# The exponent less that of the loss gap, and its interval.
DIFFERENCE_COLUMNS = ["less_gap", "less_gap_low", "less_gap_high"]
# Arrays: the exponent of each subsample of the pairs, and less that of the loss gap.
SUBSAMPLED = {"exponent": "subsampled", "less_gap": "less_gap_subsampled"}
# Figure A.1: the loss gap below a size, and from it on.
RANGES = ("loss_gap_below", "loss_gap_above")


def _fit(found: pd.DataFrame, quantity: str, resamples: int) -> Decay | None:
    """Fits a quantity of one curve's pairs."""
    by_size = [(m, part.to_numpy(float)) for m, part in found.groupby("m")[quantity]]
    return fit_decay(np.array([m for m, _ in by_size], float), [v for _, v in by_size], resamples)


def describe_pairs(found: pd.DataFrame) -> dict[str, float]:
    """Returns a description of one curve's pairs.

    Args:
        found: one row a pair.

    Returns:
        By name: `pairs`, number of distinct pairs at the size with the fewest; `sizes`, number of
        sizes; `train_accuracy`, mean over pairs, the least of all sizes.
    """
    distinct = found.drop_duplicates(["m", *QUANTITIES]).groupby("m").size()
    accuracy = 1 - found.groupby("m")["train_error"].mean()
    return {
        "pairs": int(distinct.min()),
        "sizes": len(distinct),
        "train_accuracy": float(accuracy.min()),
    }


def _tied_size(found: pd.DataFrame, quantity: str) -> float:
    """Returns the least size at which all pairs have one value; NaN if there is none."""
    values = found.groupby("m")[quantity].nunique()
    return float(values.index[values == 1].min())


def _fit_columns(fit: Decay | None, gap: Decay | None) -> dict[str, object]:
    """Returns the columns of a fit, and of its difference from the loss gap's."""
    if fit is None:
        return {}
    columns = {name: getattr(fit, name) for name in (*FIT_COLUMNS, "subsampled")}
    if gap is None or gap is fit:
        return columns
    less, subsampled = fit.exponent - gap.exponent, fit.subsampled - gap.subsampled
    values = (less, *interval(less, subsampled), subsampled)
    names = (*DIFFERENCE_COLUMNS, SUBSAMPLED["less_gap"])
    return columns | dict(zip(names, values, strict=True))


def fit_all(pairs: pd.DataFrame, resamples: int, start: int | None = None) -> pd.DataFrame:
    """Returns one row a curve and quantity: its fit, and a description of its pairs.

    Args:
        pairs: one row a pair and stop.
        resamples: subsamples of the pairs.
        start: size at which the two `RANGES` of the loss gap meet; None fits all sizes at once.
    """
    rows = []
    for curve, found in pairs.groupby(CURVE, sort=False):
        of = {quantity: (quantity, found) for quantity in QUANTITIES}
        if start is not None:
            ranges = (found[found["m"] < start], found[found["m"] >= start])
            of = {name: ("loss_gap", own) for name, own in zip(RANGES, ranges, strict=True)}
        fits = {name: _fit(own, quantity, resamples) for name, (quantity, own) in of.items()}
        shared = dict(zip(CURVE, curve, strict=True)) | describe_pairs(found)
        for name, (quantity, own) in of.items():
            columns = {"quantity": name, "tied": _tied_size(own, quantity)}
            rows.append(shared | columns | _fit_columns(fits[name], fits.get("loss_gap")))
    columns = [*CURVE, "quantity", "pairs", "sizes", "train_accuracy", "tied"]
    columns += [*FIT_COLUMNS, *DIFFERENCE_COLUMNS, *SUBSAMPLED.values()]
    return pd.DataFrame(rows, columns=columns)


def in_words(exponent: float, low: float, high: float) -> str:
    """Returns an exponent, with its interval where there is one; empty without an exponent."""
    if np.isnan(exponent):
        return ""
    return f"{exponent:.2f}" + ("" if np.isnan(low) else f" ({low:.2f} to {high:.2f})")
