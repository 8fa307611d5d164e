"""Targets as users have them become one kind of task, and splits test each example once."""

import jax
import numpy as np
import pandas as pd
import pytest

from lsa_jax.data.dataset import Dataset
from lsa_jax.diagnosis.tasks import as_signs, make_task, splits, subset
from lsa_jax.errors import InputError

LABELS = np.array([0, 2, 1, 1, 2, 0, 0, 1])
X = np.arange(16.0).reshape(8, 2)
SIGNS = np.where(np.arange(24).reshape(8, 3) % 5, 1.0, -1.0)


@pytest.mark.parametrize(
    "y",
    [
        LABELS,
        list(LABELS),
        LABELS.astype(np.uint8)[:, None],
        np.array(["a", "b", "c"])[LABELS],
        pd.Series(LABELS).map({0: "a", 1: "b", 2: "c"}),
        pd.Series(LABELS, dtype="category"),
        np.eye(3)[LABELS],
        pd.DataFrame(np.eye(3, dtype=int)[LABELS]),
        jax.nn.one_hot(LABELS, 3),
        pd.Series(LABELS).astype("Int64"),
        pd.DataFrame({"name": np.array(["a", "b", "c"])[LABELS]}),
    ],
)
def test_classes_become_one_hot_rows_in_the_order_of_their_names(y):
    task = make_task(X, y)
    assert task.kind == "classes" and len(task.names) == 3
    np.testing.assert_array_equal(task.train.targets, np.eye(3)[LABELS])


@pytest.mark.parametrize("low, high", [(0, 1), (-1, 1), (0.0, 1.0), (-1.0, 1.0), (False, True)])
def test_two_values_are_two_classes(low, high):
    y = np.where(LABELS > 0, high, low)
    for given in (y, y[:, None]):
        task = make_task(X, given)
        np.testing.assert_array_equal(task.train.targets[:, 1], LABELS > 0)


@pytest.mark.parametrize("y", [np.linspace(0, 5, 8), np.linspace(0, 5, 16).reshape(8, 2)])
def test_floats_are_numbers_with_mean_0_and_variance_1(y):
    task = make_task(X, y, (X[:3], y[:3]))
    assert task.kind == "numbers" and task.train.targets.shape == (8, y.size // 8)
    np.testing.assert_allclose(task.train.targets.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(task.train.targets.std(0), 1, rtol=1e-6)
    np.testing.assert_array_equal(task.test.targets, task.train.targets[:3])


def test_classes_of_a_test_set_have_the_columns_of_the_training_set():
    task = make_task(X, LABELS, (X[:2], np.array([2, 2])))
    np.testing.assert_array_equal(task.test.targets, [[0, 0, 1], [0, 0, 1]])


def test_a_test_set_is_read_as_the_training_set_is():
    task = make_task(X, LABELS, (X[:3].astype(int), LABELS[:3].astype(float)))
    assert task.kind == "classes" and task.test.inputs.dtype == task.train.inputs.dtype
    np.testing.assert_array_equal(task.test.targets, task.train.targets[:3])
    for y, tested in ((LABELS, LABELS + 0.5), (2.0 * (LABELS > 0) - 1, 1.0 * (LABELS > 0)),
                      (np.eye(3)[LABELS], 0.9 * np.eye(3)[LABELS])):  # fmt: skip
        with pytest.raises(InputError, match="^y has classes.*y_test.*accepted"):
            make_task(X, y, (X, tested))
    with pytest.raises(InputError, match="^X .*X_test.*accepted"):
        make_task(X, LABELS, (X[:, :1], LABELS))


def test_two_classes_are_signs_for_one_output():
    y = LABELS > 0
    task = as_signs(make_task(X, y, (X[:3], y[:3])))
    np.testing.assert_array_equal(task.train.targets[:, 0], np.where(y, 1, -1))
    np.testing.assert_array_equal(task.test.targets, task.train.targets[:3])
    assert task.chance == max(y[:3].mean(), 1 - y[:3].mean())
    (part,) = splits(jax.random.key(0), as_signs(make_task(X, y)), 1)
    assert set(part.test.targets[:, 0]) == {-1, 1}


def test_tables_of_several_types_are_numbers():
    table = pd.DataFrame({"a": np.arange(8), "b": LABELS > 0, "c": np.linspace(0, 1, 8)})
    inputs = make_task(table, LABELS).train.inputs
    np.testing.assert_allclose(inputs, table.to_numpy(float), rtol=1e-6)
    assert inputs.dtype == np.float32


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.int16])
def test_tokens_stay_whole_numbers_that_kernels_take_as_such(kind):
    assert make_task(np.arange(24).reshape(8, 3).astype(kind), LABELS).train.inputs.dtype == "int32"


def test_classes_that_may_lack_examples_are_named():
    y = np.repeat([0, 1, 2], [4, 3, 9])
    x = np.arange(16.0)[:, None]
    task = make_task(x, y)
    assert "of class 1:" in task.class_hint and task.hints == [task.scale_hint, task.class_hint]
    (part,) = splits(
        jax.random.key(0), task._replace(train=Dataset(x[y != 1], np.eye(3)[y[y != 1]])), 1
    )
    assert part.test.targets.sum(0)[[0, 2]].all()  # four of a class are enough
    assert make_task(x[y != 1], y[y != 1]).class_hint == ""
    assert as_signs(make_task(x[y < 2], y[y < 2])).class_hint == task.class_hint
    hint = make_task(x, y, (x[:5], y[:5])).class_hint
    assert hint == "no test examples of class 2"
    many = make_task(np.arange(40.0)[:, None], np.repeat(np.arange(20), 2)).class_hint
    assert "15 more" in many


@pytest.mark.parametrize(("folds", "count"), [(9, 8), (1, 3)])
def test_splits_without_a_test_example_cost_one_line(folds, count):
    task = make_task(X[:count], np.arange(count) ** 1.5)
    with pytest.raises(InputError, match=f"^folds is {folds} for {count} examples; accepted"):
        list(splits(jax.random.key(0), task, folds))


def test_folds_test_each_example_once_with_all_classes_alike():
    y = np.repeat([0, 1, 2], [60, 24, 6])
    task = make_task(np.arange(90.0)[:, None], y)
    parts = list(splits(jax.random.key(0), task, 3))
    tested = np.concatenate([part.test.inputs[:, 0] for part in parts])
    np.testing.assert_array_equal(np.sort(tested), np.arange(90))
    for part in parts:
        assert not set(part.test.inputs[:, 0]) & set(part.train.inputs[:, 0])
        np.testing.assert_array_equal(part.test.targets.sum(0), [20, 8, 2])
        np.testing.assert_array_equal(part.train.inputs, task.train.inputs[part.rows])
    (single,) = splits(jax.random.key(0), task, 1)
    assert len(single.test.targets) in (22, 23)
    other = list(splits(jax.random.key(1), task, 3))
    assert not np.array_equal(other[0].test.inputs, parts[0].test.inputs)


def test_a_subset_has_all_classes_alike():
    task = make_task(np.arange(90.0)[:, None], np.repeat([0, 1], [60, 30]))
    few = subset(jax.random.key(0), task, 30)
    np.testing.assert_array_equal(few.train.targets.sum(0), [20, 10])
    assert isinstance(few.train, Dataset) and subset(jax.random.key(0), task, 90) is task


@pytest.mark.parametrize(
    ("inputs", "size"),
    [
        (SIGNS, None),
        (np.eye(8)[:, :5], None),
        (np.arange(24).reshape(8, 3), None),  # tokens
        (100.0 * SIGNS, "100"),
        (-0.01 * SIGNS, "0.01"),
        (np.where(SIGNS > 0, 200, -200).reshape(8, 3, 1, 1), "200"),
    ],
)
def test_inputs_far_from_unit_scale_are_to_be_divided_by_their_size(inputs, size):
    hint = make_task(inputs, LABELS).scale_hint
    assert (f"divide them by {size}," in hint) if size else hint == ""


TEXTS, PAIRS = pd.DataFrame({"a": list("abcdefgh")}), np.arange(12.0).reshape(6, 2)
HALVES, UNEVEN = np.arange(6) % 2, [[1.0], [2.0, 3.0]] * 4
MASKED = np.ma.masked_equal(HALVES, 1)
NO_INPUTS = [TEXTS, np.arange(8.0), [X, LABELS], np.ones((8, 3)), UNEVEN, 1e200 * X]
NO_TARGETS = [LABELS[:5], LABELS * 1j, np.zeros((8, 2, 2)), np.zeros(8, int), np.arange(8)]
NO_TARGETS += [np.full(8, np.nan), np.full(8, 1.5), np.array([None, "a"] * 4, object), UNEVEN]
REFUSED = [
    *(("X .*accepted", (inputs, LABELS)) for inputs in NO_INPUTS),
    *(("y.*accepted", (X, targets)) for targets in NO_TARGETS),
    ("y .*constant", (X[:7], np.full(7, 0.1))),  # whose deviation is a rounding error
    ("X has masked entries", (np.ma.masked_less(PAIRS, 1), HALVES)),
    ("y has masked entries", (PAIRS, MASKED)),
    ("y has masked entries", (PAIRS, HALVES, (PAIRS, MASKED))),
    ("y has a column whose variance", (PAIRS, 1e200 * np.arange(6.0))),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("words", "given"), REFUSED)
def test_other_inputs_and_targets_cost_one_line(words, given):
    with pytest.raises(InputError, match=f"^{words}") as error:
        make_task(*given)
    assert "\n" not in str(error.value)
