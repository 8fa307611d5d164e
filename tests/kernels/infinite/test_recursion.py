"""The recursion in tiles, on other platforms, and its derivatives in float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend
from lsa_jax.kernels.infinite import tiles
from lsa_jax.models import (
    AvgPool,
    Conv,
    Dense,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    LayerNorm,
    LeakyRelu,
    Relu,
    network,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

NETS = {
    "valid": ([Conv(3, (3, 2), (2, 1), "VALID", 1.4), Relu(), Flatten(), Dense(1)], (6, 5, 2)),
    "same": (
        [
            *(Conv(3, w_std=0.8, b_std=0.3), LeakyRelu(0.2), Conv(4, strides=(2, 1)), Erf()),
            *(Flatten(), Dense(2, 1.2, 0.5)),
        ],
        (4, 5, 2),
    ),
    "pool": ([Conv(2, (2, 2), w_std=1.4), GlobalAvgPool(), Relu(), Dense(1)], (3, 2, 1)),
    "pools": (
        [
            *(Conv(3, w_std=1.2, b_std=0.3), Relu(), AvgPool((2, 2), (2, 1), "SAME")),
            Conv(2, w_std=1.4),
            *(Gelu(), GlobalAvgPool(), Dense(3, 1.4), LayerNorm(), Relu(), Dense(1)),
        ],
        (4, 3, 2),
    ),
}


def special(shape, *, biases):
    """Equal, opposite, orthogonal, zero and badly scaled inputs, and inputs in general position."""
    general = np.random.default_rng(0).normal(size=(3, *shape))
    one, other = np.zeros((2, *shape))
    one.flat[0] = other.flat[-1] = 1.0
    # Beside biases a tiny input all but equals that of zeros, which float32 cannot tell apart.
    scaled = [1e4 * general[0], 2 * general[2], *([] if biases else [1e-4 * general[1]])]
    rows = [*general, general[0], -general[1], one, other, np.zeros(shape), *scaled]
    return np.stack(rows).astype(np.float32)


def in_float64(kernel, *inputs, **settings):
    with jax.enable_x64(True):
        inputs = [None if x is None else jnp.asarray(x, jnp.float64) for x in inputs]
        return np.asarray(jax.jit(partial(kernel, method="neural_tangents", **settings))(*inputs))


def test_the_symmetric_case_equals_the_general_one_in_many_tiles(monkeypatch):
    monkeypatch.setitem(tiles._COLUMNS, "cpu", 4)
    monkeypatch.setitem(tiles._NUMBERS_A_TILE, "cpu", 200)
    layers, shape = NETS["valid"]
    kernel = network(layers).kernel
    x = np.random.default_rng(1).normal(size=(11, *shape)).astype(np.float32)
    matrix = kernel(x)
    np.testing.assert_array_equal(matrix, matrix.T)
    np.testing.assert_allclose(matrix, kernel(x, x), rtol=1e-6)
    np.testing.assert_allclose(kernel(x[:7], x[4:]), matrix[:7, 4:], rtol=1e-6)
    prepare, between = map(jax.jit, kernel.stages(jax.ShapeDtypeStruct(shape, x.dtype))[:2])
    side, other = prepare(None, x[:7]), prepare(None, x[4:])
    np.testing.assert_array_equal(between(None, side, side), kernel(x[:7]))
    np.testing.assert_allclose(between(None, side, other), matrix[:7, 4:], rtol=1e-6)


@pytest.mark.parametrize(("net", "platform"), [("same", "tpu"), ("pools", "gpu")])
def test_what_accelerators_compute_is_what_a_cpu_does(net, platform, monkeypatch):
    for name in (platform, "cpu"):  # several tiles, each of a whole vector or more
        monkeypatch.setitem(tiles._COLUMNS, name, 8)
        monkeypatch.setitem(tiles._VECTOR, name, 8)
        monkeypatch.setitem(tiles._NUMBERS_A_TILE, name, 400)
    layers, shape = NETS[net]
    kernel = network(layers).kernel
    x = special(shape, biases=net != "valid")
    here = np.asarray(kernel(x, x[:9]), float)
    with backend.built_for(platform):
        there = np.asarray(kernel(x, x[:9]), float)
    variances = np.diag(np.asarray(kernel(x), float))
    scale = np.sqrt(np.outer(variances, variances[:9]))
    assert np.all(np.abs(there - here) <= 1e-6 * scale + 1e-30)


@pytest.mark.parametrize("net", ["valid", "pool"])
def test_derivatives_with_respect_to_inputs_equal_those_in_float64(net):
    layers, shape = NETS[net]
    kernel = network(layers).kernel
    x1, x2 = np.random.default_rng(2).normal(size=(2, 2, *shape)).astype(np.float32)

    def total(x1, x2, **settings):
        return jnp.sum(jnp.sin(kernel(x1, x2, **settings)))

    expected = in_float64(lambda *x, **s: jax.grad(partial(total, **s))(*x), x1, x2)
    ours = jax.jit(jax.grad(partial(total, method="recursion")))(x1, x2)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_derivatives_equal_those_in_float64_where_inputs_are_equal_opposite_or_zero():
    kernel = network([Dense(2, 1.4), Relu(), Dense(2, 1.4), Relu(), Dense(1)]).kernel
    one = np.array([1.0, -2.0, 0.5], np.float32)
    x1, x2 = np.stack([one, one, one, 0 * one]), np.stack([one, -one, 0 * one, one])

    def gradients(x1, x2, **settings):
        def of_pair(one, other):
            return kernel(one[None], other[None], **settings)[0, 0]

        return jax.vmap(jax.grad(of_pair))(x1, x2)

    expected = in_float64(gradients, x1, x2)
    ours = jax.jit(partial(gradients, method="recursion"))(x1, x2)
    np.testing.assert_allclose(ours[:3], expected[:3], rtol=1e-5, atol=1e-6)
    # At x1 = 0 the kernel has derivatives along each direction, but no gradient.
    assert np.all(np.isfinite(ours[3]))
