"""One shallow network and all that are grown from it: what is measured when, and what is told."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.growing import experiment
from lsa_jax.experiments.growing.downstream import Task
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.experiments.growing.tasks import GrowingTask, Material
from lsa_jax.experiments.growing.text import Text
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.growth import Operator
from lsa_jax.training.steps import NetworkState, Part, Placement, Trained

SMALL = {
    "layers": 2,
    "added": 1,
    "base_steps": 8,
    "grow_steps": 20,
    "dense_steps": 4,
    "eval_every": 6,
    "lag_steps": 9,
    "lag_window": 3,
    "final_share": 0.5,
    "checkpoint_every": 5,
}
STEPS = [0, 1, 2, 3, 4, 6, 7, 8, 9, 12, 18, 20]
NOTHING = NetworkState({}, {})
TEXT = Text(np.zeros((1, 8), int), np.zeros((1, 8), int), (1,), 9)
TASK = GrowingTask(None, SimpleNamespace(optimizer="rule"), Placement(2), 0)


def configure(**fields):
    return set_fields(SETTINGS.default_config(), SMALL | fields)


def test_losses_are_measured_closely_first_and_before_lag_decides_and_else_now_and_then():
    assert experiment.measured_steps(configure()).tolist() == STEPS


def test_an_operator_s_losses_are_the_first_lag_s_mean_and_that_of_the_last_steps():
    steps = np.array(STEPS)
    found = experiment._outcome(configure(), 7.0, steps, 2.0 * steps)
    assert found.history == [{"step": s, "loss": 2.0 * s} for s in STEPS]
    assert found.metrics == {
        "base_loss": 7.0,
        "initial_loss": 0.0,
        "lag_loss": pytest.approx(2 * (7 + 8 + 9) / 3),
        "final_loss": pytest.approx(2 * (12 + 18 + 20) / 3),  # the last ten steps
    }
    broken = np.where(steps >= 8, np.nan, 1.0)
    failed = experiment._outcome(configure(), 7.0, steps, broken)
    assert failed.status == "failed" and "not finite 8 steps after growing" in failed.message
    assert experiment._with_downstream(failed, {"a": 1.0}).metrics == {}
    assert experiment._with_downstream(found, {"a": 1.0}).metrics == {**found.metrics, "a": 1.0}


@pytest.mark.parametrize("last", [3.5, np.nan])
def test_the_shallow_network_is_measured_at_its_end(monkeypatch, last):
    given = {}

    def train(problem, state, batch_size, **settings):
        given.update(settings, batch_size=batch_size)
        return Trained(NOTHING, np.array([last]), None, None)

    monkeypatch.setattr(experiment, "train_one", train)
    monkeypatch.setattr(experiment, "first_state", lambda task, layers: NOTHING)
    asked = configure(batch_size=4), TASK, Path("base"), 8, print
    if np.isnan(last):
        with pytest.raises(NumericalError, match="loss after 8 steps is not finite"):
            experiment.train_base(*asked)
    else:
        assert experiment.train_base(*asked) == (NOTHING, last)
    assert given.pop("measured").tolist() == [8]
    expected = {"start": 0, "stop": 8, "segment": 5, "directory": Path("base"), "progress": print}
    assert given == {**expected, "batch_size": 4}


def part_of(start, stop):
    """Returns networks whose losses, and the number in them, are their own numbers."""
    own = np.arange(start, stop, dtype=np.float32)
    losses = np.broadcast_to(own, (len(STEPS), stop - start))
    return Part(start, stop, Trained(NetworkState({"w": own}, {}), losses, None, None))


def test_each_network_of_a_part_is_asked_every_task(monkeypatch):
    tasks = tuple(
        Task(name, np.zeros((n, 4), np.int32), np.ones(n, np.int32), (("x",),) * n, True, str)
        for name, n in (("easy", 3), ("hard", 5))
    )
    monkeypatch.setattr(experiment.downstream, "make_completer", lambda model, count: count)

    def accuracy(task, complete, params, batch_size):
        return float(params["w"]) / 10 if task.name == "easy" else complete / 100

    monkeypatch.setattr(experiment.downstream, "accuracy", accuracy)
    config = configure(**{"downstream.answer_tokens": 7})
    found = experiment._ask(config, TASK, Material(TEXT, tasks), part_of(2, 4))
    assert [list(row.values()) for row in found] == [
        pytest.approx([0.2, 3, 0.07, 5]),
        pytest.approx([0.3, 3, 0.07, 5]),
    ]
    names = ["downstream_easy", "items_easy", "downstream_hard", "items_hard"]
    assert list(found[0]) == names
    assert experiment._ask(config, TASK, Material(TEXT), part_of(2, 4)) == [{}, {}]


@pytest.fixture
def points():
    places = [(0, "copy"), (1, "copy"), (1, "random")]
    return [Point("", {}, configure(index=i, source=source)) for i, source in places]


def test_all_operators_go_on_from_one_network_and_progress_is_the_share_of_all_steps(
    points, monkeypatch
):
    given, told = {}, []

    def train_base(config, task, directory, steps, progress):
        given.update(base=directory, steps=steps)
        progress(0.5)
        return NOTHING, 7.0

    def train_parts(problem, begin, count, placement, *, progress, **settings):
        given.update(settings, begun=begin(1, 3), count=count, placement=placement)
        progress(0.5)
        return iter([part_of(0, 2), part_of(2, 3)])

    def grow_all(base, fresh, optimizer, operators):
        return base, fresh, optimizer, operators

    monkeypatch.setattr(experiment, "make_task", lambda config, text: TASK)
    monkeypatch.setattr(experiment, "train_base", train_base)
    monkeypatch.setattr(experiment, "train_parts", train_parts)
    monkeypatch.setattr(experiment, "grow_all", grow_all)
    monkeypatch.setattr(experiment, "fresh_params", lambda task, layers: layers)
    outcomes = experiment._run_operators(points, Material(TEXT), Path("out"), told.append)
    # 8 steps of the shallow network, and 20 of each of three.
    assert told == pytest.approx([4 / 68, (8 + 30) / 68])
    assert [outcome.metrics["final_loss"] for outcome in outcomes] == [0, 1, 2]
    assert {outcome.metrics["base_loss"] for outcome in outcomes} == {7.0}
    operators = [Operator(1, 1, "copy"), Operator(1, 1, "random")]
    assert given["begun"] == (NOTHING, 3, "rule", operators)
    assert (given["base"], given["directory"]) == (Path("out/base"), Path("out/grown"))
    assert (given["steps"], given["start"], given["stop"], given["segment"]) == (8, 8, 28, 5)
    assert given["measured"].tolist() == [8 + step for step in STEPS]


@pytest.mark.parametrize("question", ["operators", "stacking"])
def test_a_group_s_question_is_answered_in_its_scratch_folder(monkeypatch, question):
    asked = []

    def answer(name):
        def run(group, material, directory, progress):
            asked.append((name, type(material).__name__, directory))
            return [Outcome({"loss": 1.0}, []) for _ in group]

        return run

    monkeypatch.setattr(experiment, "_run_operators", answer("operators"))
    monkeypatch.setattr(experiment, "run_stacking", answer("stacking"))
    group = [Point("", {}, configure(question=question, index=1))]
    (found,) = experiment.run(group, {"encoder": Material(TEXT)}, Path("out"), print)
    kind = "Material" if question == "operators" else "Text"
    assert asked == [(question, kind, Path("out/scratch"))]
    common = {"kind": "encoder", "schedule": "constant", "seed": 0, "loss": 1.0}
    own = {"operators": {"index": 1, "block_size": 1, "source": "copy"}}
    assert found.metrics == common | own.get(question, {"strategy": "adaptive"})
