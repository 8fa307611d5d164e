"""A preconditioner for kernel matrices that are read a few rows at a time."""

from collections.abc import Sequence

import numpy as np
import scipy
from jaxtyping import Float

from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.sharded import PackedMatrix, pick

# Pivots that are drawn at a time: rows of a packed matrix lie in all of its tiles.
_BLOCK = 256

# A rank chosen here: at least so much, and at most this share of the examples, where building it
# takes about as long as ten products with ten targets; and of the memory, this share.
_LEAST_RANK = 100
_SHARE_OF_EXAMPLES = 1 / 20
_SHARE_OF_MEMORY = 1 / 4


def choose_rank(n: int) -> int:
    """Returns the rank for n examples that the memory allows and that is worth its time."""
    by_memory = int(_SHARE_OF_MEMORY * memory.host_available() / (2 * 8 * max(1, n)))
    return min(n, max(_LEAST_RANK, int(_SHARE_OF_EXAMPLES * n)), by_memory)


def partial_cholesky(
    gram_train: np.ndarray | PackedMatrix, rank: int
) -> tuple[Float[np.ndarray, "r n"], Float[np.ndarray, " n"]]:
    """Returns L with L^T L near K, and the diagonal that is left over.

    Pivots are drawn in blocks, with probabilities proportional to the rest of their diagonal,
    always from the same stream: equal matrices have equal factors. Within a block the largest come
    first, and pivots that are left by rounding alone are skipped.

    Source: Chen, Epperly, Tropp and Webber, Randomly pivoted Cholesky, 2023, algorithm 4.
    """
    left = np.array(gram_train.diagonal(), dtype=float)
    rows, count = np.zeros((rank, len(left))), 0
    # Whole numbers have no rounding of their own.
    rounding = np.finfo(np.result_type(gram_train.dtype, np.float32)).eps
    floor = len(left) * rounding * left.max()
    stream = np.random.default_rng(0)
    while count < rank and (candidates := np.flatnonzero(left > floor)).size:
        chances = left[candidates] / left[candidates].sum()
        size = min(_BLOCK, rank - count, len(candidates))
        drawn = stream.choice(candidates, size, replace=False, p=chances)
        new = pick(gram_train, drawn).astype(float) - rows[:count, drawn].T @ rows[:count]
        factor, order, kept, _ = scipy.linalg.lapack.dpstrf(new[:, drawn], tol=floor, lower=1)
        order = order[:kept] - 1
        added = scipy.linalg.solve_triangular(factor[:kept, :kept], new[order], lower=True)
        rows[count : count + kept] = added
        left = np.maximum(left - np.sum(added**2, axis=0), 0.0)
        left[drawn] = 0.0
        count += kept
    return rows[:count], left


class Preconditioner:
    """(L^T L + d I)^{-1} for one or more d: the ridge and the part of K outside of L."""

    def __init__(self, rows: Float[np.ndarray, "r n"], rests: Sequence[float]) -> None:
        """Takes L and the d."""
        self._rows, self._rests = rows, rests
        inner = rows @ rows.T
        self._factors = []
        for rest in rests:
            shifted = inner.copy()
            shifted[np.diag_indices_from(shifted)] += rest
            self._factors.append(scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True))

    def __call__(self, vectors: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Multiplies equal parts of the columns, one for each d in their order."""
        parts = np.split(self._rows @ vectors, len(self._rests), axis=1)
        solved = [
            scipy.linalg.cho_solve((factor, True), part)
            for factor, part in zip(self._factors, parts, strict=True)
        ]
        rests = np.repeat(self._rests, vectors.shape[1] // len(self._rests))
        return (vectors - self._rows.T @ np.concatenate(solved, axis=1)) / rests

    def diagonals(self) -> Float[np.ndarray, "d n"]:
        """Returns the diagonal for each d."""
        found = []
        for factor, rest in zip(self._factors, self._rests, strict=True):
            half = scipy.linalg.solve_triangular(factor, self._rows, lower=True)
            found.append((1 - np.einsum("rn,rn->n", half, half)) / rest)
        return np.array(found)


def make(
    gram_train: np.ndarray | PackedMatrix, shifts: Sequence[float], rank: int
) -> Preconditioner:
    """Returns the preconditioner for K with each of some ridges."""
    rows, left = partial_cholesky(gram_train, rank)
    rests = [shift + left.mean() for shift in shifts]
    if len(rows) and min(rests) > 0:
        return Preconditioner(rows, rests)
    return Preconditioner(np.zeros((0, len(left))), [1.0] * len(rests))
