"""Accelerators differentiate as many examples, or pairs of them, at once as their memory holds."""

import jax.numpy as jnp

from lsa_jax.backend import built_for
from lsa_jax.costs import size_in_bytes
from lsa_jax.kernels.finite import layerwise
from lsa_jax.models import cnn


def test_an_accelerator_differentiates_as_many_examples_at_a_time_as_its_memory_holds(key):
    model = cnn(8)
    params = model.init(key, (28, 28, 3))
    x = jnp.ones((1, 28, 28, 3))
    # In each output a derivative by all parameters, and at least the ReLUs' outputs.
    each = 10 * (size_in_bytes(params) + 4 * (64 * 13**2 + 128 * 6**2))

    def at_once(memory):
        with built_for("gpu", memory=memory):
            return layerwise.examples_at_once(model.apply, params, x, 10)

    assert layerwise.examples_at_once(model.apply, params, x, 10) == 2  # on a CPU
    assert at_once(1e6) == 1 < at_once(2e9) < at_once(8e9) <= 8e9 / 16 / each
    assert at_once(8e9) > 8e9 / 16 / (2 * each)
    assert at_once(8e12) == 256
