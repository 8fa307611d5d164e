"""Cholesky factorisations that say when they cannot be trusted, and refinement in float64."""

from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.solve import blocks

Precision = Literal["float64", "float32"]
PRECISIONS = ("float64", "float32")

# A solution is refined until its residual is this share of the right-hand side.
_RESIDUAL = 1e-12

# Residuals this small are accepted where rounding keeps refinement from going on.
_ACCEPTED_RESIDUAL = 1e-9


class Factor(NamedTuple):
    """A factorisation of K + shift I.

    Attributes:
        lower: [n, n], whose lower triangle L has L L^T = K + shift I; the rest is undefined.
        shift: what was added to the diagonal.
        condition: estimated condition number (1-norm).
    """

    lower: np.ndarray
    shift: float
    condition: float


def factorize(
    gram_train: np.ndarray,
    ridge: float,
    precision: Precision = "float64",
    *,
    overwrite: bool = False,
) -> Factor | None:
    """Factorises K + ridge trace(K)/n I.

    Args:
        gram_train: K.
        ridge: ridge over the mean diagonal of K.
        precision: type in which it is done.
        overwrite: use K's own memory; K is lost.

    Returns:
        None where the matrix is not positive definite to this precision: where the factorisation
        breaks down, or the condition number leaves no correct digit.

    Raises:
        InputError: K cannot be overwritten.
    """
    if overwrite:
        matrix = _own_memory(gram_train, precision)
    else:
        # Of a symmetric matrix the transpose, whose rows lie as LAPACK wants columns to.
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
    """Returns the matrix as LAPACK wants it, without a copy."""
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

    Raises:
        NumericalError: the residuals stop shrinking while they are still large.

    Source: Higham, Accuracy and stability of numerical algorithms, 2002, chapter 12.
    """
    scale = np.linalg.norm(right, axis=0)
    scale[scale == 0] = 1.0
    solution, residual, size = np.zeros_like(right, dtype=float), right, 1.0
    while size > _RESIDUAL:
        # Scaled, so that small residuals do not underflow.
        candidate = solution + size * solve(factor, residual / size)
        product = blocks.multiply(gram_train, candidate) + factor.shift * candidate
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
