"""How the ResNet's error depends on alpha, beside theorem 1."""

from itertools import pairwise

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.claims import (
    as_measured,
    errors_claim,
    examples_error,
    logarithms,
    threshold,
    words_of,
)
from lsa_jax.reporting.claims import measured, not_run
from lsa_jax.reporting.report import Claim


def alpha_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns, by N, whether the error is of order alpha^4, what is left of G(F) and exponents."""
    claims, alphas = [], sorted(config.sweep.alpha)
    for num_train in config.sweep.num_train or (config.num_train,):
        rows = fine[fine["num_train"] == num_train]
        claims.append(_bound(config, rows, num_train))
        claims += [_left(config, rows, num_train, alpha) for alpha in alphas]
        claims += [_exponent(config, rows, num_train, *ends) for ends in pairwise(alphas)]
    return claims


def _bound(config: ml_collections.ConfigDict, rows: pd.DataFrame, num_train: int) -> Claim:
    """Claims that the error is below alpha^4 at every alpha: at the one where it is largest beside.

    The theorem has a constant, (k p_G C_s(G))^4, which is above 1.
    """
    names = {"num_train": num_train, "alphas": ", ".join(f"{a:g}" for a in config.sweep.alpha)}
    shares = rows.assign(share=rows["test_error"] / rows["alpha"].astype(float) ** 4)
    medians = shares.groupby("alpha")["share"].median().dropna()
    worst = shares.iloc[:0]
    if set(config.sweep.alpha) <= set(medians.index):
        worst = shares[shares["alpha"] == medians.idxmax()]
    options = {"num_test": config.num_test, "below": 1.0}
    return errors_claim("alpha_bound", worst["share"], **options, **names)


def _left(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, num_train: int, alpha: float
) -> Claim:
    """Returns the error over that of an answer that has F right and nothing of G(F)."""
    of_alpha = rows[rows["alpha"] == alpha]
    shares = of_alpha["test_error"] / of_alpha.apply(threshold, axis=1).astype(float)
    words = {"num_train": num_train, "alpha": alpha}
    return as_measured(errors_claim("alpha_error", shares, num_test=config.num_test, **words))


def _exponent(
    config: ml_collections.ConfigDict,
    rows: pd.DataFrame,
    num_train: int,
    low: float,
    high: float,
) -> Claim:
    """Returns the slope of log error in log alpha between two alphas, a slope a seed."""
    names = words_of("alpha_exponent", {"num_train": num_train, "low": low, "high": high})
    errors = rows.pivot_table(index="seed", columns="alpha", values="test_error")
    errors = errors.reindex(columns=[low, high]).dropna()
    if errors.empty:
        return not_run(*names)
    slopes = (logarithms(errors[high]) - logarithms(errors[low])) / np.log(high / low)
    error = float(np.sqrt(2) * examples_error(config.num_test) / np.log(high / low))
    return measured(*names, round(slopes.mean(), 2), slopes, error)
