"""alpha (f - f_0): against its definition, and against the linearisation that it comes to."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax import kernels, models
from lsa_jax.models.scaled import network_params, scaled

F = models.mlp(1, 2, widths=(24,), activation="erf")


@pytest.fixture
def data(key):
    x = jax.random.normal(jax.random.fold_in(key, 1), (12, 5))
    return x, jnp.stack([jnp.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)


def descend(apply, params, data, optimizer, factor=1.0, steps=20):
    """Takes steps on factor / 2 times the mean squared distance; returns the last parameters."""
    x, y = data

    def step(carry, _):
        params, state = carry
        gradient = jax.grad(lambda p: factor * jnp.mean((apply(p, x) - y) ** 2) / 2)(params)
        updates, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, updates), state), None

    return jax.lax.scan(step, (params, optimizer.init(params)), length=steps)[0][0]


@pytest.mark.parametrize("alpha", [0.3, 4.0])
def test_training_is_that_of_the_definition_with_the_loss_over_alpha_squared(key, data, alpha):
    model, start = scaled(F, alpha), F.init(key, (5,))
    optimizer = optax.sgd(0.2, momentum=0.9)
    found = descend(model.apply, model.init(key, (5,)), data, optimizer)

    def definition(theta, x):
        return alpha * (F.apply(theta, x) - F.apply(start, x))

    theta = descend(definition, start, data, optimizer, alpha**-2)
    jax.tree.map(np.testing.assert_array_equal, found["initial"], start)
    moved = jax.tree.map(lambda a, b: np.abs(a - b).max(), theta, start)
    assert min(jax.tree.leaves(moved)) > 0.01
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4),
        network_params(found, alpha),
        theta,
    )


def test_the_distance_to_the_trained_linearisation_falls_like_one_over_alpha(key, data):
    start, optimizer = F.init(key, (5,)), optax.sgd(0.5)
    linear = kernels.linearize(F.apply, start)
    zero = F.apply(start, data[0])
    trained = descend(lambda p, x: linear(p, x) - zero, start, data, optimizer)
    limit = linear(trained, data[0]) - zero
    assert np.linalg.norm(limit) > 0.3 * np.linalg.norm(data[1])

    def outputs(alpha):
        model = scaled(F, alpha)
        params = descend(model.apply, model.init(key, (5,)), data, optimizer)
        return model.apply(params, data[0])

    alphas = np.array([2.0, 8.0, 32.0])
    errors = [float(np.linalg.norm(outputs(float(alpha)) - limit)) for alpha in alphas]
    assert -1.15 < np.polyfit(np.log(alphas), np.log(errors), 1)[0] < -0.85, errors
    np.testing.assert_allclose(outputs(math.inf), limit, atol=1e-4)


@pytest.mark.parametrize("alpha", [0.5, 16.0, math.inf])
def test_the_kernel_is_that_of_the_network(key, data, alpha):
    model, x = scaled(F, alpha), data[0]
    params = model.init(key, (5,))
    np.testing.assert_array_equal(model.apply(params, x), 0)
    jacobian = jax.jacobian(lambda w: model.apply({**params, "moved": w}, x))(params["moved"])
    rows = [leaf.reshape(len(x), 2, -1) for leaf in jax.tree.leaves(jacobian)]
    found = sum(jnp.einsum("acp,bcp->ab", row, row) for row in rows) / 2
    expected = kernels.empirical_ntk(F.apply, params["initial"], x)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert model.kernel is F.kernel
    whole = jax.grad(lambda p: jnp.sum(model.apply(p, x)))(params)
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(whole["initial"]))
