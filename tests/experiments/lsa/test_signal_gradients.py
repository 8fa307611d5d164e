import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from lsa_jax.experiments.lsa.signal import gradients
from lsa_jax.experiments.lsa.signal.gradients import (
    SAMPLERS,
    Params,
    plain_gradient,
    soft_threshold,
    soft_threshold_slopes,
)
from lsa_jax.experiments.lsa.sparse_signal import sample, sparse_signal

# A test that draws with a fixed key fails by chance alone with this probability at most.
RARE = 1e-4
# Means are compared in standard errors; a few dozen of them are, so 4.5 fails by chance at 1e-4.
MANY = 4.5


def params(w, b):
    return Params(jnp.array(w, jnp.float32), jnp.float32(b))


def reference(w, b, inputs, targets):
    """Loss and gradient of a batch in float64 from indicators, without ReLU or autodiff."""
    w, inputs, targets = (np.asarray(a, np.float64) for a in (w, inputs, targets))
    z = inputs @ w
    rising, falling = z > -b, z < b
    phi = rising * (z + b) - falling * (b - z)
    margin = targets * phi.sum(axis=1)
    residual = -targets / (1 + np.exp(margin))
    slope = 1.0 * rising + falling
    gradient_w = np.mean(residual[:, None] * np.einsum("np,npd->nd", slope, inputs), axis=0)
    gradient_b = np.mean(residual * (1.0 * rising - falling).sum(axis=1))
    return np.mean(np.log1p(np.exp(-margin))), gradient_w, gradient_b


@pytest.mark.parametrize("b", [-0.3, 0.0, 0.4])
def test_slopes_are_the_derivatives_of_the_soft_threshold(b):
    z, b = jnp.linspace(-1.0, 1.0, 41) + 0.013, jnp.float32(b)
    by_z = jax.vmap(jax.grad(soft_threshold), (0, None))(z, b)
    by_b = jax.vmap(jax.grad(soft_threshold, argnums=1), (0, None))(z, b)
    np.testing.assert_array_equal(soft_threshold_slopes(z, b), (by_z, by_b))


def test_plain_gradient_is_the_formula_on_its_examples(key):
    k, d, n, sigma, w = 6, 3, 5, 0.8, [0.7, -0.4, 0.2]
    data = jax.jit(lambda key: sample(key, n, sparse_signal(k, d, sigma)))(key)
    gradient = jax.jit(functools.partial(plain_gradient, k=k, num_examples=n))
    for b in (-0.2, 0.0, 0.3):
        wanted = reference(w, b, data.inputs, data.targets)
        loss, found = gradient(key, params(w, b), sigma)
        np.testing.assert_allclose(loss, wanted[0], rtol=1e-5)
        np.testing.assert_allclose(found.w, wanted[1], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found.b, wanted[2], rtol=1e-5, atol=1e-6)


@functools.cache
def compiled_gradients(sampler, k, n):
    gradient = functools.partial(SAMPLERS[sampler].gradient, k=k, num_examples=n)
    return jax.jit(jax.vmap(gradient, (0, None, None)))


@functools.cache
def compiled_margins(sampler, k, n):
    return jax.jit(functools.partial(SAMPLERS[sampler].margins, k=k, num_examples=n))


def draw_gradients(key, sampler, at, sigma, k, n, count):
    """Draws (loss, gradient in w, gradient in b) of many minibatches, as rows."""
    keys = jax.random.split(key, count)
    loss, found = compiled_gradients(sampler, k, n)(keys, at, sigma)
    columns = (loss[:, None], found.w, found.b[:, None])
    return np.concatenate(columns, axis=1).astype(np.float64)


def assert_equal_means(first, second):
    error = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    difference = np.abs(first.mean(axis=0) - second.mean(axis=0))
    assert (difference <= MANY * error + 1e-6).all(), difference / error


POINTS = {
    "b far below zero": ([0.9, 0.3, -0.2], -0.6),
    "b just below zero": ([0.9, 0.3, -0.2], -0.01),
    "b above zero": ([0.5, 0.3, -0.2], 0.3),
    "b zero": ([0.5, -0.3, 0.2], 0.0),
    "w against w*": ([-0.5, 0.2, 0.0], -0.1),
    "signal below the threshold": ([0.1, 0.5, 0.3], -0.3),
    "few rows pass, and they decide": ([30.0, 20.0, -20.0], -41.0),
    "w of the initial size": ([1e-6, -2e-6, 1e-6], 0.0),
    "w zero, b above zero": ([0.0, 0.0, 0.0], 0.3),
}


@pytest.mark.parametrize(("w", "b"), POINTS.values(), ids=POINTS)
def test_shortcut_and_plain_agree_in_distribution(key, w, b):
    k, n, sigma, count = 7, 3, 0.5, 5000
    keys = dict(zip(SAMPLERS, jax.random.split(key), strict=True))
    drawn = {
        sampler: draw_gradients(keys[sampler], sampler, params(w, b), sigma, k, n, count)
        for sampler in SAMPLERS
    }
    shortcut, plain = drawn["shortcut"], drawn["plain"]
    assert_equal_means(shortcut, plain)
    # Second moments about a common centre: means are equal, so covariances are compared.
    scale = plain.std(axis=0) + 1e-12
    products = [
        np.einsum("ni,nj->nij", centred, centred).reshape(count, -1)
        for centred in ((values - plain.mean(axis=0)) / scale for values in (shortcut, plain))
    ]
    assert_equal_means(*products)
    for first, second in zip(shortcut.T, plain.T, strict=True):
        if second.std() > 1e-6 * np.abs(second).max():  # else constant to rounding
            assert scipy.stats.ks_2samp(first, second).pvalue > RARE


@pytest.mark.parametrize("b", [-0.2, 0.0])
def test_no_gradient_at_w_zero_without_a_positive_threshold(key, b):
    for sampler in SAMPLERS:
        drawn = draw_gradients(key, sampler, params([0.0, 0.0, 0.0], b), 0.5, 7, 3, 5000)
        np.testing.assert_allclose(drawn[:, 0], math.log(2), rtol=1e-6)
        np.testing.assert_array_equal(drawn[:, 1:], 0)


@pytest.mark.parametrize("b", [-0.2, -0.05, 0.02])
def test_margins_agree_with_the_plain_ones_at_the_size_of_the_figure(key, b):
    k, n, sigma = 1000, 2000, 0.218
    at = params([0.4, 0.03, -0.02], b)
    keys = jax.random.split(key)
    shortcut, plain = (
        compiled_margins(sampler, k, n)(key, at, sigma)
        for sampler, key in zip(SAMPLERS, keys, strict=True)
    )
    assert scipy.stats.ks_2samp(shortcut, plain).pvalue > RARE
    assert_equal_means(np.asarray(shortcut)[:, None], np.asarray(plain)[:, None])


@pytest.mark.parametrize("probability", [1.0, 0.5, 0.04, 1e-3])
def test_passing_normals_follow_the_normal_law_beyond_the_threshold(key, probability):
    u = np.asarray(gradients._passing_normals(key, jnp.float32(probability), (20_000,)))
    assert np.isfinite(u).all()
    beyond = scipy.stats.norm.sf(np.abs(u)) * 2 / probability
    assert scipy.stats.kstest(beyond, "uniform").pvalue > RARE
    assert scipy.stats.binomtest(int((u > 0).sum()), len(u)).pvalue > RARE


def test_rows_as_rare_as_they_come_are_finite_and_end_where_float32_does(key):
    u = np.abs(gradients._passing_normals(key, jnp.float32(1e-9), (1000,)))
    largest = scipy.stats.norm.isf((1 - float(np.nextafter(np.float32(1), 0))) / 2)
    np.testing.assert_allclose(u, largest, rtol=1e-4)


@pytest.mark.parametrize("k", [1, 1000])
def test_the_number_of_passing_rows_is_binomial(key, k):
    b, scale, n = jnp.float32(-0.1), jnp.float32(0.1), 4000
    sums = jax.jit(functools.partial(gradients._sum_noise_rows, k=k, num_examples=n))(key, scale, b)
    count = np.asarray(sums.slope_squared)  # the slope of a row that passes is 1
    law = scipy.stats.binom(k, 2 * scipy.stats.norm.sf(1.0))
    edges = np.unique(law.ppf(np.linspace(0.1, 1, 10)))
    expected = n * np.diff(law.cdf(edges), prepend=0)
    observed = np.histogram(count, np.append(-0.5, edges + 0.5))[0]
    assert observed.sum() == n
    assert scipy.stats.chisquare(observed, expected).pvalue > RARE


def test_every_row_counts_where_the_threshold_is_not_negative(key):
    k = 100
    sum_rows = jax.jit(functools.partial(gradients._sum_noise_rows, k=k, num_examples=3))
    for b, slope in ((0.0, 1.0), (100.0, 2.0)):
        sums = sum_rows(key, jnp.float32(1.0), jnp.float32(b))
        np.testing.assert_array_equal(sums.slope_squared, k * slope**2)


@pytest.mark.parametrize("b", [-0.3, 0.0])
def test_accuracy_with_one_noise_row_is_the_closed_form(key, b):
    # The margin is phi_b(c) + phi_b(z): positive for c > -b just where z > -c.
    w, sigma, n = [0.5, 0.4], 1.2, 200_000
    margins = compiled_margins("shortcut", 1, n)(key, params(w, b), sigma)
    wanted = scipy.stats.norm.cdf(0.5 / (sigma * np.linalg.norm(w)))
    found = float(jnp.mean(margins > 0))
    assert abs(found - wanted) < 4 * math.sqrt(wanted * (1 - wanted) / n)


def population_gradient(w, b, sigma):
    """Integrates loss and gradient over one noise row's z; orthogonal to w it has mean zero."""
    c, norm = w[0], np.linalg.norm(w)

    def phi(z):
        return max(z + b, 0) - max(b - z, 0)

    def slope(z):
        return float(z + b > 0) + float(b - z > 0)

    def bias_slope(z):
        return float(z + b > 0) - float(b - z > 0)

    def mean(function):
        def integrand(z):
            margin = phi(c) + phi(z)
            return function(z, margin) * scipy.stats.norm.pdf(z, scale=sigma * norm)

        edges = [-10 * sigma * norm, *sorted({-abs(b), 0.0, abs(b)}), 10 * sigma * norm]
        return sum(
            scipy.integrate.quad(integrand, low, high, epsabs=1e-10)[0]
            for low, high in zip(edges, edges[1:], strict=False)
        )

    def residual(margin):
        return -1 / (1 + math.exp(margin))

    loss = mean(lambda z, m: math.log1p(math.exp(-m)))
    along = mean(lambda z, m: residual(m) * slope(z) * z / norm**2)
    signal = mean(lambda z, m: residual(m) * slope(c))
    gradient_w = signal * np.eye(len(w))[0] + along * np.asarray(w)
    gradient_b = mean(lambda z, m: residual(m) * (bias_slope(c) + bias_slope(z)))
    return np.array([loss, *gradient_w, gradient_b])


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("b", [-0.4, 0.25])
def test_mean_gradient_is_the_integral_over_the_noise(key, sampler, b):
    w, sigma, n, count = [0.6, 0.5, -0.3], 0.9, 100, 400
    drawn = draw_gradients(key, sampler, params(w, b), sigma, 1, n, count)
    error = drawn.std(axis=0, ddof=1) / math.sqrt(count)
    assert (np.abs(drawn.mean(axis=0) - population_gradient(w, b, sigma)) < MANY * error).all()


def test_the_same_key_gives_the_same_gradient(key):
    at = params([0.5, 0.2, 0.0], -0.1)
    first, again, other = (
        draw_gradients(key, "shortcut", at, 0.4, 7, 3, 5000)
        for key in (key, key, jax.random.fold_in(key, 1))
    )
    np.testing.assert_array_equal(first, again)
    assert not (first[:, 1:] == other[:, 1:]).any()
