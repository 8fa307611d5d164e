"""The finite NTK against explicit Jacobians in float64, of random networks and by hand."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lsa_jax.errors import InputError
from lsa_jax.kernels import empirical_ntk, gram, linearize
from lsa_jax.models import Conv, Dense, Flatten, Relu, network


def _apply(params, inputs):
    hidden = jnp.tanh(inputs @ params["hidden"])
    return hidden @ params["readout"] + params["bias"]


@pytest.fixture
def params(key):
    first, second, third = jax.random.split(key, 3)
    return {
        "hidden": jax.random.normal(first, (4, 7)),
        "readout": jax.random.normal(second, (7, 3)),
        "bias": jax.random.normal(third, (1, 3)),
    }


@st.composite
def functions(draw):
    """Returns a function of parameters, and these: layers as they occur, and other uses."""
    sizes, steps = [draw(st.integers(1, 4))], []
    kinds = ["dense", "left", "scaled", "bias", "shared", "positions"]
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=4)):
        steps.append((kind, draw(st.integers(1, 5))))
    outputs, positions = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    rng, params, width = np.random.default_rng(draw(st.integers(0, 9))), [], sizes[0]
    for kind, size in [*steps, ("dense", outputs)]:
        shape = {"bias": (1, 1, width), "left": (size, width), "shared": (width, width)}
        params.append(rng.normal(size=shape.get(kind, (width, size))))
        width = width if kind in ("bias", "shared") else size

    def apply(params, x):
        for (kind, _), w in zip(steps, params, strict=False):
            if kind == "dense":
                x = jnp.tanh(x @ w)
            elif kind == "left":
                x = jnp.tanh(jnp.moveaxis(w @ jnp.moveaxis(x, -1, 1), 1, -1))
            elif kind == "scaled":
                x = jnp.sin(x @ (2 * w / 3))
            elif kind == "bias":
                x = x + w
            elif kind == "shared":
                x = jnp.tanh(jnp.tanh(x @ w) @ w)
            else:
                x = jnp.sum(jnp.tanh(x @ w), axis=1, keepdims=True) + jnp.zeros((1, positions, 1))
        return jnp.mean(x @ params[-1], axis=1)

    return apply, params, (positions, sizes[0])


@settings(max_examples=3, deadline=None, derandomize=True)
@given(functions(), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_all_methods_are_products_of_explicit_jacobians(function, n1, n2, full):
    apply, params, shape = function
    rng = np.random.default_rng(0)
    x1, x2 = (rng.normal(size=(n, *shape)) for n in (n1, n2))
    with jax.enable_x64(True):
        jacobians = []
        for x in (x1, x2):
            leaves = jax.jit(jax.jacrev(apply))(params, x)
            jacobians.append(np.concatenate([a.reshape(*a.shape[:2], -1) for a in leaves], -1))
        expected = np.einsum("nap,mbp->nmab", *jacobians)
        expected = expected if full else np.einsum("nmaa->nm", expected) / expected.shape[-1]
        for method in ("auto", "layerwise", "vector_products", "jacobian", "neural_tangents"):
            found = empirical_ntk(apply, params, x1, x2, full=full, method=method)
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
        itself = empirical_ntk(apply, params, x1, full=full, method="layerwise")
        pairs = empirical_ntk(apply, params, x1, x1, full=full, method="layerwise")
        np.testing.assert_allclose(itself, pairs, rtol=1e-10, atol=1e-12)
        alone = empirical_ntk(apply, params, x1, full=full, diagonal=True)
        np.testing.assert_allclose(alone, np.einsum("nn...->n...", pairs), rtol=1e-10, atol=1e-12)


def _assert_full_precision(function, *arguments):
    """Every product of a program asks for all digits, whatever the accelerator's default."""
    program = jax.jit(function).lower(*arguments).as_text().splitlines()
    products = [line for line in program if "dot_general" in line or "convolution" in line]
    assert products and all("HIGHEST" in line for line in products)


@pytest.mark.parametrize("method", ["jacobian", "vector_products", "layerwise"])
def test_products_of_the_finite_ntk_are_in_full_precision(key, method):
    model = network([Conv(2, b_std=0.1), Relu(), Flatten(), Dense(5), Relu(), Dense(3)])
    params, x = model.init(key, (3, 3, 1)), jnp.ones((2, 3, 3, 1))
    for diagonal in (False, True):
        ntk = functools.partial(empirical_ntk, model.apply, method=method, diagonal=diagonal)
        _assert_full_precision(ntk, params, x)


@pytest.mark.parametrize("method", ["jacobian", "vector_products", "layerwise"])
def test_the_finite_ntk_of_no_examples_is_empty(params, method):
    ntk = functools.partial(empirical_ntk, _apply, params, method=method)
    some, none = jnp.ones((2, 4)), jnp.ones((0, 4))
    assert ntk(none).shape == (0, 0) and ntk(none, full=True).shape == (0, 0, 3, 3)
    assert ntk(none, some).shape == (0, 2) and ntk(some, none).shape == (2, 0)
    assert ntk(none, diagonal=True).shape == (0,)


def test_selected_parameters_sum_to_the_whole_kernel(key, params):
    x = jax.random.normal(key, (5, 4))
    whole = empirical_ntk(_apply, params, x, full=True)
    choices = [{name: name == chosen for name in params} for chosen in params]
    parts = [empirical_ntk(_apply, params, x, full=True, selected=choice) for choice in choices]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-4, atol=1e-4)
    bias = parts[list(params).index("bias")]
    np.testing.assert_allclose(bias, np.broadcast_to(np.eye(3), (5, 5, 3, 3)), rtol=1e-6)


def test_functions_with_backward_derivatives_alone_have_the_methods_that_go_backwards(key, params):
    sign = jax.custom_vjp(jnp.sign)  # with the derivative of the identity
    sign.defvjp(lambda x: (jnp.sign(x), None), lambda _, cotangent: (cotangent,))

    def apply(params, x):
        return sign(x @ params["hidden"]) @ params["readout"] + params["bias"]

    x = jax.random.normal(key, (3, 4))
    for method in ("jacobian", "layerwise"):
        hidden = np.sign(x @ params["hidden"])
        through = np.sum(params["readout"] ** 2) * x @ x.T
        expected = hidden @ hidden.T + 1 + through / 3
        np.testing.assert_allclose(empirical_ntk(apply, params, x, method=method), expected, 1e-5)
    for call in (
        lambda: empirical_ntk(apply, params, x, method="vector_products"),
        lambda: linearize(apply, params)(params, x),
    ):
        with pytest.raises(InputError, match="accepted: jax.custom_jvp in place of custom_vjp"):
            call()


def test_a_gram_of_the_finite_ntk_is_float64_where_its_parameters_are(key, params):
    inputs = np.random.default_rng(0).normal(size=(5, 4))
    wide = jax.tree.map(lambda a: np.asarray(a, float), params)
    with jax.enable_x64(True):
        leaves = jax.tree.leaves(jax.jacrev(_apply)(wide, inputs))
    jacobian = np.concatenate([np.asarray(leaf).reshape(5, 3, -1) for leaf in leaves], -1)
    matrix = gram(functools.partial(empirical_ntk, _apply, wide), inputs, dtype="float64")
    np.testing.assert_allclose(matrix, np.einsum("ncp,mcp->nm", jacobian, jacobian) / 3, rtol=1e-12)
    with pytest.raises(InputError, match="dtype is 'float64', and kernel turns inputs of float64"):
        gram(functools.partial(empirical_ntk, _apply, params), inputs, dtype="float64")
