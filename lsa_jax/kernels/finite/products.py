"""Sums of products of matrices, some of which are never held as a whole."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsa_jax import backend
from lsa_jax.kernels.infinite.tiles import mirrored

# Of products of matrices with their own transposes: side of the blocks on the diagonal, and columns
# that go into all blocks before the next ones do. So many stay in a CPU's cache, and let its
# products run at the rate of large ones.
_BLOCK = {"cpu": 256}
_CHUNK = {"cpu": 4000}

# An accelerator has no such cache: its products are at their rate from about 1,000 rows, and so
# many columns of them are 270 MB.
_BLOCK_ELSEWHERE = 1024
_CHUNK_ELSEWHERE = 65_536

# Of fewer rows, blocks that leave out a quarter of the products, where they are not too small.
_SMALLEST_BLOCK = 100


class Pieces(NamedTuple):
    """A matrix that is computed some columns at a time, and never held as a whole.

    Attributes:
        count: how many pieces.
        piece: `index -> [n, columns]`.
    """

    count: int
    piece: Callable[[Array], Float[Array, "n _"]]


def _first_columns(factor: Float[Array, "n _"] | Pieces) -> Float[Array, "n _"]:
    return factor.piece(jnp.array(0)) if isinstance(factor, Pieces) else factor


def sum_of_products(
    rows: Sequence[Float[Array, "n1 _"] | Pieces], columns: Sequence[Float[Array, "n2 _"] | Pieces]
) -> Float[Array, "n1 n2"]:
    """Computes the sum of J @ K.T over some pairs of matrices. Derivatives go through."""

    def product(pair: tuple[Array | Pieces, Array | Pieces]) -> Array:
        row, column = pair
        if not isinstance(row, Pieces):
            return row @ column.T

        @jax.checkpoint
        def step(total: Array, at: Array) -> tuple[Array, None]:
            return total + row.piece(at) @ column.piece(at).T, None

        first = _first_columns(row) @ _first_columns(column).T
        return lax.scan(step, first, jnp.arange(1, row.count))[0]

    return functools.reduce(jnp.add, map(product, zip(rows, columns, strict=True)))


def sum_of_grams(factors: Sequence[Float[Array, "n _"] | Pieces]) -> Float[Array, "n n"]:
    """Computes the sum of J @ J.T over some matrices, with little more than half of the products.

    Blocks on and above the diagonal are computed, and mirrored. Derivatives go through.
    """
    form = jax.eval_shape(lambda: _first_columns(factors[0]))
    n = form.shape[0]
    side = _BLOCK.get(backend.platform(), _BLOCK_ELSEWHERE)
    chunk = _CHUNK.get(backend.platform(), _CHUNK_ELSEWHERE)
    places = _upper_blocks(0, n, min(side, max(_SMALLEST_BLOCK, math.ceil(n / 2))))

    @jax.checkpoint
    def add(blocks: list[Array], some: Array) -> list[Array]:
        return [
            block + some[rows] @ some[columns].T
            for block, (rows, columns) in zip(blocks, places, strict=True)
        ]

    def add_matrix(blocks: list[Array], matrix: Array) -> list[Array]:
        whole, rest = divmod(matrix.shape[1], chunk)

        def step(blocks: list[Array], at: Array) -> tuple[list[Array], None]:
            return add(blocks, lax.dynamic_slice_in_dim(matrix, at * chunk, chunk, axis=1)), None

        if whole:
            blocks, _ = lax.scan(step, blocks, jnp.arange(whole))
        return add(blocks, matrix[:, whole * chunk :]) if rest else blocks

    def add_factor(blocks: list[Array], factor: Array | Pieces) -> list[Array]:
        if not isinstance(factor, Pieces):
            return add_matrix(blocks, factor)

        @jax.checkpoint
        def step(blocks: list[Array], at: Array) -> tuple[list[Array], None]:
            return add_matrix(blocks, factor.piece(at)), None

        return lax.scan(step, blocks, jnp.arange(factor.count))[0]

    matrix = jnp.zeros((n, n), form.dtype)
    blocks = functools.reduce(add_factor, factors, [matrix[place] for place in places])
    for block, (rows, columns) in zip(blocks, places, strict=True):
        matrix = lax.dynamic_update_slice(matrix, block, (rows.start, columns.start))
    return mirrored(matrix)


def _upper_blocks(start: int, stop: int, side: int) -> list[tuple[slice, slice]]:
    """Covers a square's diagonal and what is above it: halves, and halves of those on the diagonal.

    Few of the blocks are small: large ones are multiplied at a higher rate.
    """
    whole = slice(start, stop)
    if stop - start <= side:
        return [(whole, whole)]
    middle = (start + stop) // 2
    halves = _upper_blocks(start, middle, side) + _upper_blocks(middle, stop, side)
    return [(slice(start, middle), slice(middle, stop)), *halves]
