"""Matrices that may be larger than memory, gone through block by block."""

import functools
from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Shaped

from lsa_jax.kernels.matrices.packed import PackedMatrix
from lsa_jax.kernels.matrices.shards import Sharded

# Bytes of a block of rows, widened to float64: few blocks, and little beside the matrix.
_ROWS = 64e6

# Side of a square block, of which two are compared within the cache.
_SIDE = 1024


def row_blocks(shape: tuple[int, int]) -> Iterator[slice]:
    """Yields the rows of one block after the other."""
    rows = max(1, int(_ROWS / (8 * max(1, shape[1]))))
    for start in range(0, shape[0], rows):
        yield slice(start, min(start + rows, shape[0]))


def multiply(
    matrix: Shaped[np.ndarray, "m n"] | Sharded, vectors: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "m c"]:
    """Returns the product in float64, without a copy of the matrix in float64."""
    if isinstance(matrix, Sharded):
        return matrix.multiply(vectors)
    product = np.empty((len(matrix), vectors.shape[1]))
    for rows in row_blocks(matrix.shape):
        product[rows] = np.asarray(matrix[rows], dtype=float) @ vectors
    return product


def is_finite(matrix: Shaped[np.ndarray, "m n"] | Sharded) -> bool:
    """Says whether all entries are finite."""
    if isinstance(matrix, Sharded):
        return matrix.is_finite()
    return all(np.isfinite(matrix[rows]).all() for rows in row_blocks(matrix.shape))


def mean_diagonal(matrix: Shaped[np.ndarray, "n n"] | PackedMatrix) -> float:
    """Returns trace(K) / n in float64."""
    return float(np.mean(matrix.diagonal(), dtype=float))


def asymmetry(matrix: Shaped[np.ndarray, "n n"] | PackedMatrix) -> float:
    """Returns the largest difference of a matrix from its transpose."""
    if isinstance(matrix, PackedMatrix):
        return 0.0
    starts = range(0, len(matrix), _SIDE)
    # Differences of unsigned integers would wrap around, and 16 bits overflow.
    subtract = functools.partial(np.subtract, dtype=np.result_type(matrix.dtype, np.float32))
    return max(
        float(
            np.abs(
                subtract(
                    matrix[i : i + _SIDE, j : j + _SIDE], matrix[j : j + _SIDE, i : i + _SIDE].T
                )
            ).max()
        )
        for i in starts
        for j in starts
        if i <= j
    )
