"""Pairs that differ in one example: what is the same stays the same, and what differs is right."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.stability import data as stability_data
from lsa_jax.experiments.stability import experiment, linear, settings
from lsa_jax.experiments.stability.cifar_resnet import GivenBatchNorm
from lsa_jax.experiments.stability.data import make_data
from lsa_jax.experiments.stability.linear import LinearModels
from lsa_jax.experiments.stability.samples import ExamplePool, draw_order, draw_pair, pack
from lsa_jax.models import Conv, Dense, GlobalAvgPool, Relu
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training import segments

NETWORK = {
    "learner": "resnet",
    "sweep.learner": ("resnet",),
    "training.momentum": 0.9,
    "stops": (3,),
    "connectivity.sizes": (12,),
    "connectivity.num_alphas": 7,
}


def images(n, seed):
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 256, (n, 4, 4, 1)).astype(np.float32) / 255
    return Dataset(pixels, rng.integers(0, 4, n).astype(np.int32))


@pytest.fixture(autouse=True)
def image_set(monkeypatch):
    found = ImageSet(images(30, 0), images(9, 1), ("a", "b", "c", "d"))
    monkeypatch.setattr(stability_data.images, "load", lambda name, data_dir: found)


@pytest.fixture
def second_pair_is_equal(monkeypatch):
    """Lets S' of pair 1 have the example of S in place of z."""

    def draw(seed, m, pair, **sizes):
        drawn = draw_pair(seed, m, pair, **sizes)
        return drawn if pair == 0 else drawn._replace(rows=drawn.rows[jnp.array([0, 0])])

    monkeypatch.setattr(experiment, "draw_pair", draw)


def train(points, directory):
    (data,) = experiment.load(points, None).values()
    return experiment.run(points, {experiment.data_key(points[0].config): data}, directory, print)


def sgd(config, x, y, pair, order, which):
    """Plain SGD in float64, an example at a time."""
    start = linear.init(jax.random.key(1), x.shape[1])
    w, b = np.asarray(start.w[which], np.float64), 0.0
    for positions in order:
        slope_w, slope_b, count = np.zeros_like(w), 0.0, 0
        for position in positions:
            row, weight = pair.sample[position], 1.0
            if position == pair.position:
                row, weight = pair.rows[which], float(pair.weights[which])
            output = x[row] @ w + b
            slope = -y[row] * expit(-y[row] * output)
            if config.learner == "linear_regression":
                slope = output - y[row]
            slope_w += weight * slope * x[row]
            slope_b += weight * slope
            count += weight
        w -= config.training.learning_rate * slope_w / count
        b -= config.training.learning_rate * slope_b / count
    return w, b


@pytest.mark.parametrize("learner", ["logistic", "linear_regression"])
def test_updates_of_both_members_are_those_of_plain_descent(make, learner):
    config, _ = make(learner=learner)
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (40, 6)).astype(np.uint8)
    signs = rng.choice([-1.0, 1.0], 40).astype(np.float32)
    pool = ExamplePool(jnp.asarray(inputs), jnp.asarray(signs))
    order = draw_order(0, 12, 5, jnp.int32(0), 8)
    start = linear.init(jax.random.key(1), 6)
    advance = jax.jit(functools.partial(linear.advance, config))
    for perturbation in ("swap", "removal"):
        pair = draw_pair(0, 12, 0, num_train=30, num_test=10, perturbation=perturbation)
        models = advance(start, pair, pool, order, jnp.int32(7))
        numpy_pair = jax.tree.map(np.asarray, pair)
        for which in (0, 1):
            w, b = sgd(config, inputs / 255, signs, numpy_pair, np.asarray(order[:7]), which)
            np.testing.assert_allclose(models.w[which], w, rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(models.b[which], b, rtol=2e-5, atol=2e-6)
        assert np.abs(models.w[0] - models.w[1]).max() > 1e-4


def test_equal_samples_give_distance_zero_and_a_killed_run_the_same_bits(
    make, tmp_path, monkeypatch, second_pair_is_equal
):
    _, points = make()
    once = train(points, tmp_path / "once")
    assert once[0].metrics["distance"] > 0 and once[0].metrics["stability"] > 0
    assert once[1].metrics["distance"] == 0 and once[1].metrics["stability"] == 0
    save, steps = segments.checkpoints.save, []

    def save_and_die(directory, step, tree):
        save(directory, step, tree)
        steps.append(step)
        if step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(segments.checkpoints, "save", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        train(points, tmp_path / "twice")
    assert train(points, tmp_path / "twice") == once
    assert steps == [3, 6, 8]


def test_updates_do_not_depend_on_where_python_comes_up(make, tmp_path):
    often, seldom = (
        train(make(checkpoint_every=every, stops=(8,))[1], tmp_path / str(every))
        for every in (3, 8)
    )
    for one, other in zip(often, seldom, strict=True):
        for name in experiment.MEASURES:
            assert one.metrics[name] == pytest.approx(other.metrics[name], rel=1e-6, abs=1e-9)


@pytest.fixture
def one_hidden_layer(monkeypatch):
    """Puts a network that compiles in a moment in the place of ResNet-20."""
    layers = [Conv(2), GivenBatchNorm(), Relu(), GlobalAvgPool(), Dense(4)]
    monkeypatch.setattr(experiment.networks, "resnet_layers", lambda *sizes, **channels: layers)


def test_networks_with_equal_samples_are_equal_and_paths_end_at_the_models(
    make, tmp_path, second_pair_is_equal, one_hidden_layer
):
    _, points = make(**NETWORK)
    different, equal = train(points, tmp_path)
    assert different.status == "ok" and different.metrics["distance"] > 0
    assert equal.metrics["distance"] == 0 and equal.metrics["stability"] == 0
    path = {row["alpha"]: row for row in different.history if "alpha" in row}
    assert sorted(path) == [-1, -0.5, 0, 0.5, 1, 1.5, 2]
    for split in ("train", "test"):
        end = 1 - different.metrics[f"{split}_error"]
        np.testing.assert_allclose(path[1][f"{split}_accuracy"], end, rtol=1e-6)


def test_weights_of_networks_are_measured_along_and_change_nothing(
    make, tmp_path, one_hidden_layer
):
    fields = {**NETWORK, "connectivity.sizes": (), "stops": (3, 5), "checkpoint_every": 2}
    plain = train(make(**fields)[1], tmp_path / "plain")
    points = make(**fields, measures=("weight_movement",))[1]
    for one, other in zip(train(points, tmp_path / "measured"), plain, strict=True):
        assert one.metrics.items() >= other.metrics.items()
        course = [row for row in one.history if "weight_movement/Conv_0" in row]
        assert [row["step"] for row in course] == [0, 2, 4, 5]
        moved = [row["weight_movement/Conv_0"] for row in course]
        assert moved[0] == 0 and all(a < b for a, b in zip(moved, moved[1:], strict=False))
        assert one.metrics["weight_movement/Conv_0"] == moved[-1]
        assert one.metrics["measured_examples"] == 0


def test_the_weights_measured_are_those_of_the_model_on_s(make, tmp_path, one_hidden_layer):
    fields = {**NETWORK, "connectivity.sizes": (), "stops": (3,), "training.momentum": 0.0}
    points = make(**fields, measures=("weight_movement",), **{"sweep.num_pairs": 1})[1]
    (outcome,) = train(points, tmp_path)
    (data,) = experiment.load(points, None).values()
    run = experiment._Training(points, data)
    now = run.layout.gather(run.advance(run.start, 0, 3)).params["Conv_0"]["weight"][0]
    start = run.layout.gather(run.start).params["Conv_0"]["weight"][0]
    size = np.linalg.norm(now[0] - start[0]) / np.linalg.norm(start[0])
    assert outcome.metrics["weight_movement/Conv_0"] == pytest.approx(size, rel=1e-5)
    assert size != pytest.approx(np.linalg.norm(now[1] - start[1]) / np.linalg.norm(start[1]))


@pytest.mark.parametrize(
    ("learner", "measure", "why"),
    [
        ("resnet", "kernel_distance", "batch normalisation couples"),
        ("linearized_resnet", "effective_rank", "features stay as they are"),
        ("logistic", "weight_movement", "learns no features"),
    ],
)
def test_measures_that_mean_nothing_are_refused(make, learner, measure, why):
    with pytest.raises(InputError, match=f"config.measures is .*{measure}.*accepted.*{why}"):
        make(learner=learner, measures=(measure,), **{"sweep.learner": (learner,)})


def test_a_run_that_left_the_finite_numbers_has_failed(make):
    config, _ = make()
    values = np.ones((2, len(experiment.MEASURES)))
    assert experiment._outcome(config, values, {}).status == "ok"
    values[1, 2] = np.nan
    outcome = experiment._outcome(config, values, {})
    assert outcome.status == "failed" and "within 8 updates" in outcome.message


def test_samples_differ_in_one_position_and_repeat_nothing():
    pair = draw_pair(3, 20, 7, num_train=25, num_test=10, perturbation="swap")
    members = [np.asarray(experiment.networks.member(pair, k)[0]) for k in (0, 1)]
    assert len(set(members[0].tolist())) == 20 and members[0].max() < 25
    (where,) = np.flatnonzero(members[0] != members[1])[None]
    assert where == [pair.position] and 25 <= members[1][where] < 35


def test_positions_and_test_examples_are_uniform_over_the_pairs():
    m, num_test, count = 3, 4, 300
    sizes = {"num_train": 20, "num_test": num_test, "perturbation": "swap"}
    pairs = [draw_pair(0, m, number, **sizes) for number in range(count)]
    positions = np.bincount([int(pair.position) for pair in pairs], minlength=m)
    examples = np.bincount([int(pair.rows[1]) - 20 for pair in pairs], minlength=num_test)
    for found in (positions, examples):
        share = 1 / len(found)
        assert found.sum() == count and found.shape in ((m,), (num_test,))
        assert np.abs(found / count - share).max() < 4 * np.sqrt(share * (1 - share) / count)


def test_every_epoch_meets_every_position_once_wherever_a_block_begins():
    order = np.asarray(draw_order(0, 12, 5, jnp.int32(0), 12))
    epochs = order.reshape(-1, 12)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.arange(12)[None].repeat(5, axis=0))
    assert (epochs[0] != epochs[1]).any()
    for first, count in ((7, 5), (2, 2), (4, 1), (11, 1)):  # also across the end of an epoch
        block = draw_order(0, 12, 5, jnp.int32(first), count)
        np.testing.assert_array_equal(block, order[first : first + count])


def test_only_images_that_came_from_bytes_are_packed():
    pixels = images(3, 0).inputs
    packed = pack(pixels)
    assert packed.dtype == np.uint8
    np.testing.assert_array_equal(packed.astype(np.float32) / 255, pixels)
    assert pack(pixels * 0.7).dtype == np.float32


def test_images_are_resized_before_they_are_learned_from(make):
    config, _ = make(data__dataset="digits", data__size=4, learner="resnet")
    data = make_data(config, None)
    assert data.pool.inputs.shape[1:] == (4, 4, 1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"stops": (5, 3)}, "config.stops is"),
        ({"report_step": 4}, "config.report_step is 4; accepted: one of 3, 8"),
        ({"training.momentum": 0.9}, "config.training.momentum is 0.9"),
        ({"learner": "resnet", "model.depth": 10}, "config.model.depth is 10"),
        ({"question": "influence", "influence.removed": 900}, "config.influence.removed is 900"),
        ({"learner": "resnet", "perturbation": "removal"}, "config.perturbation is 'removal'"),
    ],
)
def test_settings_that_do_not_fit_are_named(make, fields, words):
    with pytest.raises(InputError, match=words):
        settings.validate(set_fields(make()[0], fields))


@pytest.mark.parametrize("count", [4, 6, 8, 75])
def test_paths_need_places_at_both_models_and_between(make, count):
    fields = {"connectivity.num_alphas": count, "connectivity.sizes": (12,)}
    words = f"config.connectivity.num_alphas is {count}; accepted: 3n \\+ 1 and at least 7"
    with pytest.raises(InputError, match=words):
        settings.validate(set_fields(make()[0], fields))
    settings.validate(set_fields(make()[0], fields | {"connectivity.sizes": ()}))
    settings.validate(set_fields(make()[0], fields | {"connectivity.num_alphas": 3 * count + 1}))


def test_removal_is_accepted_where_no_batch_statistics_see_the_example(make):
    for learner in ("logistic", "linear_regression", "linearized_resnet"):
        fields = {"learner": learner, "perturbation": "removal"}
        settings.validate(set_fields(make()[0], fields))


def test_models_of_different_scale_have_the_distance_of_their_parameters():
    models = LinearModels(jnp.array([[3.0, 0.0], [0.0, 4.0]]), jnp.zeros(2))
    wrong = jnp.array([[True, False], [False, False]])
    losses = jnp.array([[1.0, 2.0], [1.5, 0.0]])
    found = experiment.linear.summarize(
        models, (losses, wrong), (jnp.array([0.5]), jnp.array([False]))
    )
    assert float(found["distance"]) == 5 and float(found["stability"]) == 2
    assert float(found["norm"]) == 3 and float(found["loss_gap"]) == 1
    np.testing.assert_allclose(found["normalized_distance"], 5 / 3.5, rtol=1e-6)
    assert float(found["error_gap"]) == 0.5


def test_python_comes_up_at_every_checkpoint_and_stop_and_no_later(make):
    for stops, every, expected in (
        ((3, 8), 3, [3, 6, 8]),
        ((5,), 10, [5]),
        ((4, 12), 4, [4, 8, 12]),
    ):
        config = make(stops=stops, checkpoint_every=every)[0]
        assert experiment._boundaries(config) == expected


def test_pairs_of_one_size_are_replicas_as_many_at_once_as_asked_for(make):
    points = make(sweep__m=(12, 15), sweep__num_pairs=5, max_replicas=2)[1]
    groups = experiment.EXPERIMENT.groups(points)
    sizes = [[(point.config.m, point.config.pair) for point in group] for group in groups]
    assert sizes == [
        [(m, pair) for pair in part] for m in (12, 15) for part in ((0, 1), (2, 3), (4,))
    ]


def test_paths_are_measured_of_the_first_pairs_of_networks_at_the_sizes_asked_for(make):
    paths = {"connectivity.sizes": (12,), "connectivity.pairs": 2, "sweep.num_pairs": 3}
    both = make(**paths | {"sweep.m": (12, 15)})[1]
    assert experiment._with_paths(both[:3]) == []  # linear
    networks = make(**NETWORK | paths | {"sweep.m": (12, 15), "learner": "resnet"})[1]
    assert {point.config.m for point in networks[:3]} == {12}
    assert experiment._with_paths(networks[:3]) == [0, 1]
    assert experiment._with_paths(networks[3:]) == []  # of another size
    assert experiment._with_paths(networks[1:3]) == [0]  # pairs 1 and 2
