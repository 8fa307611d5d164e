"""Outer products of layers' gradients and last inputs, against loops in numpy."""

import jax.numpy as jnp
import numpy as np

from lsa_jax.kernels import last_layer_inputs, layer_gradients, layer_inputs

RNG = np.random.default_rng(0)
PARAMS = {
    "first": {"w": RNG.normal(size=(3, 4)).astype(np.float32)},
    "rest": [RNG.normal(size=4).astype(np.float32), RNG.normal(size=(8, 2)).astype(np.float32)],
}
X = RNG.normal(size=(5, 2, 3)).astype(np.float32)  # examples, positions, features


def apply(params, x):
    """A layer at two positions, times 1.5, a bias, and a readout of all that is there, halved."""
    hidden = jnp.tanh(x @ (1.5 * params["first"]["w"]) + params["rest"][0][None, None])
    return hidden.reshape(len(x), 8) @ (params["rest"][1] / 2)


def hidden_of(one):
    return np.tanh(1.5 * one.astype(float) @ PARAMS["first"]["w"] + PARAMS["rest"][0])


def test_outer_products_are_means_over_examples_of_sums_over_outputs_and_positions():
    first, last = 1.5 * PARAMS["first"]["w"].astype(float), PARAMS["rest"][1].astype(float) / 2
    of_first, of_last = np.zeros((3, 3)), np.zeros((8, 8))
    for one in X:
        slopes = 1 - hidden_of(one) ** 2
        for output in range(2):
            for position in range(2):
                back = last[4 * position : 4 * position + 4, output] * slopes[position]
                of_first += np.outer(first @ back, first @ back) / len(X)
            of_last += np.outer(last[:, output], last[:, output]) / len(X)
    found = layer_gradients(apply, PARAMS, X)
    assert [layer.name for layer in found] == ["first/w", "rest/1"]
    for layer, weight, product in zip(found, (first, last), (of_first, of_last), strict=True):
        np.testing.assert_allclose(layer.weight, weight, rtol=1e-6)
        np.testing.assert_allclose(layer.outer_product, product, rtol=1e-4, atol=1e-5)


def test_the_last_layer_sees_all_features_of_all_positions():
    expected = np.stack([hidden_of(one).reshape(8) for one in X])
    np.testing.assert_allclose(last_layer_inputs(apply, PARAMS, X), expected, rtol=1e-5)

    def at_positions(params, x):
        """The last layer is at the two positions, whose outputs are added up."""
        return jnp.sum(jnp.tanh(x) @ params, axis=1)

    found = last_layer_inputs(at_positions, PARAMS["first"]["w"], X)
    np.testing.assert_allclose(found, np.tanh(X).reshape(5, 6), rtol=1e-5)


def test_every_layers_inputs_have_its_name_and_another_use_a_number():
    found = layer_inputs(apply, PARAMS, X)
    assert list(found) == ["first/w", "rest/1"]
    np.testing.assert_allclose(found["first/w"], X.reshape(5, -1), rtol=1e-6)
    np.testing.assert_allclose(found["rest/1"], last_layer_inputs(apply, PARAMS, X))
    twice = layer_inputs(lambda w, x: jnp.tanh(x @ w) @ w, np.eye(3, dtype=np.float32), X[:, 0])
    assert list(twice) == ["", " (2)"]
    np.testing.assert_allclose(twice[" (2)"], np.tanh(X[:, 0]), rtol=1e-5)


def test_a_network_without_dense_layers_has_no_outer_products():
    scale = np.ones(3, np.float32)
    assert layer_gradients(lambda w, x: jnp.sum(x, axis=1) * w[None], scale, X) == []
