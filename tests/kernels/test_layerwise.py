"""The layer-wise finite NTK against Jacobian contraction."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.kernels import _layerwise, _tiles, finite, finite_ntk
from lsa_jax.kernels._dense_layers import dense_layers
from lsa_jax.models import Conv, Dense, Erf, Flatten, Relu, network


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """Leaves most optimisations out: these tests compile a great deal and compute little."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


class FlaxNet(nn.Module):
    """A network of flax's own layers, with one matrix used twice."""

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3))(x))
        x = nn.relu(nn.Dense(3)(x)).reshape(len(x), 36)
        shared = nn.Dense(5, name="shared")
        x = nn.tanh(shared(nn.tanh(nn.Dense(36)(x)) @ jnp.eye(36)))
        x = jnp.concatenate([x, shared(jnp.tile(x, (1, 8))[:, :36])], axis=1)
        return nn.Dense(2, use_bias=False)(x)


def _convolutional(key):
    layers = [Conv(3, b_std=0.2), Relu(), Dense(4, b_std=0.3), Erf(), Flatten()]
    model = network([*layers, Dense(6), Relu(), Dense(3, b_std=0.1)], parameterization="standard")
    return model.apply, model.init(key, (3, 4, 2)), jax.random.normal(key, (5, 3, 4, 2))


def _flax(key):
    net, x = FlaxNet(), jax.random.normal(key, (5, 3, 4, 2))
    return net.apply, net.init(key, x), x


def _left_multiplied(key):
    """A plain function that has its weights on the left, transposed and scaled."""
    params = [jax.random.normal(key, (2, 4, 4)), jax.random.normal(key, (8, 2))]

    def apply(params, x):
        hidden = jnp.tanh(3 * params[0].reshape(8, 4) @ x.T)
        return hidden.T @ jnp.transpose(params[1].T / 2)

    return apply, params, jax.random.normal(key, (5, 4))


def ntk(apply, params, *inputs, **settings):
    """Compiled as a whole, which takes less time than operation by operation."""
    return jax.jit(partial(finite_ntk, apply, **settings))(params, *inputs)


NETS = {"layers": _convolutional, "flax": _flax, "left": _left_multiplied}


@pytest.mark.parametrize(("net", "full"), [("layers", True), ("flax", False), ("left", False)])
def test_layerwise_equals_jacobian_contraction(key, net, full):
    apply, params, x = NETS[net](key)
    expected = np.asarray(ntk(apply, params, x, full=full, method="jacobian"))
    scale = 1e-5 * np.abs(expected).max()
    ours = ntk(apply, params, x, full=full, method="layerwise")
    np.testing.assert_allclose(ours, expected, atol=scale)
    if net == "left":
        ours = ntk(apply, params, x[1:], x, method="layerwise")
        np.testing.assert_allclose(ours, expected[1:], atol=scale)


def test_dense_layers_are_found_where_two_gram_matrices_are_cheaper(key):
    apply, params, x = _convolutional(key)
    names = [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, _ in jax.tree_util.tree_leaves_with_path(params)
    ]

    def found(apply, params, x, **settings):
        return dense_layers(apply, params, x.shape[1:], x.dtype, **settings)

    layers = found(apply, params, x, full=False)
    # Dense_0 acts at 12 positions.
    assert [names[layer.leaf] for layer in layers] == ["Dense_1/weight", "Dense_2/weight"]
    assert [(d.positions, d.fan_in, d.fan_out) for d in layers] == [(1, 48, 6), (1, 6, 3)]
    apply, params, x = _left_multiplied(key)
    assert [d.scale for d in found(apply, params, x, full=True)] == [3.0, 0.5]
    # A parameter used twice is left to its Jacobian.
    twice = found(lambda w, x: x @ w + jnp.tanh(x) @ w, jnp.ones((4, 4)), x, full=True)
    assert twice == []


def test_a_dense_layer_at_several_positions_sums_over_pairs_of_them(key):
    weight, x = jax.random.normal(key, (40, 30)), jax.random.normal(key, (3, 2, 40))

    def apply(weight, x):
        return jnp.sum(jnp.tanh(x @ weight), axis=(1, 2))[:, None] * jnp.ones((1, 4))

    assert [d.positions for d in dense_layers(apply, weight, (2, 40), x.dtype, full=True)]
    for full in (False, True):
        expected = ntk(apply, weight, x, full=full, method="jacobian")
        ours = ntk(apply, weight, x, full=full, method="layerwise")
        np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5 * expected.max())


def test_a_weight_made_complex_is_no_dense_layer(key):
    weight, x = jax.random.normal(key, (6, 5)), jax.random.normal(key, (3, 6))

    def apply(weight, x):
        return jnp.real((1 - 2j) * ((1 + 0.5j) * x @ weight.astype(jnp.complex64)))

    expected = ntk(apply, weight, x, method="jacobian")
    np.testing.assert_allclose(ntk(apply, weight, x, method="layerwise"), expected, rtol=1e-5)


def test_many_tiles_bands_and_chunks_give_the_same_symmetric_matrix(key, monkeypatch):
    for module, name in ((_layerwise, "_SIDE"), (_tiles, "_BAND"), (_tiles, "_CHUNK")):
        monkeypatch.setattr(module, name, 2)
    apply, params, x = _left_multiplied(key)
    ours = ntk(apply, params, x, full=True, method="layerwise")
    expected = ntk(apply, params, x, full=True, method="jacobian")
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    np.testing.assert_array_equal(ours, jnp.transpose(ours, (1, 0, 3, 2)))


def test_a_sum_of_grams_and_its_derivative_equal_those_of_whole_products(key, monkeypatch):
    monkeypatch.setattr(_tiles, "_BAND", 3)
    monkeypatch.setattr(_tiles, "_CHUNK", 4)
    # Chunks and bands that are whole and such that are not.
    two = [jax.random.normal(key, (7, 8)), jax.random.normal(key, (7, 10))]
    weights = jax.random.normal(key, (7, 7))

    def plain(factors):
        return sum(a @ a.T for a in factors)

    for factors in (two, two[:1], [jnp.ones((2, 3))]):
        ours, back = jax.vjp(_tiles.sum_of_grams, factors)
        expected, expected_back = jax.vjp(plain, factors)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5)
        cotangent = weights[: len(ours), : len(ours)]
        pairs = zip(back(cotangent)[0], expected_back(cotangent)[0], strict=True)
        for found, wanted in pairs:
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_selected_parameters_sum_to_the_whole_kernel_and_the_diagonal_is_its_diagonal(key):
    apply, params, x = _left_multiplied(key)
    whole = ntk(apply, params, x, full=True)
    parts = [
        ntk(apply, params, x, full=True, selected=chosen)
        for chosen in ([True, False], [False, True])
    ]
    np.testing.assert_allclose(parts[0] + parts[1], whole, rtol=1e-4, atol=1e-4)
    frozen = [params[0], jax.lax.stop_gradient(params[1])]
    alone = ntk(lambda p, x: apply([p, frozen[1]], x), params[0], x, full=True, method="jacobian")
    np.testing.assert_allclose(parts[0], alone, rtol=1e-4, atol=1e-4)
    diagonal = ntk(apply, params, x, full=True, diagonal=True)
    np.testing.assert_allclose(diagonal, jnp.einsum("aaij->aij", whole), rtol=1e-4, atol=1e-4)
    trace = ntk(apply, params, x, x[::-1], diagonal=True, method="jacobian")
    np.testing.assert_allclose(
        trace, jnp.diagonal(ntk(apply, params, x, x[::-1])), rtol=1e-4, atol=1e-4
    )


@pytest.mark.usefixtures("unchecked")
def test_selections_that_do_not_fit_the_parameters_are_refused(key):
    apply, params, x = _left_multiplied(key)
    for wrong in ([True], {"w": True}, [False, False], [1, 0]):
        with pytest.raises(InputError, match="selected is"):
            finite_ntk(apply, params, x, selected=wrong)
    with pytest.raises(InputError, match="x1 has 5 examples and x2 has 4"):
        finite_ntk(apply, params, x, x[:4], diagonal=True)


def test_auto_takes_vector_products_only_for_many_outputs_and_shared_weights(key, monkeypatch):
    chosen = []
    original = finite._implementation
    monkeypatch.setattr(
        finite,
        "_implementation",
        lambda apply, method, **s: chosen.append(method) or original(apply, method, **s),
    )
    apply, params, x = _left_multiplied(key)
    ntk(apply, params, x)
    powers = jnp.arange(1.0, 41)[None]

    def many_outputs(w, x):
        return (x @ w)[:, :1] * powers + jnp.sum(w) * powers

    ntk(many_outputs, jnp.ones((4, 4)), x, full=True)
    assert chosen == ["layerwise", "vector_products"]
