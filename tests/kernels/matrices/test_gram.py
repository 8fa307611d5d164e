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
from lsa_jax.kernels import Workers, empirical_ntk, finite_kernel, gram

# Most properties need one device, which compiles and runs fastest.
ONE = jax.devices()[:1]


def kernel(x1, x2):
    return jnp.exp(-jnp.sum((x1[:, None] - x2[None]) ** 2, axis=-1))


def _points(n):
    return np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 25) | st.none())
def test_any_sizes_and_any_tile_give_the_matrix_at_once(n1, n2, tile):
    x1, x2 = _points(n1), _points(n2 + 1)[1:]
    options, fractions = {"tile": tile, "workers": Workers(ONE)}, []
    matrix = gram(kernel, x1, x2, **options)
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(matrix, kernel(x1, x2), rtol=1e-5)
    symmetric = gram(kernel, x1, **options, progress=fractions.append)
    np.testing.assert_allclose(symmetric, kernel(x1, x1), rtol=1e-5)
    np.testing.assert_array_equal(symmetric, symmetric.T)
    packed = gram(kernel, x1, **options, packed=True)
    np.testing.assert_array_equal(np.asarray(packed), symmetric)
    if tile:  # each tile on and above the diagonal is computed once
        along = -(-n1 // tile)
        np.testing.assert_allclose(fractions, np.linspace(0, 1, along * (along + 1) // 2 + 1)[1:])


@pytest.mark.parametrize("method", ["layerwise", "vector_products", "jacobian"])
def test_kernels_at_other_parameters_reuse_the_programs_and_not_the_file(
    method, key, tmp_path, caplog
):
    x, path = _points(9), tmp_path / "kernel.npy"
    model = models.network([models.Dense(4), models.Relu(), models.Dense(2)])
    selected = {"Dense_0": True, "Dense_1": False}

    def matrix(params, **options):
        network = finite_kernel(model.apply, params, selected=selected, method=method)
        return gram(network, x, x[:5], tile=4, **options)

    with jax.log_compiles():
        for seed in range(3):
            params = model.init(jax.random.fold_in(key, seed), (3,))
            found = matrix(params, path=None if seed else path)
            counted = sum("XLA compilation of" in line for line in caplog.messages)
            assert counted >= 2 if seed == 0 else counted == 0
            expected = empirical_ntk(model.apply, params, x, x[:5], selected=selected)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            caplog.clear()
    on_two = matrix(params, workers=Workers(jax.devices()[:2]))
    np.testing.assert_allclose(on_two, expected, rtol=1e-5, atol=1e-6)
    for leaf in params:  # differentiated in, or not
        other = {**model.init(jax.random.fold_in(key, 0), (3,)), leaf: params[leaf]}
        with pytest.raises(InputError, match="of another params "):
            matrix(other, path=path)


def _recorded(kernel):
    """Returns the kernel, and the list of the tiles that it was traced for."""
    shapes = []

    def recording(x1, x2):
        shapes.append((len(x1), len(x2)))
        return kernel(x1, x2)

    return recording, shapes


def test_tiles_calls_and_matrices_share_one_compilation():
    recording, shapes = _recorded(kernel)
    for devices in ONE, jax.devices():
        for _ in range(3):
            gram(recording, _points(13), _points(7), tile=4, workers=Workers(devices))
    assert shapes == 2 * [(4, 4)]  # one for a single device, one for all of them
    recording, shapes = _recorded(kernel)
    gram(recording, _points(600), workers=Workers(ONE))
    gram(recording, _points(210), _points(600), workers=Workers(ONE))
    assert shapes == [(200, 200)]  # train-train and test-train


def _sorted_features(x1, x2):
    """64 numbers a pair that must all be in memory at once."""
    scales = jnp.arange(64.0).reshape(1, 1, 64, 1)
    features = jnp.tanh(x1[:, None, None] * x2[None, :, None] + scales)
    return jnp.sum(jnp.sort(features, axis=2), axis=(2, 3))


@pytest.mark.parametrize(("sizes", "limit"), [((64, 64), 5e5), ((64, 64), 1.5e3), ((5, 64), 1e4)])
def test_the_tile_that_runs_stays_within_the_memory(sizes, limit):
    x1, x2 = map(_points, sizes)
    recording, shapes = _recorded(_sorted_features)
    matrix = gram(recording, x1, x2, memory_limit=limit, workers=Workers(ONE))
    blocks = [jax.ShapeDtypeStruct((side, 3), jnp.float32) for side in shapes[-1]]
    memory = jax.jit(_sorted_features).lower(*blocks).compile().memory_analysis()
    assert memory.temp_size_in_bytes + memory.output_size_in_bytes < limit
    np.testing.assert_allclose(matrix, _sorted_features(x1, x2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_devices_and_threads_give_the_matrix_of_one(dtype):
    x1, x2 = (_points(n).astype(dtype) for n in (70, 33))
    for pair in ((x1,), (x1, x2)):
        one, threads, devices, twice = (
            gram(kernel, *pair, tile=8, dtype=dtype, workers=Workers(d))
            for d in (ONE, ONE * 3, jax.devices(), jax.devices()[1:3] * 2)
        )
        assert threads.dtype == dtype
        np.testing.assert_array_equal(threads, one)
        np.testing.assert_allclose(devices, one, rtol=1e-6)
        np.testing.assert_allclose(twice, one, rtol=1e-6)
    fractions = []
    gram(kernel, _points(400), progress=fractions.append, workers=Workers(jax.devices()))
    assert len(fractions) >= 2 * len(jax.devices())


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


def test_an_entry_that_is_not_finite_is_located():
    x = _points(9)
    x[6] = 1e30
    with pytest.raises(NumericalError, match="4 pairs, in rows 0, 1, 2, 3 and columns 6"):
        gram(lambda a, b: a @ b.T * 1e30, np.where(x > 1e29, np.inf, x * 1e-30), tile=4)
