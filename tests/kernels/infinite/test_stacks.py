"""Random stacks of layers: infinite and finite kernels against other ways to compute them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_stacks import examples, stacks

from lsa_jax import kernels
from lsa_jax.models import network

pytestmark = [
    pytest.mark.usefixtures("unchecked", "quick_compilation"),
    pytest.mark.filterwarnings("ignore:`FanIn` layers assume independent inputs"),
    pytest.mark.filterwarnings("ignore:Got potentially mismatching `channel_axis`"),
]
drawn = partial(settings, deadline=None, derandomize=True)
PARAMETERIZATIONS = st.sampled_from(["ntk", "standard"])


def scale_of(matrix):
    return np.sqrt(np.outer(np.diag(matrix), np.diag(matrix))) + 1e-30


@drawn(max_examples=4)
@given(stacks(), PARAMETERIZATIONS, st.sampled_from(["ntk", "nngp"]), st.booleans())
def test_kernels_are_those_of_neural_tangents(stack, parameterization, get, symmetric):
    layers, shape = stack
    kernel, x = network(layers, parameterization=parameterization).kernel, examples(shape)
    others = None if symmetric else x[2:]
    ours = np.asarray(kernel(x, others, get, "recursion"), float)
    with jax.enable_x64(True):
        theirs = jax.jit(partial(kernel, get=get, method="neural_tangents"))
        expected = np.asarray(theirs(jnp.asarray(x, jnp.float64)))
    rows = x.reshape(len(x), -1)
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    # Correlations near -1 are rounded: nearly opposite inputs count as opposite.
    limit = np.where(rows @ rows.T < -0.99, 1e-3, 2e-5) * scale_of(expected)
    columns = slice(0 if symmetric else 2, None)
    assert np.all(np.abs(ours - expected[:, columns]) <= limit[:, columns])


@drawn(max_examples=2)
@given(stacks(width=48))
def test_kernels_are_means_over_wide_networks(stack):
    layers, shape = stack
    model, x = network(layers), examples(shape, n=2)[:3]
    found = kernels.monte_carlo_kernel(
        *(jax.random.key(0), lambda key: model.init(key, shape), model.apply, x),
        **{"min_draws": 40, "max_draws": 40},
    )
    expected = np.asarray(model.kernel(x))
    # A network of 48 channels differs by a few of its 1 / 48.
    assert np.all(np.abs(found.mean - expected) <= 4 * found.error + 0.1 * scale_of(expected))


@drawn(max_examples=4)
@given(stacks(), PARAMETERIZATIONS, st.sampled_from(["layerwise", "vector_products", "auto"]))
def test_finite_kernels_are_products_of_jacobians(stack, parameterization, method):
    layers, shape = stack
    model, x = network(layers, parameterization=parameterization), examples(shape)[:5]
    params = jax.jit(model.init, static_argnums=1)(jax.random.key(0), shape)
    leaves = jax.tree.leaves(jax.jit(jax.jacrev(model.apply))(params, x))
    jacobian = np.concatenate([np.asarray(a, float).reshape(5, 2, -1) for a in leaves], axis=-1)
    expected = np.einsum("nap,mbp->nmab", jacobian, jacobian)
    ntk = jax.jit(partial(kernels.empirical_ntk, model.apply, full=True, method=method))
    np.testing.assert_allclose(ntk(params, x), expected, atol=2e-5 * np.abs(expected).max())
