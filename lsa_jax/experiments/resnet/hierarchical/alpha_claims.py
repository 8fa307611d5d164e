"""How the ResNet's error depends on alpha, beside theorem 1."""

from itertools import pairwise, product

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.claims import (
    as_measured,
    errors_claim,
    examples_error,
    logarithms,
    of_series,
    threshold,
    words_of,
)
from lsa_jax.reporting.claims import measured, not_run
from lsa_jax.reporting.report import Claim


def alpha_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns whether the error is of order alpha^4, what is left of G(F), and exponents.

    They are of the first series, the ResNet, by N and width.
    """
    claims, alphas = [], sorted(config.sweep.alpha)
    nets = of_series(fine, *config.sweep.series[0])
    for num_train, width in product(
        config.sweep.num_train or (config.num_train,), config.sweep.width
    ):
        rows = nets[(nets["num_train"] == num_train) & (nets["width"] == width)]
        words = {"num_train": num_train, "width": width}
        claims.append(_bound(config, rows, words))
        claims += [_left(config, rows, words, alpha) for alpha in alphas]
        claims += [_exponent(config, rows, words, *ends) for ends in pairwise(alphas)]
    return claims


def _bound(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, words: dict[str, object]
) -> Claim:
    """Claims that the error is below alpha^4 at every alpha: at the one where it is largest beside.

    The theorem has a constant, (k p_G C_s(G))^4, which is above 1.
    """
    alphas = ", ".join(f"{alpha:g}" for alpha in config.sweep.alpha)
    shares = rows.assign(share=rows["test_error"] / rows["alpha"].astype(float) ** 4)
    medians = shares.groupby("alpha")["share"].median().dropna()
    worst = shares.iloc[:0]
    if set(config.sweep.alpha) <= set(medians.index):
        worst = shares[shares["alpha"] == medians.idxmax()]
    options = {"num_test": config.num_test, "below": 1.0}
    return errors_claim("alpha_bound", worst["share"], **options, **words, alphas=alphas)


def _left(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, words: dict[str, object], alpha: float
) -> Claim:
    """Returns the error over that of an answer that has F right and nothing of G(F)."""
    of_alpha = rows[rows["alpha"] == alpha]
    shares = of_alpha["test_error"] / of_alpha.apply(threshold, axis=1).astype(float)
    options = {"num_test": config.num_test, "alpha": alpha}
    return as_measured(errors_claim("alpha_error", shares, **options, **words))


def _exponent(
    config: ml_collections.ConfigDict,
    rows: pd.DataFrame,
    words: dict[str, object],
    low: float,
    high: float,
) -> Claim:
    """Returns the slope of log error in log alpha between two alphas, a slope a seed."""
    names = words_of("alpha_exponent", words | {"low": low, "high": high})
    errors = rows.pivot(index="seed", columns="alpha", values="test_error")
    errors = errors.reindex(columns=[low, high]).dropna()
    if errors.empty:
        return not_run(*names)
    slopes = (logarithms(errors[high]) - logarithms(errors[low])) / np.log(high / low)
    error = float(np.sqrt(2) * examples_error(config.num_test) / np.log(high / low))
    return measured(*names, round(slopes.mean(), 2), slopes, error)
