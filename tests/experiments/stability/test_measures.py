"""The quantities of a pair of models, against their definitions in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.stability import measures


def test_quantities_of_a_pair_are_those_of_the_first_model_and_of_their_difference():
    rng = np.random.default_rng(0)
    matrix, bias = rng.normal(size=(2, 3, 4)), 5 * rng.normal(size=(2, 2))
    losses, train_losses = rng.uniform(1, 3, size=(2, 5)), rng.uniform(0, 1, size=3)
    losses[1, 2] += 4  # the largest difference is one where the second model is worse
    wrong = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 0, 0]], bool)
    train_wrong = np.array([0, 1, 0], bool)

    found = measures.summarize(
        {"matrix": jnp.float32(matrix), "bias": jnp.float32(bias)},
        (jnp.float32(losses), jnp.asarray(wrong)),
        (jnp.float32(train_losses), jnp.asarray(train_wrong)),
    )

    first, second = np.concatenate([matrix.reshape(2, -1), bias], axis=1)
    norms = np.linalg.norm(first), np.linalg.norm(second)
    distance = np.linalg.norm(first - second)
    expected = {
        "loss_gap": losses[0].mean() - train_losses.mean(),
        "error_gap": 3 / 5 - 1 / 3,
        "stability": losses[1, 2] - losses[0, 2],
        "distance": distance,
        "norm": norms[0],
        "normalized_distance": 2 * distance / sum(norms),
        "train_loss": train_losses.mean(),
        "test_loss": losses[0].mean(),
        "train_error": 1 / 3,
        "test_error": 3 / 5,
    }
    assert {name: float(value) for name, value in found.items()} == pytest.approx(
        expected, rel=1e-5
    )
