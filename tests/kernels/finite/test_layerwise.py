"""The layer-wise finite NTK against Jacobian contraction."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from lsa_jax.kernels import empirical_ntk
from lsa_jax.kernels.finite import dense_layers, layerwise

pytestmark = pytest.mark.usefixtures("quick_compilation")


def _left_multiplied(key):
    """A plain function that has its weights on the left, transposed and scaled."""
    params = [jax.random.normal(key, (2, 4, 4)), jax.random.normal(key, (8, 2))]

    def apply(params, x):
        hidden = jnp.tanh(3 * params[0].reshape(8, 4) @ x.T)
        return hidden.T @ jnp.transpose(params[1].T / 2)

    return apply, params, jax.random.normal(key, (5, 4))


def _convolve(weight, x, **settings):
    """A convolution of images stored channels first, with its features in the middle."""
    settings = {"window_strides": (2, 1), "padding": ((1, 0), (0, 2))} | settings
    return lax.conv_general_dilated(
        x, weight, dimension_numbers=("NCHW", "OIWH", "HNCW"), **settings
    )


def _channels_first(key):
    params = [jax.random.normal(key, (4, 2, 3, 2)), jax.random.normal(key, (48, 3))]

    def apply(params, x):
        hidden = jnp.tanh(jnp.swapaxes(_convolve(params[0], x), 0, 1))
        return hidden.reshape(len(x), 48) @ params[1]

    return apply, params, jax.random.normal(key, (5, 2, 5, 4))


def ntk(apply, params, *inputs, **settings):
    """Compiled as a whole, which takes less time than operation by operation."""
    return jax.jit(partial(empirical_ntk, apply, **settings))(params, *inputs)


@pytest.mark.parametrize(("net", "full"), [(_left_multiplied, False), (_channels_first, True)])
def test_layerwise_equals_jacobian_contraction(key, net, full):
    apply, params, x = net(key)
    expected = np.asarray(ntk(apply, params, x, full=full, method="jacobian"))
    scale = 1e-5 * np.abs(expected).max()
    ours = ntk(apply, params, x, full=full, method="layerwise")
    np.testing.assert_allclose(ours, expected, atol=scale)
    ours = ntk(apply, params, x[1:], x, full=full, method="layerwise")
    np.testing.assert_allclose(ours, expected[1:], atol=scale)


def found(apply, params, x):
    return dense_layers.dense_layers(apply, params, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"lhs_dilation": (2, 1)},
        {"rhs_dilation": (1, 2)},
        {"feature_group_count": 2},
        {"padding": ((0, -1), (0, 0))},
    ],
)
def test_a_convolution_with_holes_groups_or_cut_windows_is_no_dense_layer(key, settings):
    depth = 2 // settings.get("feature_group_count", 1)
    weight, x = jnp.ones((4, depth, 2, 2)), jax.random.normal(key, (1, 2, 5, 4))

    def apply(weight, x):
        return jnp.sum(_convolve(weight, x, **settings), axis=(0, 3))

    assert found(apply, weight, x) == []


@pytest.mark.parametrize("full", [False, True])
def test_a_pair_costs_two_products_a_dense_layer_and_outputs_times_other_parameters(full):
    params = [np.ones((60, 20)), np.ones((2, 2)), np.ones((1, 20)), np.ones((20, 3))]

    def apply(params, x):
        hidden = jnp.tanh(x.reshape(len(x), 30, 2) @ params[1]).reshape(len(x), 60)
        return jnp.tanh(hidden @ params[0] + params[2]) @ params[3]

    # 60 inputs and 20 outputs; at 30 positions Jacobians of 2 x 2 numbers cost less; the bias; the
    # last layer.
    c, example = 9 if full else 3, jax.ShapeDtypeStruct((60,), np.float32)
    expected = (60 + 20 * c) + 4 * c + 20 * c + min(20 + 3 * c, 60 * c)
    assert layerwise.layerwise_cost(apply, params, example, full=full) == expected


def test_many_tiles_bands_and_chunks_give_the_same_symmetric_matrix(key, monkeypatch):
    for module, name in ((layerwise, "_SIDE"), (layerwise, "_BLOCK"), (layerwise, "_CHUNK")):
        monkeypatch.setitem(getattr(module, name), "cpu", 2)
    apply, params, x = _left_multiplied(key)
    ours = ntk(apply, params, x, full=True, method="layerwise")
    expected = ntk(apply, params, x, full=True, method="jacobian")
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(ours, jnp.transpose(ours, (1, 0, 3, 2)))


@pytest.mark.parametrize("full", [False, True])
def test_a_jacobian_in_pieces_gives_the_same_kernel(key, monkeypatch, full):
    monkeypatch.setattr(layerwise, "_PIECE", 5 * 6 * 8)  # so that the last piece is filled up
    weight, x = jax.random.normal(key, (12, 8)), jax.random.normal(key, (5, 4, 12))

    def apply(weight, x):
        return jnp.sum(jnp.tanh(x @ weight), axis=1)[:, :6]

    (layer,) = found(apply, weight, x)
    assert layerwise.is_smaller_in_two(layer, 6)
    assert not layerwise._is_cheaper_by_grams(layer, 6)
    expected = ntk(apply, weight, x, full=full, method="jacobian")
    for columns in ((), (x[1:],)):
        ours = ntk(apply, weight, x, *columns, full=full, method="layerwise")
        np.testing.assert_allclose(
            ours, expected[:, 1:] if columns else expected, rtol=1e-4, atol=1e-5 * expected.max()
        )


def _first_in_pieces(factors):
    """Makes the first factor, of 8 columns or 16, one in pieces of four."""

    def piece(at):
        return lax.dynamic_slice_in_dim(factors[0], 4 * at, 4, axis=1)

    return [layerwise.Pieces(factors[0].shape[1] // 4, piece), *factors[1:]]


@pytest.mark.parametrize(
    ("form", "shapes"),
    [
        (list, [(7, 8), (7, 10)]),
        (list, [(2, 3)]),
        (_first_in_pieces, [(7, 8), (7, 10)]),
        (_first_in_pieces, [(7, 16)]),
    ],
)
def test_sums_of_products_and_their_derivatives_equal_those_of_whole_products(
    key, monkeypatch, form, shapes
):
    monkeypatch.setitem(layerwise._BLOCK, "cpu", 3)
    monkeypatch.setitem(layerwise._CHUNK, "cpu", 4)
    # Chunks and bands that are whole and such that are not.
    factors = [jax.random.normal(key, shape) for shape in shapes]
    weights = jax.random.normal(key, (len(factors[0]), len(factors[0])))

    @partial(jax.jit, static_argnums=0)
    def value_and_derivative(kernel, factors):
        value, back = jax.vjp(kernel, factors)
        return value, back(weights)[0]

    expected = value_and_derivative(lambda two: sum(a @ a.T for a in two), factors)
    for kernel in (
        lambda two: layerwise.sum_of_grams(form(two)),
        lambda two: layerwise.sum_of_products(form(two), form(two)),
    ):
        ours = value_and_derivative(kernel, factors)
        for result, wanted in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)
