"""Sweeps of learned and fixed features: groups, evaluations, outcomes, resuming, pictures."""

import numpy as np
import pytest
from reports import make_report
from small_sweeps import swept

from lsa_jax.experiments.feature_learning.learning import learners, settings
from lsa_jax.experiments.feature_learning.learning.experiment import EXPERIMENT, evaluation_steps
from lsa_jax.reporting import outcomes


@pytest.fixture(scope="module")
def finished(make, tmp_path_factory):
    config, points = make(
        sweep__learner=("network", "ntk", "one_step_exact"),
        sweep__unstructured_learner=("memorise",),
        sweep__first_rate=(),
        sweep__leftover=(),
        memorise__epochs=2,
    )
    folder = tmp_path_factory.mktemp("learning") / "out"
    results = swept(config, points, folder)
    return points, folder, results, make_report(config, results, folder)


def test_runs_of_a_seed_keep_outcomes_on_its_test_set_and_have_its_settings(finished):
    points, folder, results, _ = finished
    assert (results["status"] == "ok").all() and len(results) == 8
    kept = outcomes.read(folder, results["id"])
    for point, row in zip(points, results.to_dict("records"), strict=True):
        assert kept[point.id].values.mean() == pytest.approx(row["test_accuracy"])
        assert settings.described(point.config).items() <= row.items()
    structured = results[results["structured"]]
    tests = [{kept[run].test for run in own["id"]} for _, own in structured.groupby("seed")]
    assert [len(names) for names in tests] == [1, 1] and tests[0] != tests[1]


def test_runs_whose_loss_is_not_finite_have_failed_where_they_stopped(make, tmp_path, monkeypatch):
    points = make(measures=(), pictures=False)[1]
    monkeypatch.setattr(learners, "hinge", lambda outputs, targets: np.nan * targets)
    for found in EXPERIMENT.run(points, None, tmp_path, lambda fraction: None):
        assert found.status == "failed" and found.outcomes is None
        assert [row["step"] for row in found.history] == [0, 1, 2]  # after the first steps


@pytest.mark.parametrize(
    ("learner", "every", "expected"),
    [
        ("network", 3, [0, 1, 2, 3, 6, 8]),
        ("network", 2, [0, 1, 2, 4, 6, 8]),
        ("one_step", 3, [1, 3, 6, 8]),
        ("two_step", 3, [2, 3, 6, 8]),
        ("ntk", 9, [0, 8]),
        # Eight passes of three steps: three times as many, and as many evaluations.
        ("memorise", 3, [0, 9, 18, 24]),
    ],
)
def test_runs_are_measured_as_often_however_many_steps_they_take(make, learner, every, expected):
    own = {"sweep__learner": (learner,), "eval_every": every, "memorise__epochs": 8}
    assert evaluation_steps(make(**own)[1][0].config) == expected
