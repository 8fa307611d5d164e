"""Neurons of a two-layer network: data, updates, measures of directions, claims and report."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker, swept

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning.learners import batch_rows
from lsa_jax.experiments.feature_learning.weight_clouds import experiment
from lsa_jax.experiments.feature_learning.weight_clouds.experiment import CloudState, WeightClouds
from lsa_jax.experiments.feature_learning.weight_clouds.settings import SETTINGS
from lsa_jax.reporting import files
from lsa_jax.training import make_optimizer

TINY = {
    "data.dataset": "gaussian_mixture",
    "data.d": 12,
    "data.k": 3,
    "data.num_train": 40,
    "data.num_test": 50,
    "m": 12,
    "init_std": 0.1,
    "batch_size": 8,
    "pictures": (0, 2, 5),
    "sweep.seed": (0, 1),
}
make = maker(SETTINGS, TINY)


@pytest.mark.parametrize(("variance", "expected"), [("k/d", 4 * 3 / 12), ("1/d", 4 / 12)])
def test_a_mixture_lies_around_all_signed_sums_of_its_directions(variance, expected):
    sizes = {"data__num_train": 4000, "data__sigma_r": 2.0, "data__variance": variance}
    cloud = experiment.make_mixture(make(**sizes)[0])
    centres, labels = (np.asarray(part, np.float64) for part in cloud.centres)
    assert centres.shape == (8, 12) and (np.abs(labels) == 1).all()
    # Signs that differ in one place: squared distance 4, and the other label.
    apart = np.square(centres[:, None] - centres[None]).sum(axis=2)
    assert sorted(apart[0].round(3)) == [0, 4, 4, 4, 8, 8, 8, 12]
    differs = labels[:, None] != labels[None]
    np.testing.assert_array_equal(differs, (apart.round() / 4) % 2 == 1)
    # Examples have the labels of the clusters; noise outside of their span has the variance.
    inputs, y = (np.asarray(part, np.float64) for part in cloud.train)
    assert len(cloud.test.targets) == 50
    span = np.linalg.svd(centres, full_matrices=False)[2][:3]
    found = np.square(inputs - inputs @ span.T @ span).sum() / (4000 * 9)
    assert found == pytest.approx(expected, rel=5 * (2 / 36_000) ** 0.5)
    means = [(inputs @ span.T)[y == sign].prod(axis=1).mean() for sign in (-1, 1)]
    signs = [(centres @ span.T)[labels == sign].prod(axis=1).mean() for sign in (-1, 1)]
    np.testing.assert_allclose(means, signs, atol=0.5)


def test_images_are_rows_of_mean_squared_length_one_with_signs_as_labels(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [rng.uniform(size=(n, 3, 3, 1)).astype(np.float32) for n in (30, 20)]
    sets = [Dataset(x, (np.arange(len(x)) % 3).astype(np.int32)) for x in parts]
    found = ImageSet(*sets, ("a", "b", "c"))
    monkeypatch.setattr(experiment.images, "load", lambda name, data_dir: found)
    fields = {"data__dataset": "mnist", "data__classes": (0, 2), "data__num_train": 12}
    cloud = experiment.load(make(**fields, data__num_test=5)[1], None)
    rows = [x[np.arange(len(x)) % 3 != 1].reshape(-1, 9) for x in parts]
    own = rows[0][:12].astype(np.float64)
    scale = np.sqrt(np.square(own - own.mean(axis=0)).sum(axis=1).mean())
    for split, of, count in ((cloud.train, rows[0], 12), (cloud.test, rows[1], 5)):
        np.testing.assert_allclose(split.inputs, (of[:count] - own.mean(axis=0)) / scale, atol=1e-5)
    labels = np.where(np.arange(30) % 3 == 2, 1, -1)[np.arange(30) % 3 != 1]
    np.testing.assert_array_equal(cloud.train.targets, labels[:12])


def test_measures_of_directions_are_those_of_all_pairs_and_of_the_nearest_to_each_centre():
    rng = np.random.default_rng(0)
    sides = np.eye(5)[[0, 1]]
    weights = sides[[0, 0, 0, 1, 1, 1, 1]] + 0.3 * rng.normal(size=(7, 5))
    weights *= rng.uniform(0.01, 100, (7, 1))
    signs, centres = np.array([1.0, 1, -1, -1, 1, -1, -1]), rng.normal(size=(4, 5)) + sides[0]
    config = make(clusters=2)[0]
    found = experiment.measure_directions(config, weights, signs, centres)
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    pairs = {True: [], False: []}
    for i, j in itertools.combinations(range(7), 2):
        pairs[bool(signs[i] == signs[j])].append(unit[i] @ unit[j])
    means = [unit[own].mean(axis=0) for own in (slice(0, 3), slice(3, 7))]
    means = [mean / np.linalg.norm(mean) for mean in means]
    best = [max(c @ w / np.linalg.norm(c) for w in unit) for c in centres]
    expected = {
        "same_sign_cosine": np.mean(pairs[True]),
        "opposite_sign_cosine": np.mean(pairs[False]),
        "own_centre_cosine": np.mean([unit[i] @ means[int(i >= 3)] for i in range(7)]),
        "centres_cosine": means[0] @ means[1],
        "covered": np.mean(best),
        "least_covered": min(best),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    # A centre beyond a cosine of 0.9 with its nearest neuron is not covered.
    near = experiment.measure_directions(config, weights, signs, unit[:3] + [[0], [0], [3.0]])
    assert near["share_covered"] == pytest.approx(2 / 3)
    assert "covered" not in experiment.measure_directions(config, weights, signs, centres[:0])


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_updates_are_those_of_the_heavy_ball_on_both_layers(loss):
    fields = {"m": 3, "batch_size": 4, "init_std": 0.5, "loss": loss, "learning_rate": 0.1}
    config = make(**fields, momentum=0.5)[0]
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 5)), np.sign(rng.normal(size=10))
    train = Dataset(jnp.float32(x), jnp.float32(y))
    key, model = jax.random.key(3), experiment.build_model(config, 5)
    params = model.init(jax.random.key(0), (5,))
    state = make_optimizer("momentum", 0.1, momentum=0.5).init(params)
    start = CloudState(params, state, jnp.int32(1))
    test = Dataset(train.inputs[:7], train.targets[:7])
    after, row = experiment.advance(config, 4, start, key, (train, test), jnp.int32(3))
    assert int(after.step) == 4
    order = jax.random.fold_in(key, WeightClouds.ORDER)
    rows = np.asarray(batch_rows(order, jnp.int32(1), 4, 10, 4))
    w, b = (np.float64(params["Dense_0"][name]) for name in ("weight", "bias"))
    a = np.float64(params["Dense_1"]["weight"])[:, 0]
    velocity = [0.0, 0.0, 0.0]
    for batch in rows[:3]:
        z = x[batch] @ w + b
        hidden = np.maximum(z, 0)
        margin = y[batch] * (hidden @ a)
        force = (margin < 1) if loss == "hinge" else 1 / (1 + np.exp(margin))
        force = -y[batch] * force / 4
        back = force[:, None] * a * (z > 0)
        slopes = (x[batch].T @ back, back.sum(axis=0), hidden.T @ force)
        velocity = [0.5 * v + s for v, s in zip(velocity, slopes, strict=True)]
        w, b, a = (p - 0.1 * v for p, v in zip((w, b, a), velocity, strict=True))
    np.testing.assert_allclose(after.params["Dense_0"]["weight"], w, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after.params["Dense_0"]["bias"], b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(after.params["Dense_1"]["weight"][:, 0], a, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(row["weights"].T, after.params["Dense_0"]["weight"])
    np.testing.assert_allclose(row["outputs"], a, rtol=1e-4, atol=1e-6)
    right = (np.maximum(x[:7] @ w + b, 0) @ a) * y[:7] > 0
    np.testing.assert_array_equal(row["right"], right)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    names = ("kernel_distance", "weight_movement")
    config, points = make(measures=names, measured_examples=16, sweep__init_std=(0.1, 0.5))
    folder = tmp_path_factory.mktemp("clouds") / "out"
    return config, folder, swept(config, points, folder)


def test_a_run_has_the_measures_of_its_last_step_and_its_start(finished, tmp_path):
    config, folder, results = finished
    assert (results["status"] == "ok").all() and len(results) == 4
    for row in results.to_dict("records"):
        course = [r for r in files.read_metrics(folder, row["id"]) if "step" in r]
        assert [r["step"] for r in course] == [0, 2, 5]
        assert row["silhouette"] == course[-1]["silhouette"]
        assert row["start_silhouette"] == course[0]["silhouette"]
        assert course[0]["cosine_with_start"] == pytest.approx(1)
        assert row["cosine_with_start"] < 1 - 1e-6
        assert course[0]["kernel_distance"] == pytest.approx(0, abs=1e-6)
        assert row["kernel_distance"] == course[-1]["kernel_distance"] > 1e-4
    # Without measures the numbers are the same.
    plain = experiment.run(make()[1], None, tmp_path, lambda fraction: None)
    known = results[results["init_std"] == 0.1].to_dict("records")
    for outcome, row in zip(plain, known, strict=True):
        assert outcome.metrics.items() <= row.items()
        assert outcome.outcomes.values.mean() == pytest.approx(row["test_accuracy"])
    assert plain[0].outcomes.test != plain[1].outcomes.test  # each seed draws its test set
