"""Training pool and test examples, on scikit-learn's digits."""

import numpy as np
import pytest

from lsa_jax.data import images
from lsa_jax.errors import InputError
from lsa_jax.experiments.stability.data import data_key, load, make_data


@pytest.fixture(scope="module")
def digits():
    return images.load("digits", None)


def test_linear_models_tell_the_first_half_of_the_classes_from_the_second(make, digits):
    data = make_data(make(data__dataset="digits")[0], None)
    labels = np.concatenate([digits.train.targets, digits.test.targets])
    np.testing.assert_array_equal(data.pool.targets, np.where(labels <= 4, -1, 1))
    assert data.num_train == len(digits.train.targets)
    inputs = np.concatenate([digits.train.inputs, digits.test.inputs])
    np.testing.assert_allclose(data.pool.inputs, inputs.reshape(len(labels), -1), rtol=1e-6)


def test_networks_have_a_row_for_each_class(make, digits):
    data = make_data(make(data__dataset="digits", learner="resnet")[0], None)
    labels = np.concatenate([digits.train.targets, digits.test.targets])
    assert data.pool.targets.shape == (len(labels), 10) and data.pool.inputs.ndim == 4
    np.testing.assert_array_equal(data.pool.targets.argmax(axis=1), labels)
    assert (data.pool.targets.sum(axis=1) == 1).all()


def test_fewer_test_examples_are_drawn_by_their_seed_and_the_training_pool_stays(make, digits):
    def drawn(seed, count=20):
        fields = {"data.dataset": "digits", "data.num_test": count, "data.test_seed": seed}
        return make_data(make(**fields)[0], None)

    one, again, other = drawn(0), drawn(0), drawn(1)
    everything = make_data(make(data__dataset="digits")[0], None).pool
    split = one.num_train
    np.testing.assert_array_equal(one.pool.inputs[:split], everything.inputs[:split])
    assert len(one.pool.targets) == split + 20 and split == len(digits.train.targets)
    np.testing.assert_array_equal(one.pool.inputs, again.pool.inputs)
    assert (one.pool.inputs != other.pool.inputs).any()
    rows = {row.tobytes() for row in everything.inputs[split:]}
    found = [row.tobytes() for row in one.pool.inputs[split:]]
    assert len(set(found)) == 20 and rows.issuperset(found)
    most = len(digits.test.targets)
    assert len(drawn(0, most).pool.targets) == split + most
    with pytest.raises(InputError, match=f"num_test is {most + 1}; accepted: 1 to {most}"):
        drawn(0, most + 1)


def test_each_data_set_is_read_once_and_too_large_a_sample_is_refused(make, digits):
    count = len(digits.train.targets)
    points = make(data__dataset="digits", sweep__m=(12, count))[1]
    assert len(points) == 4
    (key,) = load(points, None)
    assert {data_key(point.config) for point in points} == {key}
    resnet = make(data__dataset="digits", sweep__learner=("logistic", "resnet"))[1]
    assert len(load(resnet, None)) == 2  # rows of pixels and images
    more = make(data__dataset="digits", sweep__m=(count + 1,))[1]
    with pytest.raises(InputError, match=f"config.m is {count + 1}; accepted: at most .* {count}"):
        load(more, None)
