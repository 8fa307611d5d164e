"""Runs of learners on hidden patterns: when they are measured, and what comes out of each."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.feature_learning.learning import experiment
from lsa_jax.experiments.feature_learning.learning.stages import make_replica
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.experiments.feature_learning.learning.training import LearnerState
from lsa_jax.sweep.experiment import Outcome
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


@pytest.mark.parametrize(
    ("learner", "fields", "drawn"),
    [
        ("network", {}, True),
        ("network", {"pictures": False}, False),
        ("network", {"sweep__learner": (), "sweep__unstructured_learner": ("network",)}, False),
        ("ntk", {}, False),
    ],
)
def test_networks_on_structured_inputs_alone_are_pictured_where_asked(
    make, monkeypatch, unchecked, learner, fields, drawn
):
    monkeypatch.setattr(experiment, "_make_tasks", lambda group: [p.config.seed for p in group])
    monkeypatch.setattr(
        experiment.feature_stages, "make_replica", lambda config, task: (config.seed, task)
    )
    monkeypatch.setattr(experiment, "_train", lambda group, replicas, *rest: (replicas, "stages"))
    monkeypatch.setattr(
        experiment, "_outcome", lambda runs, place, point: Outcome({"of": runs[place]}, [])
    )
    monkeypatch.setattr(experiment, "_picture", lambda config, *of: [{"picture": of}])
    points = make(**{"sweep__learner": (learner,), "sweep__seed": (4, 5)} | fields)[1]
    for group in (points, points[:1]):
        first, *others = experiment.run(group, None, Path("out"), lambda fraction: None)
        assert first.metrics == {"of": (4, 4)}
        assert first.history == ([{"picture": ((4, 4), "stages")}] if drawn else [])
        assert [(o.metrics, o.history) for o in others] == [({"of": (5, 5)}, [])] * (len(group) - 1)


@pytest.mark.parametrize(("learner", "step"), [("one_step_exact", 1), ("two_step_exact", 2)])
def test_exact_models_are_fit_one_by_one_on_the_host_after_the_step_that_they_are_named_after(
    make, monkeypatch, learner, step
):
    monkeypatch.setattr(experiment, "fit", lambda config: {"test_accuracy": 0.25 * config.seed})
    points = make(sweep__learner=(learner,), sweep__first_rate=(), sweep__leftover=())[1]
    told = []
    found = experiment.run(points, None, Path("out"), told.append)
    assert told == [0.5, 1.0]
    assert [outcome.metrics["seed"] for outcome in found] == [0, 1]
    assert [outcome.metrics["test_accuracy"] for outcome in found] == [0.0, 0.25]
    assert [outcome.history for outcome in found] == [
        [{"step": step, "test_accuracy": accuracy}] for accuracy in (0.0, 0.25)
    ]
    assert experiment.EXPERIMENT.on_host(points[0].config)
    assert not experiment.EXPERIMENT.on_host(make()[1][0].config)


def test_seeds_and_rates_of_fixed_features_run_together_and_learners_apart(make):
    rates = {"sweep__ntk_rate": (1e-3, 1e-4), "sweep__random_features_rate": (0.5,)}
    points = make(sweep__learner=("network", "ntk", "random_features"), **rates)[1]
    found = [
        [(point.config.learner, point.config.seed) for point in group]
        for group in experiment.groups(points)
    ]
    assert sorted(found) == [
        [("network", 0), ("network", 1)],
        [("ntk", 0), ("ntk", 1), ("ntk", 0), ("ntk", 0)],
        [("random_features", 0), ("random_features", 1), ("random_features", 0)],
    ]
