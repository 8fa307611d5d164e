"""Growing in stages: which steps each stage takes, what counts as final, and what it all costs."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.growing import stacking
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.experiments.growing.tasks import GrowingTask
from lsa_jax.experiments.growing.text import Text
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.growth import Operator
from lsa_jax.training.steps import NetworkState, Trained

NOTHING = NetworkState({}, {})


def configure(**fields):
    small = {"question": "stacking", "stage_steps": (10, 20, 30), "layers": 2, "added": 1}
    small |= {"index_strides": (1, 2), "eval_every": 8, "final_share": 0.5, "lag_steps": 3}
    dotted = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(SETTINGS.default_config(), small | {"sweep.block_size": (1,)} | dotted)


def make_task(**fields):
    return GrowingTask(*[None] * len(GrowingTask._fields))._replace(**fields)


@pytest.fixture
def stages(monkeypatch):
    """Puts stages in place whose loss at a step is the step; returns what they were asked for."""
    seen = []

    def train(config, task, state, span, directory):
        seen.append((span, directory.name))
        steps = stacking._measured(config, *span).tolist()
        return stacking._Stage(NOTHING, [{"step": s, "loss": float(s)} for s in steps], [], None)

    def begin(config, task, state, stage, start, directory):
        taken = 0 if config.strategy == "last" else config.lag_steps
        return NOTHING, Operator(stage, 1, "copy"), taken

    monkeypatch.setattr(stacking, "_train_stage", train)
    monkeypatch.setattr(stacking, "_begin_stage", begin)
    return seen


def test_a_stage_is_measured_now_and_then_and_at_its_end():
    assert stacking._measured(configure(), 10, 30).tolist() == [10, 18, 26, 30]
    assert stacking._measured(configure(), 0, 8).tolist() == [0, 8]


@pytest.mark.parametrize(
    ("strategy", "spans", "spent"),
    [
        ("last", [(10, 30), (30, 60)], 60),
        # LAG's 3 steps of 2 operators, then of 2 (every other of 3 places): the chosen ones count
        # once, as the stage goes on from them.
        ("adaptive", [(13, 30), (33, 60)], 60 + 3 * (2 + 2) - 3 * 2),
    ],
)
def test_stages_follow_each_other_and_the_last_ones_end_is_final(
    stages, tmp_path, strategy, spans, spent
):
    config, told = configure(strategy=strategy), []
    first = stacking._Stage(NOTHING, [{"step": 0, "loss": 9.0}], [], None)
    task = make_task()
    found = stacking._stack(config, task, first, tmp_path, told.append)
    assert [span for span, _ in stages] == spans and told == [0.5, 1.0]
    assert found.metrics["steps_spent"] == spent
    assert found.metrics["chosen"] == "i=1 b=1 copy; i=2 b=1 copy"
    assert [row["stage"] for row in found.history[:2]] == [0, 1]
    assert {row["stage"] for row in found.history if row["step"] > 40} == {2}
    # Half of the last stage's 30 steps.
    last = [s for s in stacking._measured(config, *spans[-1]) if s >= 45]
    assert found.metrics["final_loss"] == pytest.approx(sum(last) / len(last))


def test_candidates_are_all_copies_at_every_so_many_places_of_the_layers_there_are():
    config = configure()
    assert [op.index for op in stacking.stage_operators(config, 1)] == [0, 1]
    assert [op.index for op in stacking.stage_operators(config, 2)] == [0, 2]  # of 3 layers
    assert {op.source for op in stacking.stage_operators(config, 2)} == {"copy"}


@pytest.fixture
def trained(monkeypatch):
    """Puts training in place whose loss at a step is twice the step; returns what it was given."""
    given = {"broken": None, "course": None}

    def train(problem, state, batch_size, *, measured, **settings):
        given.update(settings, batch_size=batch_size)
        losses = np.where(measured == given["broken"], np.nan, 2.0 * measured)
        return Trained(NetworkState({"w": 1.0}, {}), losses, given["course"], None)

    monkeypatch.setattr(stacking, "train_one", train)
    return given


def test_a_stage_has_a_loss_a_step_and_measures_that_count_from_the_first_stage(trained, tmp_path):
    rows = [{"step": 0, "weight_movement/w": 0.0}, {"step": 4, "weight_movement/w": 0.5}]
    trained["course"] = SimpleNamespace(rows_of=lambda replica: rows)
    config, task = configure(checkpoint_every=7, batch_size=4), make_task()
    found = stacking._train_stage(config, task, NOTHING, (10, 30), tmp_path)
    assert found.rows == [{"step": s, "loss": 2.0 * s} for s in (10, 18, 26, 30)]
    assert [row["step"] for row in found.measured] == [10, 14]
    assert [row["weight_movement/w"] for row in found.measured] == [0.0, 0.5]
    assert (trained["start"], trained["stop"], trained["segment"]) == (10, 30, 7)
    assert (trained["batch_size"], trained["directory"]) == (4, tmp_path)
    trained["broken"] = 26
    with pytest.raises(NumericalError, match="not finite between steps 10 and 30"):
        stacking._train_stage(config, task, NOTHING, (10, 30), tmp_path)


def test_the_third_stage_grows_from_the_layers_of_the_second(monkeypatch, tmp_path):
    asked = []
    task = make_task(problem=SimpleNamespace(optimizer="rule"), placement="place")
    grown = NetworkState({"w": np.array([5.0])}, {"m": np.array([6.0])})

    def grow_all(state, fresh, optimizer, operators):
        asked.append((state, fresh, optimizer, operators))
        return grown

    def grow_and_select(problem, state, fresh, operators, **settings):
        asked.append((state, fresh, operators, settings))
        return SimpleNamespace(state=grown, operator=operators[1])

    monkeypatch.setattr(stacking, "fresh_params", lambda task, layers: layers)
    monkeypatch.setattr(stacking, "grow_all", grow_all)
    monkeypatch.setattr(stacking, "grow_and_select", grow_and_select)
    last = configure(strategy="last")
    state, operator, taken = stacking._begin_stage(last, task, NOTHING, 2, 30, tmp_path)
    # Of three layers to four; a copy of the third.
    assert asked == [(NOTHING, 4, "rule", [Operator(2, 1, "copy")])]
    assert operator == Operator(2, 1, "copy") and taken == 0
    assert state == ({"w": 5.0}, {"m": 6.0})
    config = configure(strategy="adaptive", lag_window=2, checkpoint_every=9)
    found = stacking._begin_stage(config, task, NOTHING, 2, 30, tmp_path)
    assert found == (grown, Operator(2, 1, "copy"), 3)
    state, fresh, operators, given = asked[1]
    assert (state, fresh, [o.index for o in operators]) == (NOTHING, 4, [0, 2])
    assert given == {
        "steps": 3,
        "first_step": 30,
        "window": 2,
        "placement": "place",
        "checkpoint_every": 9,
        "directory": tmp_path,
    }


def test_strategies_go_on_from_one_first_stage_in_folders_of_their_own(stages, monkeypatch):
    told, seen, text = [], [], Text(np.zeros((1, 8), int), np.zeros((1, 8), int), (1,), 9)
    monkeypatch.setattr(stacking, "make_task", lambda config, text: make_task(seed=text.sizes))
    monkeypatch.setattr(stacking, "first_state", lambda task, layers: NOTHING)

    def stack(config, task, first, directory, progress):
        seen.append((task.seed, first.rows[-1]["step"], str(directory)))
        progress(0.5)
        return Outcome({"strategy": config.strategy}, [])

    monkeypatch.setattr(stacking, "_stack", stack)
    group = [Point("", {}, configure(strategy=name)) for name in ("last", "adaptive")]
    found = stacking.run_stacking(group, text, Path("out"), told.append)
    names = [outcome.metrics["strategy"] for outcome in found]
    assert names == ["last", "adaptive"] and told == [0.25, 0.75]
    assert stages == [((0, 10), "stage_00")]
    assert seen == [((1,), 10, f"out/{name}") for name in names]
