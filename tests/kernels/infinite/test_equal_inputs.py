"""Kernels of equal inputs, whose long sums of one number over and over round to one side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, models
from lsa_jax.kernels.infinite.equal_inputs import Identity, exact_where_equal, identify
from lsa_jax.kernels.infinite.layouts import PAIRS_OF_POSITIONS


def backgrounds(n=200, size=784):
    """Returns what standardised digits are like: ink in the middle, one number around it."""
    draw = np.random.default_rng(0)
    ink = draw.uniform(0, 2.8, (n, size)) * (draw.random((n, size)) < 0.4)
    around = abs(np.arange(size) - size / 2) > size / 8
    return np.where(around | (ink == 0), draw.uniform(-0.6, -0.3, (n, 1)), ink).astype(np.float32)


@pytest.fixture(scope="module")
def exact():
    with jax.enable_x64():
        x = jnp.asarray(backgrounds(), jnp.float64)
        return np.asarray(models.mlp(512).kernel(x[:60], x))


def test_equal_inputs_have_the_kernel_of_the_diagonal(exact):
    x, kernel = backgrounds(), models.mlp(512).kernel
    symmetric = np.asarray(kernels.gram(kernel, x))[:60]
    np.testing.assert_allclose(symmetric, exact, rtol=3e-5)
    np.testing.assert_allclose(kernel(x[:60], x), exact, rtol=3e-5)
    twice = np.asarray(kernels.gram(kernel, np.concatenate([x, x[:60]])))
    np.testing.assert_allclose(twice[200:, :200], exact, rtol=3e-5)


def test_marks_tell_bits_and_their_order():
    x = jnp.asarray(backgrounds(3).T)
    x = x.at[:, 1].set(x[:, 0])
    marks = identify(x).marks
    assert marks[0] == marks[1] != marks[2]
    changed = x.at[5, 1].set(jnp.nextafter(x[5, 1], jnp.float32(9)))
    assert identify(changed).marks[1] != marks[1]
    assert identify(x[::-1]).marks[0] != marks[0]
    # Three steps up in one feature, one down in another: they cancel where factors are 1 and 3.
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    for up, down in ((0, 1), (1, 4), (7, 22), (700, 701)):
        near = bits.at[up, 0].add(3).at[down, 0].add(-1)
        assert identify(jax.lax.bitcast_convert_type(near, jnp.float32)).marks[0] != marks[0]
    assert identify(x[:16]) is None


def test_products_of_the_same_marks_stay_where_they_are_not_near():
    norms, marks = np.float32([1, 2, 1]), np.uint32([7, 7, 8])
    small = Identity(jnp.float32([0.01]), jnp.uint32([7]))
    assert exact_where_equal(jnp.float32([[5e-5]]), small, small) == jnp.float32(5e-5)
    identity = Identity(jnp.asarray(norms), jnp.asarray(marks))
    products = jnp.float32([[1.0001, 1.5, 0.9999], [1.5, 4.001, 1], [1, 1, 1.0005]])
    found = exact_where_equal(products, identity, identity)
    expected = np.array(products)
    np.fill_diagonal(expected, [1, 4, 1])
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert exact_where_equal(products, None, identity) is products


def test_derivatives_are_those_of_the_products():
    x = jnp.asarray(backgrounds(3).T)

    def through(function):
        return jax.grad(lambda features: jnp.sum(jnp.sin(function(features))))(x)

    def product(features):
        return features.T @ features / 100

    def exact_product(features):
        identity = identify(features / 10)
        return exact_where_equal(product(features), identity, identity)

    np.testing.assert_allclose(through(exact_product), through(product), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    ("window", "end"), [(16, []), (13, []), (13, [models.Dense(5), models.Relu()])]
)
def test_long_patches_before_pools_have_the_kernel_of_the_diagonal(window, end):
    """Of one position or 16, and with variances that only pairs of positions give."""
    conv = models.Conv(8, (window, window), (1, 1), "VALID")
    layers = [conv, models.Relu(), models.GlobalAvgPool(), *end, models.Dense(3)]
    model, x = models.network(layers), backgrounds(40, 256).reshape(40, 16, 16, 1)
    exact = np.asarray(kernels.gram(model.ntk, x, dtype="float64"))
    found = np.asarray(kernels.gram(model.ntk, x))
    np.testing.assert_allclose(found.diagonal(), exact.diagonal(), rtol=2e-6)
    np.testing.assert_allclose(found, exact, rtol=2e-5)


def test_equal_patches_are_told_at_any_positions():
    draw = np.random.default_rng(0).normal(size=(2, 1, 20, 3)).astype(np.float32)
    draw[1, 0, :, 2] = draw[0, 0, :, 1]
    identity = identify(jnp.asarray(draw))
    products = PAIRS_OF_POSITIONS.covariances(jnp.asarray(draw), jnp.asarray(draw))
    near = products * np.float32(1 + 1e-5)
    found = exact_where_equal(near, identity, identity, PAIRS_OF_POSITIONS)
    changed = np.asarray(found != near)
    expected = np.zeros((2, 1, 2, 1, 3, 3), bool)
    for position in range(2):
        expected[position, 0, position, 0] = np.eye(3)
    expected[0, 0, 1, 0, 1, 2] = expected[1, 0, 0, 0, 2, 1] = True
    np.testing.assert_array_equal(changed, expected)
    np.testing.assert_allclose(found[expected], products[expected], rtol=1e-6)
