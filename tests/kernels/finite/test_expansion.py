"""Linearisations against derivatives of the whole network along a direction."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend
from lsa_jax.kernels import linearize, linearize_on
from lsa_jax.kernels.finite import layerwise

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


def test_a_network_of_small_parameters_alone_is_expanded_by_its_jacobian():
    weight, x = jnp.array([[2.0], [3.0]]), jnp.array([[1.0, -1.0]])
    examples, apply_lin = linearize_on(square, weight, x)
    assert examples.derivatives.cotangents is None
    np.testing.assert_allclose(apply_lin(weight + 0.5, examples), [[1.0]], rtol=1e-6)
    np.testing.assert_allclose(apply_lin(weight * 2, examples), [[3.0]], rtol=1e-6)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_examples_go_through_the_network_some_at_a_time(platform, monkeypatch):
    # So many bytes for a gradient of n examples, of which 1,000 for what they share.
    monkeypatch.setattr(backend, "bytes_for_gradient", lambda apply, params, x: 1000 + 200 * len(x))
    x = np.ones((64, 2), np.float32)

    def expand(weight):
        return linearize_on(square, weight, x)[0]

    weight = np.ones((2, 4), np.float32)
    with backend.built_for(platform, memory=None if platform == "cpu" else 16.0 * 8 * 4 * 232):
        traced = jax.make_jaxpr(expand)(weight)
        at_once = layerwise.examples_at_once(square, weight, x, 4)
    loops = [e.params["length"] for e in traced.eqns if e.primitive.name == "scan"]
    # Of each of 4 outputs, 8 parameters of 4 bytes and 200 bytes beside.
    assert at_once == (2 if platform == "cpu" else 8)
    assert loops == ([64 // 16, 64 // 2] if platform == "cpu" else [64 // 8] * 2)
