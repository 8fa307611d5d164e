"""A packed matrix is the whole one in half the bytes: entries, rows, products, and after a kill."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.kernels import gram
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices import packed


def rbf(x1, x2):
    """Returns exp(-|x - x'|^2 / 4) of every pair."""
    return jnp.exp(-jnp.sum((x1[:, None] - x2[None]) ** 2, axis=-1) / 4)


@pytest.fixture(scope="module", params=[(23, 5), (20, 5), (3, 5), (1, 1)], ids=str)
def both(request):
    n, side = request.param
    x = jax.random.normal(jax.random.key(0), (n, 3))
    return gram(rbf, x, tile=side), gram(rbf, x, tile=side, packed=True)


def test_entries_are_those_of_the_whole_matrix(both):
    whole, half = both
    np.testing.assert_array_equal(np.asarray(half), whole)
    np.testing.assert_array_equal(half.diagonal(), np.diagonal(whole))
    assert half.shape == whole.shape and half.dtype == whole.dtype


def test_rows_come_in_any_order(both):
    whole, half = both
    indices = np.random.default_rng(0).integers(len(whole), size=7)
    np.testing.assert_array_equal(half.rows(indices), whole[indices])


@pytest.mark.parametrize("most", [1, 4e6])
def test_products_are_those_of_the_whole_matrix(both, most, monkeypatch):
    monkeypatch.setattr(packed, "WIDENED", most)
    whole, half = both
    vectors = np.random.default_rng(0).normal(size=(len(whole), 2))
    np.testing.assert_allclose(half.multiply(vectors), whole.astype(float) @ vectors, rtol=1e-12)


def test_a_file_has_half_the_bytes_and_goes_on_after_a_kill(tmp_path, monkeypatch):
    x = jax.random.normal(jax.random.key(0), (90, 3))
    whole, path = gram(rbf, x, tile=10), tmp_path / "half.npy"
    added, add = [], gram_file.GramFile.add

    def stop(self, tile):
        if len(added) == 20:
            raise KeyboardInterrupt
        added.append(tile.place)
        add(self, tile)

    monkeypatch.setattr(gram_file.GramFile, "add", stop)
    with pytest.raises(KeyboardInterrupt):
        gram(rbf, x, tile=10, packed=True, path=path)
    monkeypatch.undo()
    fractions = []
    half = gram(rbf, x, tile=10, packed=True, path=path, progress=fractions.append)
    assert len(fractions) == 45 - 20
    np.testing.assert_array_equal(np.asarray(half), whole)
    assert half.nbytes == 45 * 100 * 4 and path.stat().st_size < 0.6 * whole.nbytes
    again = gram(rbf, x, tile=10, packed=True, path=path)
    np.testing.assert_array_equal(again.tiles, half.tiles)
    with pytest.raises(InputError, match="half.npy"):
        gram(rbf, x, tile=10, path=path)


def test_entries_that_are_not_finite_are_seen(both):
    tiles = both[1].tiles.copy()
    assert packed.PackedMatrix(tiles, len(both[0])).is_finite()
    tiles[0, 0, 0] = np.nan
    assert not packed.PackedMatrix(tiles, len(both[0])).is_finite()


def test_what_is_not_symmetric_is_not_packed():
    x = jnp.ones((3, 2))
    with pytest.raises(InputError, match="packed is True and x2 is given"):
        gram(rbf, x, x, packed=True)
