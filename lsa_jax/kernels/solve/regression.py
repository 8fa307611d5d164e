"""Kernel ridge regression, solved exactly."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, backend
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.solve import blocks, cholesky, problem, spectral
from lsa_jax.kernels.solve.cholesky import Precision

# An eigendecomposition, which serves all ridges, takes as long as about this many factorisations.
_FACTORISATIONS = 30


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
    precision: Precision = "float64",
    overwrite: bool = False,
) -> Regression:
    """Solves kernel ridge regression by a Cholesky factorisation, to float64's precision.

    With y0 the mean target, predictions = y0 + K_test (K + ridge trace(K)/n I)^{-1} (Y - y0).
    Taking out the mean makes the result independent of a constant added to all targets.

    O(n^3) time. Beside the inputs, 8 n^2 bytes; half of that, and about half the time, with
    precision "float32"; none with `overwrite`. For matrices that do not fit, `regress_cg`.

    Args:
        gram_train: K, symmetric.
        targets: Y.
        gram_test: K_test, test against training examples.
        ridge: ridge over the mean diagonal of K, 0 or more.
        precision: "float32" factorises in float32, and refines the solution by residuals in float64
            until it is as good as that of "float64", or says that it cannot.
        overwrite: factorise in the memory of K, a float64 array that is then lost.

    Returns:
        Predictions on the test examples.

    Raises:
        InputError: sizes that do not fit each other or the memory, a K that is not symmetric or
            cannot be overwritten, a negative ridge, or an unknown precision.
        NumericalError: entries that are not finite, or a matrix that is not positive definite to
            this precision; the message says which ridge it takes.
    """
    if (recorder := backend.dry_run()) is not None:
        return Regression(recorder.solve(gram_train, targets, gram_test), ridge, 1.0)
    gram_train, gram_test = (
        problem.matrix("gram_train", gram_train),
        problem.matrix("gram_test", gram_test),
    )
    targets, ridge = problem.targets_of(targets), problem.check_ridge(ridge)
    if precision not in cholesky.PRECISIONS:
        raise InputError(f"precision is {precision!r}; accepted: {', '.join(cholesky.PRECISIONS)}")
    if overwrite and precision == "float32":
        raise InputError(
            "overwrite is True and precision is 'float32', which needs K for its residuals; "
            "accepted: one or the other"
        )
    problem.check(gram_train, targets, gram_test)
    n = len(gram_train)
    if not overwrite:
        needed = np.dtype(precision).itemsize * n**2
        problem.check_memory(n, needed, "overwrite=True, precision='float32' or regress_cg")
    fit = _solve(gram_train, targets, gram_test, ridge, precision, overwrite=overwrite)
    if fit is None:
        raise _refusal(gram_train, ridge, precision, overwritten=overwrite)
    return fit


def fitted_weights(
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    *,
    ridge: float,
) -> Float[np.ndarray, "n c"]:
    """Returns the weights a of the predictor that `regress` fits: y0 + K(x, X) a.

    O(n^3) time. Beside the inputs, 8 n^2 bytes.

    Args:
        gram_train: K, symmetric.
        targets: Y.
        ridge: ridge over the mean diagonal of K, 0 or more.

    Raises:
        InputError: what `regress` refuses.
        NumericalError: entries that are not finite, or a matrix that is not positive definite.
    """
    gram_train, targets = problem.matrix("gram_train", gram_train), problem.targets_of(targets)
    ridge = problem.check_ridge(ridge)
    problem.check(gram_train, targets, gram_train[:1])
    problem.check_memory(len(gram_train), 8 * len(gram_train) ** 2, "fewer examples")
    found = _weights(gram_train, targets, ridge)
    if found is None:
        raise _refusal(gram_train, ridge, "float64", overwritten=False)
    return found[0]


def _solve(
    gram_train: np.ndarray,
    targets: np.ndarray,
    gram_test: np.ndarray,
    ridge: float,
    precision: Precision = "float64",
    *,
    overwrite: bool = False,
) -> Regression | None:
    """Returns the regression; None where the matrix is not positive definite to the precision."""
    found = _weights(gram_train, targets, ridge, precision, overwrite=overwrite)
    if found is None:
        return None
    weights, mean, condition = found
    return Regression(blocks.multiply(gram_test, weights) + mean, ridge, condition)


def _weights(
    gram_train: np.ndarray,
    targets: np.ndarray,
    ridge: float,
    precision: Precision = "float64",
    *,
    overwrite: bool = False,
) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Returns the examples' weights, the mean target and the condition number, or None."""
    factor = cholesky.factorize(gram_train, ridge, precision, overwrite=overwrite)
    if factor is None:
        return None
    mean = targets.mean(axis=0, dtype=float)
    if precision == "float64":
        return cholesky.solve(factor, targets - mean), mean, factor.condition
    return cholesky.refine(factor, gram_train, targets - mean), mean, factor.condition


def _refusal(
    gram_train: np.ndarray, ridge: float, precision: Precision, *, overwritten: bool
) -> NumericalError:
    """Says what ridge it takes, from the smallest eigenvalue. O(n^3), like what has failed."""
    n = len(gram_train)
    if precision == "float32":
        return NumericalError(
            f"the kernel matrix of {n} examples is not positive definite in float32 with ridge "
            f"{ridge:g}; use precision='float64', or a larger ridge"
        )
    if overwritten:
        return NumericalError(
            f"the kernel matrix of {n} examples is not positive definite with ridge {ridge:g}; use "
            "a larger ridge, or remove examples that are equal"
        )
    mean_diagonal = np.trace(gram_train, dtype=float) / n
    smallest = scipy.linalg.eigvalsh(gram_train.astype(float), subset_by_index=[0, 0])[0]
    return problem.not_positive_definite(n, ridge, smallest / mean_diagonal)


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
    passed over. Of equally good ones the smallest is taken. O(n^3) time for each ridge; many ridges
    share one eigendecomposition, which costs as much as about 30. See also `leave_one_out_ridge`.

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
    ridges, key = problem.check_ridges(ridges), arrays.random_key("key", key)
    if len(ridges) == 1 or backend.dry_run() is not None:
        return ridges[0]
    gram_train, targets = problem.matrix("gram_train", gram_train), problem.targets_of(targets)
    problem.check(gram_train, targets, gram_train)
    count = round(held_out * len(targets))
    if not 0 < count < len(targets):
        raise InputError(
            f"held_out is {held_out} of {len(targets)} examples; accepted: a share that leaves "
            "examples on both sides"
        )
    ordered, rest = sorted(ridges), len(targets) - count
    # Copies of both parts of the matrix, and the first one factorised, or its spectrum.
    needed = gram_train.itemsize * rest * len(targets)
    needed += (32 if len(ordered) > _FACTORISATIONS else 8) * rest**2
    problem.check_memory(len(targets), needed, "a single ridge")
    order = np.asarray(jax.random.permutation(key, len(targets)))
    validation, rest = order[:count], order[count:]
    gram_rest, gram_validation = (gram_train[np.ix_(some, rest)] for some in (rest, validation))
    if len(ordered) > _FACTORISATIONS:
        spectrum = spectral.eigendecompose(gram_rest)
        fits = spectral.ridge_path(spectrum, targets[rest], gram_validation, ordered)
    else:
        fits = (
            fit and fit.predictions
            for fit in (_solve(gram_rest, targets[rest], gram_validation, r) for r in ordered)
        )
    errors = {
        ridge: float(np.mean((predictions - targets[validation]) ** 2))
        for ridge, predictions in zip(ordered, fits, strict=True)
        if predictions is not None
    }
    if not errors:
        raise _refusal(gram_rest, ordered[-1], "float64", overwritten=False)
    return float(min(errors, key=errors.get))
