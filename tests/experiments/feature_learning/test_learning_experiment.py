"""Runs of learners on hidden patterns: when they are measured, and what comes out of each."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.feature_learning.learning import experiment
from lsa_jax.experiments.feature_learning.learning.stages import make_replica
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.experiments.feature_learning.learning.training import LearnerState
from lsa_jax.training.segments import Evaluations


@pytest.mark.parametrize(
    ("learner", "every", "expected"),
    [
        ("network", 3, [0, 1, 2, 3, 6, 8]),
        ("network", 1, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ("network", 2, [0, 1, 2, 4, 6, 8]),
        ("one_step", 3, [1, 3, 6, 8]),
        ("two_step", 3, [2, 3, 6, 8]),
        ("ntk", 3, [0, 3, 6, 8]),
        ("ntk", 9, [0, 8]),
        # Eight passes of three steps: three times as many, and as many evaluations.
        ("memorise", 3, [0, 9, 18, 24]),
    ],
)
def test_runs_are_measured_as_often_however_many_steps_they_take(make, learner, every, expected):
    own = {"sweep__learner": (learner,), "eval_every": every, "memorise__epochs": 8}
    assert experiment.evaluation_steps(make(**own)[1][0].config) == expected


def test_a_run_s_outcome_is_its_last_row_and_one_that_stopped_has_failed(make):
    points = make()[1]
    state = LearnerState(None, None, np.array([8, 5]), None)
    table = {"test_accuracy": np.array([[0.5, 0.4], [0.7, 0.6], [0.9, np.nan]])}
    runs = Evaluations([0, 4, 8], state, table, 2)
    fine, lost = (experiment._outcome(runs, i, point) for i, point in enumerate(points))
    assert fine.metrics["test_accuracy"] == 0.9 and "step" not in fine.metrics
    assert [row["step"] for row in fine.history] == [0, 4, 8]
    config = points[0].config
    described = {"learner": "network", "structured": True, "seed": 0, "rate": config.rate}
    described |= {"steps": 8, "first_rate": config.first_rate, "leftover": config.leftover}
    assert described.items() <= fine.metrics.items()
    assert lost.status == "failed" and "not finite at step 5" in lost.message
    assert [row["step"] for row in lost.history] == [0, 4] and lost.metrics["seed"] == 1


def test_pictures_are_of_the_first_run_with_what_is_left_of_its_other_weights(make, monkeypatch):
    config = make()[1][0].config
    replica = make_replica(config, make_task(config))
    idle = np.asarray(experiment._idle_weights(config, replica))
    assert idle.shape == (4, 12)  # of 12 dimensions 8 are patterns
    generator, stages = np.random.default_rng(0), []
    for scale in ([1.0, 9.0], [0.5, 9.0], [0.0, 9.0]):
        params = {"w": generator.normal(size=(2, 8, 12))}
        stages.append(LearnerState(params, None, None, np.array(scale)))
    seen = {}
    monkeypatch.setattr(
        experiment,
        "picture_rows",
        lambda steps, weights, marks: seen.update(steps=steps, weights=weights, marks=marks) or [],
    )
    experiment._picture(config, replica, stages)
    assert seen["steps"] == [0, 1, 2]
    for weights, stage, scale in zip(seen["weights"], stages, (1, 0.5, 0), strict=True):
        expected = np.concatenate([stage.params["w"][0], scale * idle]).T
        np.testing.assert_allclose(weights, expected, rtol=1e-6)
    truth = np.concatenate([np.asarray(jnp.asarray(replica.direction)), np.zeros(4)])
    np.testing.assert_allclose(seen["marks"], [truth, -truth])
