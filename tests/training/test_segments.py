"""Segments resume where they were killed, end where nothing is left, and refuse other runs."""

import re
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import DamageWarning, InputError
from lsa_jax.models.model import Model
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.training import LOSSES, Checkpoints, Evaluation, checkpoints, train
from lsa_jax.training.course import Measuring, course_of_weights
from lsa_jax.training.growth import Operator, grow_and_select
from lsa_jax.training.losses import is_correct
from lsa_jax.training.segments import kept_if, run_evaluations, run_segments
from lsa_jax.training.steps import NetworkState, Problem

MARKS = (3, 5, 9)


def doubled(kept, *, dies_in=None, trained=None, marks=MARKS, **options):
    """Doubles a number in each segment, and keeps all its values."""
    table = np.zeros(len(marks))

    def advance(state, segment):
        if segment == dies_in:
            raise KeyboardInterrupt
        if trained is not None:
            trained.append(segment)
        table[segment] = 2 * state[0]
        return 2 * state

    state, done, _ = run_segments(np.ones(1), table, marks, advance, kept=kept, **options)
    return float(state[0]), table.tolist(), done


@pytest.mark.parametrize("every, again", [(1, [2]), (2, [2]), (3, [0, 1, 2])])
def test_a_killed_run_does_again_only_what_was_not_saved(tmp_path, every, again):
    kept, trained = Checkpoints(tmp_path, every), []
    with pytest.raises(KeyboardInterrupt):
        doubled(kept, dies_in=2)
    for _ in range(2):  # the second time all is done
        assert doubled(kept, trained=trained) == (8.0, [2.0, 4.0, 8.0], 3)
        assert trained == again


def test_checkpoints_of_other_data_or_of_other_segments_are_refused(tmp_path):
    doubled(Checkpoints(tmp_path), identity=lambda: {"data": 1})
    with pytest.raises(InputError, match="of other data"):
        doubled(Checkpoints(tmp_path), identity=lambda: {"data": 2})
    with pytest.raises(InputError, match="of step 9"):
        doubled(Checkpoints(tmp_path), marks=(3, 5, 8), identity=lambda: {"data": 1})


def test_a_save_removes_earlier_steps_and_nothing_else(tmp_path):
    others = ["thesis.tex", "step_1.npz", "step_00000001_of_mine.npz", "old_step_00000001.npz"]
    (tmp_path / "step_00000001.npz").mkdir()
    for name in (*others, ".step_00000003.npz.partial", "step_00000002.npz"):
        (tmp_path / name).write_text("mine")
    for step in (3, 4, 5):
        checkpoints.save(tmp_path, step, {"w": np.full(2, step)})
    kept = [*others, *(f"step_0000000{step}.npz" for step in (1, 4, 5))]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(kept)
    step, tree = checkpoints.restore(tmp_path, {"w": np.zeros(2, int)})
    assert step == 5 and tree["w"].tolist() == [5, 5]
    with pytest.raises(InputError, match=r"int64\[2\].*int64\[3\]"):
        checkpoints.restore(tmp_path, {"w": np.zeros(3, int)})


def test_no_flipped_bit_of_a_checkpoint_changes_the_run(tmp_path):
    half = jnp.array([[0.1, -2.0]], jnp.bfloat16)
    tree = {"half": half, "none": np.zeros((0, 3)), "number": np.float64(0.1), "on": np.array(True)}
    checkpoints.save(tmp_path, 1, tree)
    (path,) = tmp_path.iterdir()
    whole, noticed = path.read_bytes(), 0
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            found = checkpoints.restore(tmp_path, tree)
        noticed += found is None
        assert (found is None) == any(one.category is DamageWarning for one in said)
        if found is not None:  # a byte that nothing depends on, such as of the date
            for name, value in tree.items():
                assert found[1][name].dtype == value.dtype
                np.testing.assert_array_equal(found[1][name], value)
    assert noticed > len(whole) / 5 / 2


class Walk(NamedTuple):
    params: Any
    step: Any


START = Walk({"w": np.array([1.0, 3.0], np.float32)}, np.zeros(2, np.int32))
STEPS = [0, 1, 3, 4, 7]


def walk(start=START, **settings):
    """Doubles a number in each step; the first replica stops after 2 steps."""
    layout = ReplicaLayout(2)

    def advance(state, limit, count):
        def take(_, state):
            after = Walk({"w": 2 * state.params["w"]}, state.step + 1)
            return kept_if(state.step < limit, after, state)

        state = jax.lax.fori_loop(0, count, take, state)
        return state, {"size": state.params["w"]}

    program, limits = layout.map(advance, 2), layout.spread(jnp.array([2, 100]))
    stages = start if isinstance(start, list) else [start]
    settings = {"kept": Checkpoints()} | settings
    return run_evaluations(layout, lambda s, n: program(s, limits, n), stages, STEPS, **settings)


def test_evaluations_and_measures_are_those_after_the_steps_of_each_replica():
    course, reported = course_of_weights(Measuring(("weight_movement",)), START.params, STEPS), []
    runs = walk(course=course, progress=reported.append)
    assert runs.table["size"].T.tolist() == [[1, 2, 4, 4, 4], [3, 6, 24, 48, 384]]
    assert runs.state.step.tolist() == [2, 7] and runs.last == 4
    assert runs.stopped.tolist() == [True, False] and reported == [1 / 7, 3 / 7, 4 / 7, 1]
    moved = [[0, 1, 3, 3, 3], [0, 1, 7, 15, 127]]
    np.testing.assert_allclose(runs.table["weight_movement/w"].T, moved, rtol=1e-6)
    assert runs.measured == ("weight_movement/w",)
    assert runs.cost.examples == 0 and runs.cost.share > 0
    assert [row["step"] for row in runs.history(0)] == [0, 1]
    assert [row["size"] for row in runs.history(1)] == [3, 6, 24, 48, 384]


INPUTS = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
DATA = Dataset(INPUTS, np.eye(3, dtype=np.float32)[np.arange(12) % 3])
OTHER = DATA._replace(targets=DATA.targets[::-1].copy())


def network(start=0.1, scale=1.0):
    def init(key, input_shape):
        return {"weight": start + jax.random.normal(key, (5, 3)), "shift": jnp.zeros((1, 3))}

    return Model(init, lambda p, x: scale * (x @ p["weight"]) + p["shift"], None)


SETTINGS = {
    "key": jax.random.split(jax.random.key(0), 2),
    "model": network(),
    "data": DATA,
    "loss": LOSSES["softmax_cross_entropy"],
    "optimizer": lambda rate: optax.sgd(rate),
    "replicas": jnp.array([0.1, 0.2]),
    "epochs": 2,
    "batch_size": 4,
    "evaluation": Evaluation(DATA, every=10),
}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    directory = tmp_path_factory.mktemp("kept")
    train(**SETTINGS, checkpoints=Checkpoints(directory))
    return directory


def wrong(outputs, targets):
    return 1 - is_correct(outputs, targets)


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ("keys", {"key": jax.random.split(jax.random.key(1), 2)}),
        ("replicas", {"replicas": jnp.array([0.1, 0.3])}),
        ("array", {"epochs": 3}),
        ("frozen parameters", {"frozen": ("shift",)}),
        ("batch size", {"batch_size": 6}),
        ("training examples", {"data": OTHER}),
        ("test examples", {"evaluation": Evaluation(OTHER, every=10)}),
        ("initial parameters", {"model": network(start=1.1)}),
        ("model, loss or optimiser", {"model": network(scale=2.0)}),
        ("model, loss or optimiser", {"loss": LOSSES["squared_error"]}),
        ("model, loss or optimiser", {"optimizer": lambda rate: optax.sgd(2 * rate)}),
        ("evaluation", {"evaluation": Evaluation(DATA, {"accuracy": wrong}, 10)}),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_and_the_difference_named(kept, named, given):
    with pytest.raises(InputError) as refused:
        train(**SETTINGS | given, checkpoints=Checkpoints(kept))
    names = re.search("of other (.*) than this run's|its array", str(refused.value))
    assert named in names[0]
    if named in ("keys", "replicas", "test examples"):  # others change the program, too
        assert names[1] == named


def chain_loss(params, batch):
    errors = 0.5 * jnp.square(batch * jnp.prod(params["layers"]["w"]) - 1)
    return errors.sum(), jnp.float32(len(errors))


def grown(directory, rate=0.01, loss=chain_loss, first=1.0, validation=2.0, scale=1.0, **given):
    def batches(start, count):
        return np.full((count, 4), first, np.float32)

    problem = Problem(loss, optax.adam(rate), batches, np.full((1, 4), validation, np.float32))
    params = {"layers": {"w": scale * jnp.array([2.0, 0.5])}}
    fresh = {"layers": {"w": jnp.full(3, 0.1)}}
    state = NetworkState(params, problem.optimizer.init(params))
    given = {"operators": [Operator(1, 1, "copy")], "window": 2} | given
    return grow_and_select(problem, state, fresh, steps=2, directory=directory, **given)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    directory = tmp_path_factory.mktemp("searched")
    first = grown(directory)
    assert grown(directory).scores == first.scores
    return directory


@pytest.mark.parametrize(
    ("named", "given"),
    [
        ("networks at the start", {"operators": [Operator(1, 1, "random")]}),
        ("networks at the start", {"scale": 0.5}),
        ("steps", {"first_step": 1}),
        ("optimiser", {"rate": 0.02}),
        ("loss", {"loss": lambda params, batch: (2 * chain_loss(params, batch)[0], 4.0)}),
        ("data", {"first": 3.0}),
        ("data", {"validation": 3.0}),
    ],
)
def test_a_search_is_not_answered_with_the_losses_of_another(searched, named, given):
    with pytest.raises(InputError, match=f"of other {named} than this run's"):
        grown(searched, **given)


@pytest.mark.usefixtures("unchecked")
def test_a_run_that_ends_early_is_saved_where_it_ends(tmp_path):
    settings = {"going": lambda state, segment: state[0] < 4}
    for trained in ([0, 1], []):  # the second time nothing is left
        again = []
        assert doubled(Checkpoints(str(tmp_path), 5), trained=again, **settings)[0] == 4
        assert again == trained
