"""Expansions in parameters against derivatives of the network and closed forms."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import costs
from lsa_jax.kernels import linearize, linearize_on, taylor_expand

RNG = np.random.default_rng(0)
READOUT = RNG.normal(size=(3, 2)).astype(np.float32)


def square(theta, x):
    return (x @ theta) ** 2


def network(params, x):
    """Dense layers with factors, two of them few numbers as inputs and cotangents, and a bias."""
    hidden = jnp.tanh(x @ params["at 3"] / 5).reshape(len(x), 60)
    hidden = jnp.tanh(0.2 * params["at 1"].T @ hidden.T).T + params["bias"]
    return jnp.sum(jnp.sin(hidden.reshape(-1, 10, 2) @ (2 * params["at 10"])), 1) @ READOUT


SHAPES = {"at 3": (30, 20), "at 1": (60, 20), "at 10": (2, 3), "bias": (1, 20)}
PARAMS, STEP = (
    {name: RNG.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    for _ in range(2)
)
X = RNG.normal(size=(5, 3, 30)).astype(np.float32)


@pytest.mark.parametrize("precision", ["highest", "default"])
def test_a_square_is_replaced_by_its_tangent_in_the_precision_asked_for(precision):
    old, new, x = RNG.normal(size=(3, 4, 2)).astype(np.float32)
    linear = linearize(square, old, precision=precision)
    at, along = x.T @ old, x.T @ (new - old)
    np.testing.assert_allclose(linear(new, x.T), at**2 + 2 * at * along, rtol=1e-4, atol=1e-5)
    program = jax.jit(linear).lower(new, x.T).as_text()
    assert ("HIGHEST" in program) == (precision == "highest")


def test_known_examples_have_the_derivative_of_the_network_along_each_step():
    moved = jax.tree.map(jnp.add, PARAMS, STEP)
    outputs, change = jax.jvp(lambda params: network(params, X), (PARAMS,), (STEP,))

    @jax.jit
    def expanded(params, moved):
        examples, apply_lin = linearize_on(network, params, X)
        return examples, apply_lin(moved, examples)

    examples, found = expanded(PARAMS, moved)
    known = examples.derivatives
    assert [a.shape for a in known.inputs] == [(5, 3, 30), (5, 1, 60)]
    assert known.cotangents.shape == (5, 2, 3 * 20 + 20)
    assert known.jacobian.shape == (5, 2, 2 * 3 + 20)
    np.testing.assert_allclose(examples.outputs, outputs, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found, outputs + change, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(linearize(network, PARAMS)(moved, X), found, rtol=1e-3, atol=1e-3)
    # Gradients in the parameters too, of some of the examples, in full precision.
    _, apply_lin = linearize_on(network, PARAMS, X)
    rows, linear = jax.tree.map(lambda a: a[1:4], examples), linearize(network, PARAMS)
    slope = jax.jit(jax.grad(lambda p: jnp.sum(apply_lin(p, rows) ** 2)))
    expected = jax.jit(jax.grad(lambda p: jnp.sum(linear(p, X[1:4]) ** 2)))(moved)
    for a, b in zip(*map(jax.tree.leaves, (slope(moved), expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * float(jnp.abs(b).max()))
    program = slope.lower(moved).as_text().splitlines()
    products = [line for line in program if "dot_general" in line]
    assert products and all("HIGHEST" in line for line in products)
    # Many points of expansion at once.
    many = jax.tree.map(lambda a: jnp.stack([a, a + 0.1]), PARAMS)
    together = jax.vmap(lambda p: linearize(network, p)(moved, X))(many)
    np.testing.assert_allclose(together[0], found, rtol=1e-3, atol=1e-3)


def test_an_expansion_holds_a_layers_inputs_and_cotangents_where_they_are_half_as_many(key):
    # At p positions a layer takes p (k + c f) numbers, against c k f of its Jacobian.
    weight, moved = jax.random.normal(key, (2, 30, 20))

    def apply(weight, x):
        return jnp.sum(jnp.tanh(x @ weight), axis=1)[:, :3]

    for positions, numbers in ((9, 9 * (30 + 3 * 20)), (11, 3 * 30 * 20)):
        x = jax.random.normal(key, (2, positions, 30))
        examples, apply_lin = linearize_on(apply, weight, x)
        assert costs.size_in_bytes(examples) == 2 * 4 * (numbers + 3)  # and the outputs
        expected = linearize(apply, weight)(moved, x)
        np.testing.assert_allclose(apply_lin(moved, examples), expected, rtol=1e-4, atol=1e-4)


def polynomial(theta, x):
    return jnp.sin(x * theta["a"]) + theta["b"] ** 3


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
def test_taylor_expansions_are_those_of_the_function_and_of_neural_tangents(degree):
    with jax.enable_x64(True):
        theta = {"a": jnp.array(0.3), "b": jnp.array(-0.7)}
        moved = {"a": jnp.array(0.5), "b": jnp.array(-0.4)}
        x = jnp.array([[1.0], [2.0]])
        found = taylor_expand(polynomial, theta, degree)(moved, x)
        step, cube = 0.2 * np.asarray(x), [-0.343, 3 * 0.49 * 0.3, 3 * -0.7 * 0.09, 0.027, 0, 0]
        at = 0.3 * np.asarray(x)
        waves = [np.sin(at), np.cos(at), -np.sin(at), -np.cos(at), np.sin(at), np.cos(at)]
        factorials = [1, 1, 2, 6, 24, 120]
        expected = sum(waves[k] * step**k / factorials[k] + cube[k] for k in range(degree + 1))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        nt = importlib.import_module("neural_tangents")
        theirs = nt.taylor_expand(polynomial, theta, degree)(moved, x)
        np.testing.assert_allclose(found, theirs, rtol=1e-12)
