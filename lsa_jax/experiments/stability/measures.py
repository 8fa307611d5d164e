"""What is measured of a pair of models: gaps, stability, distances.

Karp (thesis, 2024), sections 2.1 and 2.3 and appendix A.3.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

# Name of a quantity, and how it is called in tables and figures.
QUANTITIES = {
    "loss_gap": "loss gap",
    "error_gap": "0-1 gap",
    "stability": "stability",
    "distance": "distance",
    "norm": "norm",
    "normalized_distance": "normalised distance",
}
MEASURES = (*QUANTITIES, "train_loss", "test_loss", "train_error", "test_error")


def _squares(tree: Any) -> Float[Array, "2"]:
    """Returns the squared norm of each of two models, whose arrays are [2, ...]."""
    parts = [jnp.sum(jnp.square(a.reshape(2, -1)), axis=1) for a in jax.tree.leaves(tree)]
    return jnp.sum(jnp.stack(parts), axis=0)


def summarize(
    params: Any,
    test: tuple[Float[Array, "2 n"], Bool[Array, "2 n"]],
    train: tuple[Float[Array, " m"], Bool[Array, " m"]],
) -> dict[str, Float[Array, ""]]:
    """Returns the quantities of one pair of models.

    Args:
        params: of A(S) and A(S'), arrays [2, ...].
        test: losses of the test examples under both, and which are wrong.
        train: losses of S under A(S), and which are wrong.

    Returns:
        By name: `loss_gap` and `error_gap`, test minus training, of A(S); `stability`, the largest
        difference of a test example's loss under A(S) and A(S'); `distance` of their parameters;
        `norm` of A(S); `normalized_distance`, over the mean of both norms; and what the gaps are
        differences of.
    """
    losses, wrong = test
    test_error = jnp.mean(wrong[0], dtype=jnp.float32)
    train_error = jnp.mean(train[1], dtype=jnp.float32)
    test_loss, train_loss = jnp.mean(losses[0]), jnp.mean(train[0])
    norms = jnp.sqrt(_squares(params))
    difference = jax.tree.map(lambda a: (a[:1] - a[1:]).repeat(2, axis=0), params)
    distance = jnp.sqrt(_squares(difference)[0])
    return {
        "loss_gap": test_loss - train_loss,
        "error_gap": test_error - train_error,
        "stability": jnp.max(jnp.abs(losses[0] - losses[1])),
        "distance": distance,
        "norm": norms[0],
        "normalized_distance": distance / jnp.mean(norms),
        "train_loss": train_loss,
        "test_loss": test_loss,
        "train_error": train_error,
        "test_error": test_error,
    }
