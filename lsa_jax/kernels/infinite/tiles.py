"""Matrices of all pairs in parts, by loops inside one compiled program."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

# Of products of matrices with their own transposes: side of the blocks on the diagonal, and columns
# that go into all blocks before the next ones do. So many stay in a CPU's cache, and let its
# products run at the rate of large ones.
_BLOCK = 256
_CHUNK = 4000

# Of fewer rows, blocks that leave out a quarter of the products, where they are not too small.
_SMALLEST_BLOCK = 100


def even_share(n: int, most: int) -> int:
    """Returns the side, `most` or less, that cuts n into equal tiles with little to fill up."""
    return math.ceil(n / math.ceil(n / most))


def all_pairs(
    tile: Callable[[Any, Any], Array],
    tiles1: PyTree[Array],
    tiles2: PyTree[Array],
    shape: tuple[int, int],
    *,
    symmetric: bool | Bool[Array, ""],
) -> Float[Array, "n1 n2 ..."]:
    """Computes a matrix tile by tile.

    Derivatives go through, and recompute each tile rather than keep what it held; not where
    `symmetric` is an array.

    Args:
        tile: `(part1, part2) -> [rows, columns, ...]`.
        tiles1: tree of [tiles, ...]; part1 is one of them.
        tiles2: the same for the columns.
        shape: rows and columns of the matrix; what sticks out of it is thrown away.
        symmetric: compute the tiles on and above the diagonal alone, and mirror them. Axes that
            follow the first two are mirrored with them. An array leaves it to the running program.

    Returns:
        The matrix.
    """
    counts = [len(jax.tree.leaves(tiles)[0]) for tiles in (tiles1, tiles2)]
    parts = [jax.tree.map(lambda a: a[0], tiles) for tiles in (tiles1, tiles2)]
    form = jax.eval_shape(tile, *parts)
    (rows, columns), rest = form.shape[:2], form.shape[2:]

    @jax.checkpoint
    def at(place: Array) -> Array:
        part1, part2 = (
            jax.tree.map(lambda a, i=i: lax.dynamic_index_in_dim(a, i, keepdims=False), tiles)
            for tiles, i in ((tiles1, place[0]), (tiles2, place[1]))
        )
        return tile(part1, part2)

    def add(matrix: Array, place: Array) -> tuple[Array, None]:
        start = (place[0] * rows, place[1] * columns, *(0 for _ in rest))
        return lax.dynamic_update_slice(matrix, at(place), start), None

    # Column by column, tiles below the diagonal last: without them the others are the first ones.
    j, i = np.divmod(np.arange(counts[0] * counts[1], dtype=np.int32), np.int32(counts[0]))
    below = (j + 1) * columns <= i * rows
    places = np.stack([i, j], axis=1)[np.argsort(below, kind="stable")]
    blank = jnp.zeros((counts[0] * rows, counts[1] * columns, *rest), form.dtype)
    if isinstance(symmetric, bool):
        some = places[: (~below).sum()] if symmetric else places
        matrix, _ = lax.scan(add, blank, some)
    else:
        count = jnp.where(symmetric, (~below).sum(), len(places))
        where = jnp.asarray(places)
        matrix = lax.fori_loop(0, count, lambda at, matrix: add(matrix, where[at])[0], blank)
    matrix = matrix[: shape[0], : shape[1]]
    return matrix if symmetric is False else _mirrored(matrix, symmetric)


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
    places = _upper_blocks(0, n, min(_BLOCK, max(_SMALLEST_BLOCK, math.ceil(n / 2))))

    @jax.checkpoint
    def add(blocks: list[Array], some: Array) -> list[Array]:
        return [
            block + some[rows] @ some[columns].T
            for block, (rows, columns) in zip(blocks, places, strict=True)
        ]

    def add_matrix(blocks: list[Array], matrix: Array) -> list[Array]:
        whole, rest = divmod(matrix.shape[1], _CHUNK)

        def step(blocks: list[Array], at: Array) -> tuple[list[Array], None]:
            return add(blocks, lax.dynamic_slice_in_dim(matrix, at * _CHUNK, _CHUNK, axis=1)), None

        if whole:
            blocks, _ = lax.scan(step, blocks, jnp.arange(whole))
        return add(blocks, matrix[:, whole * _CHUNK :]) if rest else blocks

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
    return _mirrored(matrix)


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


def _mirrored(
    matrix: Float[Array, "n n ..."], where: bool | Bool[Array, ""] = True
) -> Float[Array, "n n ..."]:
    """Puts what is above the diagonal below it; further axes are mirrored with the first two.

    Where `where` is false, it leaves the matrix as it is.
    """
    n, rest = len(matrix), matrix.shape[2:]
    rows, columns = (lax.broadcasted_iota(int, (n, n), axis) for axis in (0, 1))
    rows, columns = (a.reshape(n, n, *(1 for _ in rest)) for a in (rows, columns))
    kept, copied = (rows <= columns) | jnp.logical_not(where), (rows < columns) & where
    upper, above = (jnp.where(some, matrix, 0) for some in (kept, copied))
    # As a sum: to compile a choice between the matrix and its transpose takes XLA minutes on a CPU
    # where n is some multiple of 250.
    return upper + jnp.transpose(above, (1, 0, *range(matrix.ndim - 1, 1, -1)))
