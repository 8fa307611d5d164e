import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning.resnet import (
    Square,
    last_filters,
    quadratic_network,
    resnet18,
)
from lsa_jax.experiments.feature_learning.truncated_relu import (
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


def test_without_noise_the_kinks_are_at_zero_and_one():
    values = truncated_relu(jnp.array([-0.5, 0.0, 0.25, 1.0, 1.5]))
    assert values.tolist() == [0, 0, 0.25, 1, 1]


def test_inputs_are_vectors(key):
    model = truncated_relu_network(2, weight_std=1.0, bias_std=1.0, output_std=1.0)
    for shape in ((), (3, 1)):
        with pytest.raises(InputError, match="input_shape is .*; accepted: \\(d,\\)"):
            model.init(key, shape)


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
    generator = np.random.default_rng(0)
    z = generator.multivariate_normal([0, 0], [[1.0, 0.6], [0.6, 2.0]], 200_000)
    value, slope = Square().duals(*jnp.array([0.6, 1.0, 2.0]))
    assert value == pytest.approx((z[:, 0] ** 2 * z[:, 1] ** 2).mean(), rel=0.03)
    assert slope == pytest.approx(4 * (z[:, 0] * z[:, 1]).mean(), rel=0.03)


def test_a_tenth_of_the_size_changes_convolutions_alone_and_no_output(key):
    inputs = jax.random.normal(key, (4, 8, 8, 3))
    models = resnet18(4, 2), resnet18(4, 2, scale=0.1)
    whole, tenth = jax.jit(lambda key: [model.init(key, (8, 8, 3)) for model in models])(key)
    expected, found = (
        jax.jit(model.apply)(params, inputs)
        for model, params in zip(models, (whole, tenth), strict=True)
    )
    np.testing.assert_allclose(last_filters(tenth, 3), 0.1 * last_filters(whole, 3), rtol=1e-5)
    assert whole["Dense_0"]["bias"].shape == (2,) and not np.any(whole["Dense_0"]["bias"])
    # Drawn with variance 2 / fan-in.
    values = np.asarray(last_filters(whole, 3))
    error = 6 * (2 / values.size) ** 0.5
    assert values.var() * values[..., 0].size == pytest.approx(2, rel=error)
    # But for batch normalisation's epsilon beside a hundredth of the variance.
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.02)


def test_one_filter_is_enough_and_none_is_not(key):
    shapes = jax.eval_shape(lambda: resnet18(1, 1).init(key, (8, 8, 1)))
    assert last_filters(shapes, 3).shape == (3, 3, 8, 8)
    for sizes, name in (((0, 2), "filters"), ((2, 0), "num_classes")):
        with pytest.raises(InputError, match=f"{name} is 0"):
            resnet18(*sizes)


def test_the_quadratic_network_is_a_sum_of_squares(key):
    model = quadratic_network(5, 3)
    params = model.init(key, (2, 2, 1))
    drawn = {name: np.float64(of["weight"]) for name, of in params.items()}
    assert not any(np.any(of["bias"]) for of in params.values())
    biases = {name: np.arange(len(of["bias"])) / 7 for name, of in params.items()}
    given = {
        name: {"weight": of["weight"], "bias": jnp.float32(biases[name])}
        for name, of in params.items()
    }
    inputs = jax.random.normal(key, (4, 2, 2, 1))
    hidden = np.asarray(inputs).reshape(4, 4) @ drawn["Dense_0"] + biases["Dense_0"]
    expected = hidden**2 @ drawn["Dense_1"] + biases["Dense_1"]
    np.testing.assert_allclose(model.apply(given, inputs), expected, rtol=1e-4, atol=1e-5)
