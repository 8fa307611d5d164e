"""Filters of a ResNet: what is measured of them, block by block."""

from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from lsa_jax import backend
from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.data.tasks import TaskData
from lsa_jax.experiments.feature_learning.filter_clouds import experiment, settings
from lsa_jax.models import Model
from lsa_jax.preflight.dry_run import DryRun
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields


def configure(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(settings.default_config(), {"epochs": (3, 20), **named})


@pytest.fixture
def network(monkeypatch):
    """Returns stages of a network with 8 filters a block, and gradients of three thirds."""
    rng = np.random.default_rng(0)
    start = [rng.normal(size=(1, 1, 5, 8)) for _ in range(4)]
    early = [s + rng.normal(size=s.shape) for s in start]
    end = [e + 0.1 * rng.normal(size=e.shape) for e in early]
    monkeypatch.setattr(experiment, "last_filters", lambda params, block: params[block])
    gradients = [rng.normal(size=(3, 5, 8)) for _ in range(4)]
    return [start, early, end], gradients


def test_directions_turn_by_one_minus_their_mean_cosine_from_picture_to_picture(network):
    stages, gradients = network
    metrics, pictures = experiment._measure(configure(), stages, gradients)
    for block in range(4):
        for (first, before), (last, after) in (
            ((0, stages[0]), (3, stages[1])),
            ((3, stages[1]), (20, stages[2])),
        ):
            a, b = (part[block].reshape(5, 8) for part in (before, after))
            cosines = [
                a[:, f] @ b[:, f] / np.linalg.norm(a[:, f]) / np.linalg.norm(b[:, f])
                for f in range(8)
            ]
            found = metrics[f"block{block + 1}_moved_{first}_{last}"]
            assert found == pytest.approx(1 - np.mean(cosines))
    assert [(row["block"], row["picture"]) for row in pictures] == [
        (block, epoch) for block in (1, 2, 3, 4) for epoch in (0, 3, 20)
    ]


def test_clusters_are_those_of_the_end(network):
    stages, gradients = network
    metrics, pictures = experiment._measure(configure(near_share=0.25), stages, gradients)
    rows = stages[2][3].reshape(5, 8).T
    _, members, measured = experiment.nearest_clusters(rows, 0.25)
    _, _, untrained = experiment.nearest_clusters(stages[0][3].reshape(5, 8).T, 0.25)
    assert metrics["block4_centres_cosine"] == measured["centres_cosine"]
    assert metrics["block4_start_centres_cosine"] == untrained["centres_cosine"]
    nearest = pictures[-1]["nearest"]
    assert sorted(np.flatnonzero(nearest == 0)) == sorted(members[0])
    assert sorted(np.flatnonzero(nearest == 1)) == sorted(members[1])
    assert (nearest == -1).sum() == 8 - len(set(members[0]) | set(members[1]))


def test_gradients_are_those_of_the_filter_nearest_to_its_cluster_s_mean(network):
    (start, early, end), gradients = network
    stages = [start, [-filters for filters in early], end]  # those of the end count alone
    metrics, _ = experiment._measure(configure(near_share=0.375), stages, gradients)
    rows = stages[2][3].reshape(5, 8).T
    centres, members, _ = experiment.nearest_clusters(rows, 0.375)
    of_mean = np.argmax([centres[0] @ row / np.linalg.norm(row) for row in rows])
    assert of_mean != members[0][0]  # which is nearest to what the clusters were found around
    own = experiment.gradient_cosines(gradients[3][:, :, of_mean])
    assert {name: metrics[name] for name in own} == own


def _cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def test_gradients_cosines_are_with_their_mean_and_with_each_other():
    gradients = np.random.default_rng(0).normal(size=(3, 6)) * [[1], [4], [0.2]]
    found = experiment.gradient_cosines(gradients)
    mean = gradients.sum(axis=0)
    for i in range(3):
        assert found[f"v{i + 1}_v"] == pytest.approx(_cosine(gradients[i], mean))
        for j in range(i + 1, 3):
            expected = _cosine(gradients[i], gradients[j])
            assert found[f"v{i + 1}_v{j + 1}"] == pytest.approx(expected)
    assert len(found) == 6


def test_clusters_are_the_filters_nearest_to_either_direction_whatever_their_length():
    rng = np.random.default_rng(1)
    ways = np.eye(5)[[0, 3]]
    sides = np.array([0] * 7 + [1] * 9)
    filters = ways[sides] + 0.15 * rng.normal(size=(16, 5))
    filters *= rng.uniform(0.1, 10, (16, 1))
    centres, members, measures = experiment.nearest_clusters(filters, 0.25)
    assert [len(own) for own in members] == [4, 4]
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
        expected = np.mean([_cosine(filters[i], mean) for i in own])
        assert measures[f"{name}_cosine"] == pytest.approx(expected)
    assert measures["centres_cosine"] == pytest.approx(_cosine(*means))
    assert [len(own) for own in experiment.nearest_clusters(filters, 0.01)[1]] == [1, 1]


def test_images_of_two_classes_are_standardised_as_those_of_training(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [rng.uniform(size=(n, 4, 4, 3)).astype(np.float32) for n in (40, 20)]
    sets = [Dataset(x, (np.arange(len(x)) % 10).astype(np.int32)) for x in parts]
    found = ImageSet(*sets, tuple("abcdefghij"))
    monkeypatch.setattr(experiment.images, "load", lambda name, data_dir: found)
    config = configure(data__classes=(2, 7), data__num_train=None, data__num_test=None)
    task = experiment.load([Point("", {}, config)], None)
    chosen = [x[np.isin(np.arange(len(x)) % 10, (2, 7))] for x in parts]
    mean, std = chosen[0].mean(), chosen[0].std()
    for split, images in zip((task.train, task.test), chosen, strict=True):
        np.testing.assert_allclose(split.inputs, (images - mean) / std, atol=1e-4)


def test_networks_are_measured_at_the_start_and_after_each_training(monkeypatch):
    """Parameters are the epoch a network stands at; each training tells half of what it does."""
    told, measured = [], []
    train = Dataset(np.zeros((5, 4, 4, 3)), np.zeros(5))
    data = SimpleNamespace(train=train, test=Dataset(np.zeros((2, 4, 4, 3)), np.eye(2)))
    rows = [
        {"epoch": 20, "train_accuracy": np.array([0.7, 0.8]), "test_accuracy": np.array([0.5, 0.6])}
    ]

    def train_to(group, model, data, epochs, directory, progress):
        progress(0.5)
        history = SimpleNamespace(rows=rows, failures={1: "lost"}, measured=None)
        return np.array([epochs, -epochs]), history

    def measure(config, stages, gradients):
        measured.append([int(stage) for stage in stages])
        return {"x": 1.0}, []

    def init(key, shape):
        assert shape == (4, 4, 3)
        return np.array(0)

    monkeypatch.setattr(experiment, "resnet18", lambda *sizes, **scale: SimpleNamespace(init=init))
    monkeypatch.setattr(experiment, "_train_to", train_to)
    monkeypatch.setattr(experiment, "mean_gradients", lambda *given: [])
    monkeypatch.setattr(experiment, "_measure", measure)
    group = [Point("", {}, configure(seed=seed)) for seed in (4, 5)]
    # Types are those of stand-ins.
    run = getattr(experiment.run, "__wrapped__", experiment.run)
    fine, lost = run(group, data, Path("out"), told.append)
    assert told == pytest.approx([1.5 / 24, 13 / 24])  # of 3 and 20 epochs, and of measuring
    assert measured == [[0, 3, 20]]
    assert fine.metrics == {
        **{"filters": configure().filters, "seed": 4, "x": 1.0, "num_test": 2, "chance": 0.5},
        **{"train_accuracy": 0.7, "test_accuracy": 0.5},
    }
    assert (lost.status, lost.message, lost.metrics["seed"]) == ("failed", "lost", 5)
    (alone,) = run(group[:1], data, Path("out"), told.append)
    assert alone.metrics == fine.metrics


def test_networks_of_a_width_are_trained_from_the_start_by_seed(monkeypatch):
    given = []
    monkeypatch.setattr(
        experiment.training, "train", lambda *first, **named: given.append((first, named))
    )
    splits = [Dataset(np.zeros((n, 2)), np.zeros((n, 2))) for n in (5, 3)]
    points = [Point("", {}, configure(seed=seed, batch_size=4)) for seed in (4, 6, 9)]
    points[2].config.filters = 3
    assert experiment.groups(points) == [points[:2], points[2:]]
    train = getattr(experiment._train_to, "__wrapped__", experiment._train_to)
    data = SimpleNamespace(train=splits[0], test=splits[1])
    train(points[:2], "model", data, 7, Path("out"), print)
    (((keys, model, source, *_), named),) = given
    assert (model, source) == ("model", splits[0]) and named["progress"] is print
    found = [tuple(jax.random.key_data(key).tolist()) for key in keys]
    runs = [jax.random.fold_in(jax.random.key(seed), 0) for seed in (4, 6)]
    assert found == [tuple(jax.random.key_data(key).tolist()) for key in runs]
    assert (named["epochs"], named["batch_size"]) == (7, 4)
    assert named["checkpoints"].directory == Path("out/epochs_7")
    assert named["evaluation"].test is splits[1] and named["evaluation"].batch_size == 4


@pytest.fixture
def linear(monkeypatch):
    """A linear model of two classes, whose matrix counts 1 to 4 times as the filters of a block."""
    monkeypatch.setattr(
        experiment, "last_filters", lambda slope, block: (block + 1) * slope["w"][None, None]
    )
    start = np.random.default_rng(1).normal(size=(3, 2))
    seen = []

    def apply(params, x):
        seen.append(len(x))
        return x.reshape(len(x), -1) @ params["w"]

    return Model(lambda key, shape: {"w": jnp.float32(start)}, apply, None), start, seen


def test_mean_gradients_are_those_of_thirds_of_heavy_ball_steps(linear):
    model, w, _ = linear
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(5, 1, 1, 3)), np.eye(2)[rng.integers(0, 2, 5)]
    # Drawn without replacement: a batch of more than there are is all of them.
    config = configure(
        gradient_steps=6, batch_size=9, learning_rate=0.5, momentum=0.75, weight_decay=0.25
    )
    found = experiment.mean_gradients(config, model, Dataset(np.float32(x), np.float32(y)))
    slopes, velocity = [], 0.0
    for _ in range(6):
        rows = x.reshape(5, 3)
        slopes.append(rows.T @ (scipy.special.softmax(rows @ w, axis=1) - y) / 5)
        velocity = 0.75 * velocity + slopes[-1] + 0.25 * w
        w = w - 0.5 * velocity
    thirds = [(slopes[at] + slopes[at + 1]) / 2 for at in (0, 2, 4)]
    assert len(found) == 4
    for block, gradients in enumerate(found, start=1):
        np.testing.assert_allclose(gradients, block * np.array(thirds), rtol=1e-4, atol=1e-5)


def test_a_preflight_counts_as_many_steps_as_gradients_are_taken(linear):
    model, *_ = linear
    data = Dataset(np.ones((5, 1, 1, 3), np.float32), np.eye(2, dtype=np.float32)[[0, 1, 1, 0, 1]])
    recorder = DryRun(without_data=True)
    with backend.noted_by(recorder):
        experiment.mean_gradients(configure(gradient_steps=6, batch_size=5), model, data)
    assert [calls for _, calls in recorder.found] == [6]


def test_gradients_are_those_of_the_training_whose_filters_are_measured(linear, tmp_path):
    """Of plain descent the steps of an epoch add up to what its training moves the weights by."""
    model, start, seen = linear
    rng = np.random.default_rng(2)
    x, y = np.float32(rng.normal(size=(5, 1, 1, 3))), np.eye(2, dtype=np.float32)[[0, 1, 1, 0, 1]]
    data = Dataset(x, y)
    plain = {"learning_rate": 0.5, "momentum": 0.0, "weight_decay": 0.0, "seed": 3}
    config = configure(gradient_steps=3, batch_size=2, **plain)
    first, *_ = experiment.mean_gradients(config, model, data)
    assert seen == [2, 1]  # three batches, of which the last is one example, in two programs
    task = TaskData(data, data, ("cat", "dog"), None, None)
    trained, _ = experiment._train_to(
        [Point("", {}, config)], model, task, 1, tmp_path, lambda fraction: None
    )
    moved = start - np.asarray(trained["w"][0])
    np.testing.assert_allclose(0.5 * first.sum(axis=0), moved, rtol=1e-4, atol=1e-6)
    # Another seed has another order.
    other, *_ = experiment.mean_gradients(
        configure(**{**plain, "seed": 6}, gradient_steps=3, batch_size=2), model, data
    )
    assert not np.allclose(other[0], first[0])
