"""Kernel ridge regression, solved exactly in float64."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Key

from lsa_jax.errors import InputError, NumericalError


class Regression(NamedTuple):
    """Predictions of kernel ridge regression.

    Attributes:
        predictions: [m, c], float64.
        ridge: ridge over the mean diagonal that was used.
        condition: estimated condition number (1-norm) of the matrix that was solved.
    """

    predictions: Float[np.ndarray, "m c"]
    ridge: float
    condition: float


def _check(gram_train: np.ndarray, targets: np.ndarray, gram_test: np.ndarray) -> None:
    n = len(targets)
    if not n:
        raise InputError("there are 0 targets; accepted: 1 or more")
    if gram_train.shape != (n, n) or gram_test.shape[1:] != (n,):
        raise InputError(
            f"gram_train is {gram_train.shape} and gram_test {gram_test.shape}; accepted with "
            f"{n} targets: ({n}, {n}) and (m, {n})"
        )
    named = {"gram_train": gram_train, "targets": targets, "gram_test": gram_test}
    for name, values in named.items():
        if not np.isfinite(values).all():
            raise NumericalError(f"{name} has entries that are not finite; check the kernel")


def regress(
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"],
    *,
    ridge: float,
) -> Regression:
    """Solves kernel ridge regression by a Cholesky factorisation in float64.

    With y0 the mean target, predictions = y0 + K_test (K + ridge trace(K)/n I)^{-1} (Y - y0).
    Taking out the mean makes the result independent of a constant added to all targets.

    Args:
        gram_train: K, symmetric.
        targets: Y.
        gram_test: K_test, test against training examples.
        ridge: ridge over the mean diagonal of K, 0 or more.

    Returns:
        Predictions on the test examples. O(n^3) time, 8 n^2 bytes beside the inputs.

    Raises:
        InputError: sizes that do not fit, or a negative ridge.
        NumericalError: entries that are not finite, or a matrix that is not positive definite to
            float64 precision; the message says what to change.
    """
    gram_train, gram_test = np.asarray(gram_train, float), np.asarray(gram_test, float)
    targets = np.asarray(targets, float)
    _check(gram_train, targets, gram_test)
    if not ridge >= 0:
        raise InputError(f"ridge is {ridge}; accepted: 0 or more")
    matrix = gram_train.copy()
    matrix[np.diag_indices_from(matrix)] += ridge * np.trace(gram_train) / len(targets)
    norm = np.abs(matrix).sum(axis=0).max()
    try:
        factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        raise NumericalError(
            f"the kernel matrix of {len(targets)} examples is not positive definite with ridge "
            f"{ridge:g}; use a larger ridge, or remove examples that are equal"
        ) from None
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, norm, uplo="L")
    mean = targets.mean(axis=0)
    weights = scipy.linalg.cho_solve((factor, True), targets - mean, check_finite=False)
    condition = 1 / reciprocal if reciprocal > 0 else np.inf
    return Regression(gram_test @ weights + mean, float(ridge), float(condition))


def select_ridge(
    key: Key[Array, ""],
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    ridges: Sequence[float],
    *,
    held_out: float = 0.2,
) -> float:
    """Returns the ridge with the least squared error on held-out training examples.

    A single ridge is returned as it is. Ridges at which the matrix is not positive definite are
    passed over. Of equal ones the smallest is taken.

    Args:
        key: draws which examples are held out.
        gram_train: K, symmetric.
        targets: Y.
        ridges: what to choose among, relative to the mean diagonal.
        held_out: share of the examples that are held out.

    Raises:
        InputError: no ridge, or too few examples to hold any out.
        NumericalError: no ridge makes the matrix positive definite.
    """
    if not ridges:
        raise InputError("there are no ridges to choose among; accepted: at least one")
    if len(ridges) == 1:
        return float(ridges[0])
    gram_train, targets = np.asarray(gram_train), np.asarray(targets)
    count = round(held_out * len(targets))
    if not 0 < count < len(targets):
        raise InputError(
            f"held_out is {held_out} of {len(targets)} examples; accepted: a share that leaves "
            "examples on both sides"
        )
    order = np.asarray(jax.random.permutation(key, len(targets)))
    validation, rest = order[:count], order[count:]
    errors: dict[float, float] = {}
    for ridge in sorted(ridges):
        try:
            fit = regress(
                gram_train[np.ix_(rest, rest)],
                targets[rest],
                gram_train[np.ix_(validation, rest)],
                ridge=ridge,
            )
        except NumericalError as error:
            failure = error
            continue
        errors[ridge] = float(np.mean((fit.predictions - targets[validation]) ** 2))
    if not errors:
        raise failure
    return float(min(errors, key=errors.get))
