"""The fits of all curves, one row each, with what has to be known before anything is read off."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.fits import Decay, fit_decay, subtract_exponents
from lsa_jax.experiments.stability.measures import QUANTITIES

CURVE = ["learner", "perturbation", "seed", "step"]
# The exponent less that of the loss gap, and its interval.
DIFFERENCE_COLUMNS = ["less_gap", "less_gap_low", "less_gap_high"]
FIT_COLUMNS = ["exponent", "factor", "low", "high", "log_slope", "mean_exponent"]
# Of a curve's pairs: see `describe_pairs`.
PAIR_COLUMNS = ["pairs", "sizes", "train_accuracy", "least_fitted"]


def fit_quantity(found: pd.DataFrame, quantity: str, resamples: int) -> Decay | None:
    """Fits a quantity of one curve's pairs."""
    by_size = [(m, part.to_numpy(float)) for m, part in found.groupby("m")[quantity]]
    return fit_decay(np.array([m for m, _ in by_size], float), [v for _, v in by_size], resamples)


def describe_pairs(found: pd.DataFrame) -> dict[str, float]:
    """Returns what one curve's pairs are.

    Args:
        found: one row a pair.

    Returns:
        By name: `pairs`, how many the size with the fewest has, of which no two are equal in every
        quantity; `sizes`, how many there are; `train_accuracy`, mean over pairs, the least of all
        sizes; `least_fitted`, the size that has it.
    """
    distinct = found.drop_duplicates(["m", *QUANTITIES]).groupby("m").size()
    accuracy = 1 - found.groupby("m")["train_error"].mean()
    least = int(accuracy.idxmin())
    values = (int(distinct.min()), len(distinct), float(accuracy[least]), least)
    return dict(zip(PAIR_COLUMNS, values, strict=True))


def tied_size(found: pd.DataFrame, quantity: str) -> float:
    """Returns the least size all of whose pairs have one value; not-a-number if there is none."""
    values = found.groupby("m")[quantity].nunique()
    tied = values.index[values == 1]
    return float(tied.min()) if len(tied) else np.nan


def _fit_columns(fit: Decay | None, gap: Decay | None) -> dict[str, float]:
    """Returns what the table of fits says of a fit, and of it beside the loss gap's."""
    if fit is None:
        return {}
    columns = {name: getattr(fit, name) for name in FIT_COLUMNS}
    if gap is None or gap is fit:
        return columns
    return columns | dict(zip(DIFFERENCE_COLUMNS, subtract_exponents(fit, gap), strict=True))


def fit_all(pairs: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Returns one row a curve and quantity: its fit, and what its pairs are."""
    rows = []
    for curve, found in pairs.groupby(CURVE, sort=False):
        fits = {quantity: fit_quantity(found, quantity, resamples) for quantity in QUANTITIES}
        shared = dict(zip(CURVE, curve, strict=True)) | describe_pairs(found)
        for quantity, fit in fits.items():
            own = {"quantity": quantity, "tied": tied_size(found, quantity)}
            rows.append(shared | own | _fit_columns(fit, fits["loss_gap"]))
    columns = [*CURVE, "quantity", *PAIR_COLUMNS, "tied", *FIT_COLUMNS, *DIFFERENCE_COLUMNS]
    return pd.DataFrame(rows, columns=columns)


def in_words(exponent: float, low: float, high: float) -> str:
    """Returns an exponent, with its interval where there is one; empty without an exponent."""
    if np.isnan(exponent):
        return ""
    return f"{exponent:.2f}" + ("" if np.isnan(low) else f" ({low:.2f} to {high:.2f})")
