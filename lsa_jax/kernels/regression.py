"""Kernel ridge regression, solved exactly in float64."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Key

from lsa_jax.errors import InputError, NumericalError

# Reciprocal condition number below which a solution need not have one correct digit, and LAPACK's
# expert drivers call the matrix singular.
_SINGULAR = np.finfo(float).eps

# Rounding of a float32 kernel stays far below this share of the mean diagonal; mistakes do not.
_LARGEST_ASYMMETRY = 1e-3


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

    O(n^3) time; 8 n (n + m) bytes beside the inputs.

    Args:
        gram_train: K, symmetric.
        targets: Y.
        gram_test: K_test, test against training examples.
        ridge: ridge over the mean diagonal of K, 0 or more.

    Returns:
        Predictions on the test examples.

    Raises:
        InputError: sizes that do not fit, a K that is not symmetric, or a negative ridge.
        NumericalError: entries that are not finite, or a matrix that is not positive definite to
            float64 precision; the message says which ridge it takes.
    """
    gram_train, targets, gram_test = map(np.asarray, (gram_train, targets, gram_test))
    _check_ridge(ridge)
    _check(gram_train, targets, gram_test)
    fit = _solve(gram_train, targets, gram_test, ridge)
    if fit is None:
        raise _not_positive_definite(gram_train, ridge)
    return fit


def _check_ridge(ridge: float) -> None:
    if not 0 <= ridge < np.inf:
        raise InputError(f"ridge is {ridge}; accepted: 0 or more")


def _check(gram_train: np.ndarray, targets: np.ndarray, gram_test: np.ndarray) -> None:
    n = len(targets)
    if not n:
        raise InputError("there are 0 targets; accepted: 1 or more")
    if targets.ndim != 2 or gram_train.shape != (n, n) or gram_test.shape[1:] != (n,):
        raise InputError(
            f"targets are {targets.shape}, gram_train is {gram_train.shape} and gram_test "
            f"{gram_test.shape}; accepted with {n} targets: ({n}, c), ({n}, {n}) and (m, {n})"
        )
    named = {"gram_train": gram_train, "targets": targets, "gram_test": gram_test}
    for name, values in named.items():
        if not np.isfinite(values).all():
            raise NumericalError(f"{name} has entries that are not finite; check the kernel")
    if not np.trace(gram_train) > 0:
        raise InputError(f"gram_train has trace {np.trace(gram_train):g}; accepted: more than 0")
    asymmetry = np.abs(gram_train - gram_train.T).max() / (np.trace(gram_train) / n)
    if asymmetry > _LARGEST_ASYMMETRY:
        raise InputError(
            f"gram_train differs from its transpose by {asymmetry:.2g} of its mean diagonal; "
            "accepted: a symmetric matrix, as gram(kernel, x) gives"
        )


def _solve(
    gram_train: np.ndarray, targets: np.ndarray, gram_test: np.ndarray, ridge: float
) -> Regression | None:
    """Returns the regression; None where the matrix is not positive definite to float64."""
    matrix = np.array(gram_train, dtype=float, order="F")
    matrix[np.diag_indices_from(matrix)] += ridge * np.trace(matrix) / len(matrix)
    norm = scipy.linalg.lapack.dlange("1", matrix)
    try:
        factor = scipy.linalg.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    reciprocal, _ = scipy.linalg.lapack.dpocon(factor, norm, uplo="L")
    if reciprocal < _SINGULAR:
        return None
    mean = targets.mean(axis=0, dtype=float)
    weights = scipy.linalg.cho_solve((factor, True), targets - mean, check_finite=False)
    return Regression(gram_test @ weights + mean, float(ridge), float(1 / reciprocal))


def _not_positive_definite(gram_train: np.ndarray, ridge: float) -> NumericalError:
    """Says what ridge it takes, from the smallest eigenvalue. O(n^3), like what has failed."""
    mean_diagonal = np.trace(gram_train, dtype=float) / len(gram_train)
    smallest = scipy.linalg.eigvalsh(gram_train.astype(float), subset_by_index=[0, 0])[0]
    relative = smallest / mean_diagonal
    return NumericalError(
        f"the kernel matrix of {len(gram_train)} examples is not positive definite with ridge "
        f"{ridge:g}: its smallest eigenvalue is {relative:.2g} of its mean diagonal; use a ridge "
        f"well above {max(-relative, np.finfo(float).eps):.2g}, or remove examples that are equal"
    )


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
    passed over. Of equally good ones the smallest is taken. O(n^3) time for each ridge.

    Args:
        key: draws which examples are held out.
        gram_train: K, symmetric.
        targets: Y.
        ridges: what to choose among, relative to the mean diagonal.
        held_out: share of the examples that are held out.

    Raises:
        InputError: no ridge, or too few examples to hold any out, or what `regress` refuses.
        NumericalError: no ridge makes the matrix positive definite, or entries are not finite.
    """
    if not len(ridges):
        raise InputError("there are no ridges to choose among; accepted: at least one")
    if len(ridges) == 1:
        return float(ridges[0])
    gram_train, targets = np.asarray(gram_train), np.asarray(targets)
    for ridge in ridges:
        _check_ridge(ridge)
    _check(gram_train, targets, gram_train)
    count = round(held_out * len(targets))
    if not 0 < count < len(targets):
        raise InputError(
            f"held_out is {held_out} of {len(targets)} examples; accepted: a share that leaves "
            "examples on both sides"
        )
    order = np.asarray(jax.random.permutation(key, len(targets)))
    validation, rest = order[:count], order[count:]
    gram_rest, gram_validation = (
        gram_train[np.ix_(rest, rest)],
        gram_train[np.ix_(validation, rest)],
    )
    errors: dict[float, float] = {}
    for ridge in sorted(ridges):
        fit = _solve(gram_rest, targets[rest], gram_validation, ridge)
        if fit is not None:
            errors[ridge] = float(np.mean((fit.predictions - targets[validation]) ** 2))
    if not errors:
        raise _not_positive_definite(gram_rest, max(ridges))
    return float(min(errors, key=errors.get))
