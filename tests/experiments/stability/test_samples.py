"""The pool, pairs of samples, their order, and the quantities of a pair in float64."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.data import images
from lsa_jax.errors import InputError
from lsa_jax.experiments.stability import samples


@pytest.fixture(scope="module")
def digits():
    return images.load("digits", None)


@pytest.mark.parametrize("learner", ["logistic", "resnet"])
def test_linear_models_have_rows_and_signs_and_networks_images_and_classes(make, digits, learner):
    data = samples.make_data(make(data__dataset="digits", learner=learner)[0], None)
    labels = np.concatenate([digits.train.targets, digits.test.targets])
    inputs = np.concatenate([digits.train.inputs, digits.test.inputs])
    assert data.num_train == len(digits.train.targets)
    if learner == "logistic":
        np.testing.assert_array_equal(data.pool.targets, np.where(labels <= 4, -1, 1))
        np.testing.assert_allclose(data.pool.inputs, inputs.reshape(len(labels), -1), rtol=1e-6)
    else:
        np.testing.assert_array_equal(data.pool.targets, np.eye(10)[labels])
        assert data.pool.inputs.shape == inputs.shape
        small = samples.make_data(
            make(data__dataset="digits", data__size=4, learner=learner)[0], None
        )
        assert small.pool.inputs.shape[1:] == (4, 4, 1)


def test_test_examples_are_drawn_by_their_seed_and_the_training_pool_stays(make, digits):
    def drawn(seed, count=20):
        fields = {"data.dataset": "digits", "data.num_test": count, "data.test_seed": seed}
        return samples.make_data(make(**fields)[0], None)

    one, other, everything = drawn(0), drawn(1), drawn(0, None).pool
    split, most = one.num_train, len(digits.test.targets)
    np.testing.assert_array_equal(one.pool.inputs[:split], everything.inputs[:split])
    assert (one.pool.inputs != other.pool.inputs).any()
    rows = {row.tobytes() for row in everything.inputs[split:]}
    found = {row.tobytes() for row in one.pool.inputs[split:]}
    assert len(found) == 20 and rows >= found and len(drawn(0, most).pool.targets) == split + most
    with pytest.raises(InputError):
        drawn(0, most + 1)


def test_each_data_set_is_read_once_and_too_large_a_sample_is_refused(make, digits):
    count = len(digits.train.targets)
    points = make(data__dataset="digits", sweep__m=(12, count))[1]
    assert {samples.data_key(point.config) for point in points} == {*samples.load(points, None)}
    both = make(data__dataset="digits", sweep__learner=("logistic", "resnet"))[1]
    assert len(samples.load(both, None)) == 2  # rows of pixels and images
    with pytest.raises(InputError):
        samples.load(make(data__dataset="digits", sweep__m=(count + 1,))[1], None)


def test_only_images_that_came_from_bytes_are_packed():
    pixels = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 1)).astype(np.float32) / 255
    packed = samples.pack(pixels)
    assert packed.dtype == np.uint8
    np.testing.assert_array_equal(packed.astype(np.float32) / 255, pixels)
    assert samples.pack(pixels * 0.7).dtype == np.float32


def test_samples_differ_in_one_position_and_repeat_nothing():
    pair = samples.draw_pair(3, 20, 7, num_train=25, num_test=10, perturbation="swap")
    first, second = (np.asarray(samples.fetch_member(pair, which)[0]) for which in (0, 1))
    assert len(set(first.tolist())) == 20 and first.max() < 25
    (where,) = np.flatnonzero(first != second)[None]
    assert where == [pair.position] and 25 <= second[where] < 35
    removal = samples.draw_pair(3, 20, 7, num_train=25, num_test=10, perturbation="removal")
    assert (removal.sample == pair.sample).all() and removal.position == pair.position
    weights = np.asarray(samples.fetch_member(removal, 1)[1])
    assert weights[where] == 0 and weights.sum() == 19 and samples.fetch_member(removal, 0)[1].all()


def test_positions_and_test_examples_are_uniform_over_the_pairs():
    m, num_test, count = 3, 4, 300
    sizes = {"num_train": 20, "num_test": num_test, "perturbation": "swap"}
    pairs = [samples.draw_pair(0, m, number, **sizes) for number in range(count)]
    positions = np.bincount([int(pair.position) for pair in pairs], minlength=m)
    examples = np.bincount([int(pair.rows[1]) - 20 for pair in pairs], minlength=num_test)
    for found, size in ((positions, m), (examples, num_test)):
        assert found.shape == (size,)
        spread = np.sqrt((1 - 1 / size) / size / count)
        assert np.abs(found / count - 1 / size).max() < 4 * spread


def test_every_epoch_meets_every_position_once_wherever_a_block_begins():
    order = np.asarray(samples.draw_order(0, 12, 5, jnp.int32(0), 12))
    epochs = order.reshape(-1, 12)
    np.testing.assert_array_equal(np.sort(epochs, axis=1), np.tile(np.arange(12), (5, 1)))
    assert (epochs[0] != epochs[1]).any()
    for first, count in ((7, 5), (2, 2), (4, 1), (11, 1)):  # also across the end of an epoch
        block = samples.draw_order(0, 12, 5, jnp.int32(first), count)
        np.testing.assert_array_equal(block, order[first : first + count])


def test_quantities_of_a_pair_are_those_of_the_first_model_and_of_their_difference():
    rng = np.random.default_rng(0)
    matrix, bias = rng.normal(size=(2, 3, 4)), 5 * rng.normal(size=(2, 2))
    losses, train_losses = rng.uniform(1, 3, size=(2, 5)), rng.uniform(0, 1, size=3)
    losses[1, 2] += 4  # the largest difference is one where the second model is worse
    wrong = np.array([[1, 1, 1, 0, 0], [0, 0, 1, 0, 0]], bool)
    train_wrong = np.array([0, 1, 0], bool)
    found = samples.summarize(
        {"matrix": jnp.float32(matrix), "bias": jnp.float32(bias)},
        (jnp.float32(losses), jnp.asarray(wrong)),
        (jnp.float32(train_losses), jnp.asarray(train_wrong)),
    )
    first, second = np.concatenate([matrix.reshape(2, -1), bias], axis=1)
    norms = np.linalg.norm(first), np.linalg.norm(second)
    distance = np.linalg.norm(first - second)
    expected = {
        "loss_gap": losses[0].mean() - train_losses.mean(),
        "error_gap": 3 / 5 - 1 / 3,
        "stability": losses[1, 2] - losses[0, 2],
        "distance": distance,
        "norm": norms[0],
        "normalized_distance": 2 * distance / sum(norms),
        "train_loss": train_losses.mean(),
        "test_loss": losses[0].mean(),
        "train_error": 1 / 3,
        "test_error": 3 / 5,
    }
    assert {name: float(found[name]) for name in found} == pytest.approx(expected, rel=1e-5)
