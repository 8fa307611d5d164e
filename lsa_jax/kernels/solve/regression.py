"""Kernel ridge regression and Gaussian process posteriors by a Cholesky factorisation.

Factorisations in float32 are refined in float64; a system that cannot be solved is refused.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import jax
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, backend
from lsa_jax.checks import integer, number, one_of, require
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.solve import problem

Precision = Literal["float64", "float32"]

# A solution is refined until its residual is this share of the right-hand side.
_RESIDUAL = 1e-12

# Residuals this small are accepted where rounding keeps refinement from going on.
_ACCEPTED_RESIDUAL = 1e-9

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
    """A factorisation of K + shift I, with its estimated condition number (1-norm).

    The lower triangle L of `lower` has L L^T = K + shift I; the rest of it is undefined.
    """

    lower: np.ndarray
    shift: float
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
    precision: Precision = "float64",
    overwrite: bool = False,
) -> Regression:
    """Solves kernel ridge regression by a Cholesky factorisation, to float64's precision.

    With y0 the mean target, predictions = y0 + K_test (K + ridge trace(K)/n I)^{-1} (Y - y0).
    Taking out the mean makes the result independent of a constant added to all targets.

    O(n^3) time. In addition to the inputs, 8 n^2 bytes; half of that, and about half the time, with
    precision "float32"; none with `overwrite`. For matrices that do not fit, `regress_cg`.

    Args:
        gram_train: K, symmetric.
        targets: Y.
        gram_test: K_test, test against training examples.
        ridge: ridge over the mean diagonal of K, 0 or more.
        precision: "float32" factorises in float32, and refines the solution by residuals in float64
            until it is as accurate as that of "float64", or raises NumericalError.
        overwrite: factorise in the memory of K, a float64 array that is then lost.

    Returns:
        Predictions on the test examples.

    Raises:
        InputError: sizes that do not fit each other or the memory, a K that is not symmetric or
            cannot be overwritten, a negative ridge, or an unknown precision.
        NumericalError: entries that are not finite, or a matrix that is not positive definite to
            this precision; the message has the ridge needed.
    """
    if (recorder := backend.dry_run()) is not None:
        predictions = recorder.solve(gram_train, targets, gram_test)
        return Regression(predictions, np.zeros(np.shape(targets)), ridge, 1.0)
    ridge = problem.check_ridge(ridge)
    require("precision", precision, one_of("float64", "float32"))
    if overwrite and precision == "float32":
        raise InputError(
            "overwrite is True and precision is 'float32', which needs K for its residuals; "
            "accepted: one or the other"
        )
    gram_train, targets, gram_test = problem.checked(gram_train, targets, gram_test)
    n = len(gram_train)
    if not overwrite:
        needed = np.dtype(precision).itemsize * n**2
        problem.check_memory(n, needed, "overwrite=True, precision='float32' or regress_cg")
    fit = _fit(gram_train, targets, gram_test, ridge, precision, overwrite=overwrite)
    if fit is None:
        raise _refusal(gram_train, ridge, precision, overwritten=overwrite)
    return fit


def select_ridge(
    key: Key[Array, ""],
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    ridges: Sequence[float],
    *,
    held_out: float = 0.2,
) -> float:
    """Returns the ridge with the least squared error on held-out training examples.

    The key draws a share of the examples that are held out. A single ridge is returned as it is.
    Ridges, over the mean diagonal, at which the matrix is not positive definite are passed over. Of
    equally good ones the smallest is taken. O(n^3) time for each ridge; from about 30 on
    `leave_one_out_ridge` takes less.

    Raises:
        InputError: no ridge, or too few examples to hold any out, or as in `regress`.
        NumericalError: no ridge makes the matrix positive definite, or entries are not finite.
    """
    ridges, key = problem.check_ridges(ridges), arrays.random_key("key", key)
    require("held_out", held_out, number(0, 1))
    if len(ridges) == 1 or backend.dry_run() is not None:
        return ridges[0]
    gram_train, targets, _ = problem.checked(gram_train, targets, gram_train)
    count = round(held_out * len(targets))
    if not 0 < count < len(targets):
        raise InputError(
            f"held_out is {held_out} of {len(targets)} examples; accepted: a share that leaves "
            "examples on both sides"
        )
    # Copies of both parts of the matrix, and the first one factorised.
    kept = len(targets) - count
    needed = gram_train.itemsize * kept * len(targets) + 8 * kept**2
    problem.check_memory(len(targets), needed, "a single ridge")
    order = np.asarray(jax.random.permutation(key, len(targets)))
    validation, rest = order[:count], order[count:]
    gram_rest, gram_validation = (gram_train[np.ix_(some, rest)] for some in (rest, validation))
    errors = {}
    for ridge in sorted(ridges):
        if (fit := _fit(gram_rest, targets[rest], gram_validation, ridge)) is not None:
            errors[ridge] = float(np.mean((fit.predictions - targets[validation]) ** 2))
    if not errors:
        raise _refusal(gram_rest, max(ridges))
    return float(min(errors, key=errors.get))


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
        raise NumericalError("prior has entries that are not finite; check the kernel")
    needed = 8 * (n * (n + m) + (prior.size if prior.ndim == 2 else 0))
    problem.check_memory(n, needed, "test examples a part at a time")
    factor = factorize(gram_train, ridge)
    if factor is None:
        raise _refusal(gram_train, ridge)
    mean = problem.multiply(gram_test, solve(factor, targets.astype(float)))
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


def factorize(
    gram_train: np.ndarray,
    ridge: float,
    precision: Precision = "float64",
    *,
    overwrite: bool = False,
) -> Factor | None:
    """Factorises K + ridge trace(K)/n I; with `overwrite` in K's own memory.

    Returns None where the matrix is not positive definite to this precision: where the
    factorisation breaks down, or the condition number leaves no correct digit.
    """
    if overwrite:
        matrix = _own_memory(gram_train, precision)
    else:
        # The transpose of a symmetric matrix is itself, and has LAPACK's order of entries.
        matrix = np.array(gram_train.T, dtype=precision, order="F")
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
    if reciprocal < np.finfo(precision).eps:
        return None
    return Factor(factor, shift, float(1 / reciprocal))


def _own_memory(gram_train: np.ndarray, precision: Precision) -> np.ndarray:
    """Returns the matrix in LAPACK's order of entries, without a copy."""
    matrix = gram_train if gram_train.flags.f_contiguous else gram_train.T
    if not (matrix.flags.f_contiguous and matrix.flags.writeable and matrix.dtype == precision):
        raise InputError(
            f"overwrite is True and gram_train is {gram_train.dtype}; accepted: a contiguous, "
            f"writeable {precision} array"
        )
    return matrix


def solve(factor: Factor, right: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
    """Returns (K + shift I)^{-1} times a matrix, in the factor's precision."""
    right = right.astype(factor.lower.dtype, copy=False)
    return scipy.linalg.cho_solve((factor.lower, True), right, check_finite=False)


def refine(
    factor: Factor, gram_train: np.ndarray, right: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "n c"]:
    """Solves with a float32 factor, and corrects the solution by residuals in float64.

    Each round takes about log10(1 / (condition 6e-8)) digits off the residual.

    Raises NumericalError where residuals stop shrinking while they are still large.

    Source: Higham, Accuracy and stability of numerical algorithms, 2002, chapter 12.
    """
    scale = np.linalg.norm(right, axis=0)
    scale[scale == 0] = 1.0
    solution, residual, size = np.zeros_like(right, dtype=float), right, 1.0
    while size > _RESIDUAL:
        # Scaled, so that small residuals do not underflow.
        candidate = solution + size * solve(factor, residual / size)
        product = problem.multiply(gram_train, candidate) + factor.shift * candidate
        left = right - product
        smaller = float((np.linalg.norm(left, axis=0) / scale).max())
        if not smaller < size / 2:
            break
        solution, residual, size = candidate, left, smaller
    if size > _ACCEPTED_RESIDUAL:
        raise NumericalError(
            f"refinement of a float32 factorisation stopped at a residual of {size:.2g}; the "
            f"condition number is about {factor.condition:.2g}: use precision='float64', or a "
            "larger ridge"
        )
    return solution


def _fit(
    gram_train: np.ndarray,
    targets: np.ndarray,
    gram_test: np.ndarray,
    ridge: float,
    precision: Precision = "float64",
    *,
    overwrite: bool = False,
) -> Regression | None:
    """Returns the regression; None where the matrix is not positive definite to the precision."""
    factor = factorize(gram_train, ridge, precision, overwrite=overwrite)
    if factor is None:
        return None
    mean = targets.mean(axis=0, dtype=float)
    if precision == "float64":
        weights = solve(factor, targets - mean)
    else:
        weights = refine(factor, gram_train, targets - mean)
    predictions = problem.multiply(gram_test, weights) + mean
    return Regression(predictions, weights, ridge, factor.condition)


def _refusal(
    gram_train: np.ndarray,
    ridge: float,
    precision: Precision = "float64",
    *,
    overwritten: bool = False,
) -> NumericalError:
    """Returns the error with the ridge needed, in O(n^3): from the smallest eigenvalue."""
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
