"""muP: its table, its base, and that features move as much at any width."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import models, training
from lsa_jax.models.mup import rate_factors, scale_initial


def dense(width):
    """A multilayer perceptron."""
    hidden = (models.Dense(width, 2**0.5, 0.1), models.Relu())
    return [models.Flatten(), *hidden, *hidden, models.Dense(3, b_std=0.1)]


TABLE = {  # initial standard deviation, rate of SGD, of Adam, four times as wide as the base
    ("Dense_0", "weight"): (1, 4, 1),
    ("Dense_0", "bias"): (1, 4, 1),
    ("Dense_1", "weight"): (1, 1, 1 / 4),
    ("Dense_1", "bias"): (1, 4, 1),
    ("Dense_2", "weight"): (1 / 2, 1 / 4, 1 / 4),
    ("Dense_2", "bias"): (1, 1, 1),
}


def test_factors_are_those_of_the_table(key):
    mup, standard = (
        models.network(dense(16), parameterization=name, base=dense(4))
        for name in ("mup", "standard")
    )
    params, drawn = (model.init(key, (2, 2, 1)) for model in (mup, standard))
    for (layer, name), (std, of_sgd, of_adam) in TABLE.items():
        np.testing.assert_array_equal(params[layer][name], np.float32(std) * drawn[layer][name])
        for optimizer in training.OPTIMIZERS:
            rate = mup.rate_factors((2, 2, 1), optimizer)[layer][name]
            assert rate == (of_adam if optimizer.startswith("adam") else of_sgd)
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
