"""Matrices of all pairs in parts, by loops inside one compiled program."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

# Of products of matrices with their own transposes: rows of a band, and columns that go into all
# bands before the next ones do. So many stay in a CPU's cache, and let its products run at the rate
# of square ones.
_BAND = 256
_CHUNK = 4000


def even_share(n: int, most: int) -> int:
    """Returns the side, `most` or less, that cuts n into equal tiles with little to fill up."""
    return math.ceil(n / math.ceil(n / most))


def all_pairs(
    tile: Callable[[Any, Any], Array],
    tiles1: PyTree[Array],
    tiles2: PyTree[Array],
    shape: tuple[int, int],
    *,
    symmetric: bool,
) -> Float[Array, "n1 n2 ..."]:
    """Computes a matrix tile by tile.

    Derivatives go through, and recompute each tile rather than keep what it held.

    Args:
        tile: `(part1, part2) -> [rows, columns, ...]`.
        tiles1: tree of [tiles, ...]; part1 is one of them.
        tiles2: the same for the columns.
        shape: rows and columns of the matrix; what sticks out of it is thrown away.
        symmetric: compute the tiles on and above the diagonal alone, and mirror them. Axes that
            follow the first two are mirrored with them.

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

    places = [
        (i, j)
        for j in range(counts[1])
        for i in range(counts[0])
        if not symmetric or (j + 1) * columns > i * rows
    ]
    blank = jnp.zeros((counts[0] * rows, counts[1] * columns, *rest), form.dtype)
    matrix, _ = lax.scan(add, blank, np.array(places, np.int32))
    matrix = matrix[: shape[0], : shape[1]]
    return _mirrored(matrix) if symmetric else matrix


def sum_of_grams(factors: Sequence[Float[Array, "n _"]]) -> Float[Array, "n n"]:
    """Computes the sum of J @ J.T over some matrices, with little more than half of the products.

    The bands of rows above the diagonal are computed, and mirrored. Derivatives go through.
    """
    n = len(factors[0])
    side = even_share(n, _BAND)
    starts = range(0, n, side)

    @jax.checkpoint
    def add(bands: list[Array], some: Array) -> list[Array]:
        return [
            band + some[start : start + side] @ some[start:].T
            for band, start in zip(bands, starts, strict=True)
        ]

    def add_all(bands: list[Array], matrix: Array) -> list[Array]:
        chunk = min(_CHUNK, matrix.shape[1])
        whole = matrix.shape[1] // chunk

        def step(bands: list[Array], at: Array) -> tuple[list[Array], None]:
            return add(bands, lax.dynamic_slice_in_dim(matrix, at * chunk, chunk, axis=1)), None

        bands, _ = lax.scan(step, bands, jnp.arange(whole))
        return add(bands, matrix[:, whole * chunk :])

    blank = [jnp.zeros((min(side, n - start), n - start), factors[0].dtype) for start in starts]
    bands = functools.reduce(add_all, factors, blank)
    starting_left = [
        jnp.pad(band, ((0, 0), (start, 0))) for band, start in zip(bands, starts, strict=True)
    ]
    return _mirrored(jnp.concatenate(starting_left))


def _mirrored(matrix: Float[Array, "n n ..."]) -> Float[Array, "n n ..."]:
    """Puts what is above the diagonal below it; further axes are mirrored with the first two."""
    n, rest = len(matrix), matrix.shape[2:]
    rows, columns = (lax.broadcasted_iota(int, (n, n), axis) for axis in (0, 1))
    above = (rows <= columns).reshape(n, n, *(1 for _ in rest))
    return jnp.where(above, matrix, jnp.transpose(matrix, (1, 0, *range(matrix.ndim - 1, 1, -1))))
