"""Gaps of inputs whose long sums of one number over and over round to one side."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels, models
from lsa_jax.kernels.infinite.directions import directions, gaps
from lsa_jax.kernels.infinite.layouts import EQUAL_POSITIONS, PAIRS_OF_POSITIONS


def backgrounds(n=200, size=784):
    """Returns inputs like standardised digits: ink in the middle, one number around it."""
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


@pytest.mark.parametrize("size", [9, 40, 784])
def test_gaps_and_norms_are_those_in_float64(size):
    """Of inputs at any distance, parallel, opposite, constant but for a few numbers, and zero."""
    draw = np.random.default_rng(0)
    base, ground = draw.normal(size=size), np.full(size, -0.42)
    rows = [base, 3 * base, -base, 0 * base, ground, 1.7 * ground, 1e25 * base, 1e-25 * ground]
    rows += [base + part * draw.normal(size=size) for part in (1e-6, 1e-4, 1e-2, 1.0)]
    rows += [np.where(np.arange(size) == place, 1.5, ground) for place in (1, 4)]
    x = np.array(rows, np.float32)
    vectors, norms = directions(jnp.asarray(x.T))
    found = np.asarray(gaps(vectors, vectors, EQUAL_POSITIONS), float)
    exact = np.linalg.norm(x.astype(float), axis=1)
    np.testing.assert_allclose(norms, exact, rtol=1e-6)
    unit = x / np.where(exact > 0, exact, 1)[:, None]
    np.testing.assert_allclose(vectors.whole().T, unit, atol=2e-7)
    apart = ((unit[:, None] - unit) ** 2).sum(-1) / 2
    # Square roots follow; of those below 1e-7 float32 has hardly the angle between two inputs.
    np.testing.assert_allclose(np.sqrt(np.abs(found)), np.sqrt(apart), atol=3e-7, rtol=3e-6)
    np.testing.assert_array_equal(np.diag(found), 0)


def test_derivatives_are_those_of_cosines():
    x = jnp.asarray(backgrounds(3).T)

    def through(function):
        return jax.grad(lambda features: jnp.sum(jnp.sin(function(features))))(x)

    def cosines(features):
        unit = features / jnp.linalg.norm(features, axis=0, keepdims=True)
        return unit.T @ unit

    def by_gaps(features):
        vectors, _ = directions(features)
        return 1 - gaps(vectors, vectors, EQUAL_POSITIONS)

    np.testing.assert_allclose(through(by_gaps), through(cosines), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(("window", "end"), [(16, []), (13, [models.Dense(5), models.Relu()])])
def test_long_patches_before_pools_have_the_kernel_of_the_diagonal(window, end):
    """Of one position or 16, and with variances that only pairs of positions give."""
    conv = models.Conv(8, (window, window), (1, 1), "VALID")
    layers = [conv, models.Relu(), models.GlobalAvgPool(), *end, models.Dense(3)]
    model, x = models.network(layers), backgrounds(40, 256).reshape(40, 16, 16, 1)
    exact = np.asarray(kernels.gram(model.ntk, x, dtype="float64"))
    found = np.asarray(kernels.gram(model.ntk, x))
    np.testing.assert_allclose(found.diagonal(), exact.diagonal(), rtol=2e-6)
    np.testing.assert_allclose(found, exact, rtol=2e-5)


def test_gaps_between_any_positions():
    draw = np.random.default_rng(0).normal(size=(2, 1, 20, 3)).astype(np.float32)
    draw[1, 0, :, 2] = draw[0, 0, :, 1]
    draw[0, 0, :, 0] = draw[1, 0, :, 1] * np.float32(1 + 1e-6)
    vectors, _ = directions(jnp.asarray(draw))
    found = gaps(vectors, vectors, PAIRS_OF_POSITIONS)
    unit = draw / np.linalg.norm(draw.astype(float), axis=-2, keepdims=True)
    expected = 1 - np.einsum("hwka,xykb->hwxyab", unit, unit)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert found[0, 0, 1, 0, 1, 2] == found[1, 0, 0, 0, 2, 1] == 0
    assert found[0, 0, 1, 0, 0, 1] < 1e-13
