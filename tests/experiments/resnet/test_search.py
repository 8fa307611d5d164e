"""A search trains as plain momentum would, drops by its rule, and survives a kill."""

import jax
import numpy as np
import pytest

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.resnet.search import Plan, Search, survivors
from lsa_jax.training import Measuring, measures

SIZES = {"num_train": 8, "num_test": 8, "batch_size": 8, "momentum": 0.9, "fall_epoch": 4}
PLAN = Plan(**SIZES, epochs=6, eval_every=3, rungs={2: 2}, hopeless=1e3)
GRID = {
    "learning_rate": np.array([0.01, 0.05, 0.1, 1e6]),
    "weight_decay": np.array([0.5, 0.1, 0.0, 0.0]),
}


def examples(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(8, 3)).astype(np.float32)
    return Dataset(x, x @ np.array([[1.0], [-2.0], [0.5]], np.float32))


@pytest.fixture(scope="module")
def search():
    return Search(lambda params, inputs: inputs @ params["w"], PLAN)


def run(search, grid=GRID, **options):
    start = {"w": np.zeros((3, 1), np.float32)}
    return search.run(jax.random.key(0), start, examples(0), examples(1), grid, **options)


@pytest.fixture(scope="module")
def found(search):
    return run(search)


def test_survivors_are_the_best_of_the_finite_ones():
    errors = np.array([3.0, np.nan, 1.0, 2.0, 0.5, 1.0])
    finite = np.array([True, True, True, True, False, True])
    assert survivors(errors, finite, 2, 10.0).tolist() == [False, False, True, False, False, True]
    assert survivors(errors, finite, 9, 1.5).sum() == 2
    assert not survivors(errors, np.zeros(6, bool), 2, 10.0).any()


def test_candidates_take_the_steps_of_momentum_with_decay(search, found):
    x, y = examples(0)
    for place in np.flatnonzero(found.trained == 6):
        w, v = np.zeros((3, 1)), np.zeros((3, 1))
        for step in range(6):  # a batch is all examples
            rate = GRID["learning_rate"][place] * (0.1 if step >= 4 else 1)
            v = 0.9 * v + x.T @ (x @ w - y) / 8 + GRID["weight_decay"][place] * w
            w = w - rate * v
        np.testing.assert_allclose(found.params["w"][place], w, rtol=1e-4, atol=1e-5)
        for errors, (own_x, own_y) in (
            (found.train_error, (x, y)),
            (found.test_error, examples(1)),
        ):
            squares = np.sum((own_x @ w - own_y) ** 2, axis=1)
            np.testing.assert_allclose(errors[-1, place], squares.mean(), rtol=1e-3)
        distances = search.distances(found, int(place), examples(1))
        np.testing.assert_allclose(distances, squares, rtol=1e-3, atol=1e-6)


def test_losers_and_diverged_candidates_are_dropped_at_the_rung(found):
    assert found.epochs == [2, 3, 6]
    assert sorted(found.trained.tolist()) == [2, 2, 6, 6] and found.trained[3] == 2
    assert np.isnan(found.test_error[1:, found.trained == 2]).all()
    assert found.best == np.nanargmin(found.test_error[-1])


def test_a_candidate_that_diverged_counts_no_epochs_after_that():
    grid = GRID | {"learning_rate": np.array([0.01, 0.05, 0.1, 1e30])}
    found = run(Search(lambda p, x: x @ p["w"], PLAN._replace(rungs={})), grid)
    assert found.trained[:3].tolist() == [6, 6, 6] and found.trained[3] < 3


def affine(grid, plan, targets=(1.0, 1.0), **options):
    """Returns a search from w = b = 0 on equal examples: any batch has the same gradient."""
    search = Search(lambda p, x: x @ p["w"] + p["b"], plan, **options)
    data, test = (
        Dataset(np.ones((n, 1), np.float32), np.full((n, 1), target, np.float32))
        for n, target in zip((plan.num_train, plan.num_test), targets, strict=True)
    )
    columns = dict(zip(GRID, np.array(grid).T, strict=True))
    start = {name: np.zeros((1, 1), np.float32) for name in "wb"}
    return search.run(jax.random.key(0), start, data, test, columns)


@pytest.mark.parametrize(("num_train", "steps"), [(10, 3), (8, 2)])
def test_the_rate_falls_to_a_tenth_after_so_many_whole_epochs(num_train, steps):
    """An epoch of 10 examples in batches of 4 has three steps, the last of which is smaller."""
    plan = PLAN._replace(num_train=num_train, batch_size=4, momentum=0.5, fall_epoch=2, epochs=4)
    plan, grid = plan._replace(eval_every=1, rungs={}), [(0.3, 0.0), (0.1, 0.5)]
    found = affine(grid, plan, frozen=("b",))
    for place, (rate, decay) in enumerate(grid):
        w, v, errors = 0.0, 0.0, []
        for step in range(4 * steps):
            v = 0.5 * v + (w - 1) + decay * w
            w -= (rate if step < 2 * steps else rate / 10) * v
            errors.append((w - 1) ** 2)
        expected = errors[steps - 1 :: steps]
        np.testing.assert_allclose(found.test_error[:, place], expected, rtol=1e-3, atol=1e-7)
        np.testing.assert_allclose(found.params["w"][place], [[w]], rtol=1e-4)


def test_frozen_parameters_stay_and_batches_are_fetched():
    plan = PLAN._replace(epochs=1, eval_every=1, rungs={})

    def doubled(data, replica, index, epoch):
        return Dataset(2 * data.inputs[index], data.targets[index])

    for options, moved in (
        ({"frozen": ("b",)}, (0.1, 0.0)),
        ({}, (0.1, 0.1)),
        ({"fetch": doubled}, (0.2, 0.1)),
    ):
        params = affine([(0.1, 0.0)], plan, **options).params
        assert (params["w"].item(), params["b"].item()) == pytest.approx(moved)


def test_rungs_and_the_winner_are_decided_by_the_test_error_of_their_epoch():
    """w after t steps is 1 - (1 - rate)^t; 1/2 is best on test examples, 1 on training examples."""
    rates = np.array([0.05, 0.12, 0.3, 0.9])
    plan = PLAN._replace(momentum=0.0, fall_epoch=100)
    found = affine([(rate, 0.0) for rate in rates], plan, targets=(1.0, 0.5), frozen=("b",))
    after = {t: 1 - (1 - rates) ** t for t in (2, 3, 6)}
    distance = {t: np.abs(w - 0.5) for t, w in after.items()}
    assert [int(np.argmin(distance[t])) for t in (2, 3, 6)] == [2, 2, 1]
    assert found.trained.tolist() == [2, 6, 6, 2] and found.best == 1
    for place, t in enumerate((2, 3, 6)):
        np.testing.assert_allclose(found.test_error[place, 1:3], distance[t][1:3] ** 2, atol=1e-5)
        expected = (after[t][1:3] - 1) ** 2
        np.testing.assert_allclose(found.train_error[place, 1:3], expected, atol=1e-5)


def test_measures_are_of_the_winner_and_change_nothing(search, found, tmp_path, saved, monkeypatch):
    measuring = Measuring(("weight_movement", "kernel_distance", "target_alignment"), 8)
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
    # Dropped candidates are no longer measured, and a killed search has all measures.
    saved.fatal = (tmp_path.name, 1)
    with pytest.raises(KeyboardInterrupt):
        run(search, measuring=measuring, checkpoint_dir=tmp_path)
    seen, measure = [], measures.measure
    monkeypatch.setattr(measures, "measure", lambda *a: seen.append(a) or measure(*a))
    resumed = run(search, measuring=measuring, checkpoint_dir=tmp_path)
    assert resumed.measured == again.measured and len(seen) == 2
    assert resumed.best == found.best and [mark for _, mark in saved] == [1, 3]
    np.testing.assert_array_equal(resumed.test_error, found.test_error)
    np.testing.assert_array_equal(resumed.params["w"], found.params["w"])
