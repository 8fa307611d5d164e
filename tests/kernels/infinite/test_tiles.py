"""Matrices of all pairs by tiles: every entry, no tile too many, and sizes that suit a cache."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend
from lsa_jax.kernels.infinite import tiles

# Tiles and their sides, of rows and of columns, and the matrix that is cut out of them.
CASES = {
    "more rows": ((5, 2), (2, 3), (9, 5)),
    "more columns": ((2, 4), (4, 3), (7, 11)),
    "one tile": ((1, 1), (3, 2), (3, 2)),
    "equal": ((3, 3), (2, 2), (6, 6)),
}
SYMMETRIC = {
    "wide": ((6, 4), (2, 3), 11),
    "high": ((2, 6), (6, 2), 12),
    "square": ((4, 4), (3, 3), 10),
}


def numbers(count, side):
    return jnp.arange(1.0, count * side + 1).reshape(count, side)


def pairs(rows, columns):
    """Tells all pairs apart, with two numbers for each, which change places in the mirror."""
    values = 100 * rows[:, None] + columns[None]
    return jnp.stack([values, -values, 3 * values, -3 * values], axis=-1).reshape(
        *values.shape, 2, 2
    )


def by_loops(rows, columns):
    """Returns `pairs` of two lists of numbers, counted from 1."""
    entries = np.empty((rows, columns, 2, 2))
    for a in range(rows):
        for b in range(columns):
            value = 100 * (a + 1) + b + 1
            entries[a, b] = [[value, -value], [3 * value, -3 * value]]
    return entries


@pytest.mark.parametrize("name", CASES)
def test_every_pair_has_its_entry_whatever_sticks_out(name):
    counts, sides, shape = CASES[name]
    given = map(numbers, counts, sides)
    found = jax.jit(lambda a, b: tiles.all_pairs(pairs, a, b, shape, symmetric=False))(*given)
    np.testing.assert_array_equal(found, by_loops(*shape))


def where_upper_tiles_are(counts, sides):
    """Returns the places of the tiles that have an entry on or above the diagonal."""
    return {
        (i, j)
        for i in range(counts[0])
        for j in range(counts[1])
        if any(
            a <= b
            for a in range(i * sides[0], (i + 1) * sides[0])
            for b in range(j * sides[1], (j + 1) * sides[1])
        )
    }


@pytest.mark.parametrize("decided", ["before", "as it runs"])
@pytest.mark.parametrize("name", SYMMETRIC)
def test_below_the_diagonal_is_the_mirror_image_and_no_tile_is_computed(name, decided):
    counts, sides, n = SYMMETRIC[name]
    computed = []

    def tile(rows, columns):
        where = (rows[0] - 1) // sides[0], (columns[0] - 1) // sides[1]
        jax.debug.callback(lambda *place: computed.append(tuple(map(int, place))), *where)
        return pairs(rows, columns)

    def matrix(a, b, symmetric):
        symmetric = True if decided == "before" else symmetric
        return tiles.all_pairs(tile, a, b, (n, n), symmetric=symmetric)

    found = jax.jit(matrix)(*map(numbers, counts, sides), True)
    jax.effects_barrier()
    # What belongs to a pair is transposed with it.
    expected = by_loops(n, n)
    for a in range(n):
        for b in range(a):
            expected[a, b] = expected[b, a].T
    np.testing.assert_array_equal(found, expected)
    assert sorted(computed) == sorted(where_upper_tiles_are(counts, sides))


@pytest.mark.parametrize("symmetric", [True, False])
def test_derivatives_are_those_of_the_whole_matrix(symmetric):
    x = jnp.linspace(0.1, 1.2, 6)
    weights = np.random.default_rng(0).normal(size=(6, 6))

    def total(x):
        cut = x.reshape(3, 2)
        tile = lambda rows, columns: jnp.sin(rows[:, None] * columns[None])  # noqa: E731
        return jnp.sum(weights * tiles.all_pairs(tile, cut, cut, (6, 6), symmetric=symmetric))

    x64 = np.asarray(x, float)
    slopes = weights * np.cos(np.outer(x64, x64))
    expected = (slopes + slopes.T) @ x64
    if symmetric:  # entries above the diagonal stand for those below
        both = np.triu(weights) + np.tril(weights, -1).T
        slopes = both * np.cos(np.outer(x64, x64))
        expected = (slopes + slopes.T) @ x64
    np.testing.assert_allclose(jax.jit(jax.grad(total))(x), expected, rtol=1e-4, atol=1e-5)


def test_a_matrix_of_a_thousand_rows_is_mirrored():
    """To compile a choice between this matrix and its transpose takes XLA minutes."""
    matrix = np.random.default_rng(0).normal(size=(1000, 1000)).astype(np.float32)
    expected = np.triu(matrix) + np.triu(matrix, 1).T
    np.testing.assert_array_equal(jax.jit(tiles.mirrored)(matrix), expected)
    kept = jax.jit(tiles.mirrored)(matrix[:4, :4], jnp.array(False))
    np.testing.assert_array_equal(kept, matrix[:4, :4])


def test_even_shares_are_as_few_as_there_must_be_and_as_small_as_that_allows():
    for n in range(1, 40):
        for most in range(1, 45):
            side = tiles.even_share(n, most)
            count = min(k for k in range(1, n + 1) if k * most >= n)
            assert side <= most and math.ceil(n / side) <= count <= math.ceil(n / most)
            assert side * count >= n > (side - 1) * count


# --- sizes --------------------------------------------------------------------------------------

# Covariances of a pair of examples: fully connected, and positions of 2, 13, 20 and 32 a side.
POSITIONS = (1, 4, 169, 400, 1024)


def _tile(platform, numbers, n1, n2, before_pools=False):
    with backend.built_for(platform):
        return tiles.tile_size(numbers, n1, n2, before_pools=before_pools)


@pytest.mark.parametrize("positions", POSITIONS)
def test_tiles_fill_the_cache_or_vector_memory_with_whole_vectors(positions):
    for platform in ("gpu", "tpu"):
        rows, columns = _tile(platform, positions, 1024, 1024)
        assert columns % 128 == 0
        if platform == "tpu":  # inputs and outputs, of both covariances, of 128 MiB
            assert 4 * 4 * positions * rows * columns <= 100e6
    rows, columns = _tile("cpu", positions, 4096, 4096)
    most = 4.5e5 / positions
    # Cutting 4,096 into equal rows may lose a third; 256 is the largest side.
    assert rows * columns <= most and (rows == 256 or 1.5 * rows * columns >= most)
    for n1, n2 in itertools.product((1, 64, 129, 1024), (1, 7, 100, 500, 5000)):
        _, columns = _tile("cpu", positions, n1, n2)
        filled_up = math.ceil(n2 / columns) * columns - n2
        assert columns % 8 == 0 and (filled_up < 8 or filled_up <= 0.2 * n2)


def test_columns_are_near_their_best_and_no_side_is_larger_than_the_largest():
    # 1,024 positions suit 32 columns.
    assert {_tile("cpu", 1024, 1024, n2)[1] for n2 in range(25, 2000)} == {24, 32, 40}
    assert _tile("cpu", 1024, 1024, 960)[1] == 32  # 24, 40 and 48 divide it, too
    for platform, largest in (("cpu", 256), ("gpu", 1024), ("tpu", 1024)):
        with backend.built_for(platform):
            assert tiles.largest_side() == largest
        assert largest // 2 <= max(_tile(platform, 1, 100_000, 100_000)) <= largest
    assert _tile("cpu", 10**6, 1024, 1024) == (1, 32)  # beyond the cache
    assert _tile("tpu", 10**7, 1024, 1024) == (1, 128)
    for n1, n2 in itertools.product((1, 5, 31), (1, 3, 8, 30)):
        assert _tile("cpu", 1, n1, n2) == (n1, 8 * math.ceil(n2 / 8))


def test_before_pools_columns_get_fewer_where_a_vector_of_them_is_ten_caches():
    # 16 columns are two vectors. Ten times the cache's 450,000 numbers hold 4 pairs of 10^6.
    expected = {32**2: (27, 16), 64**2: (6, 16), 300_000: (1, 16), 10**6: (1, 4), 10**7: (1, 1)}
    for positions, tile in expected.items():
        assert _tile("cpu", positions, 100_000, 100_000, before_pools=True) == tile
    for platform, before, after in (("tpu", 3e7, 5e6), ("gpu", 3e7, 3e7)):
        for before_pools, most in ((True, before), (False, after)):
            rows, columns = _tile(platform, 1000, 1024, 1024, before_pools=before_pools)
            assert most / 2 < 1000 * rows * columns <= most
