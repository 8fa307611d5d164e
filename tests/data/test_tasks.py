"""Tasks keep the right images with the right targets; subsets are balanced, nested and seeded."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from lsa_jax.data import ImageSet
from lsa_jax.data.dataset import Dataset, best_constant_accuracy
from lsa_jax.data.images import CIFAR10_CLASSES
from lsa_jax.data.tasks import ANIMALS, VEHICLES, subset_order, task_view
from lsa_jax.errors import InputError


def make_set(class_names, num_train=200, num_test=60):
    """Returns an image set whose images hold their own number and class."""

    def split(count, offset):
        labels = np.random.default_rng(count).integers(0, len(class_names), count)
        inputs = np.zeros((count, 2, 2, 1), np.float32)
        inputs[:, 0, 0, 0] = offset + np.arange(count)
        inputs[:, 1, 1, 0] = labels
        return Dataset(inputs, labels.astype(np.int32))

    return ImageSet(split(num_train, 0), split(num_test, 1000), tuple(class_names))


CIFAR10 = make_set(CIFAR10_CLASSES)
DIGITS = make_set("0123456789")


def numbers(dataset):
    return dataset.inputs[:, 0, 0, 0].astype(int)


def old_classes(inputs):
    return inputs[:, 1, 1, 0].astype(int)


def labels(dataset):
    """Returns the labels of one-hot targets."""
    assert dataset.targets.dtype == np.float32
    assert set(np.unique(dataset.targets)) <= {0, 1}
    np.testing.assert_array_equal(dataset.targets.sum(1), 1)
    return dataset.targets.argmax(1)


def test_all_keeps_everything_in_order():
    task = task_view(DIGITS, "all")
    assert task.train.inputs is DIGITS.train.inputs
    np.testing.assert_array_equal(labels(task.train), DIGITS.train.targets)
    np.testing.assert_array_equal(labels(task.test), DIGITS.test.targets)
    assert task.train.targets.shape == (200, 10)
    assert task.class_names == DIGITS.class_names
    assert task.distractors_train is None
    assert task.distractors_test is None


def test_classes_are_renumbered_in_the_order_given():
    task = task_view(DIGITS, "all", classes=(7, 2, 5))
    assert task.class_names == ("7", "2", "5")
    for split, source in ((task.train, DIGITS.train), (task.test, DIGITS.test)):
        np.testing.assert_array_equal(np.array([7, 2, 5])[labels(split)], old_classes(split.inputs))
        assert len(split.targets) == np.isin(source.targets, [7, 2, 5]).sum()


def test_cifar2_tells_animals_from_vehicles():
    task = task_view(CIFAR10, "cifar2")
    assert task.class_names == ("animals", "vehicles")
    for split in (task.train, task.test):
        names = np.array(CIFAR10_CLASSES)[old_classes(split.inputs)]
        np.testing.assert_array_equal(labels(split) == 0, np.isin(names, ANIMALS))
        np.testing.assert_array_equal(labels(split) == 1, np.isin(names, VEHICLES))
    assert len(task.train.targets) == 200


def test_vehicles_have_the_animals_of_the_same_split_as_distractors():
    task = task_view(CIFAR10, "vehicles", num_train=5)
    assert task.class_names == VEHICLES
    for split in (task.train, task.test):
        names = np.array(CIFAR10_CLASSES)[old_classes(split.inputs)]
        np.testing.assert_array_equal(names, np.array(VEHICLES)[labels(split)])
    sources = ((CIFAR10.train, task.distractors_train), (CIFAR10.test, task.distractors_test))
    for source, pool in sources:
        names = np.array(CIFAR10_CLASSES)[source.targets]
        np.testing.assert_array_equal(pool, source.inputs[np.isin(names, ANIMALS)])


def test_larger_subset_begins_with_the_smaller():
    sizes = [1, 3, 10, 57, 200]
    drawn = [numbers(task_view(DIGITS, "all", num_train=size).train) for size in sizes]
    for small, large in zip(drawn[:-1], drawn[1:], strict=True):
        np.testing.assert_array_equal(large[: len(small)], small)
    assert sorted(drawn[-1]) == list(range(200))


@hypothesis.settings(max_examples=25, deadline=None, derandomize=True)
@hypothesis.given(
    counts=strategies.lists(strategies.integers(0, 12), min_size=1, max_size=6),
    seed=strategies.integers(0, 100),
)
def test_every_beginning_of_the_order_is_balanced(counts, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    order = subset_order(labels, (seed, 0))
    assert sorted(order) == list(range(len(labels)))
    for size in range(len(labels) + 1):
        drawn = np.bincount(labels[order[:size]], minlength=len(counts))
        # No class has two more than one that has examples left.
        left = drawn[drawn < counts]
        assert not len(left) or drawn.max() - left.min() <= 1


def test_odd_example_falls_to_every_class_equally_often_whatever_its_size():
    labels = np.repeat([0, 1, 2], [12, 4, 2])
    first = [labels[subset_order(labels, (seed, 0))[0]] for seed in range(3000)]
    assert np.abs(np.bincount(first) / 3000 - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 3000)


WRONG = {
    "unknown task": (DIGITS, "cifar3", {}, "task is 'cifar3'; accepted: all, cifar2, vehicles"),
    "cifar2 of digits": (DIGITS, "cifar2", {}, "'cifar2' needs the classes of CIFAR-10.*'all'"),
    "classes of cifar2": (CIFAR10, "cifar2", {"classes": (0, 1)}, r"classes is \(0, 1\).*\(\)"),
    "class out of range": (DIGITS, "all", {"classes": (0, 10)}, "classes holds 10.*0 to 9"),
    "class twice": (DIGITS, "all", {"classes": (3, 3)}, r"classes is \(3, 3\).*different"),
    "too many to train": (DIGITS, "all", {"num_train": 201}, "num_train is 201.*1 to 200"),
    "class by name": (DIGITS, "all", {"classes": ("0", "1")}, "classes holds '0'.*0 to 9"),
    "a part of an example": (DIGITS, "all", {"num_test": 2.5}, "num_test is 2.5.*1 to"),
    "a seed of parts": (DIGITS, "all", {"subset_seed": 0.5}, "subset_seed is 0.5"),
    "negative seed": (DIGITS, "all", {"subset_seed": -1}, "subset_seed is -1"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", WRONG)
def test_view_that_does_not_fit_is_one_line(case):
    image_set, task, options, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        task_view(image_set, task, **options)


@pytest.mark.parametrize(
    "targets",
    [np.eye(3)[[0, 2, 2, 1, 2]], [0, 2, 2, 1, 2], [[-1], [1], [1], [-1], [1]]],
    ids=["one-hot", "numbers", "signs"],
)
def test_the_best_constant_answer_is_the_largest_class(targets):
    assert best_constant_accuracy(targets) == 3 / 5
