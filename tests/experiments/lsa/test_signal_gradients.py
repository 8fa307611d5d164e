"""Samplers and networks of Algorithm 1 against formulas in float64 and against each other."""

import functools
import math

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
import scipy.stats

from lsa_jax.experiments.lsa.signal.networks import (
    ONE_FILTER,
    TWO_FILTERS,
    Params,
    TwoFilters,
    draw_examples,
    make_sampler,
    signal_vector,
    soft_threshold_slopes,
    spread_features,
    two_filters,
)
from lsa_jax.experiments.lsa.sparse_signal import soft_threshold

# A test that draws with a fixed key fails by chance alone with this probability at most.
RARE = 1e-4
# Means are compared in standard errors; a few dozen of them are, so 4.5 fails by chance at 1e-4.
MANY = 4.5
SAMPLERS = ("shortcut", "plain")


def configure(**fields):
    given = {"k": 12, "d": 4, "batch_size": 6, "sampler": "plain", "num_features": 1}
    given |= {"separate_filters": False, "stride": None}
    return ml_collections.ConfigDict(given | fields)


def to_float32(tree):
    return jax.tree.map(lambda array: jnp.asarray(array, jnp.float32), tree)


def test_slopes_are_the_derivatives_of_the_soft_threshold():
    z = jnp.linspace(-1.0, 1.0, 41) + 0.013
    for b in map(jnp.float32, (-0.3, 0.0, 0.4)):
        by_z = jax.vmap(jax.grad(soft_threshold), (0, None))(z, b)
        by_b = jax.vmap(jax.grad(soft_threshold, argnums=1), (0, None))(z, b)
        np.testing.assert_array_equal(soft_threshold_slopes(z, b), (by_z, by_b))


def test_the_plain_gradient_is_the_formula_on_its_examples(key):
    """In float64 from indicators, without ReLU or derivatives."""
    config, w = configure(k=6, d=3, batch_size=5), np.array([0.7, -0.4, 0.2])
    x, y = (np.asarray(part, float) for part in draw_examples(config, key, jnp.float32(0.8)))
    gradient = jax.jit(make_sampler(config).gradient)
    for b in (-0.2, 0.0, 0.3):
        z = x @ w
        rising, falling = z > -b, z < b
        margin = y * (rising * (z + b) - falling * (b - z)).sum(axis=1)
        residual = -y / (1 + np.exp(margin))
        by_w = residual[:, None] * np.einsum("np,npd->nd", 1.0 * rising + falling, x)
        by_b = residual * (1.0 * rising - falling).sum(axis=1)
        loss, found = gradient(key, to_float32(Params(w, b)), jnp.float32(0.8))
        assert loss == pytest.approx(np.log1p(np.exp(-margin)).mean(), rel=1e-5)
        np.testing.assert_allclose(found.w, by_w.mean(axis=0), rtol=1e-5, atol=1e-6)
        assert found.b == pytest.approx(by_b.mean(), rel=1e-5, abs=1e-6)


@functools.cache
def compiled(sampler, k, n):
    made = make_sampler(configure(sampler=sampler, k=k, d=3, batch_size=n))
    return jax.jit(jax.vmap(made.gradient, (0, None, None))), jax.jit(made.margins)


def assert_equal_means(first, second):
    error = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    difference = np.abs(first.mean(axis=0) - second.mean(axis=0))
    assert (difference <= MANY * error + 1e-6).all(), difference / error


POINTS = {
    "b far below zero": ([0.9, 0.3, -0.2], -0.6),
    "b above zero": ([0.5, 0.3, -0.2], 0.3),
    "b zero": ([0.5, -0.3, 0.2], 0.0),
    "w against w*": ([-0.5, 0.2, 0.0], -0.1),
    "signal below the threshold": ([0.1, 0.5, 0.3], -0.3),
    "few rows pass, and they decide": ([30.0, 20.0, -20.0], -41.0),
    "w zero, b above zero": ([0.0, 0.0, 0.0], 0.3),
}


@pytest.mark.parametrize(("w", "b"), POINTS.values(), ids=POINTS)
def test_shortcut_and_plain_agree_in_distribution(key, w, b):
    k, n, sigma, count = 7, 3, 0.5, 5000
    drawn = []
    for sampler, own in zip(SAMPLERS, jax.random.split(key), strict=True):
        at, keys = to_float32(Params(np.array(w), b)), jax.random.split(own, count)
        loss, found = compiled(sampler, k, n)[0](keys, at, jnp.float32(sigma))
        columns = (loss[:, None], found.w, found.b[:, None])
        drawn.append(np.concatenate(columns, axis=1).astype(np.float64))
    shortcut, plain = drawn
    assert_equal_means(shortcut, plain)
    # Second moments about a common centre: means are equal, so covariances are compared.
    scale = plain.std(axis=0) + 1e-12
    centred = [(values - plain.mean(axis=0)) / scale for values in drawn]
    assert_equal_means(*(np.einsum("ni,nj->nij", c, c).reshape(count, -1) for c in centred))
    for first, second in zip(shortcut.T, plain.T, strict=True):
        if second.std() > 1e-6 * np.abs(second).max():  # else constant to rounding
            assert scipy.stats.ks_2samp(first, second).pvalue > RARE


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_there_is_no_gradient_at_w_zero_without_a_positive_threshold(key, sampler):
    at = to_float32(Params(np.zeros(3), -0.2))
    loss, found = compiled(sampler, 7, 3)[0](key[None], at, jnp.float32(0.5))
    np.testing.assert_allclose(loss, math.log(2), rtol=1e-6)
    np.testing.assert_array_equal(np.concatenate([found.w[0], found.b]), 0)


@pytest.mark.parametrize("b", [-0.2, 0.02])
def test_margins_agree_with_the_plain_ones_at_the_size_of_the_figure(key, b):
    at = to_float32(Params(np.array([0.4, 0.03, -0.02]), b))
    shortcut, plain = (
        np.asarray(compiled(sampler, 1000, 2000)[1](own, at, jnp.float32(0.218)))
        for sampler, own in zip(SAMPLERS, jax.random.split(key), strict=True)
    )
    assert scipy.stats.ks_2samp(shortcut, plain).pvalue > RARE
    assert_equal_means(shortcut[:, None], plain[:, None])


def test_two_filters_are_the_formula_and_with_equal_ones_the_one_filter():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(5, 7, 3))
    w, b, a = generator.normal(size=(2, 3)), np.array([-0.4, 0.3]), np.array([1.5, 0.7])
    rising = np.maximum(inputs @ w[0] + b[0], 0).sum(axis=1)
    falling = np.maximum(-(inputs @ w[1]) + b[1], 0).sum(axis=1)
    found = two_filters(to_float32(TwoFilters(w, b, a)), to_float32(inputs))
    np.testing.assert_allclose(found[:, 0], a[0] * rising - a[1] * falling, rtol=1e-5)
    both = to_float32(TwoFilters(np.stack([w[0]] * 2), np.full(2, -0.3), np.ones(2)))
    one = ONE_FILTER.apply(TWO_FILTERS.summary(both), to_float32(inputs))
    two = TWO_FILTERS.apply(both, to_float32(inputs))
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-6)
    # Thresholds alone learn at a rate of their own.
    assert TWO_FILTERS.rates(0.3, 0.1) == TwoFilters(w=0.3, b=0.1, a=0.3)


@pytest.mark.parametrize("num_features", [1, 2, 5])
def test_features_are_orthonormal_and_add_up_to_the_first_basis_vector(num_features):
    features = spread_features(num_features, 5)
    np.testing.assert_allclose(features @ features.T, np.eye(num_features), atol=1e-12)
    total = features.sum(axis=0) / num_features**0.5
    np.testing.assert_allclose(total, np.eye(5)[0], atol=1e-12)


def test_with_several_features_the_label_is_the_sign_along_the_first_basis_vector(key):
    examples = draw_examples(configure(num_features=3, batch_size=50), key, jnp.float32(1e-6))
    signal_rows = examples.inputs.sum(axis=1)
    np.testing.assert_array_equal(np.sign(signal_rows[:, 0]), examples.targets)
    np.testing.assert_allclose(np.linalg.norm(signal_rows, axis=1), 1, rtol=1e-4)
    # Unaligned with the rows, it is along the sum of all entries.
    np.testing.assert_allclose(signal_vector(configure(stride=3)), np.full(4, 1 / 2), rtol=1e-6)
