"""Our evaluation of the infinite-width recursion against neural-tangents in float64."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from lsa_jax import backend
from lsa_jax.kernels.infinite import (
    covariances,
    directions,
    dual_activations,
    layouts,
    recursion,
    tiles,
)
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
    Residual,
    network,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHORTCUT = Conv(3, (1, 1), (2, 2))
NETS = {
    "valid": ([Conv(3, (3, 2), (2, 1), "VALID", 1.4), Relu(), Flatten(), Dense(1)], (6, 5, 2)),
    "same": (
        [
            *(Conv(3, w_std=0.8, b_std=0.3), LeakyRelu(0.2), Conv(4, strides=(2, 1)), Erf()),
            Dense(3, 1.3),
            *(Relu(), Flatten(), Dense(5, b_std=0.1), Erf(), Dense(2, 1.2, 0.5)),
        ],
        (4, 5, 2),
    ),
    "dense": ([Dense(4, 1.4), Relu(), Dense(3, 1.4), Erf(), Dense(2), Dense(1)], (7,)),
    "pool": ([Conv(2, (2, 2), w_std=1.4), GlobalAvgPool(), Relu(), Dense(1)], (3, 2, 1)),
    "residual": (
        [
            *(Conv(3, w_std=1.4), Residual((Relu(), Conv(3, (3, 3), (2, 2))), (SHORTCUT,))),
            *(LayerNorm(), Residual((Gelu(), Conv(3))), Flatten(), Dense(2)),
        ],
        (4, 3, 2),
    ),
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


def assert_close(ours, expected, variances=None, tolerance=1e-5):
    """Compares relative to the bound of the Cauchy-Schwarz inequality."""
    variances = np.diag(expected) if variances is None else variances
    scale = np.sqrt(np.outer(variances, variances))
    assert np.all(np.abs(ours - expected) <= tolerance * scale + 1e-30)


@pytest.mark.parametrize(
    ("net", "parameterization", "get"),
    [
        ("valid", "ntk", "ntk"),
        ("same", "standard", "ntk"),
        ("dense", "ntk", "nngp"),
        ("residual", "ntk", "ntk"),
        ("pools", "standard", "ntk"),
    ],
)
def test_kernels_equal_those_of_neural_tangents_in_float64(net, parameterization, get):
    layers, shape = NETS[net]
    kernel = network(layers, parameterization=parameterization).kernel
    x = special(shape, biases=net in ("same", "pools"))
    expected = in_float64(kernel, x, None, get=get)
    assert expected.dtype == np.float64
    assert_close(np.asarray(kernel(x, None, get, "recursion"), float), expected)


def test_positions_apart_are_left_out_where_no_pool_needs_them():
    features = jnp.zeros((4, 3, 18, 2))  # of 4 x 3 positions, with windows of 3 x 3 x 2
    layout = {
        name: covariances.first_layout(network(net).kernel.steps, features)
        for name, (net, _) in NETS.items()
        if name in ("same", "pools")
    }
    assert layout == {"same": layouts.EQUAL_POSITIONS, "pools": layouts.PAIRS_OF_POSITIONS}


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


@pytest.mark.parametrize(
    ("net", "platform"), [("valid", "gpu"), ("same", "tpu"), ("pools", "gpu"), ("pools", "tpu")]
)
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


def test_sums_number_by_number_are_products_of_matrices(monkeypatch):
    layers, shape = NETS["valid"]
    x = special(shape, biases=False)
    sums = np.asarray(network(layers).kernel(x), float)
    monkeypatch.setitem(directions._FEW, "cpu", 0)
    products = np.asarray(jax.jit(network(layers).kernel)(x), float)
    scale = np.sqrt(np.outer(np.diag(sums), np.diag(sums)))
    assert np.all(np.abs(products - sums) <= 3e-7 * scale + 1e-30)


def test_two_batches_are_the_same_if_all_of_their_examples_are():
    x = np.random.default_rng(0).normal(size=(9, 7)).astype(np.float32)
    steps = network(NETS["dense"][0]).kernel.steps
    changed = [np.concatenate([x[:8], x[8:] + 1]), np.concatenate([x[:8], 2 * x[8:]])]
    for other, same in [
        (x, True),
        (x[::-1], False),
        (x[:4], False),
        *((c, False) for c in changed),
    ]:
        sides = (recursion.examples(steps, jnp.array(one)) for one in (x, other))
        assert recursion._same(*sides) == same


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


def test_duals_equal_their_closed_forms_in_float64():
    rho = np.concatenate([[-1, 0, 1], np.linspace(-1, 1, 4001)])
    cosine = jax.jit(partial(dual_activations.cosine, tolerance=5e-7))
    ours = cosine(jnp.asarray(rho, jnp.float32), *jnp.ones((2, 1)))
    rho = np.asarray(ours.value, float)
    angle = np.arccos(rho)
    values, slopes = jax.jit(partial(dual_activations.relu, negative_slope=0.0))(ours)
    expected = (np.sin(angle) + (np.pi - angle) * rho) / (2 * np.pi)
    np.testing.assert_allclose(values, expected, atol=1e-7)
    np.testing.assert_allclose(slopes[3:], ((np.pi - angle) / (2 * np.pi))[3:], atol=2e-4)
    far = np.abs(rho) < 0.999
    np.testing.assert_allclose(
        slopes[far], ((np.pi - angle) / (2 * np.pi))[far], rtol=2e-6, atol=1e-7
    )
    erf = jax.jit(dual_activations.erf)
    for std1, std2 in ((1e-3, 2e-3), (1.0, 0.5), (1e4, 3e4)):
        values, slopes = erf(ours, std1, std2)
        determinant = (1 + 2 * std1**2) * (1 + 2 * std2**2)
        covariance = 2 * rho * std1 * std2
        np.testing.assert_allclose(
            values, 2 / np.pi * np.arcsin(covariance / np.sqrt(determinant)), rtol=2e-6, atol=1e-12
        )
        if std1 < 100:
            expected = 4 / np.pi / np.sqrt(determinant - covariance**2)
            np.testing.assert_allclose(slopes, expected, rtol=2e-6)
    gelu = jax.jit(dual_activations.gelu)
    for std1, std2 in ((1e-3, 2e-3), (1.0, 0.5), (1e3, 3e3)):
        values, slopes = gelu(ours, std1, std2)
        product = (1 + std1**2) * (1 + std2**2)
        covariance = rho * std1 * std2
        delta = 1 + std1**2 + std2**2 + (std1 * std2) ** 2 * (1 - rho**2)
        both = 1 / 4 + np.arctan2(covariance, np.sqrt(delta)) / (2 * np.pi)
        expected = (covariance**2 + (std1 * std2) ** 2 * delta) / (product * np.sqrt(delta))
        expected = covariance * both + expected / (2 * np.pi)
        np.testing.assert_allclose(values, expected, atol=3e-7 * std1 * std2)
        if std1 < 100:
            rest = 1 / delta + (1 - (std1 * std2) ** 2) / product + 1
            expected = both + covariance / np.sqrt(delta) * rest / (2 * np.pi)
            np.testing.assert_allclose(slopes, expected, atol=1e-6)
    z = np.polynomial.hermite_e.hermegauss(60)
    for variance in (0.01, 1.0):
        mean_square = z[1] @ scipy.special.erf(np.sqrt(variance) * z[0]) ** 2 / np.sqrt(2 * np.pi)
        ours = jax.jit(dual_activations.erf_variance)(jnp.float32(variance))
        np.testing.assert_allclose(ours, mean_square, rtol=1e-5)
