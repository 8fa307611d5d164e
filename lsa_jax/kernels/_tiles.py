"""A matrix of all pairs in tiles, by a loop inside one compiled program."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree


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
    if not symmetric:
        return matrix
    above = np.tri(shape[0], dtype=bool).T.reshape(*shape, *(1 for _ in rest))
    mirrored = jnp.transpose(matrix, (1, 0, *range(matrix.ndim - 1, 1, -1)))
    return jnp.where(above, matrix, mirrored)
