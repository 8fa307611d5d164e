import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax import models, training
from lsa_jax.models.mup import rate_factors, scale_initial

# How far from 0 the slope of log change against log width may be, stated before anything was run.
MARGIN = 0.15


def dense(width):
    hidden = (models.Dense(width, 2**0.5, 0.1), models.Relu())
    return [models.Flatten(), *hidden, *hidden, models.Dense(3, b_std=0.1)]


@functools.cache
def build(make, width, base, parameterization):
    layers = make(width)
    return models.network(layers, parameterization=parameterization, base=make(base))


TABLE = {  # initial standard deviation, rate of SGD, of Adam, four times as wide as the base
    ("Dense_0", "weight"): (1, 4, 1),
    ("Dense_0", "bias"): (1, 4, 1),
    ("Dense_1", "weight"): (1, 1, 1 / 4),
    ("Dense_1", "bias"): (1, 4, 1),
    ("Dense_2", "weight"): (1 / 2, 1 / 4, 1 / 4),
    ("Dense_2", "bias"): (1, 1, 1),
}


def test_factors_are_those_of_the_table(key):
    mup, standard = (build(dense, 16, 4, name) for name in ("mup", "standard"))
    params, drawn = (model.init(key, (2, 2, 1)) for model in (mup, standard))
    sgd, adam = (mup.rate_factors((2, 2, 1), name) for name in ("momentum", "adamw"))
    for (layer, name), (std, of_sgd, of_adam) in TABLE.items():
        np.testing.assert_array_equal(params[layer][name], np.float32(std) * drawn[layer][name])
        assert (sgd[layer][name], adam[layer][name]) == (of_sgd, of_adam)
    assert standard.rate_factors is None and not mup.kernel


def test_a_filter_has_as_many_inputs_as_it_has_places_and_channels():
    params, base = {"hidden": jnp.ones((3, 3, 8, 20))}, {"hidden": jnp.ones((3, 3, 2, 10))}
    assert rate_factors(params, base, "adam") == {"hidden": 1 / 4}
    assert rate_factors(params, base, "sgd") == {"hidden": 2 / 4}
    last, of_base = {"last": jnp.ones((5, 8, 3))}, {"last": jnp.ones((5, 2, 3))}
    np.testing.assert_array_equal(scale_initial(last, of_base)["last"], 0.5 * last["last"])
    np.testing.assert_array_equal(scale_initial(params, base)["hidden"], params["hidden"])


@pytest.mark.parametrize("make", [models.mlp, models.wide_resnet])
def test_at_its_base_it_is_the_standard_parameterisation_bit_for_bit(key, make):
    mup, standard = (make(1, 3, parameterization=name) for name in ("mup", "standard"))
    one, other = (jax.jit(m.init, static_argnums=1)(key, (8, 8, 1)) for m in (mup, standard))
    jax.tree.map(np.testing.assert_array_equal, one, other)
    for name in training.OPTIMIZERS:
        assert set(jax.tree.leaves(mup.rate_factors((8, 8, 1), name))) == {1.0}


def change(model, optimizer, rate, key):
    """Returns each layer's change after four steps on two batches, mean over seeds."""
    inputs = jax.random.normal(jax.random.key(1), (2, 24, 4, 4, 1))
    targets = jax.nn.one_hot(jnp.argmax(inputs[..., 0, :3, 0], axis=-1), 3)
    factors = model.rate_factors and model.rate_factors((4, 4, 1), optimizer)
    rule = training.make_optimizer(optimizer, rate, rate_factors=factors)

    def loss(params, step):
        outputs = model.apply(params, inputs[step % 2])
        return jnp.mean(training.softmax_cross_entropy(outputs, targets[step % 2]))

    def of_seed(key):
        start = model.init(key, (4, 4, 1))

        def step(carry, number):
            params, state = carry
            updates, state = rule.update(jax.grad(loss)(params, number), state, params)
            return (optax.apply_updates(params, updates), state), None

        (params, _), _ = jax.lax.scan(step, (start, rule.init(start)), jnp.arange(4))
        return training.measures.activation_change(model.activations, start, params, inputs[0])

    found = jax.jit(lambda keys: jax.lax.map(of_seed, keys))(jax.random.split(key, 8))
    return {layer: float(jnp.mean(values)) for layer, values in found.items()}


def slopes(make, widths, parameterization, optimizer, rate, key):
    """Returns each layer's slope of log change against log width."""
    by_width = [
        change(build(make, width, widths[0], parameterization), optimizer, rate, key)
        for width in widths
    ]
    return {
        layer: np.polyfit(np.log(widths), np.log([found[layer] for found in by_width]), 1)[0]
        for layer in by_width[0]
    }


RATES = pytest.mark.parametrize(("optimizer", "rate"), [("sgd", 0.1), ("adam", 0.003)])


@RATES
def test_features_move_equally_at_any_width(key, optimizer, rate):
    found = slopes(dense, (64, 512), "mup", optimizer, rate, key)
    assert max(map(abs, found.values())) < MARGIN, found
