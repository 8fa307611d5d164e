"""Matrices of all pairs by tiles: every entry, no tile too many, and derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
    return jnp.stack([values, -values, 3 * values, -3 * values], -1).reshape(*values.shape, 2, 2)


@pytest.mark.parametrize("name", CASES)
def test_every_pair_has_its_entry_whatever_sticks_out(name):
    counts, sides, shape = CASES[name]
    given = map(numbers, counts, sides)
    found = jax.jit(lambda a, b: tiles.all_pairs(pairs, a, b, shape, symmetric=False))(*given)
    np.testing.assert_array_equal(found, pairs(*(numbers(n, 1)[:, 0] for n in shape)))


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
    whole = np.asarray(pairs(*2 * [numbers(n, 1)[:, 0]]))
    below = np.tri(n, k=-1, dtype=bool)[..., None, None]
    np.testing.assert_array_equal(found, np.where(below, whole.transpose(1, 0, 3, 2), whole))
    # Tiles with an entry on or above the diagonal: the first row is at most the last column.
    upper = {
        (i, j)
        for i in range(counts[0])
        for j in range(counts[1])
        if i * sides[0] <= (j + 1) * sides[1] - 1
    }
    assert sorted(computed) == sorted(upper)


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
