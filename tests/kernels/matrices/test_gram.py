"""Gram matrices in tiles equal those at once, for any sizes, within the memory."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsa_jax import models
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import Workers, gram
from lsa_jax.kernels.matrices import memory

# Most properties need one device, which compiles and runs fastest.
ONE = jax.devices()[:1]


def kernel(x1, x2):
    return jnp.exp(-jnp.sum((x1[:, None] - x2[None]) ** 2, axis=-1))


def _points(n):
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


@pytest.mark.parametrize("tile", [1, 4, 8, None])
@pytest.mark.parametrize("sizes", [(1, 1), (13, 7), (8, 16), (17, 1)])
def test_gram_in_tiles_equals_gram_at_once(sizes, tile):
    x1, x2 = map(_points, sizes)
    matrix = gram(kernel, x1, x2, tile=tile, workers=Workers(ONE))
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

    for devices in ONE, jax.devices():
        for _ in range(3):
            gram(counting, _points(13), _points(7), tile=4, workers=Workers(devices))
    assert traces == 2 * [(4, 3)]  # one for a single device, one for all of them


def _recorded(kernel):
    """Returns the kernel, and the list of the tiles that it was traced for."""
    shapes = []

    def recording(x1, x2):
        shapes.append((len(x1), len(x2)))
        return kernel(x1, x2)

    return recording, shapes


def _sorted_features(x1, x2):
    """64 numbers a pair that must all be in memory at once."""
    scales = jnp.arange(64.0).reshape(1, 1, 64, 1)
    features = jnp.tanh(x1[:, None, None] * x2[None, :, None] + scales)
    return jnp.sum(jnp.sort(features, axis=2), axis=(2, 3))


def _sorted_examples(x1, x2):
    """10,000 numbers an example that must all be in memory at once."""

    def features(x):
        return jnp.sort(jnp.tanh(x.sum(1)[:, None] + jnp.arange(1e4)[None]), axis=1)[:, :3]

    return features(x1) @ features(x2).T


@pytest.mark.parametrize("limit", [5e5, 1e4, 1.5e3])
@pytest.mark.parametrize("sizes", [(64, 64), (5, 64)])
def test_the_tile_that_runs_stays_within_the_memory(sizes, limit):
    x1, x2 = map(_points, sizes)
    recording, shapes = _recorded(_sorted_features)
    matrix = gram(recording, x1, x2, memory_limit=limit, workers=Workers(ONE))
    blocks = [jax.ShapeDtypeStruct((side, 3), jnp.float32) for side in shapes[-1]]
    memory = jax.jit(_sorted_features).lower(*blocks).compile().memory_analysis()
    assert memory.temp_size_in_bytes + memory.output_size_in_bytes < limit
    np.testing.assert_allclose(matrix, _sorted_features(x1, x2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "numbers, num_tiles", [(_sorted_features, 3), (_sorted_examples, 1)], ids=["pairs", "examples"]
)
def test_tiles_shrink_to_the_cache_only_where_memory_grows_with_pairs(numbers, num_tiles):
    recording, shapes = _recorded(numbers)
    fractions = []
    gram(recording, _points(150), progress=fractions.append, workers=Workers(ONE))
    assert shapes[0] == (150, 150) and shapes[1] < (150, 150)  # both were looked at
    assert len(fractions) == num_tiles


def test_train_and_test_matrices_share_one_program():
    recording, shapes = _recorded(kernel)
    gram(recording, _points(600), workers=Workers(ONE))
    gram(recording, _points(210), _points(600), workers=Workers(ONE))
    assert shapes == [(200, 200)]


def test_what_cannot_fit_is_refused_with_the_numbers():
    with pytest.raises(
        InputError, match="memory_limit is 1 bytes, and a tile of 1 x 1 pairs takes"
    ):
        gram(kernel, _points(8), memory_limit=1)
    with pytest.raises(InputError, match="8 x 8 pairs takes .* a smaller tile"):
        gram(kernel, _points(8), tile=8, memory_limit=100)


def test_a_matrix_larger_than_the_memory_is_refused_before_it_starts(monkeypatch):
    def never(x1, x2):
        raise AssertionError("the kernel was traced")

    monkeypatch.setattr(memory, "host_available", lambda: 1e6)
    with pytest.raises(InputError, match=r"matrix \(600, 600\) takes 1.44e\+06 bytes, and 1e\+06"):
        gram(never, _points(600))


def test_the_tile_follows_the_memory_that_is_available(monkeypatch):
    recording, shapes = _recorded(_sorted_features)
    monkeypatch.setattr(memory, "host_available", lambda: 4 * 64**2 + 1e5)
    gram(recording, _points(64), workers=Workers(ONE))
    assert shapes[0] == (64, 64) and shapes[-1] < (32, 32)


def test_many_devices_give_the_matrix_of_one():
    x1, x2 = _points(70), _points(33)
    for pair in ((x1,), (x1, x2)):
        few, many = (gram(kernel, *pair, tile=16, workers=Workers(d)) for d in (ONE, jax.devices()))
        np.testing.assert_allclose(many, few, rtol=1e-6)


def test_every_device_gets_tiles():
    recording, shapes = _recorded(kernel)
    fractions = []
    gram(recording, _points(400), progress=fractions.append, workers=Workers(jax.devices()))
    assert len(fractions) >= 2 * len(jax.devices())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_threads_give_the_bits_of_one(dtype):
    x1, x2 = (_points(n).astype(dtype) for n in (70, 33))
    for pair in ((x1,), (x1, x2)):
        few, many = (
            gram(kernel, *pair, tile=8, dtype=dtype, workers=Workers(d)) for d in (ONE, ONE * 3)
        )
        assert many.dtype == dtype
        np.testing.assert_array_equal(many, few)


def test_threads_share_the_memory_limit():
    recording, shapes = _recorded(_sorted_features)
    for devices in ONE, ONE * 4:
        gram(recording, _points(64), memory_limit=4e5, workers=Workers(devices))
    assert shapes[-1] < shapes[0]


def test_threads_stay_as_many_and_right_after_an_error_between_tiles():
    def stop(fraction):
        raise RuntimeError(f"stopped at {fraction}")

    def matrix(progress=False):
        return gram(kernel, _points(40), tile=4, progress=progress, workers=Workers(ONE * 3))

    expected, before = matrix(), threading.active_count()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="stopped at 0.01"):
            matrix(stop)
    np.testing.assert_array_equal(matrix(), expected)
    assert threading.active_count() == before


def test_float64_keeps_what_float32_rounds_away():
    x = 1 + 1e-9 * np.arange(5.0)[:, None]
    matrix = gram(lambda a, b: a @ b.T, x, dtype="float64")
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix, x @ x.T)
    assert not jax.config.jax_enable_x64


def test_a_kernel_that_casts_to_less_is_refused_where_float64_is_asked_for(tmp_path):
    for path in (None, tmp_path / "kernel.npy"):
        with pytest.raises(InputError, match="kernel turns inputs of float64 into float32; accep"):
            gram(lambda a, b: jnp.float32(a @ b.T), _points(4), dtype="float64", path=path)
    counts = gram(lambda a, b: jnp.int32(a @ b.T), np.eye(3), dtype="float64")
    np.testing.assert_array_equal(counts, np.eye(3))


def test_a_bar_tells_how_many_tiles_there_are(capsys):
    gram(kernel, _points(8), tile=4, progress=True)
    assert capsys.readouterr().out == ""


def test_an_entry_that_is_not_finite_is_located():
    x = _points(9)
    x[6] = 1e30
    with pytest.raises(NumericalError, match="4 pairs, in rows 0, 1, 2, 3 and columns 6"):
        gram(lambda a, b: a @ b.T * 1e30, np.where(x > 1e29, np.inf, x * 1e-30), tile=4)


@pytest.mark.usefixtures("unchecked")
def test_wrong_inputs_are_refused():
    with pytest.raises(InputError, match=r"x1 has shape \(0, 3\)"):
        gram(kernel, np.zeros((0, 3)))
    with pytest.raises(InputError, match=r"x1 is \(2, 3\) and x2 is \(2, 2\)"):
        gram(kernel, np.zeros((2, 3)), np.zeros((2, 2)))
    with pytest.raises(InputError, match="tile is 0; accepted: None or a whole number"):
        gram(kernel, _points(2), tile=0)
    with pytest.raises(InputError, match="memory_limit is 0"):
        gram(kernel, _points(2), memory_limit=0)
    with pytest.raises(InputError, match="dtype is 'float16'; accepted: float32, float64"):
        gram(kernel, _points(2), dtype="float16")
    with pytest.raises(InputError, match="process_index is 2 and process_count is 2"):
        gram(kernel, _points(2), workers=Workers(None, 2, 2))
    with pytest.raises(InputError, match="path is None and process_count is 2"):
        gram(kernel, _points(2), workers=Workers(None, 0, 2))
    with pytest.raises(InputError, match=r"into \(2, 2, 1\); accepted: \(2, 2\)"):
        gram(lambda a, b: kernel(a, b)[..., None], _points(2))


def test_images_keep_their_shape(key):
    images = jax.random.normal(key, (5, 4, 4, 2))

    def flat(x1, x2):
        assert x1.shape[1:] == (4, 4, 2)
        return x1.reshape(len(x1), -1) @ x2.reshape(len(x2), -1).T

    np.testing.assert_allclose(
        gram(flat, images, tile=2), flat(images, images), rtol=1e-4, atol=1e-4
    )


def test_whole_numbers_stay_whole():
    tokens = np.arange(12).reshape(4, 3)

    def matches(x1, x2):
        assert jnp.issubdtype(x1.dtype, jnp.integer)
        return jnp.sum(x1[:, None] == x2[None], axis=-1)

    np.testing.assert_array_equal(gram(matches, tokens, tile=3), 3 * np.eye(4))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bytes_of_images_do_not_wrap_around(dtype):
    images = np.array([[200, 100], [0, 255]], np.uint8)
    products = gram(lambda x1, x2: x1 @ x2.T, images, images.astype(np.int16), dtype=dtype)
    np.testing.assert_array_equal(products, [[50_000, 25_500], [25_500, 65_025]])


@pytest.mark.usefixtures("unchecked")
def test_the_missing_kernel_of_a_batch_normalised_network_is_refused():
    kernel = models.wide_resnet(1, norm="batch").kernel
    with pytest.raises(InputError, match=r"^kernel .*BatchNorm; accepted: kernels.finite_kernel"):
        gram(kernel, np.ones((2, 8, 8, 3), np.float32))


@settings(max_examples=15, deadline=None, derandomize=True)
@given(n1=st.integers(1, 20), n2=st.integers(1, 20), tile=st.integers(1, 25))
def test_any_sizes_and_any_tile_give_the_same_matrix(n1, n2, tile):
    x1, x2 = _points(n1), _points(n2 + 1)[1:]
    np.testing.assert_allclose(
        gram(kernel, x1, x2, tile=tile, workers=Workers(ONE)), kernel(x1, x2), rtol=1e-5
    )
    np.testing.assert_allclose(
        gram(kernel, x1, tile=tile, workers=Workers(ONE)), kernel(x1, x1), rtol=1e-5
    )
