"""Losses against numpy and against the definitions."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.training import LOSSES, is_correct

OUTPUTS = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
ONE_HOT = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0, 1, 2]]
SIGNS = np.array([1, -1, 1, 1, -1, -1, 1], np.float32)


def _numpy_loss(name):
    margin = SIGNS * OUTPUTS[:, 0]
    log_sum = np.log(np.exp(OUTPUTS.astype(float)).sum(axis=1))
    return {
        "softmax_cross_entropy": log_sum - (OUTPUTS * ONE_HOT).sum(axis=1),
        "class_mean_cross_entropy": (log_sum - (OUTPUTS * ONE_HOT).sum(axis=1)) / 4,
        "squared_error": 0.5 * ((OUTPUTS - ONE_HOT) ** 2).sum(axis=1),
        "logistic": np.log1p(np.exp(-margin)),
        "hinge": np.maximum(0, 1 - margin),
    }[name]


@pytest.mark.parametrize("name", LOSSES)
def test_each_loss_equals_its_definition(name):
    binary = name in ("logistic", "hinge")
    outputs, targets = (OUTPUTS[:, :1], SIGNS) if binary else (OUTPUTS, ONE_HOT)
    np.testing.assert_allclose(LOSSES[name](outputs, targets), _numpy_loss(name), rtol=1e-5)


@pytest.mark.parametrize("name", ["logistic", "softmax_cross_entropy"])
def test_losses_stay_finite_for_huge_margins(name):
    outputs = jnp.array([[1e4], [-1e4]]) if name == "logistic" else jnp.array([[1e4, -1e4]] * 2)
    targets = jnp.array([1.0, 1.0]) if name == "logistic" else jnp.eye(2)
    np.testing.assert_allclose(
        LOSSES[name](outputs, targets), [0, 1e4 if name == "logistic" else 2e4]
    )


def test_correct_means_the_largest_output_or_the_right_sign():
    np.testing.assert_array_equal(
        is_correct(OUTPUTS, ONE_HOT), OUTPUTS.argmax(axis=1) == ONE_HOT.argmax(axis=1)
    )
    outputs = jnp.array([[0.5], [0.5], [0.0]])
    np.testing.assert_array_equal(is_correct(outputs, jnp.array([1.0, -1.0, 1.0])), [1, 0, 0])


def test_signs_in_a_column_are_compared_as_signs():
    outputs, column = jnp.array([[0.5], [0.5], [-2.0], [jnp.nan]]), SIGNS[:4, None]
    np.testing.assert_array_equal(is_correct(outputs, column), is_correct(outputs, SIGNS[:4]))
    np.testing.assert_array_equal(is_correct(outputs, column), [1, 0, 0, np.nan])


def test_outputs_that_are_not_numbers_are_not_counted_as_class_zero():
    outputs = jnp.array([[jnp.nan] * 3, [2.0, jnp.nan, 1.0], [2.0, 0.0, 1.0]])
    found = np.asarray(is_correct(outputs, jnp.eye(3)[jnp.array([0, 0, 0])]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, 1])
    signs = is_correct(jnp.array([[jnp.nan], [2.0]]), jnp.array([1.0, 1.0]))
    np.testing.assert_array_equal(signs, [np.nan, 1])
