"""Nonlinearities of one's own, and mistakes in a description: one line before any compute."""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from lsa_jax import kernels
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import steps
from lsa_jax.models import (
    BatchNorm,
    Concat,
    Conv,
    Dense,
    Dropout,
    Elementwise,
    Flatten,
    GlobalAvgPool,
    Layer,
    Relu,
    Residual,
    cnn,
    from_flax_linen,
    network,
    scaled,
)


@dataclass(frozen=True)
class Wave(Elementwise):
    """A nonlinearity whose kernel depends on the difference of two inputs alone."""

    def phi(self, x):
        return jnp.sin(x) + jnp.cos(x)

    def duals(self, covariance, variance1, variance2):
        values = jnp.exp(covariance - (variance1 + variance2) / 2)
        return values, values


def test_a_users_nonlinearity_is_exact_on_equal_inputs_however_large(key):
    x = 255 * jax.random.uniform(key, (40, 784))
    kernel = network([Dense(1), Wave(), Dense(1)]).kernel
    nngp = jax.jit(lambda x: kernel(x, x, "nngp", "recursion"))(x)
    np.testing.assert_array_equal(np.diagonal(nngp), 1.0)


def test_one_layer_without_a_limit_leaves_the_net_without_a_kernel():
    for layer in (
        BatchNorm(),
        Residual((Conv(2), BatchNorm())),
        Residual((Conv(2),), (BatchNorm(),)),
    ):
        model = network([Conv(2), layer, Flatten(), Dense(1)])
        assert not model.kernel
        for call in (
            model.kernel,
            model.ntk,
            model.nngp,
            model.kernel.transformed,
            partial(kernels.gram, model.kernel),
        ):
            with pytest.raises(InputError, match="BatchNorm; accepted: kernels.finite"):
                call(jnp.ones((2, 4, 4, 1)))


def test_convolutions_warn_once_of_images_whose_channels_come_first(key):
    model = network([Conv(2), GlobalAvgPool(), Dense(1)])
    params = model.init(key, (8, 8, 8))
    with pytest.warns(UserWarning, match=r"\(3, 7, 8\)"):
        model.apply(params, jnp.ones((2, 3, 7, 8)))
    # Warnings are errors: a shape warns once, and only with layers that convolve.
    model.apply(params, jnp.ones((2, 3, 7, 8)))
    network([Flatten(), Dense(1)]).init(key, (3, 8, 8))


def test_parameters_of_other_layers_or_inputs_are_refused_in_a_line(key):
    model = network([Dense(2), Relu(), Dense(1)])
    params = model.init(key, (3,))
    for wrong, x in (
        (params, jnp.ones((2, 4))),
        ({"Dense_0": params["Dense_0"]}, jnp.ones((2, 3))),
        ({}, jnp.ones((2, 3))),
    ):
        with pytest.raises(InputError, match="params do not fit.*accepted: params of init"):
            model.apply(wrong, x)


@pytest.mark.usefixtures("unchecked")
def test_statistics_and_counts_of_others_are_refused_in_a_line(key):
    model = network([Dense(2), BatchNorm(), Dense(1)])
    params, x = model.init(key, (3,)), jnp.ones((2, 3))
    fixed = model.statistics(params, x)
    one = jnp.ones(1)
    for wrong in ({}, {"BatchNorm_1": fixed["BatchNorm_0"]}, {"BatchNorm_0": {"mean": one}}):
        with pytest.raises(
            InputError, match=r"statistics have no mean and variance .2,. of BatchNorm_0; acc"
        ):
            model.apply(params, x, statistics=wrong)
    with pytest.raises(InputError, match=r"counted is \(1,\); accepted: \(2,\)"):
        model.apply(params, x, counted=one)


class OfAStep(Layer):
    """A layer with a step in place of a tuple of steps."""

    def finite(self, x, module):
        return x

    def infinite(self, parameterization):
        return steps.Flatten()


X = jnp.ones((2, 3))
MISTAKES = {
    "width_factor": lambda: cnn(0),
    "parameterization": lambda: cnn(parameterization="mean"),
    "base has": lambda: network([Dense(2), Dense(1)], parameterization="mup", base=[Dense(1)]).init(
        jax.random.key(0), (3,)
    ),
    "output_scale": lambda: scaled(network([Dense(1)]), 0.0),
    "Dense.w_std": lambda: Dense(1, w_std=-1.0),
    "Conv.padding": lambda: Conv(3, padding="same"),
    "Concat.paths give": lambda: init([Concat(((GlobalAvgPool(),), ())), Flatten()], 4, 4, 2),
    "images are 2 x 3 where Conv has windows of 3 x 3": lambda: init(
        [Conv(1, padding="VALID")], 2, 3, 1
    ),
    "GlobalAvgPool meets": lambda: init([GlobalAvgPool()], 5),
    "Residual.branch": lambda: gram([Residual((Relu(),)), Flatten(), Dense(1)], 4, 4, 1),
    "infinite of .*OfAStep.* is Flatten": lambda: network([OfAStep(), Dense(1)]),
    "mup": lambda: network([Dense(1)], parameterization="mup", base=[Dense(1)]).ntk(X),
    "another library": lambda: scaled(from_flax_linen(nn.Dense(1)), 2.0).ntk(X),
    "neural-tangents": lambda: gram(
        [Conv(2), Relu(), Residual((Conv(2),)), Flatten(), Dense(1)], 4, 4, 1
    ),
    "method": lambda: network(
        [Conv(2), Dropout(0.6), GlobalAvgPool(), Dense(3), Relu(), Dense(1)]
    ).kernel(jnp.ones((2, 4, 4, 1)), method="recursion"),
}


def init(layers, *shape):
    return network(layers).init(jax.random.key(0), shape)


def gram(layers, *shape):
    return network(layers).kernel(jnp.ones((2, *shape)))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("message", "mistake"), MISTAKES.items())
def test_mistakes_are_one_line_before_any_compute(message, mistake):
    with pytest.raises(InputError, match=message) as caught:
        mistake()
    assert "\n" not in str(caught.value)
