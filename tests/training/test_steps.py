"""Batches, losses and parts of runs that are counted in steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax.errors import InputError
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.training.steps import NetworkState, Problem, layouts_of, train_steps

RATE = 0.1


def loss(params, batch):
    """Half the squared distance to each example."""
    errors = 0.5 * jnp.square(params["w"] - batch)
    return errors.sum(), jnp.float32(errors.size)


def wanted(step):
    return np.array([step - 1.0, step + 3.0], np.float32)  # of mean step + 1


@pytest.fixture
def asked():
    return []


@pytest.fixture
def problem(asked):
    def batches(first, count):
        asked.append((first, count))
        return np.stack([wanted(step) for step in range(first, first + count)])

    validation = np.array([[0.0, 2.0], [4.0, 6.0], [1.0, 5.0]], np.float32)
    return Problem(loss, optax.sgd(RATE), batches, validation)


def begin(start, stop):
    params = {"w": np.arange(start, stop, dtype=np.float32)}
    return NetworkState(params, optax.sgd(RATE).init(params))


def by_hand(w, start, stop):
    """Returns the number after each step: a tenth of the way to the mean that is asked for."""
    found = [w]
    for step in range(start, stop):
        w = w + RATE * (step + 1 - w)
        found.append(w)
    return np.array(found)


def test_segments_ask_for_their_own_batches_and_losses_stand_at_their_steps(problem, asked):
    measured = np.array([5, 6, 8, 10])
    found = train_steps(
        problem, begin(0, 2), ReplicaLayout(2), start=5, stop=10, measured=measured, segment=2
    )
    assert asked == [(5, 2), (7, 2), (9, 1)]
    ways = np.stack([by_hand(w, 5, 10) for w in (0.0, 1.0)], axis=1)
    np.testing.assert_allclose(found.states.params["w"], ways[-1], rtol=1e-6)
    examples = np.array([0, 2, 4, 6, 1, 5.0])
    losses = 0.5 * np.square(ways[measured - 5, :, None] - examples).mean(axis=2)
    np.testing.assert_allclose(found.losses, losses, rtol=1e-5)
    assert found.course is None and found.cost is None


def test_a_network_stays_as_it_was_before_its_first_loss_that_was_not_finite(problem):
    broken = problem._replace(
        batches=lambda first, count: np.stack(
            [wanted(step) + (np.inf if step == 7 else 0) for step in range(first, first + count)]
        ).astype(np.float32)
    )
    measured = np.array([6, 7, 8, 9])
    found = train_steps(
        broken, begin(0, 1), ReplicaLayout(1), start=5, stop=9, measured=measured, segment=2
    )
    np.testing.assert_allclose(found.states.params["w"][0], by_hand(0.0, 5, 7)[-1], rtol=1e-6)
    assert np.isfinite(found.losses[:, 0]).tolist() == [True, True, False, False]


@pytest.mark.usefixtures("unchecked")
def test_steps_out_of_order_and_missing_batches_are_refused(problem):
    short = problem._replace(batches=lambda first, count: problem.batches(first, count)[:1])
    for change, words in (
        ({"start": 5}, "stop is 4; accepted: a whole number, 5 or more"),
        ({"measured": np.array([9])}, r"measured is \[9\]; accepted: different steps from 0 to 4"),
        ({"measured": np.array([4, 4])}, "accepted: different steps"),
        ({"segment": 0}, "segment is 0"),
        ({"problem": short}, r"problem.batches\(0, 2\) returns arrays of shapes"),
    ):
        given = {"start": 0, "stop": 4, "measured": np.array([4]), "segment": 2} | change
        with pytest.raises(InputError, match=words):
            train_steps(given.pop("problem", problem), begin(0, 1), ReplicaLayout(1), **given)
    with pytest.raises(InputError, match="count is 0"):
        layouts_of(0)


def test_healthy_steps_pass_a_search_for_nan(problem):
    given = {"start": 0, "stop": 4, "measured": np.array([2, 4]), "segment": 4}
    with jax.debug_nans(True):
        found = train_steps(problem, begin(0, 1), ReplicaLayout(1), **given)
    assert np.isfinite(found.losses).all()
