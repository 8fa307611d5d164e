"""Accelerators differentiate as many examples, or pairs of them, at once as their memory holds."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from lsa_jax.backend import built_for, size_in_bytes
from lsa_jax.kernels import empirical_ntk
from lsa_jax.kernels.finite import layerwise
from lsa_jax.models import cnn


def test_an_accelerator_differentiates_as_many_examples_at_a_time_as_its_memory_holds(key):
    model = cnn(8)
    params = model.init(key, (28, 28, 3))
    x = jnp.ones((1, 28, 28, 3))
    # In each output a derivative by all parameters, and at least what ReLUs give on the way.
    each = 10 * (size_in_bytes(params) + 4 * (64 * 13**2 + 128 * 6**2))

    def at_once(memory):
        with built_for("gpu", memory=memory):
            return layerwise.examples_at_once(model.apply, params, x, 10)

    assert layerwise.examples_at_once(model.apply, params, x, 10) == 2  # on a CPU
    assert at_once(1e6) == 1 < at_once(2e9) < at_once(8e9) <= 8e9 / 16 / each
    assert at_once(8e9) > 8e9 / 16 / (2 * each)
    assert at_once(8e12) == 256


@pytest.mark.parametrize("with_x2", [False, True])
def test_a_diagonal_takes_as_many_pairs_at_a_time_as_an_accelerator_holds(key, with_x2):
    model = cnn(8)
    params = model.init(key, (28, 28, 3))
    x = jnp.ones((500, 28, 28, 3))
    others = x if with_x2 else None

    def steps(platform, memory):
        """Returns how often the loop over the pairs runs, and the examples at a time elsewhere."""
        ntk = partial(empirical_ntk, model.apply, method="jacobian", diagonal=True)
        with built_for(platform, memory=memory):
            (program,) = jax.make_jaxpr(ntk)(params, x, others).eqns
            at_once = layerwise.examples_at_once(model.apply, params, x[:1], 10)
        inner = program.params["jaxpr"].eqns
        (loop,) = [eqn for eqn in inner if eqn.primitive.name == "scan"]
        return loop.params["length"], at_once

    assert steps("cpu", None)[0] == 500 // 16
    for memory in (2e9, 8e9):
        loops, at_once = steps("gpu", memory)
        assert loops == 500 // (at_once // 2) and 2 <= at_once < 250
    assert steps("tpu", 8e12) == (500 // 128, 256)
