"""Work in segments goes on where it was, stops where nothing is left, and refuses other data."""

import itertools
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.training import measuring, segments
from lsa_jax.training.measuring import Measuring, course_of_weights
from lsa_jax.training.segments import Checkpoints, kept_if, run_evaluations, run_segments

MARKS = (3, 5, 9)


def doubled(kept, *, dies_in=None, trained=None, **options):
    """Doubles a number in each segment, and keeps all that it was."""
    table = np.zeros(len(MARKS))

    def advance(state, segment):
        if segment == dies_in:
            raise KeyboardInterrupt
        if trained is not None:
            trained.append(segment)
        table[segment] = 2 * state[0]
        return 2 * state

    state, done = run_segments(np.ones(1), table, MARKS, advance, kept=kept, **options)
    return float(state[0]), table.tolist(), done


@pytest.mark.parametrize("every, again", [(1, [2]), (2, [2]), (3, [0, 1, 2])])
def test_a_killed_run_does_again_only_what_was_not_saved(tmp_path, every, again):
    kept, trained = Checkpoints(tmp_path, every), []
    with pytest.raises(KeyboardInterrupt):
        doubled(kept, dies_in=2)
    assert doubled(kept, trained=trained) == (8.0, [2.0, 4.0, 8.0], 3)
    assert trained == again
    assert doubled(kept, trained=trained) == (8.0, [2.0, 4.0, 8.0], 3)
    assert trained == again  # all was done


def test_a_run_ends_where_there_is_nothing_to_go_on_with():
    found = doubled(Checkpoints(), going=lambda state, segment: bool(state[0] < 4))
    assert found == (4.0, [2.0, 4.0, 0.0], 2)


def test_checkpoints_of_other_data_or_of_other_segments_are_refused(tmp_path):
    doubled(Checkpoints(tmp_path), identity=lambda: {"data": 1})
    with pytest.raises(InputError, match="of other data than this run's; remove the folder"):
        doubled(Checkpoints(tmp_path), identity=lambda: {"data": 2})
    with pytest.raises(InputError, match="of step 9, where this run does not stop"):
        run_segments(
            np.ones(1),
            np.zeros(3),
            (3, 5, 8),
            lambda state, _: state,
            kept=Checkpoints(tmp_path),
            identity=lambda: {"data": 1},
        )


def counting(layout):
    """Counts steps up to each replica's limit, from where on its loss is not finite."""

    def advance(state, limit, count):
        def take(_, state):
            going = state["step"] < limit
            return kept_if(going, {"step": state["step"] + 1}, state)

        state = jax.lax.fori_loop(0, count, take, state)
        return state, {"square": jnp.float32(state["step"]) ** 2}

    program = layout.map(advance, 2)
    limits = layout.spread(jnp.array([2, 100]))
    return lambda state, count: program(state, limits, count)


def test_evaluations_are_those_after_the_steps_also_of_a_replica_that_stopped(tmp_path):
    layout = ReplicaLayout(2)
    start = {"step": np.zeros(2, np.int32)}
    runs = run_evaluations(
        layout, counting(layout), [start], [0, 1, 3, 7], kept=Checkpoints(tmp_path)
    )
    assert runs.table["square"].T.tolist() == [[0, 1, 4, 4], [0, 1, 9, 49]]
    assert runs.state["step"].tolist() == [2, 7] and runs.last == 3


def test_evaluations_end_where_they_are_finished_and_go_on_later(tmp_path):
    layout = ReplicaLayout(2)
    start = {"step": np.zeros(2, np.int32)}
    settings = {"kept": Checkpoints(tmp_path)}
    runs = run_evaluations(
        layout,
        counting(layout),
        [start],
        [0, 1, 3, 7],
        finished=lambda runs: bool((runs.table["square"][runs.last] >= 4).all()),
        **settings,
    )
    assert runs.last == 2 and np.isnan(runs.table["square"][3]).all()
    runs = run_evaluations(layout, counting(layout), [start], [0, 1, 3, 7], **settings)
    assert runs.table["square"].T.tolist() == [[0, 1, 4, 4], [0, 1, 9, 49]]


def test_a_stage_is_measured_as_it_is_and_gone_on_from():
    layout = ReplicaLayout(2)
    stages = [{"step": np.full(2, step, np.int32)} for step in (0, 50)]
    runs = run_evaluations(layout, counting(layout), stages, [0, 1, 3], kept=Checkpoints())
    assert runs.table["square"].T.tolist() == [[0, 2500, 2500], [0, 2500, 52**2]]


class Walk(NamedTuple):
    params: Any
    step: Any


def test_a_course_s_measures_are_columns_where_they_are_taken_and_cost_their_time(monkeypatch):
    ticks = itertools.count()  # a second between any two looks at the clock
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)))
    monkeypatch.setattr(segments, "time", clock)
    monkeypatch.setattr(measuring, "time", clock)
    layout, steps, told = ReplicaLayout(2), [0, 1, 2, 3, 4], []

    def advance(state, count):
        size = state.params["w"] * 2.0**count
        state = Walk({"w": size}, state.step + count)
        return state, {"size": size}

    start = Walk({"w": np.array([1.0, 3.0], np.float32)}, np.zeros(2, np.int32))
    runs = run_evaluations(
        layout,
        layout.map(advance, 1),
        [start],
        steps,
        kept=Checkpoints(),
        course=course_of_weights(Measuring(("weight_movement",)), start.params, steps),
        progress=told.append,
    )
    assert told == [0.25, 0.5, 0.75, 1.0]
    assert runs.table["size"].T.tolist() == [[1, 2, 4, 8, 16], [3, 6, 12, 24, 48]]
    moved = runs.table["weight_movement/w"]
    np.testing.assert_allclose(moved, np.transpose([[0, 1, 3, np.nan, 15]] * 2), rtol=1e-6)
    assert runs.measured == ("weight_movement/w",)
    # Four measurings beside four segments, a second each.
    assert runs.cost == (0, 1.0)
    rows = runs.history(1)
    assert [row["step"] for row in rows] == steps and rows[2]["size"] == 12
    assert ["weight_movement/w" in row for row in rows] == [True, True, True, False, True]


def test_replicas_that_stopped_have_the_rows_up_to_there():
    layout = ReplicaLayout(2)
    start = Walk({"w": np.ones(2, np.float32)}, np.zeros(2, np.int32))

    def advance(state, count):
        taken = jnp.minimum(state.step + count, jnp.where(state.params["w"] > 1, 100, 2))
        return Walk(state.params, taken), {"step_at": taken}

    begun = start._replace(params={"w": np.array([1.0, 2.0], np.float32)})
    runs = run_evaluations(
        layout, layout.map(advance, 1), [begun], [0, 1, 3, 7], kept=Checkpoints()
    )
    assert runs.stopped.tolist() == [True, False] and runs.cost is None
    assert [row["step"] for row in runs.history(0)] == [0, 1]
    assert [row["step"] for row in runs.history(1)] == [0, 1, 3, 7]


def test_a_file_of_the_system_s_beside_checkpoints_is_left_alone(tmp_path):
    (tmp_path / ".DS_Store").write_text("")
    for step in (1, 2, 3):
        segments.checkpoints.save(tmp_path, step, {"w": np.full(2, step)})
    step, tree = segments.checkpoints.restore(tmp_path, {"w": np.zeros(2, int)})
    assert step == 3 and tree["w"].tolist() == [3, 3] and (tmp_path / ".DS_Store").exists()


def test_a_save_removes_steps_and_what_was_left_of_them_but_no_other_folder(tmp_path):
    others = [".git", "thesis", "step_1", "step_00000001_of_mine", "old_step_00000001"]
    for name in (*others, "step_00000001.orbax-checkpoint-tmp", "step_00000002"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "chapter.tex").write_text("mine")
    for step in (3, 4, 5):
        segments.checkpoints.save(tmp_path, step, {"w": np.full(2, step)})
    steps = ["step_00000004", "step_00000005"]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([*others, *steps])
    assert all((tmp_path / name / "chapter.tex").exists() for name in others)
