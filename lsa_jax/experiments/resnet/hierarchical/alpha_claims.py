"""How the ResNet's error falls with alpha, beside theorem 1."""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.claims import (
    LEARNED,
    as_measured,
    errors_claim,
    examples_error,
    logarithms,
    threshold,
    words_of,
)
from lsa_jax.reporting.claims import compare
from lsa_jax.reporting.report import Claim

# Half way from alpha^2, the error of not knowing G, to the theorem's alpha^4.
EXPONENT = 3.0


def alpha_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns the exponent in alpha of the ResNet's error, and how much of G(F) is left, by N."""
    claims = []
    for num_train in config.sweep.num_train or (config.num_train,):
        rows = fine[fine["num_train"] == num_train]
        rows = rows.assign(share=rows["test_error"] / rows.apply(threshold, axis=1).astype(float))
        claims.append(_exponent(config, rows, num_train))
        claims += [_left(config, rows, num_train, alpha) for alpha in config.sweep.alpha]
    return claims


def _exponent(config: ml_collections.ConfigDict, rows: pd.DataFrame, num_train: int) -> Claim:
    """Claims that the slope of log error in log alpha is nearer to 4 than to 2, a slope a seed.

    It says nothing where some alpha is too large, or N too small, for G(F) to be learned: an error
    that only begins to fall may do so at any slope.
    """
    names = words_of("alpha_exponent", {"num_train": num_train, "exponent": EXPONENT})
    errors = rows.pivot_table(index="seed", columns="alpha", values="test_error").dropna()
    if not len(errors) or errors.shape[1] < max(2, len(config.sweep.alpha)):
        return compare(*names, [])
    x = np.log(errors.columns.to_numpy(float))
    slopes = np.polyfit(x, errors.apply(logarithms).to_numpy().T, 1)[0]
    share = rows.groupby("alpha")["share"].median()
    missed = share.index[share >= LEARNED]
    unless = f"G(F) is not learned at alpha = {missed[0]:g}" if len(missed) else ""
    error = examples_error(config.num_test) / float(np.sqrt(np.sum((x - x.mean()) ** 2)))
    return compare(*names, slopes, above=EXPONENT, examples_error=error, unless=unless)


def _left(
    config: ml_collections.ConfigDict, rows: pd.DataFrame, num_train: int, alpha: float
) -> Claim:
    """Returns the error over that of an answer that has F right and nothing of G(F)."""
    shares = rows.loc[rows["alpha"] == alpha, "share"]
    words = {"num_train": num_train, "alpha": alpha}
    return as_measured(errors_claim("alpha_error", shares, num_test=config.num_test, **words))
