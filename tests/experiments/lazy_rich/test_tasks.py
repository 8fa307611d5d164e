"""Digits on their backgrounds, and with what their networks are trained."""

from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import training
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.lazy_rich import networks, tasks
from lsa_jax.experiments.lazy_rich.dial import experiment, settings
from lsa_jax.sweep.experiment import SCRATCH
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.variants import set_fields

SMALL = {
    "data.num_train": 24,
    "data.num_test": 12,
    "data.test_copies": 3,
    "data.background_size": 11,
    "data.noise": 0.5,
    "model.name": "mlp",
    "model.widths": (4,),
    "batch_size": 10,
}


def point_of(**fields):
    return Point("", {}, set_fields(settings.default_config(), SMALL | fields))


@pytest.fixture(scope="module")
def read():
    point = point_of()
    return tasks.task_of(point, tasks.load([point], None))


def test_each_test_image_comes_as_often_as_asked_for_and_each_of_training_once(read):
    assert read.train.inputs.shape == (24, 8, 8, 1) and read.train.targets.shape == (24, 10)
    assert read.test.inputs.shape == (36, 8, 8, 1) and read.test.targets.shape == (36, 10)
    for part in read.test:
        np.testing.assert_array_equal(part[12:24], part[:12])
        np.testing.assert_array_equal(part[24:], part[:12])
    assert len({row.tobytes() for row in np.asarray(read.train.inputs)}) == 24


def test_images_are_read_once_for_each_way_of_preparing_them():
    points = [point_of(seed=0), point_of(seed=1), point_of(**{"data.noise": 0.1})]
    found = tasks.load(points, None)
    assert len(found) == 2
    assert tasks.task_of(points[0], found) is tasks.task_of(points[1], found)
    assert tasks.task_of(points[0], found) is not tasks.task_of(points[2], found)


def test_an_image_larger_than_its_background_is_refused_as_the_data_are_read():
    point = point_of(**{"data.image_size": 12})
    with pytest.raises(InputError, match="image_size is 12; accepted: at most .* which is 11"):
        tasks.load([point], None)


def test_a_digit_is_in_a_corner_of_noise_that_is_its_own(read):
    config = point_of().config
    whole = tasks.whole(config, tasks.TRAIN, read.train)
    images = np.asarray(whole.inputs)
    assert images.shape == (24, 11, 11, 1)
    corners, outside = set(), []
    for image, digit in zip(images, np.asarray(read.train.inputs), strict=True):
        for i, j in ((0, 0), (0, 3), (3, 0), (3, 3)):
            ink = digit > 0
            if np.allclose(image[i : i + 8, j : j + 8][ink], digit[ink], atol=1e-6):
                corners.add((i, j))
                mask = np.ones(image.shape, bool)
                mask[i : i + 8, j : j + 8] = False
                outside.append(image[mask])
    assert len(corners) == 4 and len(outside) == 24
    assert np.std(outside) == pytest.approx(0.5, rel=5 / np.size(outside) ** 0.5)
    # What is drawn depends on seed, split and example alone.
    key = tasks.data_key(config)
    few = tasks.compose(config, tasks.TRAIN, read.train, key, jnp.array([7, 3]))
    np.testing.assert_array_equal(few.inputs, images[[7, 3]])
    other = tasks.compose(config, tasks.TEST, read.train, key, jnp.array([7, 3]))
    assert (other.inputs != few.inputs).any()
    source = tasks.source(config, tasks.TRAIN, read.train)
    fetched = source.fetch(source.arrays, {"data_key": key}, jnp.array([7, 3]), jnp.int32(5))
    np.testing.assert_array_equal(fetched.inputs, few.inputs)


def test_rates_rise_over_the_warm_up_s_steps_with_the_factors_of_the_parameterisation(read):
    fields = {"parameterization": "mup", "width_factor": 2, "optimizer": "momentum"}
    fields |= {"momentum": 0.5, "schedule": "constant", "warmup_epochs": 2.0, "epochs": 4}
    config = point_of(**fields).config
    assert networks.input_shape(config, read) == (11, 11, 1)
    model = networks.build(config)
    params = networks.initial(config, model, read)
    rule = networks.optimizer_of(config, model, read, 0.3)
    ones, factors = jax.tree.map(jnp.ones_like, params), model.rate_factors((11, 11, 1), "momentum")
    assert len({float(np.ravel(f)[0]) for f in jax.tree.leaves(factors)}) > 1
    state, velocity = rule.init(params), 0.0
    for step in range(8):  # three steps an epoch
        updates, state = rule.update(ones, state, params)
        velocity = 0.5 * velocity + 1
        rate = 0.3 * min((step + 1) / 6, 1)
        expected = jax.tree.map(lambda p, f: -rate * velocity * f + 0 * p, params, factors)  # noqa: B023
        for one, other in zip(jax.tree.leaves(updates), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


def test_points_of_a_group_are_replicas_with_their_own_rate_and_backgrounds(read, monkeypatch):
    given, history = {}, training.History([], {}, None)

    def train(keys, model, source, loss, rule, **settings):
        given.update(settings, keys=keys, rule=rule)
        return "params", history

    monkeypatch.setattr(networks.training, "train", train)
    group = [point_of(seed=seed, epochs=9) for seed in (3, 4)]
    rates, measuring = [0.1, 0.2], training.Measuring(("weight_movement",))
    model = networks.build(group[0].config)
    asked = (group, read, model, rates, training.softmax_cross_entropy, Path("out"), print)
    assert networks.train(*asked, ("initial",), measuring) == ("params", history)
    assert given["replicas"]["rate"].tolist() == pytest.approx(rates)
    for place, point in enumerate(group):
        own, key = tasks.data_key(point.config), networks.run_key(point.config)
        assert given["replicas"]["data_key"][place] == own and given["keys"][place] == key
    assert (given["epochs"], given["batch_size"], given["frozen"]) == (9, 10, ("initial",))
    assert given["checkpoints"].directory == Path("out")
    evaluation = given["evaluation"]
    assert evaluation.measuring == measuring and evaluation.every == 9
    assert evaluation.test.num_examples == 36
    networks.train(*asked)
    assert given["evaluation"].measuring == training.Measuring() and given["frozen"] == ()
    # One point is a group, too; a run is saved four times, or after each epoch.
    for epochs, every in ((1, 1), (3, 1), (8, 2), (11, 2), (40, 10)):
        networks.train([point_of(epochs=epochs)], read, model, [0.1], *asked[4:])
        assert given["keys"].shape == (1,) and given["checkpoints"].every == every


def test_a_replica_s_course_has_its_own_numbers():
    rows = [
        {"epoch": 1, "train_loss": np.array([2.0, 3.0])},
        {"epoch": 2, "train_loss": np.array([1.0, 0.5]), "test_accuracy": np.array([0.1, 0.2])},
    ]
    found = networks.rows_of(training.History(rows, {}, None), 1)
    assert found == [
        {"epoch": 1, "train_loss": 3.0},
        {"epoch": 2, "train_loss": 0.5, "test_accuracy": 0.2},
    ]
    assert networks.at_end(found) == {"train_loss": 0.5, "test_accuracy": 0.2}


def test_measures_of_layers_have_their_mean_beside_them():
    metrics = {"weight_movement/a": 1.0, "weight_movement/b": 4.0, "kernel_distance": 3.0}
    metrics |= {"change/a": 7.0, "effective_rank": 2.0}
    assert experiment._with_means(metrics) == {**metrics, "weight_movement": 2.5}


def test_the_exact_regression_is_that_of_the_network_s_jacobians(read, monkeypatch, tmp_path):
    point = point_of(learner="ntk_finite", ridge=0.3, kernel_memory=2e6)
    few = tasks.DigitsTask(*(Dataset(*(np.asarray(leaf[:5]) for leaf in split)) for split in read))
    given, limits, gram = {}, [], experiment.kernels.gram

    def regress(train, targets, test, *, ridge):
        given.update(train=np.asarray(train), test=np.asarray(test), ridge=ridge, targets=targets)
        right = np.roll(few.test.targets, 1, axis=1)
        right[0] = few.test.targets[0]
        return SimpleNamespace(predictions=right)

    def limited(*inputs, memory_limit, **options):
        limits.append(memory_limit)
        return gram(*inputs, memory_limit=memory_limit, **options)

    monkeypatch.setattr(experiment.kernels, "regress", regress)
    monkeypatch.setattr(experiment.kernels, "gram", limited)
    data = dict.fromkeys(tasks.load([point], None), few)
    for _ in range(2):  # the folder may be there
        (outcome,) = experiment.run([point], data, tmp_path / "group", lambda fraction: None)
    kept = {"test_accuracy": pytest.approx(1 / 5), "num_test": 5, "chance": 0.2}
    assert outcome.metrics == kept
    assert limits == [2e6] * 4
    config, model = point.config, networks.build(point.config)
    params = networks.initial(config, model, few)
    x = np.concatenate([tasks.whole(config, which, few[which]).inputs for which in (0, 1)])
    slopes = jax.tree.leaves(jax.jit(jax.jacrev(model.apply))(params, x))
    flat = [np.reshape(j, (10, 10, -1)) for j in slopes]
    whole = sum(np.einsum("ncp,mcp->nm", j, j) for j in flat) / 10
    for name, rows in (("train", slice(5)), ("test", slice(5, None))):
        np.testing.assert_allclose(given[name], whole[rows, :5], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(
            np.load(tmp_path / "group" / SCRATCH / f"{name}.npy"), given[name]
        )
    assert given["ridge"] == 0.3
    np.testing.assert_array_equal(given["targets"], few.train.targets)
