"""A preconditioner for kernel matrices that are read a few rows at a time."""

from collections.abc import Callable

import numpy as np
import scipy.linalg
from jaxtyping import Float

from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.packed import PackedMatrix, pick

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

    Pivots are drawn in blocks, as likely as what is left of their diagonal, always from the same
    stream: equal matrices have equal factors. Within a block those come first that add most, and
    what rounding alone has left of one is passed over.

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


def make(
    gram_train: np.ndarray | PackedMatrix, shift: float, rank: int
) -> Callable[[np.ndarray], np.ndarray]:
    """Returns v -> (L^T L + d I)^{-1} v, where d stands for the ridge and what L leaves over."""
    rows, left = partial_cholesky(gram_train, rank)
    rest = shift + left.mean()
    if not len(rows) or not rest > 0:
        return lambda vectors: vectors
    inner = rows @ rows.T
    inner[np.diag_indices_from(inner)] += rest
    factor = scipy.linalg.cho_factor(inner, lower=True)

    def apply(vectors: np.ndarray) -> np.ndarray:
        return (vectors - rows.T @ scipy.linalg.cho_solve(factor, rows @ vectors)) / rest

    return apply
