"""Neurons of a two-layer network: data, updates and what is measured of directions, by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning.learning.training import batch_rows
from lsa_jax.experiments.feature_learning.weight_clouds import experiment, settings
from lsa_jax.experiments.feature_learning.weight_clouds.experiment import Cloud, CloudState
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields

MIXTURE = {"data.dataset": "gaussian_mixture", "data.d": 12, "data.k": 3, "clusters": 2}


def configure(**fields):
    return set_fields(settings.default_config(), MIXTURE | fields)


@pytest.mark.parametrize(("variance", "expected"), [("k/d", 4 * 3 / 12), ("1/d", 4 / 12)])
def test_a_mixture_lies_around_all_signed_sums_of_its_directions(variance, expected):
    sizes = {"data.num_train": 4000, "data.num_test": 400, "data.sigma_r": 2.0}
    cloud = experiment.make_mixture(configure(**sizes, **{"data.variance": variance}))
    centres, labels = (np.asarray(part, np.float64) for part in cloud.centres)
    assert centres.shape == (8, 12) and (np.abs(labels) == 1).all()
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 3**0.5, rtol=1e-5)
    # Signs that differ in one place: squared distance 4, and the other label.
    apart = np.square(centres[:, None] - centres[None]).sum(axis=2)
    assert sorted(apart[0].round(3)) == [0, 4, 4, 4, 8, 8, 8, 12]
    differs = labels[:, None] != labels[None]
    np.testing.assert_array_equal(differs, (apart.round() / 4) % 2 == 1)
    inputs, y = (np.asarray(part, np.float64) for part in cloud.train)
    assert len(inputs) == 4000 and len(cloud.test.targets) == 400
    # Examples have the labels of the clusters; noise outside of their span has the variance.
    span = np.linalg.svd(centres, full_matrices=False)[2][:3]
    outside = inputs - inputs @ span.T @ span
    found = np.square(outside).sum() / (4000 * 9)
    assert found == pytest.approx(expected, rel=5 * (2 / 36_000) ** 0.5)
    by_label = [np.square(inputs[y == sign] @ span.T).sum(axis=1).mean() for sign in (-1, 1)]
    np.testing.assert_allclose(by_label, 3 + 3 * expected, rtol=0.1)
    means = [(inputs @ span.T)[y == sign].prod(axis=1).mean() for sign in (-1, 1)]
    signs = [(centres @ span.T)[labels == sign].prod(axis=1).mean() for sign in (-1, 1)]
    np.testing.assert_allclose(means, signs, atol=0.5)


def test_images_are_rows_of_mean_squared_length_one_with_signs_as_labels(monkeypatch):
    rng = np.random.default_rng(0)
    parts = [rng.uniform(size=(n, 3, 3, 1)).astype(np.float32) for n in (30, 20)]
    sets = [Dataset(x, (np.arange(len(x)) % 3).astype(np.int32)) for x in parts]
    monkeypatch.setattr(
        experiment.images, "load", lambda name, data_dir: ImageSet(*sets, ("a", "b", "c"))
    )
    fields = {"data.dataset": "mnist", "data.classes": (0, 2), "data.num_train": 12}
    config = set_fields(settings.default_config(), fields | {"data.num_test": 5})
    cloud = experiment.load([Point("", {}, config)], None)
    rows = [x[np.arange(len(x)) % 3 != 1].reshape(-1, 9) for x in parts]
    own = rows[0][:12].astype(np.float64)
    mean = own.mean(axis=0)
    scale = np.sqrt(np.square(own - mean).sum(axis=1).mean())
    for split, of, count in ((cloud.train, rows[0], 12), (cloud.test, rows[1], 5)):
        np.testing.assert_allclose(split.inputs, (of[:count] - mean) / scale, atol=1e-5)
    labels = np.where(np.arange(30) % 3 == 2, 1, -1)[np.arange(30) % 3 != 1]
    np.testing.assert_array_equal(cloud.train.targets, labels[:12])
    assert len(cloud.centres.targets) == 0


def test_measures_of_directions_are_those_of_all_pairs_and_of_the_nearest_to_each_centre():
    rng = np.random.default_rng(0)
    sides = np.eye(5)[[0, 1]]
    weights = sides[[0, 0, 0, 1, 1, 1, 1]] + 0.3 * rng.normal(size=(7, 5))
    weights *= rng.uniform(0.01, 100, (7, 1))
    signs, centres = np.array([1.0, 1, -1, -1, 1, -1, -1]), rng.normal(size=(4, 5)) + sides[0]
    found = experiment.measure_directions(configure(), weights, signs, centres)
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    pairs = {True: [], False: []}
    for i, j in itertools.combinations(range(7), 2):
        pairs[bool(signs[i] == signs[j])].append(unit[i] @ unit[j])
    assert found["same_sign_cosine"] == pytest.approx(np.mean(pairs[True]))
    assert found["opposite_sign_cosine"] == pytest.approx(np.mean(pairs[False]))
    means = [unit[own].mean(axis=0) for own in (slice(0, 3), slice(3, 7))]
    means = [mean / np.linalg.norm(mean) for mean in means]
    own = [unit[i] @ means[int(i >= 3)] for i in range(7)]
    assert found["own_centre_cosine"] == pytest.approx(np.mean(own))
    assert found["centres_cosine"] == pytest.approx(means[0] @ means[1])
    best = [max(c @ w / np.linalg.norm(c) for w in unit) for c in centres]
    assert found["covered"] == pytest.approx(np.mean(best))
    assert found["least_covered"] == pytest.approx(min(best))
    near = experiment.measure_directions(configure(), weights, signs, unit[:3] + [[0], [0], [3.0]])
    assert near["share_covered"] == pytest.approx(2 / 3)
    assert "covered" not in experiment.measure_directions(configure(), weights, signs, centres[:0])


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_updates_are_those_of_the_heavy_ball_on_both_layers(loss):
    fields = {"m": 3, "batch_size": 4, "init_std": 0.5, "loss": loss, "learning_rate": 0.1}
    config = configure(**fields, momentum=0.5)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 5)), np.sign(rng.normal(size=10))
    train = Dataset(jnp.float32(x), jnp.float32(y))
    key, model = jax.random.key(3), experiment.build_model(config, 5)
    params = model.init(jax.random.key(0), (5,))
    rule = experiment.make_optimizer("momentum", 0.1, momentum=0.5)
    start = CloudState(params, rule.init(params), jnp.int32(1))
    test = Dataset(train.inputs[:7], train.targets[:7])
    after, accuracy = experiment.advance(config, 4, start, key, (train, test), jnp.int32(3))
    assert int(after.step) == 4
    order = jax.random.fold_in(key, experiment.WeightClouds.ORDER)
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
    outputs = np.maximum(x[:7] @ w + b, 0) @ a
    assert float(accuracy) == pytest.approx(np.mean(outputs * y[:7] > 0))


def test_an_outcome_has_the_last_measures_those_of_the_start_and_a_picture_a_step():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(3, 1, 5, 8))  # pictures, replicas
    weights[1:, :, :, 2] *= 0  # a neuron that died
    readout = np.ones((3, 1, 8, 1))
    readout[:, 0, 5:] = -1
    snapshots = {"Dense_0": {"weight": weights}, "Dense_1": {"weight": readout}}
    nothing = Dataset(np.zeros((0, 5), np.float32), np.zeros(0, np.float32))
    point = Point("", {}, configure(pictures=(0, 4, 9), seed=2))
    accuracy = np.array([[0.5], [0.6], [0.7]])
    test = Dataset(np.zeros((4, 5), np.float32), np.array([1.0, -1.0, 1.0, 1.0], np.float32))
    given = (Cloud(nothing, test, nothing), 0, snapshots, accuracy)
    found = experiment._outcome(point, *given, 9, None)
    assert found.metrics["test_accuracy"] == 0.7 and found.metrics["start_test_accuracy"] == 0.5
    assert found.metrics["seed"] == 2 and "step" not in found.metrics
    assert (found.metrics["num_test"], found.metrics["chance"]) == (4, 0.75)
    assert "start_step" not in found.metrics
    turned = [
        np.sum([a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in pairs if b.any()]) / 8
        for pairs in (zip(weights[0, 0].T, w.T, strict=True) for w in weights[:, 0])
    ]
    history = [row for row in found.history if "cosine_with_start" in row]
    assert [row["step"] for row in history] == [0, 4, 9]
    assert [row["cosine_with_start"] for row in history] == pytest.approx(turned)
    assert found.metrics["start_cosine_with_start"] == pytest.approx(1)
    # Without marks, colours are signs of the readout, of neurons that are not zero.
    pictures = [row for row in found.history if "picture" in row]
    assert [list(row["nearest"]) for row in pictures] == [[0] * 5 + [1] * 3] + [
        [0] * 4 + [1] * 3
    ] * 2
    lost = experiment._outcome(point, *given, 4, None)
    assert lost.status == "failed" and "not finite at step 4" in lost.message
    assert [row["step"] for row in lost.history] == [0, 4]


def test_measures_are_taken_at_pictures_on_each_seed_s_own_examples(monkeypatch):
    given = []
    monkeypatch.setattr(experiment, "course_of", lambda *asked: given.append(asked))
    config = configure(pictures=(2, 7), batch_size=5, measures=("weight_movement",))
    rng = np.random.default_rng(0)
    splits = [Dataset(rng.normal(size=(9, 3)), rng.normal(size=9)) for _ in range(2)]
    clouds = [Cloud(split, split, split) for split in splits]
    experiment._course(config, experiment.build_model(config, 3), clouds, {})
    ((measuring, _, _, fetch, examples, marks, seen),) = given
    assert measuring.names == ("weight_movement",)
    assert (examples, marks, seen) == (9, [0, 2, 7], 5 * 7)
    inputs, targets = fetch(1, jnp.array([4, 0]))
    np.testing.assert_array_equal(inputs, splits[1].inputs[[4, 0]])
    np.testing.assert_array_equal(targets, splits[1].targets[[4, 0]])


def test_neurons_that_have_no_two_clusters_are_refused():
    assert experiment.best_count(np.eye(3)) == 2
    with pytest.raises(InputError, match="config.m is 2; accepted: a whole number, 3 or more"):
        settings.validate(configure(m=2))
