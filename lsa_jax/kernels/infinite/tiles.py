"""Matrices of all pairs in parts, by loops inside one compiled program."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree


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
        start = (place[0] * rows, place[1] * columns, *(np.int32(0) for _ in rest))
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
    return matrix if symmetric is False else mirrored(matrix, symmetric)


def mirrored(
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
