"""Shares of the base and the composite signal that a network has learned."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
from jaxtyping import Array, Float

from lsa_jax.experiments.resnet.hierarchical.tasks import (
    HierarchicalTask,
    draw_probe,
    initial_params,
    make_training,
    signals,
    trained_function,
)
from lsa_jax.experiments.resnet.shallow import first_features

# Over the mean squared feature: read-outs have more examples than features, but these may be
# linearly dependent.
_READOUT_RIDGE = 1e-6


def share_missed(outputs: Float[Array, "n k"], signal: Float[Array, "n k"]) -> Float[Array, ""]:
    """Returns the missed share of a signal: 1 if outputs have none of it, 0 for all.

    With c_i the coefficient of the outputs' projection on signal i, it is the mean of (1 - c_i)^2
    weighted by the signals' mean squares. Other parts of the outputs do not count.
    """
    squares = jnp.mean(signal**2, axis=0)
    coefficients = jnp.mean(outputs * signal, axis=0) / squares
    return jnp.sum((1 - coefficients) ** 2 * squares) / jnp.sum(squares)


@jax.default_matmul_precision("highest")
def readout_error(
    features: Float[Array, "n m"],
    signal: Float[Array, "n k"],
    test_features: Float[Array, "t m"],
    test_signal: Float[Array, "t k"],
) -> Float[Array, ""]:
    """Returns the best linear read-out's squared error, over the signal's mean square.

    The read-out, with a constant, is fitted by least squares on the first examples and tested on
    the second.
    """

    def with_constant(x: Array) -> Array:
        return jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)

    features, test_features = with_constant(features), with_constant(test_features)
    gram = features.T @ features / len(features)
    ridge = _READOUT_RIDGE * jnp.mean(jnp.diag(gram)) * jnp.eye(len(gram))
    readout = jnp.linalg.solve(gram + ridge, features.T @ signal / len(features))
    error = jnp.sum(jnp.mean((test_features @ readout - test_signal) ** 2, axis=0))
    return error / jnp.sum(jnp.mean(test_signal**2, axis=0))


def make_measure(config: ml_collections.ConfigDict, task: HierarchicalTask) -> Callable:
    """Returns the compiled measures of one network's parameters.

    They are `test_error`, `first_layer_error` (of the first layer's best linear read-out on beta F,
    over its mean square), `base_error` and `composite_error` (the share of beta F and of alpha G(F)
    that the outputs miss).
    """
    apply, _ = trained_function(config)
    initial, probe = initial_params(config), draw_probe(config)
    base, composite = signals(task.hierarchy, task.test.inputs)
    probe_base, _ = signals(task.hierarchy, probe.inputs)
    _, _, test = make_training(config, task)
    inputs = (initial, task.test.inputs) if config.learner == "ntk" else test.inputs

    @jax.jit
    def measure(params: Any) -> dict[str, Array]:
        outputs = apply(params, inputs)
        # A kernel has the initial network's features.
        moved = params if config.learner in ("all", "hidden") else initial
        of_probe, of_test = (first_features(moved, x) for x in (probe.inputs, task.test.inputs))
        return {
            "test_error": jnp.mean(jnp.sum((outputs - task.test.targets) ** 2, axis=1)),
            "first_layer_error": readout_error(of_probe, probe_base, of_test, base),
            "base_error": share_missed(outputs, base),
            "composite_error": share_missed(outputs, composite),
        }

    return measure
