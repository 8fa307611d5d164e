"""Kernel ridge regression by conjugate gradients, for matrices that do not fit memory."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Array, Float

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.solve import blocks, problem

# The residual that is updated drifts away from the true one, by less than this factor.
_DRIFT = 10.0


class IterativeRegression(NamedTuple):
    """Predictions of kernel ridge regression, and how well its system was solved.

    Attributes:
        predictions: [m, c], float64.
        ridge: ridge over the mean diagonal that was used.
        iterations: passes over the matrix that it took.
        residual: largest |Y - y0 - (K + lambda I) weights| over |Y - y0| of a target.
    """

    predictions: Float[np.ndarray, "m c"]
    ridge: float
    iterations: int
    residual: float


def regress_cg(
    gram_train: Float[Array | np.ndarray, "n n"],
    targets: Float[Array | np.ndarray, "n c"],
    gram_test: Float[Array | np.ndarray, "m n"],
    *,
    ridge: float,
    tolerance: float = 1e-8,
    max_iterations: int = 1000,
    rank: int = 100,
) -> IterativeRegression:
    """Solves what `regress` solves by preconditioned conjugate gradients.

    Each iteration reads the matrix once, for all targets together, block by block: matrices may be
    memory-mapped from files. The preconditioner is a partial Cholesky factorisation with pivots, of
    the kernel's largest directions, plus a multiple of the identity for the others. The more the
    eigenvalues spread above the ridge, the more iterations.

    O(n^2 c) time an iteration; 8 n (rank + 5 c) bytes and one block beside the inputs.

    Args:
        gram_train: K, symmetric; may be memory-mapped.
        targets: Y.
        gram_test: K_test, test against training examples; may be memory-mapped.
        ridge: ridge over the mean diagonal of K, 0 or more.
        tolerance: residual at which to stop, over the size of the target.
        max_iterations: after which to give up.
        rank: of the preconditioner; 0 leaves it out.

    Raises:
        InputError: sizes or options are not accepted, or a K that is not symmetric.
        NumericalError: entries that are not finite, a matrix that proves not to be positive
            definite, or a residual above the tolerance after all iterations.

    Source: Gardner et al., GPyTorch, 2018, sections 4 and 5 (preconditioner).
    """
    gram_train, targets, gram_test = map(np.asanyarray, (gram_train, targets, gram_test))
    problem.check_ridge(ridge)
    _check_options(tolerance, max_iterations, rank)
    problem.check(gram_train, targets, gram_test)
    shift = ridge * np.trace(gram_train, dtype=float) / len(gram_train)
    mean = targets.mean(axis=0, dtype=float)
    weights, iterations, residual = _conjugate_gradients(
        lambda vectors: blocks.multiply(gram_train, vectors) + shift * vectors,
        targets - mean,
        _preconditioner(gram_train, shift, min(rank, len(gram_train))),
        tolerance,
        max_iterations,
    )
    if residual > _DRIFT * tolerance:
        if iterations < max_iterations:
            advice = ": rounding allows no less; use a larger ridge or tolerance"
        else:
            advice = "; use a larger ridge, rank or max_iterations"
        raise NumericalError(
            f"conjugate gradients on {len(gram_train)} examples with ridge {ridge:g} have a "
            f"residual of {residual:.2g} after {iterations} iterations, above the tolerance "
            f"{tolerance:g}{advice}"
        )
    predictions = blocks.multiply(gram_test, weights) + mean
    return IterativeRegression(predictions, float(ridge), iterations, residual)


def _check_options(tolerance: float, max_iterations: int, rank: int) -> None:
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance is {tolerance!r}; accepted: above 0, below 1")
    if not max_iterations >= 1:
        raise InputError(f"max_iterations is {max_iterations!r}; accepted: 1 or more")
    if not rank >= 0:
        raise InputError(f"rank is {rank!r}; accepted: 0 or more")


def _partial_cholesky(
    gram_train: np.ndarray, rank: int
) -> tuple[Float[np.ndarray, "r n"], Float[np.ndarray, " n"]]:
    """Returns L with L^T L near K, row by row of the largest pivots, and the diagonal left over."""
    left = np.array(np.diagonal(gram_train), dtype=float)
    rows = np.zeros((rank, len(left)))
    # Whole numbers have no rounding of their own.
    rounding = np.finfo(np.result_type(gram_train.dtype, np.float32)).eps
    floor = len(left) * rounding * left.max()
    for index in range(rank):
        pivot = int(np.argmax(left))
        if left[pivot] <= floor:
            return rows[:index], left
        row = np.asarray(gram_train[pivot], dtype=float) - rows[:index, pivot] @ rows[:index]
        rows[index] = row / np.sqrt(left[pivot])
        left = np.maximum(left - rows[index] ** 2, 0.0)
        left[pivot] = 0.0
    return rows, left


def _preconditioner(
    gram_train: np.ndarray, shift: float, rank: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns v -> (L^T L + d I)^{-1} v, where d stands for the ridge and what L leaves over."""
    rows, left = _partial_cholesky(gram_train, rank)
    rest = shift + left.mean()
    if not len(rows) or not rest > 0:
        return lambda vectors: vectors
    inner = rows @ rows.T
    inner[np.diag_indices_from(inner)] += rest
    factor = scipy.linalg.cho_factor(inner, lower=True)

    def apply(vectors: np.ndarray) -> np.ndarray:
        return (vectors - rows.T @ scipy.linalg.cho_solve(factor, rows @ vectors)) / rest

    return apply


def _conjugate_gradients(
    multiply: Callable[[np.ndarray], np.ndarray],
    right: Float[np.ndarray, "n c"],
    precondition: Callable[[np.ndarray], np.ndarray],
    tolerance: float,
    max_iterations: int,
) -> tuple[Float[np.ndarray, "n c"], int, float]:
    """Solves for every column at a time, so that one pass over the matrix serves all of them.

    scipy's takes one right-hand side, and would read the matrix anew for each.

    Returns:
        The solution, the number of iterations, and the true largest relative residual.
    """
    scale = np.linalg.norm(right, axis=0)
    scale[scale == 0] = 1.0
    solution, residual = np.zeros_like(right), right.copy()
    conditioned = precondition(residual)
    direction, product = conditioned, np.sum(residual * conditioned, axis=0)
    iterations = 0
    while iterations < max_iterations:
        active = np.linalg.norm(residual, axis=0) > tolerance * scale
        if not active.any():
            break
        image = multiply(direction)
        curvature = np.sum(direction * image, axis=0)
        if (curvature[active] <= 0).any():
            raise NumericalError(
                f"the kernel matrix of {len(right)} examples is not positive definite: conjugate "
                f"gradients met a direction of curvature {curvature[active].min():.2g} in "
                f"iteration {iterations + 1}; use a larger ridge, or remove examples that are equal"
            )
        step = np.where(active, product / np.where(active, curvature, 1.0), 0.0)
        solution += step * direction
        residual -= step * image
        conditioned = precondition(residual)
        before, product = product, np.sum(residual * conditioned, axis=0)
        direction = conditioned + np.where(active, product / np.where(active, before, 1.0), 0) * (
            direction
        )
        iterations += 1
    true = np.linalg.norm(right - multiply(solution), axis=0) / scale
    return solution, iterations, float(true.max())
