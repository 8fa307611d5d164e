"""Losses and optimisers against numpy and against the definitions."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax.errors import InputError
from lsa_jax.training import LOSSES, is_correct, make_optimizer, make_schedule

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


def test_outputs_that_are_not_numbers_are_not_counted_as_class_zero():
    outputs = jnp.array([[jnp.nan] * 3, [2.0, jnp.nan, 1.0], [2.0, 0.0, 1.0]])
    found = np.asarray(is_correct(outputs, jnp.eye(3)[jnp.array([0, 0, 0])]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, 1])
    signs = is_correct(jnp.array([[jnp.nan], [2.0]]), jnp.array([1.0, 1.0]))
    np.testing.assert_array_equal(signs, [np.nan, 1])


def test_steps_schedule_falls_at_its_epochs():
    schedule = make_schedule(
        "steps", 0.1, epochs=10, steps_per_epoch=7, decay_epochs=(2, 5), decay_factor=0.2
    )
    steps = np.array([0, 13, 14, 15, 34, 35, 36, 69])
    expected = 0.1 * 0.2 ** ((steps >= 14).astype(int) + (steps >= 35))
    np.testing.assert_allclose([schedule(s) for s in steps], expected, rtol=1e-6)


def test_cosine_schedule_ends_at_zero():
    schedule = make_schedule("cosine", 0.1, epochs=4, steps_per_epoch=5)
    expected = 0.05 * (1 + np.cos(np.pi * np.array([0, 5, 10, 20]) / 20))
    np.testing.assert_allclose([schedule(s) for s in (0, 5, 10, 20)], expected, atol=1e-7)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw"])
def test_each_optimizer_takes_its_first_two_steps_as_defined(name):
    rate, mass, decay = 0.1, 0.5, 0.01
    rule = make_optimizer(name, rate, momentum=mass, weight_decay=decay)
    theta, gradients = 2.0, (1.0, -3.0)
    state = rule.init(jnp.float32(theta))
    ours = jnp.float32(theta)
    first = second = velocity = 0.0
    for step, gradient in enumerate(gradients, start=1):
        updates, state = rule.update(jnp.float32(gradient), state, ours)
        ours = optax.apply_updates(ours, updates)
        g = gradient if name == "adamw" else gradient + decay * theta
        first, second = 0.9 * first + 0.1 * g, 0.999 * second + 0.001 * g**2
        velocity = mass * velocity + g
        adam = (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        theta -= (
            rate
            * {
                "sgd": g,
                "momentum": velocity,
                "adam": adam,
                "adamw": adam + decay * theta,
            }[name]
        )
        assert float(ours) == pytest.approx(theta, rel=1e-5)


def test_unknown_names_are_refused_with_the_accepted_ones():
    with pytest.raises(InputError, match="optimizer is 'lion'; accepted: sgd, momentum"):
        make_optimizer("lion", 0.1)
    with pytest.raises(InputError, match="schedule is 'linear'; accepted: constant, cosine"):
        make_schedule("linear", 0.1, epochs=1, steps_per_epoch=1)
