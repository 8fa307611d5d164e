"""A search trains as its parts would alone, drops by its rule, and survives a kill."""

import itertools
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.resnet import search as search_module
from lsa_jax.experiments.resnet.momentum import momentum_with_decay
from lsa_jax.experiments.resnet.search import (
    Plan,
    Rung,
    Search,
    survivors,
)
from lsa_jax.training import Measuring, checkpoints, measures
from lsa_jax.training import course as measuring_module

PLAN = Plan(epochs=6, batch_size=8, eval_every=3, rungs=(Rung(2, 2),), hopeless=1e3)
GRID = {
    "learning_rate": np.array([0.01, 0.05, 0.1, 1e6], np.float32),
    "weight_decay": np.array([0.5, 0.1, 0.0, 0.0], np.float32),
}


def linear(params, inputs):
    return inputs @ params["w"]


def examples(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8, 3)).astype(np.float32)
    return Dataset(x, x @ np.array([[1.0], [-2.0], [0.5]], np.float32))


@pytest.fixture(scope="module")
def search():
    def rule(candidate):
        return momentum_with_decay(**candidate, momentum=0.9, fall_step=4, fall_factor=0.1)

    return Search(linear, rule, PLAN, num_train=8, num_test=8)


def run(search, **options):
    start = {"w": np.zeros((3, 1), np.float32)}
    return search.run(jax.random.key(0), start, examples(0), examples(1), GRID, **options)


@pytest.fixture(scope="module")
def found(search):
    return run(search)


def test_survivors_are_the_best_of_those_that_are_fine():
    errors = np.array([3.0, np.nan, 1.0, 2.0, 0.5, 1.0])
    finite = np.array([True, True, True, True, False, True])
    assert survivors(errors, finite, 2, 10.0).tolist() == [False, False, True, False, False, True]
    assert survivors(errors, finite, 9, 1.5).sum() == 2
    assert not survivors(errors, np.zeros(6, bool), 2, 10.0).any()


def test_candidates_take_the_steps_of_momentum_with_decay(found):
    x, y = examples(0)
    for place in np.flatnonzero(found.trained == 6):
        w, v = np.zeros((3, 1)), np.zeros((3, 1))
        for step in range(6):  # a batch is all examples
            rate = GRID["learning_rate"][place] * (0.1 if step >= 4 else 1)
            v = 0.9 * v + x.T @ (x @ w - y) / 8 + GRID["weight_decay"][place] * w
            w = w - rate * v
        np.testing.assert_allclose(found.params["w"][place], w, rtol=1e-4, atol=1e-5)
        error = np.mean(np.sum((x @ w - y) ** 2, axis=1))
        np.testing.assert_allclose(found.train_error[-1, place], error, rtol=1e-3)


def test_losers_and_diverged_candidates_are_dropped_at_the_rung(found):
    assert found.epochs == [2, 3, 6]
    assert sorted(found.trained.tolist()) == [2, 2, 6, 6] and found.trained[3] == 2
    assert np.isnan(found.test_error[1:, found.trained == 2]).all()
    assert found.best == np.nanargmin(found.test_error[-1])


def test_a_candidate_that_diverged_counts_no_epochs_after_that(search):
    plan = PLAN._replace(rungs=())

    def rule(candidate):
        return momentum_with_decay(**candidate, momentum=0.9, fall_step=4, fall_factor=0.1)

    grid = GRID | {"learning_rate": np.array([0.01, 0.05, 0.1, 1e30], np.float32)}
    start = {"w": np.zeros((3, 1), np.float32)}
    search = Search(linear, rule, plan, num_train=8, num_test=8)
    found = search.run(jax.random.key(0), start, examples(0), examples(1), grid)
    assert found.trained[:3].tolist() == [6, 6, 6] and found.trained[3] < 3


def test_measures_are_of_the_winner_and_change_nothing(search, found, tmp_path, monkeypatch):
    names = ("weight_movement", "kernel_distance", "target_alignment")
    measuring = Measuring(names, 8)
    again = run(search, measuring=measuring)
    for name in ("train_error", "test_error", "trained"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    np.testing.assert_array_equal(again.params["w"], found.params["w"])
    assert found.measured == [] and found.cost is None and again.cost.examples == 8
    assert [row["epoch"] for row in again.measured] == [0, 2, 6]
    # The start is 0, so that any movement is infinite; a linear network's kernel stays.
    assert [row["weight_movement/w"] for row in again.measured] == [0, np.inf, np.inf]
    x, y = examples(0)
    alignment = measures.centred_alignment(x @ x.T, y @ y.T)
    for row in again.measured:
        assert row["kernel_distance"] == pytest.approx(0, abs=1e-6)
        assert row["target_alignment"] == pytest.approx(float(alignment), rel=1e-4)
    # Dropped candidates are not measured any more, and a killed search has all measures.
    save, killed = checkpoints.save, []

    def save_and_die(*arguments):
        save(*arguments)
        killed.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "save", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        run(search, measuring=measuring, checkpoint_dir=tmp_path)
    monkeypatch.undo()
    seen = []
    measure = measures.measure
    monkeypatch.setattr(measures, "measure", lambda *a: seen.append(a) or measure(*a))
    resumed = run(search, measuring=measuring, checkpoint_dir=tmp_path)
    assert resumed.measured == again.measured and len(killed) == 1
    assert len(seen) == 2  # of the two that go on to the end


def test_measures_cost_their_share_of_the_time_of_training(search, monkeypatch):
    ticks = itertools.count(1000.0)
    clock = SimpleNamespace(monotonic=lambda: next(ticks))
    monkeypatch.setattr(search_module, "time", clock)
    monkeypatch.setattr(measuring_module, "time", clock)
    cost = run(search, measuring=Measuring(("weight_movement",), 8)).cost
    assert cost.share == 1  # one tick each: three measurements, three stretches of training


def test_a_search_that_was_killed_after_a_rung_ends_with_the_same_bits(
    search, found, tmp_path, monkeypatch
):
    save = checkpoints.save

    def save_and_die(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, "save", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        run(search, checkpoint_dir=tmp_path)
    monkeypatch.undo()
    again = run(search, checkpoint_dir=tmp_path)
    assert again.best == found.best
    np.testing.assert_array_equal(again.test_error, found.test_error)
    np.testing.assert_array_equal(again.params["w"], found.params["w"])
