"""Filters of a ResNet: clusters and gradients block by block, claims and report."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from small_sweeps import maker

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.data.tasks import TaskData
from lsa_jax.experiments.feature_learning.filter_clouds import experiment
from lsa_jax.experiments.feature_learning.filter_clouds.settings import SETTINGS
from lsa_jax.models import Model

PLAIN = {"learning_rate": 0.5, "momentum": 0.0, "weight_decay": 0.0}
make = maker(SETTINGS, {"epochs": (1, 2), "near_share": 0.4, "sweep.seed": (3, 6)})


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_gradients_cosines_are_with_their_mean_and_with_each_other():
    gradients = np.random.default_rng(0).normal(size=(3, 6)) * [[1], [4], [0.2]]
    found = experiment.gradient_cosines(gradients)
    for i in range(3):
        assert found[f"v{i + 1}_v"] == pytest.approx(cosine(gradients[i], gradients.sum(axis=0)))
        for j in range(i + 1, 3):
            assert found[f"v{i + 1}_v{j + 1}"] == pytest.approx(cosine(gradients[i], gradients[j]))


def test_clusters_are_the_filters_nearest_to_either_direction_whatever_their_length():
    rng = np.random.default_rng(1)
    sides = np.array([0] * 7 + [1] * 9)
    filters = np.eye(5)[[0, 3]][sides] + 0.15 * rng.normal(size=(16, 5))
    filters *= rng.uniform(0.1, 10, (16, 1))
    centres, members, measures = experiment.nearest_clusters(filters, 0.25)
    unit = filters / np.linalg.norm(filters, axis=1, keepdims=True)
    means = []
    for own in members:
        (side,) = set(sides[own])
        inside = unit[sides == side].mean(axis=0)
        nearest = np.flatnonzero(sides == side)[np.argsort(-unit[sides == side] @ inside)][:4]
        assert set(own) == set(nearest)
        means.append(unit[own].mean(axis=0))
    for name, own, mean, centre in zip(("first", "second"), members, means, centres, strict=True):
        np.testing.assert_allclose(centre, mean / np.linalg.norm(mean))
        expected = np.mean([cosine(filters[i], mean) for i in own])
        assert measures[f"{name}_cosine"] == pytest.approx(expected)
    assert measures["centres_cosine"] == pytest.approx(cosine(*means))
    assert [len(own) for own in experiment.nearest_clusters(filters, 0.01)[1]] == [1, 1]


@pytest.fixture
def linear(monkeypatch):
    """A linear model of two classes whose matrix counts 1 to 4 times as the filters of a block."""
    start = np.random.default_rng(1).normal(size=(3, 2))
    model = Model(
        lambda key, shape: {"w": jnp.float32(start)},
        lambda params, x: x.reshape(len(x), -1) @ params["w"],
        None,
    )
    monkeypatch.setattr(experiment, "resnet18", lambda *sizes, scale: model)
    monkeypatch.setattr(
        experiment, "last_filters", lambda params, block: (block + 1) * params["w"][None, None]
    )
    return model, start


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 1, 1, 3)), np.eye(2)[[0, 1, 1, 0, 1]]
    return Dataset(np.float32(x), np.float32(y))


def test_mean_gradients_are_those_of_thirds_of_heavy_ball_steps(linear, data):
    model, w = linear
    # Drawn without replacement: a batch of more than there are is all of them.
    fields = {"learning_rate": 0.5, "momentum": 0.75, "weight_decay": 0.25}
    config = make(gradient_steps=6, batch_size=9, **fields)[0]
    found = experiment.mean_gradients(config, model, data)
    slopes, velocity, rows = [], 0.0, np.float64(data.inputs).reshape(5, 3)
    for _ in range(6):
        slopes.append(rows.T @ (scipy.special.softmax(rows @ w, axis=1) - data.targets) / 5)
        velocity = 0.75 * velocity + slopes[-1] + 0.25 * w
        w = w - 0.5 * velocity
    thirds = np.array([(slopes[at] + slopes[at + 1]) / 2 for at in (0, 2, 4)])
    assert len(found) == 4
    for block, gradients in enumerate(found, start=1):
        np.testing.assert_allclose(gradients, block * thirds, rtol=1e-4, atol=1e-5)


def test_gradients_are_those_of_the_training_whose_filters_are_measured(linear, data, tmp_path):
    """Of plain descent the steps of an epoch add up to the movement of the weights."""
    model, start = linear
    points = make(gradient_steps=3, batch_size=2, **PLAIN)[1]
    task = TaskData(data, data, ("cat", "dog"), None, None)
    trained, _ = experiment._train_to(points, model, task, 1, tmp_path, lambda fraction: None)
    moved = [start - np.asarray(w) for w in trained["w"]]
    assert not np.allclose(moved[0], moved[1])  # another seed has another order
    for point, own in zip(points, moved, strict=True):
        first, *_ = experiment.mean_gradients(point.config, model, data)
        np.testing.assert_allclose(0.5 * first.sum(axis=0), own, rtol=1e-4, atol=1e-6)


def test_a_run_measures_the_filters_of_every_picture(linear, data, tmp_path):
    fields = {"gradient_steps": 3, "batch_size": 2, "measures": ("weight_movement",)}
    points = make(**fields, sweep__filters=(5,), **PLAIN)[1]
    task = TaskData(data, data, ("cat", "dog"), None, None)
    outcomes = experiment.run(points, task, tmp_path, lambda fraction: None)
    trained = [
        experiment._train_to(points, linear[0], task, n, tmp_path, lambda fraction: None)[0]
        for n in (1, 2)
    ]
    for place, found in enumerate(outcomes):
        stages = [linear[1], *(np.asarray(params["w"][place], np.float64) for params in trained)]
        expected = {"test_accuracy": found.outcomes.values.mean(), "num_test": 5, "chance": 0.6}
        moved = np.linalg.norm(stages[-1] - stages[0]) / np.linalg.norm(stages[0])
        expected["weight_movement/w"] = moved
        for block in range(1, 5):
            for at in (0, 1):
                pairs = zip(stages[at].T, stages[at + 1].T, strict=True)
                turn = 1 - np.mean([cosine(u, v) for u, v in pairs])
                expected[f"block{block}_moved_{at}_{at + 1}"] = turn
            expected[f"block{block}_centres_cosine"] = cosine(*stages[-1].T)
            expected[f"block{block}_start_centres_cosine"] = cosine(*stages[0].T)
        assert {n: found.metrics[n] for n in expected} == pytest.approx(expected, abs=1e-6)
        # Gradients of table 7 are of the filter nearest to the first cluster's mean, block 4.
        gradients = experiment.mean_gradients(points[place].config, linear[0], data)[3]
        kinds = [experiment.gradient_cosines(gradients[:, :, own]) for own in (0, 1)]
        assert {name: found.metrics[name] for name in kinds[0]} in kinds


def test_images_of_two_classes_are_standardised_as_those_of_training(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [rng.uniform(size=(n, 4, 4, 3)).astype(np.float32) for n in (40, 20)]
    sets = [Dataset(x, (np.arange(len(x)) % 10).astype(np.int32)) for x in parts]
    found = ImageSet(*sets, tuple("abcdefghij"))
    monkeypatch.setattr(experiment.images, "load", lambda name, data_dir: found)
    task = experiment.load(make(data__classes=(2, 7))[1], None)
    chosen = [x[np.isin(np.arange(len(x)) % 10, (2, 7))] for x in parts]
    mean, std = chosen[0].mean(), chosen[0].std()
    for split, images in zip((task.train, task.test), chosen, strict=True):
        np.testing.assert_allclose(split.inputs, (images - mean) / std, atol=1e-4)
