"""Kernel ridge regression and Gaussian process posteriors by Cholesky factorisations."""

from typing import Literal, NamedTuple

import numpy as np
import scipy
from jaxtyping import Array, Float

from lsa_jax import arrays, backend
from lsa_jax.checks import integer, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.sharded import multiply
from lsa_jax.kernels.solve import problem

# A variance below 0 by more than this share of its prior value is no rounding of a float32 kernel.
_LARGEST_NEGATIVE = 1e-3

# Iterations with the preconditioner of `regress_cg`. Infinite NTKs of images took 41 to 86 to a
# residual of 1e-6 with a ridge of 1e-4, on 10,000 and 60,000 of them.
_ITERATIONS = 80

# An iteration takes 2 n^2 (targets + these) operations, at the rate of a factorisation: a product
# with few columns waits for memory. On an AMD EPYC with 8,000 examples 19 on one core, 50 on two.
_COLUMNS = 40


class Regression(NamedTuple):
    """Predictions of kernel ridge regression.

    Attributes:
        predictions: [m, c], float64.
        weights: [n, c] of the training examples; other predictions are mean target + K(x, X) w.
        ridge: ridge over the mean diagonal that was used.
        condition: estimated condition number (1-norm) of the matrix that was solved.
    """

    predictions: Float[np.ndarray, "m c"]
    weights: Float[np.ndarray, "n c"]
    ridge: float
    condition: float


class Choice(NamedTuple):
    """A solver, "cholesky" (`regress`) or "conjugate_gradients" (`regress_cg`), and the reason."""

    solver: Literal["cholesky", "conjugate_gradients"]
    reason: str


class Factor(NamedTuple):
    """A factorisation of K with its ridge, and its estimated condition number (1-norm).

    The lower triangle L of `lower` has L L^T = K + ridge trace(K)/n I; the rest is undefined.
    """

    lower: np.ndarray
    condition: float


class Posterior(NamedTuple):
    """Outputs on the test examples, given the training examples.

    Their mean [m, c] in float64, and variances [m] or covariances [m, m], the same for every target
    and without noise; the ridge over the mean diagonal, and the estimated condition number (1-norm)
    of the matrix that was solved.
    """

    mean: Float[np.ndarray, "m c"]
    covariance: Float[np.ndarray, " m"] | Float[np.ndarray, "m m"]
    ridge: float
    condition: float


def choose_solver(n: int, num_targets: int) -> Choice:
    """Chooses the solver of a regression on n examples: the one of fewer operations that fits.

    `regress` takes n^3 / 3 operations, and 12 n^2 bytes with the matrix. The number of iterations
    of `regress_cg` depends on the eigenvalues, which are unknown: 80 are assumed.

    Raises:
        InputError: a number below 1.
    """
    require("n", n, integer(1))
    require("num_targets", num_targets, integer(1))
    iterated = _ITERATIONS * 2.0 * n**2 * (num_targets + _COLUMNS)
    factorised, needed, available = n**3 / 3, 12.0 * n**2, memory.host_available()
    fits = needed <= available
    other = f"a factorisation {factorised:.2g}"
    if not fits:
        other = f"a factorisation {needed:.2g} bytes of {available:.2g} that are available"
    reason = (
        f"for {n:,} examples and {num_targets} targets {_ITERATIONS} iterations take about "
        f"{iterated:.2g} operations, {other}"
    )
    return Choice("cholesky" if fits and factorised < iterated else "conjugate_gradients", reason)


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

    O(n^3) time; 8 n^2 bytes in addition to the inputs. For matrices that do not fit, `regress_cg`.

    Args:
        gram_train: K, symmetric.
        targets: Y.
        gram_test: K_test, test against training examples.
        ridge: ridge over the mean diagonal of K, 0 or more.

    Returns:
        Predictions on the test examples.

    Raises:
        InputError: sizes that do not fit each other or the memory, a K that is not symmetric, or a
            negative ridge.
        NumericalError: entries that are not finite, or a matrix that is not positive definite; the
            message has the ridge needed.
    """
    if (recorder := backend.dry_run()) is not None:
        predictions = recorder.solve(gram_train, targets, gram_test)
        return Regression(predictions, np.zeros(np.shape(targets)), ridge, 1.0)
    ridge = problem.check_ridge(ridge)
    gram_train, targets, gram_test = problem.checked(gram_train, targets, gram_test)
    problem.check_memory(len(gram_train), 8 * len(gram_train) ** 2, "regress_cg")
    factor = factorize(gram_train, ridge)
    if factor is None:
        raise _refusal(gram_train, ridge)
    mean = targets.mean(axis=0, dtype=float)
    weights = solve(factor, targets - mean)
    predictions = multiply(gram_test, weights) + mean
    return Regression(predictions, weights, ridge, factor.condition)


def posterior(
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"],
    prior: Float[Array | np.ndarray, " m"] | Float[Array | np.ndarray, "m m"],
    *,
    ridge: float,
) -> Posterior:
    """Conditions a Gaussian process of mean 0 and covariance K on targets with noise.

    With N = ridge trace(K)/n, the variance of the noise,

        mean = K_test (K + N I)^{-1} Y
        covariance = K_test,test - K_test (K + N I)^{-1} K_test^T.

    O(n^3 + n^2 m) time; 8 n (n + m) bytes in addition to the inputs, and 8 m^2 for all covariances.

    Args:
        gram_train: K, the "nngp" kernel of the training examples.
        targets: Y; no mean is taken out.
        gram_test: K_test, test against training examples.
        prior: the kernel of the test examples: its diagonal, for variances, or all of it.
        ridge: variance of the noise over the mean diagonal of K, 0 or more.

    Raises:
        InputError: sizes that do not fit each other or the memory, a K that is not symmetric, or a
            negative ridge.
        NumericalError: entries that are not finite, a matrix that is not positive definite, or
            variances that are negative beyond rounding.

    Source: Lee et al., Deep neural networks as Gaussian processes, 2018, eq. 8 and 9.
    """
    prior = np.asarray(arrays.real_array("prior", prior, empty=True))
    ridge = problem.check_ridge(ridge)
    gram_train, targets, gram_test = problem.checked(gram_train, targets, gram_test)
    n, m = len(gram_train), len(gram_test)
    if prior.shape not in ((m,), (m, m)):
        raise InputError(
            f"prior is {prior.shape}; accepted with {m} test examples: ({m},), ({m}, {m})"
        )
    if not np.isfinite(prior).all():
        raise NumericalError("prior has entries that are not finite; accepted: finite numbers")
    needed = 8 * (n * (n + m) + (prior.size if prior.ndim == 2 else 0))
    problem.check_memory(n, needed, "test examples a part at a time")
    factor = factorize(gram_train, ridge)
    if factor is None:
        raise _refusal(gram_train, ridge)
    mean = multiply(gram_test, solve(factor, targets.astype(float)))
    covariance = _covariance(factor, gram_test, prior)
    return Posterior(mean, covariance, ridge, factor.condition)


def _covariance(factor: Factor, gram_test: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Returns variances or covariances, as the prior has them."""
    half = scipy.linalg.solve_triangular(
        factor.lower, gram_test.T.astype(float), lower=True, overwrite_b=True, check_finite=False
    )
    if prior.ndim == 1:
        variances = prior - np.einsum("ij,ij->j", half, half)
        _check_variances(variances, prior, factor.condition)
        return np.maximum(variances, 0.0)
    covariance = half.T @ half
    np.subtract(prior, covariance, out=covariance)
    _check_variances(np.diagonal(covariance), np.diagonal(prior), factor.condition)
    return covariance


def _check_variances(variances: np.ndarray, prior: np.ndarray, condition: float) -> None:
    worst = np.min(variances + _LARGEST_NEGATIVE * np.abs(prior), initial=0.0)
    if worst < 0:
        raise NumericalError(
            f"{np.sum(variances < 0)} of {len(variances)} variances are negative, down to "
            f"{variances.min():.2g}, with condition number {condition:.2g}; use a larger ridge, "
            "and check that gram_train, gram_test and prior come from the same kernel and examples"
        )


def factorize(gram_train: np.ndarray, ridge: float) -> Factor | None:
    """Factorises K + ridge trace(K)/n I.

    Returns None where the matrix is not positive definite to float64: where the factorisation
    breaks down, or the condition number leaves no correct digit.
    """
    # The transpose of a symmetric matrix is itself, and has LAPACK's order of entries.
    matrix = np.array(gram_train.T, dtype=float, order="F")
    shift = float(ridge * np.trace(gram_train, dtype=float) / len(gram_train))
    matrix[np.diag_indices_from(matrix)] += shift
    lange, pocon = scipy.linalg.get_lapack_funcs(("lange", "pocon"), (matrix,))
    norm = lange("1", matrix)
    try:
        factor, _ = scipy.linalg.cho_factor(
            matrix, lower=True, overwrite_a=True, check_finite=False
        )
    except np.linalg.LinAlgError:
        return None
    reciprocal, _ = pocon(factor, norm, uplo="L")
    # LAPACK's expert drivers call a matrix singular below this.
    if reciprocal < np.finfo(float).eps:
        return None
    return Factor(factor, float(1 / reciprocal))


def solve(factor: Factor, right: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
    """Returns the inverse of the factorised matrix times another matrix."""
    return scipy.linalg.cho_solve((factor.lower, True), right, check_finite=False)


def _refusal(gram_train: np.ndarray, ridge: float) -> NumericalError:
    """Returns the error with the ridge needed, in O(n^3): from the smallest eigenvalue."""
    n = len(gram_train)
    mean_diagonal = np.trace(gram_train, dtype=float) / n
    smallest = scipy.linalg.eigvalsh(gram_train.astype(float), subset_by_index=[0, 0])[0]
    return problem.not_positive_definite(n, ridge, smallest / mean_diagonal)
