"""The paper's networks: truncated ReLUs, ResNet(m) and squares."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from lsa_jax.experiments.feature_learning.networks import (
    Square,
    last_filters,
    quadratic_network,
    resnet18,
    truncated_relu,
    truncated_relu_network,
)


@pytest.mark.parametrize("z", [-0.7, 0.2, 1.1])
def test_smoothing_is_the_mean_over_noise(z):
    def integrand(xi):
        return np.clip(z + xi, 0, 1) * scipy.stats.norm.pdf(xi, scale=0.4)

    expected, _ = scipy.integrate.quad(integrand, -3, 3, points=[-z, 1 - z])
    assert float(truncated_relu(jnp.float32(z), 0.4)) == pytest.approx(expected, abs=1e-6)
    assert float(truncated_relu(jnp.float32(z))) == pytest.approx(min(1, max(z, 0)))


def test_paired_neurons_cancel_at_the_start(key):
    model = truncated_relu_network(4, weight_std=1.0, bias_std=0.5, output_std=2.0)
    params = model.init(key, (3,))
    inputs = jax.random.normal(key, (5, 3))
    np.testing.assert_allclose(model.apply(params, inputs), 0, atol=1e-6)
    alone = jax.tree.map(lambda leaf: leaf[..., :4], params)
    by_hand = np.clip(inputs @ alone["w"] + alone["b"][None], 0, 1) @ alone["a"]
    np.testing.assert_allclose(model.apply(alone, inputs)[:, 0], by_hand, rtol=1e-5)


def test_the_resnet_of_64_filters_is_the_standard_one(key):
    shapes = jax.eval_shape(lambda key: resnet18(64, 10).init(key, (32, 32, 3)), key)
    # He et al.'s ResNet-18 with a 3 x 3 stem, 10 classes: 11,173,962 parameters.
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == 11_173_962
    channels = [last_filters(shapes, stage).shape for stage in range(4)]
    assert channels == [(3, 3, c, c) for c in (64, 128, 256, 512)]


def test_squares_have_the_moments_of_gaussians():
    """By Gauss-Hermite quadrature, exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    root = np.linalg.cholesky([[1.0, 0.6], [0.6, 2.0]])
    u, v = np.einsum("ij,jkl->ikl", root, np.stack(np.meshgrid(nodes, nodes, indexing="ij")))
    mass = np.outer(weights, weights) / weights.sum() ** 2
    found, slope = Square().duals(*jnp.array([0.6, 1.0, 2.0]))
    assert found == pytest.approx((mass * u**2 * v**2).sum(), rel=1e-5)
    assert slope == pytest.approx((mass * 4 * u * v).sum(), rel=1e-5)


def test_convolutions_of_a_tenth_of_the_size_are_a_tenth_of_those_of_variance_two_over_fan_in(key):
    models = resnet18(4, 2), resnet18(4, 2, scale=0.1)
    whole, tenth = jax.jit(lambda key: [model.init(key, (8, 8, 3)) for model in models])(key)
    np.testing.assert_allclose(last_filters(tenth, 3), 0.1 * last_filters(whole, 3), rtol=1e-5)
    values = np.asarray(last_filters(whole, 3))
    error = 6 * (2 / values.size) ** 0.5
    assert values.var() * values[..., 0].size == pytest.approx(2, rel=error)
    np.testing.assert_array_equal(tenth["Dense_0"]["weight"], whole["Dense_0"]["weight"])


def test_the_quadratic_network_is_a_sum_of_squares(key):
    model = quadratic_network(5, 3)
    drawn = model.init(key, (2, 2, 1))
    given = {
        name: {"weight": of["weight"], "bias": of["bias"] + jnp.arange(len(of["bias"])) / 7}
        for name, of in drawn.items()
    }
    w, b, a, c = (np.float64(of[n]) for of in given.values() for n in ("weight", "bias"))
    inputs = jax.random.normal(key, (4, 2, 2, 1))
    expected = (np.asarray(inputs).reshape(4, 4) @ w + b) ** 2 @ a + c
    np.testing.assert_allclose(model.apply(given, inputs), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose([b[0], c[1]], [0, 1 / 7], rtol=1e-6)  # biases start at 0
