"""Matrices of all pairs in tiles, by loops inside one compiled program, and the tiles' sizes."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, PyTree

from lsa_jax import backend, parallel

# Covariances in one array of a tile: positions (pairs of them before pools) times pairs of
# examples. On a CPU the few arrays of a tile then stay in the cache of one core (2 MB each,
# measured on the CNN: 32 x 32 pairs are best, 16 x 64 take a tenth longer, 32 x 128 twice as long).
# On a TPU they stay in its vector memory (20 MB each of 128 MB): compiled for v5e, 21 layers then
# move 0.2 MB of device memory a pair and not 1.4 MB. On a GPU a pass over a tile is one launch,
# which must be worth it.
_NUMBERS_A_TILE = {"cpu": 4.5e5, "gpu": 3e7, "tpu": 5e6}

# Before pools a pair alone overfills a TPU's vector memory.
_NUMBERS_BEFORE_POOLS = {"cpu": 4.5e5, "gpu": 3e7, "tpu": 3e7}

# Columns of a tile while numbers are few, and its largest side. Before pools a pair has so many
# numbers that the columns are just those that fill a processor's vectors.
_COLUMNS = {"cpu": 32, "gpu": 128, "tpu": 128}
_COLUMNS_BEFORE_POOLS = 16
_LARGEST_SIDE = {"cpu": 256, "gpu": 1024, "tpu": 1024}

# Columns are whole multiples of this. On a CPU, numbers in a vector: XLA computes a rest number by
# number, and with 63 columns the CNN took half as long again as with 64. On a TPU, its lanes. On a
# GPU, a thread can then read four numbers at once: compiled for an H100, a layer takes 165
# instructions a position with 128 columns and 223 with 136.
_VECTOR = {"cpu": 8, "gpu": 128, "tpu": 128}


def even_share(n: int, most: int) -> int:
    """Returns the side, `most` or less, that cuts n into equal tiles with little to fill up."""
    return math.ceil(n / math.ceil(n / most))


def in_tiles(tree: PyTree[Array], size: int, axis: int) -> PyTree[Array]:
    """Splits an axis of each array into tiles, filled up with zeros, and puts them first."""

    def split(array: Array) -> Array:
        fill = [(0, 0)] * array.ndim
        fill[axis] = (0, -array.shape[axis] % size)
        array = jnp.pad(array, fill)
        at = axis % array.ndim
        before, (n, *after) = array.shape[:at], array.shape[at:]
        return jnp.moveaxis(array.reshape(*before, n // size, size, *after), at, 0)

    return jax.tree.map(split, tree)


def all_pairs(
    tile: Callable[[Any, Any], Array],
    tiles1: PyTree[Array],
    tiles2: PyTree[Array],
    shape: tuple[int, int],
    *,
    symmetric: bool | Bool[Array, ""],
) -> Float[Array, "n1 n2 ..."]:
    """Computes a matrix tile by tile, by `tile(part1, part2) -> [rows, columns, ...]`.

    Parts are entries of trees of [tiles, ...]; entries outside of the matrix's shape are dropped.
    If `symmetric`, only the tiles on and above the diagonal are computed, and mirrored with all
    further axes; an array leaves that to the running program. Derivatives go through, except with
    an array, and recompute each tile to save memory.
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
        return parallel.not_inlined(tile)(part1, part2)

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
    """Copies the entries above the diagonal to below it, unless `where` is false.

    Further axes are mirrored with the first two.
    """
    n, rest = len(matrix), matrix.shape[2:]
    rows, columns = (lax.broadcasted_iota(int, (n, n), axis) for axis in (0, 1))
    rows, columns = (a.reshape(n, n, *(1 for _ in rest)) for a in (rows, columns))
    kept, copied = (rows <= columns) | jnp.logical_not(where), (rows < columns) & where
    upper, above = (jnp.where(some, matrix, 0) for some in (kept, copied))
    # As a sum: to compile a choice between the matrix and its transpose takes XLA minutes on a CPU
    # where n is some multiple of 250.
    return upper + jnp.transpose(above, (1, 0, *range(matrix.ndim - 1, 1, -1)))


def largest_side() -> int:
    """Returns the most rows, or columns, that a tile has."""
    return _LARGEST_SIDE[backend.platform()]


def tile_size(numbers: int, n1: int, n2: int, *, before_pools: bool) -> tuple[int, int]:
    """Chooses rows and columns of a tile of an n1 x n2 matrix.

    A pair of examples has `numbers` covariances at most; `before_pools` of all pairs of positions.
    """
    platform = backend.platform()
    most = (_NUMBERS_BEFORE_POOLS if before_pools else _NUMBERS_A_TILE)[platform]
    pairs, largest = most / numbers, largest_side()
    # Beyond the cache, full vectors are worth more than it, up to some ten times its size.
    few = min(_COLUMNS_BEFORE_POOLS, max(1, int(10 * pairs)))
    least = few if before_pools else _COLUMNS[platform]
    columns = _columns_near(max(least, int(math.sqrt(pairs))), n2, largest)
    rows = min(largest, max(1, int(pairs / columns)))
    return even_share(n1, rows), columns


def _columns_near(about: int, n: int, largest: int) -> int:
    """Returns a tile's columns, whole vectors of them, that leave little of n to fill up."""
    vector = _VECTOR[backend.platform()]
    if about < vector:
        return even_share(n, about)
    smallest = min(math.ceil(n / vector), math.ceil(0.75 * min(about, largest) / vector))
    sizes = range(smallest * vector, min(int(1.5 * about), largest) + 1, vector)
    # Twice or half as many columns take about a tenth longer.
    return min(sizes, key=lambda size: math.ceil(n / size) * size * (1 + abs(size / about - 1) / 4))
