"""Layers that users of stax know, against neural-tangents and against wide networks."""

import functools
import importlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax._neural_tangents import stax
from lsa_jax.models import (
    ABRelu,
    Abs,
    AvgPool,
    Concat,
    Conv,
    Dense,
    Dropout,
    ElementwiseNumerical,
    Erf,
    Flatten,
    GlobalAvgPool,
    GlobalSumPool,
    Identity,
    LayerNorm,
    Relu,
    Residual,
    Sin,
    SumPool,
    network,
)

WIDTH = 6


def conv(features=WIDTH):
    return Conv(features, w_std=1.3, b_std=0.2)


def stax_conv(features=WIDTH):
    return stax.Conv(features, (3, 3), W_std=1.3, b_std=0.2, padding="SAME")


def stax_numerical(function):
    with warnings.catch_warnings(action="ignore"):  # of its accuracy, in general
        return stax.ElementwiseNumerical(function, deg=48)


def fan_out(*paths, join):
    return stax.serial(stax.FanOut(len(paths)), stax.parallel(*paths), join)


def in_a_network(layers, theirs):
    theirs = theirs if len(theirs) != 3 or not callable(theirs[0]) else (theirs,)
    return [conv(), *layers, *FLAT], (stax_conv(), *theirs, STAX_FLAT)


FLAT, STAX_FLAT = [Flatten(), Dense(2, 1.1)], stax.serial(stax.Flatten(), stax.Dense(2, 1.1))
POOLED = [GlobalAvgPool(), Dense(2)]
STAX_POOLED = stax.serial(stax.GlobalAvgPool(), stax.Dense(2))

# Between a convolution and a dense layer.
BETWEEN = {
    "LayerNorm, ABRelu, Sin": (
        [LayerNorm(), ABRelu(-0.3, 1.7), conv(), Sin(0.7, 1.2, 0.4)],
        (stax.LayerNorm(), stax.ABRelu(-0.3, 1.7), stax_conv(), stax.Sin(0.7, 1.2, 0.4)),
    ),
    "Abs, Numerical": (
        [Abs(), conv(), ElementwiseNumerical(jnp.sin)],
        (stax.Abs(), stax_conv(), stax_numerical(jnp.sin)),
    ),
    "AvgPool, SumPool": (
        [Relu(), AvgPool((2, 2), (2, 1)), conv(), Relu(), SumPool((2, 2), (2, 1), "SAME")],
        (stax.Relu(), stax.AvgPool((2, 2), (2, 1)), stax_conv(), stax.Relu())
        + (stax.SumPool((2, 2), (2, 1), padding="SAME"),),
    ),
    "Residual": (
        [Residual((Relu(), conv()))],
        fan_out(stax.serial(stax.Relu(), stax_conv()), stax.Identity(), join=stax.FanInSum()),
    ),
    "Concat": (
        [Concat(((Relu(), conv(2 * WIDTH)), ())), conv(), Relu()],
        (
            fan_out(
                stax.serial(stax.Relu(), stax_conv(2 * WIDTH)),
                stax.Identity(),
                join=stax.FanInConcat(-1),
            ),
            *(stax_conv(), stax.Relu()),
        ),
    ),
    "Dropout": (
        [Relu(), Dropout(0.6), conv(), Relu()],
        (stax.Relu(), stax.Dropout(0.6), stax_conv(), stax.Relu()),
    ),
}
WHOLE = {
    "GlobalSumPool": (
        [conv(), Relu(), GlobalSumPool(), Dense(2)],
        (stax_conv(), stax.Relu(), stax.GlobalSumPool(), stax.Dense(2)),
    ),
    "Dropout before a pool": (
        [conv(), Relu(), Dropout(0.6), *POOLED],
        (stax_conv(), stax.Relu(), stax.Dropout(0.6), STAX_POOLED),
    ),
}
NETS = WHOLE | {name: in_a_network(*pair) for name, pair in BETWEEN.items()}


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.filterwarnings("ignore:`FanIn` layers assume independent inputs")
@pytest.mark.parametrize("name", NETS)
def test_infinite_width_is_that_of_neural_tangents_in_float64(name, x64):
    layers, theirs = NETS[name]
    rng = np.random.default_rng(0)
    x1, x2 = (jnp.asarray(rng.normal(size=(n, 4, 4, 2))) for n in (3, 2))
    found = jax.jit(functools.partial(network(layers).kernel, method="recursion"))(x1, x2)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, stax.serial(*theirs)[2](x1, x2, "ntk"), rtol=1e-10)


WIDE = 128
# Networks whose readings no other test compares.
LIMITS = {
    "ABRelu, Abs": [Dense(WIDE, 1.3), ABRelu(-0.3, 1.7), Dense(WIDE), Abs(), Dense(16)],
    "Sin, Concat": [Dense(WIDE), Concat(((Sin(0.7, 1.2, 0.4), Dense(WIDE)), ())), Dense(16)],
    "Dropout": [Dense(WIDE, 1.3), Relu(), Dropout(0.6), Dense(WIDE, 1.3), Relu(), Dense(16)],
    "SumPool": [Conv(WIDE), Erf(), SumPool(), Flatten(), Identity(), Dense(16)],
    "GlobalSumPool": [Conv(WIDE), Erf(), GlobalSumPool(), Dense(16)],
}


@pytest.mark.parametrize("name", LIMITS)
def test_products_of_outputs_over_draws_have_the_infinite_kernel_as_their_mean(name, key):
    model = network(LIMITS[name])
    shape = (4, 4, 1) if "Pool" in name else (5,)
    x1, x2 = jax.random.normal(key, (2, 3, *shape))

    def init(key):
        return {"params": model.init(key, shape), "masks": jax.random.split(key)}

    def apply(drawn, x):
        # One mask an example: of x1 and x2, which come one after the other, different ones.
        return model.apply(drawn["params"], x, drawn["masks"][0])

    found = kernels.monte_carlo_kernel(
        *(key, init, apply, jnp.concatenate([x1, x2])),
        **{"get": "nngp", "tolerance": 0.05, "min_draws": 64},
    )
    expected = model.kernel(x1, x2, "nngp")
    slack = 4.5 * found.error[:3, 3:] + 2 / WIDE * np.abs(found.mean).max()
    assert found.converged and np.all(np.abs(found.mean[:3, 3:] - expected) < slack)
    if name != "Dropout":  # where an example with itself has one mask in both places
        np.testing.assert_allclose(
            *(np.diag(found.mean), np.diag(model.kernel(jnp.concatenate([x1, x2]), None, "nngp"))),
            rtol=0.2,
        )


def test_concat_lays_features_side_by_side(key):
    x = jax.random.normal(key, (3, 4))
    outputs = network([Concat(((Sin(),), (Abs(),), ()))]).apply({}, x)
    np.testing.assert_allclose(outputs, np.hstack([np.sin(x), np.abs(x), x]), rtol=1e-6)


def test_a_network_of_neural_tangents_is_tiled_and_solved_as_it_is(x64):
    rng = np.random.default_rng(1)
    x, x_test = rng.normal(size=(11, 4, 4, 2)), rng.normal(size=(3, 4, 4, 2))
    y = rng.normal(size=(11, 2))
    theirs = stax.serial(stax_conv(), stax.Relu(), stax.GlobalAvgPool(), stax.Dense(2))
    kernel = kernels.infinite_of(theirs)
    k = kernels.gram(kernel, x, tile=4, dtype="float64")
    k_test = kernels.gram(kernel, x_test, x, tile=4, dtype="float64")
    expected, expected_test = theirs[2](x, None, "ntk"), theirs[2](x_test, x, "ntk")
    # Theirs divides angles by variances that are computed otherwise where x2 is None.
    np.testing.assert_allclose(k, expected, rtol=1e-8)
    np.testing.assert_allclose(k_test, expected_test, rtol=1e-12)
    predict = importlib.import_module("neural_tangents").predict
    flow = predict.gradient_descent_mse(expected, y - y.mean(0), diag_reg=1e-3)
    solved = kernels.regress(k, y, k_test, ridge=1e-3).predictions
    at_end = flow(None, 0.0, 0.0, expected_test)[1]
    np.testing.assert_allclose(solved, y.mean(0) + np.asarray(at_end), rtol=1e-8)
