"""Gram matrices in tiles equal those at once, for any sizes, within the memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import gram


def kernel(x1, x2):
    return jnp.exp(-jnp.sum((x1[:, None] - x2[None]) ** 2, axis=-1))


def _points(n):
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


@pytest.mark.parametrize("tile", [1, 4, 8, None])
@pytest.mark.parametrize("sizes", [(1, 1), (13, 7), (8, 16), (17, 1)])
def test_gram_in_tiles_equals_gram_at_once(sizes, tile):
    x1, x2 = map(_points, sizes)
    matrix = gram(kernel, x1, x2, tile=tile)
    assert matrix.shape == sizes and matrix.dtype == np.float32
    np.testing.assert_allclose(matrix, kernel(x1, x2), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 7, 8, 19])
def test_the_symmetric_case_equals_the_general_one_and_is_symmetric(n):
    x = _points(n)
    matrix = gram(kernel, x, tile=4)
    np.testing.assert_allclose(matrix, gram(kernel, x, x, tile=4), rtol=1e-6)
    np.testing.assert_array_equal(matrix, matrix.T)


def test_the_symmetric_case_computes_each_tile_once():
    fractions = []
    gram(kernel, _points(16), tile=4, progress=fractions.append)
    assert len(fractions) == 4 * 5 // 2
    np.testing.assert_allclose(np.diff([0, *fractions]), 1 / 10)
    fractions.clear()
    gram(kernel, _points(16), _points(5), tile=4, progress=fractions.append)
    assert len(fractions) == 4 * 2


def test_all_tiles_and_calls_share_one_compilation():
    traces = []

    def counting(x1, x2):
        traces.append(x1.shape)
        return kernel(x1, x2)

    for _ in range(3):
        gram(counting, _points(13), _points(7), tile=4)
    assert traces == [(4, 3)]


def test_a_tile_is_made_smaller_until_it_fits_the_memory():
    def wide(x1, x2):
        features = jnp.tanh(
            x1[:, None, None] * x2[None, :, None] + jnp.arange(64.0).reshape(1, 1, 64, 1)
        )
        return jnp.sum(jnp.sort(features, axis=2), axis=(2, 3))

    seen = []

    def recording(x1, x2):
        seen.append(len(x1))
        return wide(x1, x2)

    x = _points(64)
    matrix = gram(recording, x, memory_limit=5e5)
    assert min(seen) < 64
    np.testing.assert_allclose(matrix, wide(x, x), rtol=1e-4, atol=1e-4)


def test_what_cannot_fit_is_refused_with_the_numbers():
    with pytest.raises(InputError, match=r"1 x 1 pairs needs .* memory_limit is 1"):
        gram(kernel, _points(8), memory_limit=1)
    with pytest.raises(InputError, match=r"8 x 8 pairs needs"):
        gram(kernel, _points(8), tile=8, memory_limit=100)


def test_an_entry_that_is_not_finite_is_located():
    x = _points(9)
    x[6] = 1e30
    with pytest.raises(NumericalError, match="rows 0 to 3, columns 4 to 7"):
        gram(lambda a, b: a @ b.T * 1e30, np.where(x > 1e29, np.inf, x * 1e-30), tile=4)


def test_wrong_inputs_are_refused():
    with pytest.raises(InputError, match="0 and 0 examples"):
        gram(kernel, np.zeros((0, 3)))
    with pytest.raises(InputError, match=r"shapes \(3,\) and \(2,\)"):
        gram(kernel, np.zeros((2, 3)), np.zeros((2, 2)))


def test_images_keep_their_shape(key):
    images = jax.random.normal(key, (5, 4, 4, 2))

    def flat(x1, x2):
        assert x1.shape[1:] == (4, 4, 2)
        return x1.reshape(len(x1), -1) @ x2.reshape(len(x2), -1).T

    np.testing.assert_allclose(
        gram(flat, images, tile=2), flat(images, images), rtol=1e-4, atol=1e-4
    )
