"""What a description of layers is read as: parameters, outputs, and numbers on the way."""

import jax
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.models import Abs, Dense, Dropout, Flatten, Relu, Residual, network

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def test_activations_are_what_each_relu_gives_by_its_place(key):
    model = network([Dense(5), Relu(), Residual((Relu(), Dense(5))), Abs(), Relu(), Dense(2)])
    params = model.init(key, (4,))
    outputs, found = model.activations(params, X)
    np.testing.assert_array_equal(outputs, model.apply(params, X))
    first = np.maximum(X @ params["Dense_0"]["weight"] / 2, 0)
    branch = params["Residual_0"]["branch"]["Dense_0"]["weight"]
    # A ReLU of what is positive leaves it.
    expected = {
        "Relu_0": first,
        "Residual_0/branch/Relu_0": first,
        "Relu_1": np.abs(first + first @ branch / np.sqrt(5)),
    }
    assert sorted(found) == sorted(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-5)


def test_masks_are_drawn_where_there_is_a_key(key):
    model = network([Dropout(0.5), Abs()])
    np.testing.assert_array_equal(model.apply({}, X), np.abs(X))
    drawn = np.asarray(model.apply({}, X, key))
    assert np.any(drawn == 0) and np.any(drawn != 0)


@pytest.mark.usefixtures("unchecked")
def test_an_example_has_a_shape_of_whole_numbers_and_outputs_in_a_row(key):
    model = network([Dense(1)])
    for one in ((1,), np.ones(1), jax.ShapeDtypeStruct((1,), int)):
        assert model.init(key, one)["Dense_0"]["weight"].shape == (1, 1)
    for wrong in ((), (0,), (0, 3), [3], (2.5,), np.ones((0, 3)), np.ones(())):
        with pytest.raises(InputError, match="input_shape is"):
            model.init(key, wrong)
    with pytest.raises(InputError, match="the layers end in outputs"):
        model.init(key, (2, 3))
    assert network([Flatten(), Dense(1)]).init(key, (2, 3))["Dense_0"]["weight"].shape == (6, 1)


def test_a_network_in_mup_has_rates_beside_its_base_and_no_kernel(key):
    layers = ([Dense(width), Relu(), Dense(2)] for width in (12, 3))
    wide, narrow = layers
    model = network(wide, parameterization="mup", base=narrow)
    assert not model.kernel
    assert model.rate_factors((4,), "adam")["Dense_1"]["weight"] == 1 / 4
    standard = network(wide, parameterization="standard").init(key, (4,))
    start = model.init(key, (4,))

    np.testing.assert_allclose(
        start["Dense_1"]["weight"], standard["Dense_1"]["weight"] / 2, rtol=1e-6
    )
    with pytest.raises(InputError, match="base is None"):
        network(wide, parameterization="mup")
    plain = network(wide)
    assert plain.kernel
    assert plain.rate_factors is None
