"""Losses and accuracy of single examples; means and sums are the training loop's business."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float


def softmax_cross_entropy(
    outputs: Float[Array | np.ndarray, "n c"], targets: Float[Array | np.ndarray, "n c"]
) -> Float[Array, " n"]:
    """Returns -sum_c targets_c log softmax(outputs)_c; targets are one-hot rows."""
    return optax.softmax_cross_entropy(outputs, targets)


def class_mean_cross_entropy(
    outputs: Float[Array | np.ndarray, "n c"], targets: Float[Array | np.ndarray, "n c"]
) -> Float[Array, " n"]:
    """Returns softmax_cross_entropy / c, the mean over the classes instead of the sum.

    Source: the implementation of Karp et al. (2021), where it scales the learning rate by 1 / c.
    """
    return softmax_cross_entropy(outputs, targets) / outputs.shape[-1]


def squared_error(
    outputs: Float[Array | np.ndarray, "n c"], targets: Float[Array | np.ndarray, "n c"]
) -> Float[Array, " n"]:
    """Returns half the squared distance, summed over the outputs."""
    return 0.5 * jnp.sum(jnp.square(outputs - targets), axis=-1)


def logistic(
    outputs: Float[Array | np.ndarray, "n 1"], targets: Float[Array | np.ndarray, " n"]
) -> Float[Array, " n"]:
    """Returns log(1 + exp(-y f)); targets are signs."""
    return jax.nn.softplus(-targets * outputs[:, 0])


def hinge(
    outputs: Float[Array | np.ndarray, "n 1"], targets: Float[Array | np.ndarray, " n"]
) -> Float[Array, " n"]:
    """Returns max(0, 1 - y f); targets are signs."""
    return jax.nn.relu(1.0 - targets * outputs[:, 0])


LOSSES: dict[str, Callable] = {
    "softmax_cross_entropy": softmax_cross_entropy,
    "class_mean_cross_entropy": class_mean_cross_entropy,
    "squared_error": squared_error,
    "logistic": logistic,
    "hinge": hinge,
}


def is_correct(
    outputs: Float[Array | np.ndarray, "n c"], targets: Float[Array | np.ndarray, "n ..."]
) -> Float[Array, " n"]:
    """Returns 1 where an example is classified correctly, else 0, and NaN where an output is NaN.

    One-hot targets are compared with the largest output; signs, [n] or [n, 1], with the sign of the
    only output. An output of zero is no correct sign. (argmax over NaN would return class 0, and
    the accuracy would read as honest chance.)
    """
    if targets.size == len(targets):
        correct = outputs[:, 0] * targets.reshape(-1) > 0
    else:
        correct = jnp.argmax(outputs, axis=-1) == jnp.argmax(targets, axis=-1)
    return jnp.where(jnp.isnan(outputs).any(axis=-1), jnp.nan, correct)
