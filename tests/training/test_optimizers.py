"""Optimisers and schedules against the definitions, in plain numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax.errors import InputError
from lsa_jax.training.optimizers import SCHEDULES, check_optimizer, make_optimizer, make_schedule


def test_a_fall_comes_at_the_nearest_step_and_falls_at_one_step_multiply():
    settings = {"epochs": 1, "steps_per_epoch": 100, "decay_factor": 0.5}
    schedule = make_schedule("steps", 1.0, decay_epochs=(0.29,), **settings)  # 28.999... steps
    assert [float(schedule(step)) for step in (28, 29)] == [1.0, 0.5]
    schedule = make_schedule("steps", 1.0, decay_epochs=(0.1, 0.1, 0.5), **settings)
    assert [float(schedule(step)) for step in (9, 10, 50)] == [1.0, 0.25, 0.125]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_rise_multiplies_the_schedule_by_equal_steps_up_to_one(name):
    settings = {"epochs": 8, "steps_per_epoch": 5, "decay_epochs": (3,), "decay_factor": 0.5}
    rising = make_schedule(name, 0.1, **settings, warmup_epochs=1.2)  # six steps
    shapes = {
        "constant": lambda step: 1.0,
        "cosine": lambda step: (1 + np.cos(np.pi * step / 40)) / 2,
        "steps": lambda step: 0.5 if step >= 15 else 1.0,
    }
    for step in (0, 1, 4, 5, 6, 14, 15, 39, 40):
        expected = 0.1 * min((step + 1) / 6, 1) * shapes[name](step)
        assert float(rising(step)) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("factors", [None, {"a": 0.5, "b": 4.0}])
def test_optimizers_take_their_first_two_steps_as_defined(name, factors):
    """Factors of parameters multiply the steps, but not the decay."""
    rate, mass, decay = 0.1, 0.5, 0.0 if name == "adam" and factors else 0.01
    ours, theta = {"a": jnp.float32(2), "b": jnp.float32(-1)}, np.array([2.0, -1.0])
    rule = make_optimizer(name, rate, momentum=mass, weight_decay=decay, rate_factors=factors)
    factor = np.array([*factors.values()]) if factors else 1.0
    state, velocity, first, second = rule.init(ours), 0.0, 0.0, 0.0
    for step, gradient in enumerate(np.array([[1.0, 2.0], [-3.0, 0.5]]), start=1):
        given = dict(zip("ab", jnp.float32(gradient), strict=True))
        updates, state = rule.update(given, state, ours)
        ours = optax.apply_updates(ours, updates)
        penalised = factor * gradient + decay * theta
        velocity = mass * velocity + penalised
        seen = gradient + decay * theta if name == "adam" else gradient
        first, second = 0.9 * first + 0.1 * seen, 0.999 * second + 0.001 * seen**2
        adam = factor * first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        theta = theta - rate * {
            "sgd": penalised,
            "momentum": velocity,
            "adam": adam,
            "adamw": adam + decay * theta,
        }[name]  # fmt: skip
        np.testing.assert_allclose(jax.tree.leaves(ours), theta, rtol=1e-5)


def test_adam_has_no_penalty_beside_rates_of_its_own():
    with pytest.raises(InputError, match="weight_decay is 0.5 where adam has a rate"):
        make_optimizer("adam", 0.1, weight_decay=0.5, rate_factors={"a": 1.0})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["learning_rate", "momentum", "weight_decay", "decay_factor"])
def test_numbers_below_zero_or_not_finite_are_refused(name, value):
    def make(learning_rate=0.1, decay_factor=0.5, **given):
        times = {"epochs": 4, "steps_per_epoch": 2, "decay_epochs": [1, 2]}
        make_schedule("steps", learning_rate, decay_factor=decay_factor, **times)
        make_optimizer("momentum", learning_rate, **given)

    make()
    for one in (value, np.float32(value)):
        with pytest.raises(InputError, match=f"{name} is .*accepted: a number, 0 or more"):
            make(**{name: one})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("epochs", [(-1,), 3, ("1",)])
def test_falls_come_at_times_from_zero_on(epochs):
    with pytest.raises(InputError, match="decay_epochs is "):
        make_schedule("steps", 0.1, epochs=4, steps_per_epoch=2, decay_epochs=epochs)


@pytest.mark.usefixtures("unchecked")
def test_a_rate_beyond_floats_is_refused():
    with pytest.raises(InputError, match="^learning_rate is no array of numbers"):
        make_optimizer("sgd", 10**400)


def test_a_key_in_the_state_is_refused():
    with pytest.raises(InputError, match="^optimizer has a random key .* accepted: states of"):
        check_optimizer(optax.noisy_sgd(0.1, key=0), {"w": jnp.zeros(2)})
