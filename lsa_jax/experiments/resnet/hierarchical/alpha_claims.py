"""How the ResNet's error depends on alpha, beside theorem 1."""

from collections.abc import Hashable
from itertools import pairwise, product

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.errors import (
    as_measured,
    candidates,
    cells,
    errors_at,
    errors_claim,
    examples_error,
    logarithms,
)
from lsa_jax.experiments.resnet.hierarchical.claims import of_series, threshold, words_of
from lsa_jax.reporting.claims import measured, not_run
from lsa_jax.reporting.report import Claim


def alpha_claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns whether the error is of order alpha^4, what is left of G(F), and exponents.

    They are of the first series, the ResNet, by N and width.

    Args:
        config: of the sweep.
        runs: its results, of which those that failed have no error.
    """
    claims, alphas = [], sorted(config.sweep.alpha)
    nets = of_series(runs, *config.sweep.series[0])
    for num_train, width in product(
        config.sweep.num_train or (config.num_train,), config.sweep.width
    ):
        rows = nets[(nets["num_train"] == num_train) & (nets["width"] == width)]
        errors = cells(rows, "alpha", alphas, config.sweep.seed)
        words = {"num_train": num_train, "width": width}
        claims.append(_bound(config, errors, words, candidates(rows)))
        claims += [_left(config, errors[alpha], words, alpha) for alpha in alphas]
        claims += [_exponent(config, errors, words, *ends) for ends in pairwise(alphas)]
    return claims


def _bound(
    config: ml_collections.ConfigDict,
    errors: dict[Hashable, pd.Series],
    words: dict[str, object],
    chosen_of: int,
) -> Claim:
    """Claims that the error is below alpha^4 at every alpha.

    The theorem has a constant, (k p_G C_s(G))^4, which is above 1.
    """
    names = words_of("alpha_bound", words | {"alphas": ", ".join(f"{alpha:g}" for alpha in errors)})
    shares = {alpha: found / alpha**4 for alpha, found in errors.items()}
    options = {"num_test": config.num_test, "below": 1.0, "chosen_of": chosen_of}
    return errors_at("every", names, shares, **options)


def _left(
    config: ml_collections.ConfigDict, errors: pd.Series, words: dict[str, object], alpha: float
) -> Claim:
    """Returns the error over that of an answer that has F right and nothing of G(F)."""
    shares = errors / (threshold(config) / config.alpha**2 * alpha**2)
    names = words_of("alpha_error", words | {"alpha": alpha})
    return as_measured(errors_claim(names, shares, num_test=config.num_test))


def _exponent(
    config: ml_collections.ConfigDict,
    errors: dict[Hashable, pd.Series],
    words: dict[str, object],
    low: float,
    high: float,
) -> Claim:
    """Returns the slope of log error in log alpha between two alphas, a slope a seed."""
    names = words_of("alpha_exponent", words | {"low": low, "high": high})
    slopes = (logarithms(errors[high]) - logarithms(errors[low])).dropna() / np.log(high / low)
    if slopes.empty:
        return not_run(*names)
    error = float(np.sqrt(2) * examples_error(config.num_test) / np.log(high / low))
    return measured(*names, round(slopes.mean(), 2), slopes, error)
