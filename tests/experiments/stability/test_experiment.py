"""Pairs that differ in one example: equal samples give equal models, killed runs the same bits."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.stability import experiment, samples
from lsa_jax.experiments.stability.experiment import EXPERIMENT
from lsa_jax.models import BatchNorm, Conv, Dense, GlobalAvgPool, Relu, network

NETWORK = {
    "learner": "resnet",
    "sweep.learner": ("resnet",),
    "training.momentum": 0.9,
    "stops": (3, 5),
    "checkpoint_every": 2,
    "connectivity.sizes": (12,),
    "connectivity.num_alphas": 7,
    "measures": ("weight_movement",),
}


def images(n, seed):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (n, 4, 4, 1)).astype(np.float32) / 255
    return Dataset(pixels, rng.integers(0, 4, n).astype(np.int32))


@pytest.fixture(autouse=True)
def small_problem(monkeypatch):
    """Few images, a network that compiles in a moment, and equal samples in the second pair."""
    found = ImageSet(images(30, 0), images(9, 1), ("a", "b", "c", "d"))
    monkeypatch.setattr(samples.images, "load", lambda name, data_dir: found)
    layers = [Conv(2), BatchNorm(), Relu(), GlobalAvgPool(), Dense(4)]
    model = network(layers, parameterization="standard")
    monkeypatch.setattr(experiment.networks, "cifar_resnet", lambda *sizes, **channels: model)

    draw_pair = samples.draw_pair

    def draw(seed, m, pair, **sizes):
        drawn = draw_pair(seed, m, pair, **sizes)
        return drawn if pair == 0 else drawn._replace(rows=drawn.rows[jnp.array([0, 0])])

    monkeypatch.setattr(samples, "draw_pair", draw)


def train(points, directory):
    return EXPERIMENT.run(points, EXPERIMENT.load(points, None), directory, print)


def test_equal_samples_give_distance_zero_and_a_killed_run_the_same_bits(make, tmp_path, saved):
    _, points = make()
    once = train(points, tmp_path / "once")
    assert once[0].metrics["distance"] > 0 and once[0].metrics["stability"] > 0
    assert once[1].metrics["distance"] == 0 and once[1].metrics["stability"] == 0
    assert keep_their_answers(once)
    saved.fatal = ("twice", 3)
    with pytest.raises(KeyboardInterrupt):
        train(points, tmp_path / "twice")
    for one, again in zip(once, train(points, tmp_path / "twice"), strict=True):
        assert (one.metrics, one.history) == (again.metrics, again.history)
        np.testing.assert_array_equal(one.outcomes.values, again.outcomes.values)
    assert saved[-3:] == [("twice", 3), ("twice", 6), ("twice", 8)]


def keep_their_answers(outcomes):
    """Whether runs keep an answer a test example, of one test set, with their test error."""
    shapes = {(len(one.outcomes.values), str(one.outcomes.values.dtype)) for one in outcomes}
    errors = [1 - one.outcomes.values.mean() for one in outcomes]
    return (
        len({one.outcomes.test for one in outcomes}) == 1
        and shapes == {(9, "bool")}
        and errors
        == pytest.approx(
            [o.metrics.get("test_error", e) for o, e in zip(outcomes, errors, strict=True)]
        )
    )


def test_influence_keeps_the_answers_of_the_model_on_all_of_s(make, tmp_path):
    assert keep_their_answers(train(make(question="influence", influence__removed=3)[1], tmp_path))


def test_networks_of_equal_samples_are_equal_and_those_on_s_are_measured(make, tmp_path):
    points = make(**NETWORK)[1]
    different, equal = train(points, tmp_path)
    assert different.status == "ok" and different.metrics["distance"] > 0
    assert equal.metrics["distance"] == 0 and equal.metrics["stability"] == 0
    assert keep_their_answers([different, equal])
    path = {row["alpha"]: row for row in different.history if "alpha" in row}
    assert sorted(path) == [-1, -0.5, 0, 0.5, 1, 1.5, 2]
    for split in ("train", "test"):
        end = 1 - different.metrics[f"{split}_error"]
        np.testing.assert_allclose(path[1][f"{split}_accuracy"], end, rtol=1e-6)
    # Weights are measured at the stops; at the end those of the model on S.
    course = [row for row in different.history if "weight_movement/Conv_0" in row]
    moved = [row["weight_movement/Conv_0"] for row in course]
    assert [row["step"] for row in course] == [0, 2, 4, 5]
    assert moved[0] == 0 and all(np.diff(moved) > 0)
    (data,) = EXPERIMENT.load(points, None).values()
    run = experiment._Training(points, data)
    models, start = run.start, run.layout.gather(run.start).params["Conv_0"]["weight"][0]
    for step, count in ((0, 2), (2, 1), (3, 1), (4, 1)):
        models = run.advance(models, step, count)
    now = run.layout.gather(models).params["Conv_0"]["weight"][0]
    sizes = [np.linalg.norm(now[i] - start[i]) / np.linalg.norm(start[i]) for i in (0, 1)]
    assert moved[-1] == pytest.approx(sizes[0], rel=1e-5) != pytest.approx(sizes[1], rel=1e-5)


def test_a_run_whose_loss_is_not_finite_has_failed(make, tmp_path):
    points = make(training__learning_rate=1e30, learner="linear_regression")[1]
    for outcome in train(points, tmp_path):
        assert outcome.status == "failed" and "within 3 updates" in outcome.message
        assert outcome.outcomes is None


def test_pairs_of_one_size_are_replicas(make):
    points = make(sweep__m=(12, 15), sweep__num_pairs=5, max_replicas=2)[1]
    sizes = [[(p.config.m, p.config.pair) for p in group] for group in EXPERIMENT.groups(points)]
    parts = ((0, 1), (2, 3), (4,))
    assert sizes == [[(m, pair) for pair in part] for m in (12, 15) for part in parts]
