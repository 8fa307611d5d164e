"""Each layer by itself against numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from lsa_jax.errors import InputError
from lsa_jax.models import (
    ABRelu,
    Abs,
    AvgPool,
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    ElementwiseNumerical,
    Elu,
    Erf,
    Flatten,
    Gelu,
    GlobalAvgPool,
    GlobalSumPool,
    Identity,
    LayerNorm,
    LeakyRelu,
    MaxPool,
    Relu,
    Residual,
    Sigmoid,
    Silu,
    Sin,
    Softplus,
    SumPool,
    Tanh,
    network,
)
from lsa_jax.models.layers.composition import Serial

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4, 3)).astype(np.float32)
IMAGES = RNG.normal(size=(2, 4, 6, 3)).astype(np.float32)


def apply(layers, x, params=None):
    return np.asarray(network(layers).apply(params or {}, x))


def test_weights_act_over_the_root_of_their_inputs_beside_biases_of_their_own_scale():
    params = {"weight": RNG.normal(size=(3, 2)), "bias": RNG.normal(size=2)}
    params = jax.tree.map(np.float32, params)
    dense = apply([Dense(2, 1.5, 0.3)], ROWS, {"Dense_0": params})
    expected = 1.5 / np.sqrt(3) * ROWS @ params["weight"] + 0.3 * params["bias"]
    np.testing.assert_allclose(dense, expected, rtol=1e-5, atol=1e-6)

    params["weight"] = RNG.normal(size=(2, 3, 3, 2)).astype(np.float32)
    layers = [Conv(2, (2, 3), (1, 2), "VALID", 1.5, 0.3), Flatten()]
    found = apply(layers, IMAGES, {"Conv_0": params}).reshape(2, 3, 2, 2)
    for p in range(3):
        for q in range(2):
            patch = IMAGES[:, p : p + 2, 2 * q : 2 * q + 3].reshape(2, 18)
            expected = 1.5 / np.sqrt(18) * patch @ params["weight"].reshape(18, 2)
            expected = expected + 0.3 * params["bias"]
            np.testing.assert_allclose(found[:, p, q], expected, rtol=1e-4, atol=1e-5)
    shapes = network(layers).init(jax.random.key(0), (4, 6, 3))["Conv_0"]
    assert jax.tree.map(jnp.shape, shapes) == {"weight": (2, 3, 3, 2), "bias": (2,)}


NONLINEARITIES = {
    Relu(): lambda x: np.maximum(x, 0),
    LeakyRelu(0.2): lambda x: np.where(x > 0, x, 0.2 * x),
    LeakyRelu(): lambda x: np.where(x > 0, x, 0.01 * x),
    ABRelu(-0.3, 1.7): lambda x: np.where(x > 0, 1.7 * x, -0.3 * x),
    Abs(): np.abs,
    Sin(0.7, 1.2, 0.4): lambda x: 0.7 * np.sin(1.2 * x + 0.4),
    Sin(): np.sin,
    Erf(): scipy.special.erf,
    Gelu(): lambda x: x * scipy.special.ndtr(x),
    Tanh(): np.tanh,
    Sigmoid(): scipy.special.expit,
    Silu(): lambda x: x * scipy.special.expit(x),
    Softplus(): lambda x: np.logaddexp(x, 0),
    Elu(): lambda x: np.where(x > 0, x, np.expm1(x)),
    ElementwiseNumerical(jnp.square): np.square,
    Identity(): lambda x: x,
}


@pytest.mark.parametrize("layer", NONLINEARITIES)
def test_a_nonlinearity_acts_on_every_number(layer):
    np.testing.assert_allclose(apply([layer], ROWS), NONLINEARITIES[layer](ROWS), rtol=1e-5)


def test_a_normalisation_divides_by_the_deviation_with_its_epsilon():
    x = 0.003 * ROWS  # so that 1e-5 counts against its variance
    params = {"BatchNorm_0": {"scale": jnp.array([1.0, 2, 3]), "shift": jnp.array([4.0, 5, 6])}}
    expected = (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * [1, 2, 3] + [4, 5, 6]
    np.testing.assert_allclose(apply([BatchNorm()], x, params), expected, rtol=1e-4)
    mean, variance = (f(x, 1, keepdims=True) for f in (np.mean, np.var))
    expected = (x - mean) / np.sqrt(variance + 1e-5)
    np.testing.assert_allclose(apply([LayerNorm(1e-5)], x), expected, rtol=1e-3, atol=1e-4)
    with pytest.raises(InputError, match="LayerNorm.epsilon is 0.0"):
        LayerNorm(0.0)
    assert BatchNorm().infinite("ntk") is None


def test_pools_are_means_or_sums_over_places():
    flat = IMAGES.reshape(2, -1)
    np.testing.assert_array_equal(apply([Flatten()], IMAGES), flat)
    np.testing.assert_allclose(apply([GlobalAvgPool()], IMAGES), IMAGES.mean((1, 2)), rtol=1e-4)
    np.testing.assert_allclose(apply([GlobalSumPool()], IMAGES), IMAGES.sum((1, 2)), rtol=1e-4)
    halves = IMAGES.reshape(2, 2, 2, 3, 2, 3)
    for layer, pool in ((AvgPool(), np.mean), (SumPool(), np.sum), (MaxPool(), np.max)):
        found = apply([layer, Flatten()], IMAGES)
        expected = pool(halves, axis=(2, 4)).reshape(2, -1)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    padded = apply([MaxPool((2, 2), (4, 6), "SAME"), Flatten()], -np.abs(IMAGES[:, :1, :1]))
    np.testing.assert_array_equal(padded, -np.abs(IMAGES[:, 0, 0]))  # zeros around do not count
    assert [s.total for s in GlobalSumPool().infinite("ntk") + SumPool().infinite("ntk")] == [1, 1]
    assert [s.total for s in GlobalAvgPool().infinite("ntk") + AvgPool().infinite("ntk")] == [0, 0]


def test_what_dropout_keeps_it_divides_by_the_share_and_the_rest_is_zero(key):
    x = 1 + np.arange(400, dtype=np.float32).reshape(4, 100)
    model = network([Dropout(0.25)])
    np.testing.assert_array_equal(model.apply({}, x), x)
    found = np.asarray(model.apply({}, x, key))
    kept = found != 0
    np.testing.assert_allclose(found[kept], 4 * x[kept], rtol=1e-6)
    assert abs(kept.mean() - 0.25) < 4.5 * np.sqrt(0.25 * 0.75 / 400)
    np.testing.assert_array_equal(network([Dropout(1.0)]).apply({}, x, key), x)
    for share in (0.0, -0.5, 1.5):
        with pytest.raises(InputError, match="Dropout.keep is"):
            Dropout(share)


def test_a_residual_is_the_sum_of_its_paths(key):
    model = network([Residual((Dense(3),))])
    params = model.init(key, (3,))
    weight = params["Residual_0"]["branch"]["Dense_0"]["weight"]
    found = np.asarray(model.apply(params, ROWS))
    np.testing.assert_allclose(found, ROWS + ROWS @ weight / np.sqrt(3), rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="equal shapes"):
        network([Residual((Dense(2),))]).init(key, (3,))


@pytest.mark.parametrize("zero", [ABRelu(0, 0), Sin(0.0)])
def test_a_nonlinearity_without_outputs_leaves_the_biases(zero):
    layers = [zero, Dense(2, b_std=0.5), Relu(), Dense(1)]
    found = network([Dense(2), *layers]).nngp(ROWS)
    np.testing.assert_allclose(found, 0.5**2 / 2, rtol=1e-6)


def test_the_paths_of_a_residual_are_uncorrelated_or_refused():
    inner, more = Residual((Relu(), Dense(3))), (Erf(), Dense(3))

    def nngp(*paths):
        return network([Dense(3), Residual(*paths), Relu(), Dense(1)]).nngp(ROWS)

    np.testing.assert_allclose(nngp((inner,), more), nngp(more, (inner,)), rtol=1e-5)
    for paths in (((Relu(),),), ((inner,),), ((Dropout(0.5),), (inner, Abs()))):
        with pytest.raises(InputError, match="a way through them without weights; accepted"):
            nngp(*paths)


@pytest.mark.usefixtures("unchecked")
def test_layers_are_numbered_by_their_kind_and_others_are_refused(key):
    layers = [Dense(2), Abs(), Residual((Dense(2),)), Dense(3), Dense(1)]
    assert sorted(network(layers).init(key, (3,))) == [
        "Dense_0",
        "Dense_1",
        "Dense_2",
        "Residual_0",
    ]
    with pytest.raises(InputError, match="layers hold 3; accepted: instances of"):
        Serial((Abs(), 3))
    for made in (
        lambda: network(Abs()),
        lambda: network([Residual(Dense(2))]),
        lambda: network([Concat((Abs(),))]),
    ):
        with pytest.raises(InputError, match=r"layers is \w+\(.*; accepted: a tuple of layers"):
            made()
    for paths in ((), [(Abs(),)]):
        with pytest.raises(InputError, match="Concat.paths is"):
            Concat(paths)
    assert len(Concat(((Abs(),), ())).paths) == 2


# --- networks -----------------------------------------------------------------------------------


def test_activations_are_the_outputs_of_each_nonlinearity_by_its_place(key):
    model = network([Dense(5), Relu(), Residual((Relu(), Dense(5))), Abs(), Relu(), Dense(2)])
    params = model.init(key, (3,))
    outputs, found = model.activations(params, ROWS)
    np.testing.assert_array_equal(outputs, model.apply(params, ROWS))
    first = np.maximum(ROWS @ params["Dense_0"]["weight"] / np.sqrt(3), 0)
    branch = params["Residual_0"]["branch"]["Dense_0"]["weight"]
    # A ReLU leaves positive numbers.
    expected = {
        "Relu_0": first,
        "Residual_0/branch/Relu_0": first,
        "Abs_0": np.abs(first + first @ branch / np.sqrt(5)),
        "Relu_1": np.abs(first + first @ branch / np.sqrt(5)),
    }
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5)
