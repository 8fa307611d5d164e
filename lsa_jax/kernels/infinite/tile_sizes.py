"""How many pairs of examples an infinite-width kernel works off at a time."""

import math

from lsa_jax import backend
from lsa_jax.kernels.infinite import tiles

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

# What columns are whole multiples of. On a CPU, numbers in a vector: what columns leave of one XLA
# computes number by number, and with 63 columns the CNN took half as long again as with 64. On a
# TPU, its lanes. On a GPU, what lets a thread read four numbers at once: compiled for an H100, a
# layer takes 165 instructions a position with 128 columns and 223 with 136.
_VECTOR = {"cpu": 8, "gpu": 128, "tpu": 128}


def largest_side() -> int:
    """Returns the most rows, or columns, that a tile has."""
    return _LARGEST_SIDE[backend.platform()]


def tile_size(numbers: int, n1: int, n2: int, *, before_pools: bool) -> tuple[int, int]:
    """Chooses rows and columns of a tile of an n1 x n2 matrix.

    Args:
        numbers: covariances that a pair of examples has at most.
        n1: rows of the matrix.
        n2: columns of the matrix.
        before_pools: whether these are of all pairs of positions.
    """
    platform = backend.platform()
    most = (_NUMBERS_BEFORE_POOLS if before_pools else _NUMBERS_A_TILE)[platform]
    pairs, largest = most / numbers, largest_side()
    # Beyond the cache, full vectors are worth more than it, up to some ten times its size.
    few = min(_COLUMNS_BEFORE_POOLS, max(1, int(10 * pairs)))
    least = few if before_pools else _COLUMNS[platform]
    columns = _columns_near(max(least, int(math.sqrt(pairs))), n2, largest)
    rows = min(largest, max(1, int(pairs / columns)))
    return tiles.even_share(n1, rows), columns


def _columns_near(about: int, n: int, largest: int) -> int:
    """Returns a tile's columns, whole vectors of them, that leave little of n to fill up."""
    vector = _VECTOR[backend.platform()]
    if about < vector:
        return tiles.even_share(n, about)
    smallest = min(math.ceil(n / vector), math.ceil(0.75 * min(about, largest) / vector))
    sizes = range(smallest * vector, min(int(1.5 * about), largest) + 1, vector)
    # Twice or half as many columns take about a tenth longer.
    return min(sizes, key=lambda size: math.ceil(n / size) * size * (1 + abs(size / about - 1) / 4))
