"""How many pairs of examples an infinite-width kernel works off at a time."""

import math

from lsa_jax import backend
from lsa_jax.kernels.infinite import tiles

# Covariances in a tile: positions (pairs of them before pools) times pairs of examples. On a CPU
# the few arrays of a tile then stay in the cache of one core (2 MB each, measured on the CNN: 32 x
# 32 pairs are best, 16 x 64 take a tenth longer, 32 x 128 twice as long).
_NUMBERS_A_TILE = {"cpu": 4.5e5}
_NUMBERS_A_TILE_ELSEWHERE = 3e7

# Columns of a tile while numbers are few, and its largest side. Before pools a pair has so many
# numbers that the columns are just those that fill a processor's vectors.
_COLUMNS = 32
_COLUMNS_BEFORE_POOLS = 16
_LARGEST_SIDE = {"cpu": 256}
_LARGEST_SIDE_ELSEWHERE = 1024

# Numbers in a vector of a CPU. What columns leave of one XLA computes number by number: with 63
# columns the CNN took half as long again as with 64.
_VECTOR = 8


def tile_size(numbers: int, n1: int, n2: int, *, before_pools: bool) -> tuple[int, int]:
    """Chooses rows and columns of a tile of an n1 x n2 matrix.

    Args:
        numbers: covariances that a pair of examples has at most.
        n1: rows of the matrix.
        n2: columns of the matrix.
        before_pools: whether these are of all pairs of positions.
    """
    on_cpu = backend.is_cpu()
    pairs = (_NUMBERS_A_TILE["cpu"] if on_cpu else _NUMBERS_A_TILE_ELSEWHERE) / numbers
    largest = _LARGEST_SIDE["cpu"] if on_cpu else _LARGEST_SIDE_ELSEWHERE
    # Beyond the cache, full vectors are worth more than it, up to some ten times its size.
    least = min(_COLUMNS_BEFORE_POOLS, max(1, int(10 * pairs))) if before_pools else _COLUMNS
    columns = _columns_near(max(least, int(math.sqrt(pairs))), n2, largest)
    rows = min(largest, max(1, int(pairs / columns)))
    return tiles.even_share(n1, rows), columns


def _columns_near(about: int, n: int, largest: int) -> int:
    """Returns a tile's columns, whole vectors of them, that leave little of n to fill up."""
    if about < _VECTOR:
        return tiles.even_share(n, about)
    smallest = min(math.ceil(n / _VECTOR), math.ceil(0.75 * min(about, largest) / _VECTOR))
    sizes = range(smallest * _VECTOR, min(int(1.5 * about), largest) + 1, _VECTOR)
    # Twice or half as many columns take about a tenth longer.
    return min(sizes, key=lambda size: math.ceil(n / size) * size * (1 + abs(size / about - 1) / 4))
