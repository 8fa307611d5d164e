"""Losses against their formulas in numpy; shapes and classes that do not fit."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.training import LOSSES, is_correct

OUTPUTS = np.random.default_rng(0).normal(size=(7, 4)).astype(np.float32)
ONE_HOT = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 0, 1, 2]]
SIGNS = np.array([1, -1, 1, 1, -1, -1, 1], np.float32)


def cross_entropy(outputs, targets):
    exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    return -(targets * np.log(exponentials / exponentials.sum(axis=1, keepdims=True))).sum(axis=1)


FORMULAS = {
    "softmax_cross_entropy": (ONE_HOT, cross_entropy),
    "class_mean_cross_entropy": (ONE_HOT, lambda f, y: cross_entropy(f, y) / 4),
    "squared_error": (ONE_HOT, lambda f, y: 0.5 * ((f - y) ** 2).sum(axis=1)),
    "logistic": (SIGNS, lambda f, y: np.log1p(np.exp(-y * f[:, 0]))),
    "hinge": (SIGNS, lambda f, y: np.maximum(0, 1 - y * f[:, 0])),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_their_formulas(name):
    targets, formula = FORMULAS[name]
    outputs = OUTPUTS if targets.ndim == 2 else OUTPUTS[:, :1]
    expected = formula(outputs.astype(float), targets.astype(float))
    np.testing.assert_allclose(LOSSES[name](outputs, targets), expected, rtol=1e-5)


def test_masked_classes_of_target_0_add_nothing_to_the_cross_entropy():
    outputs = jnp.asarray(OUTPUTS).at[:, 2].set(-jnp.inf)
    kept, targets = [0, 1, 3], ONE_HOT[[0, 1, 3, 0, 1, 3, 0]]
    entropy = LOSSES["softmax_cross_entropy"]
    few = entropy(outputs[:, kept], targets[:, kept])
    np.testing.assert_allclose(entropy(outputs, targets), few, rtol=1e-6)
    slope = jax.grad(lambda outputs: entropy(outputs, targets).sum())(outputs)
    assert np.isfinite(slope).all() and not slope[:, 2].any()


@pytest.mark.parametrize("name", ["logistic", "softmax_cross_entropy"])
def test_losses_stay_finite_for_huge_margins(name):
    outputs = jnp.array([[1e4], [-1e4]]) if name == "logistic" else jnp.array([[1e4, -1e4]] * 2)
    targets = jnp.array([1.0, 1.0]) if name == "logistic" else jnp.eye(2)
    np.testing.assert_allclose(
        LOSSES[name](outputs, targets), [0, 1e4 if name == "logistic" else 2e4]
    )


def test_correct_means_the_largest_output_or_the_right_sign():
    np.testing.assert_array_equal(
        is_correct(OUTPUTS, ONE_HOT), OUTPUTS.argmax(axis=1) == ONE_HOT.argmax(axis=1)
    )
    outputs = jnp.array([[0.5], [0.5], [0.0]])
    np.testing.assert_array_equal(is_correct(outputs, jnp.array([1.0, -1.0, 1.0])), [1, 0, 0])


def test_outputs_that_are_not_numbers_are_not_counted_as_class_zero():
    outputs = jnp.array([[jnp.nan] * 3, [2.0, jnp.nan, 1.0], [2.0, 0.0, 1.0]])
    found = np.asarray(is_correct(outputs, jnp.eye(3)[jnp.array([0, 0, 0])]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, 1])
    signs = is_correct(jnp.array([[jnp.nan], [2.0]]), jnp.array([1.0, 1.0]))
    np.testing.assert_array_equal(signs, [np.nan, 1])


CLASSES = np.array([0, 1, 2, 3, 0, 1, 2])


@pytest.mark.parametrize("function", [LOSSES["softmax_cross_entropy"], is_correct])
def test_a_class_that_is_not_there_is_refused_or_no_number(function):
    for wrong in (4, -1):
        numbers = np.append(CLASSES[:-1], wrong)
        with pytest.raises(InputError, match="class"):
            function(OUTPUTS, numbers)
        found = np.asarray(jax.jit(function)(OUTPUTS, numbers))
        assert np.isnan(found[-1]) and np.isfinite(found[:-1]).all()


@pytest.mark.parametrize("name", [*LOSSES, "is_correct"])
def test_no_shape_is_broadcast(name):
    function = LOSSES.get(name, is_correct)
    shapes = [(7,), (7, 1), (7, 4), (7, 5), (7, 7), (7, 4, 1)]
    fits = {"squared_error": {((7, 1), (7,))}, "is_correct": {((7, 1), (7,)), ((7, 1), (7, 1))}}
    fits |= dict.fromkeys(("logistic", "hinge"), fits["is_correct"])
    for outputs, targets in itertools.product(shapes, shapes):
        given = jnp.ones(outputs), jnp.ones(targets)
        same = outputs == targets and len(outputs) == 2
        signs = name in ("logistic", "hinge")
        if (outputs, targets) in fits.get(name, ()) or (
            same and not signs and (outputs[1] > 1 or name == "squared_error")
        ):
            assert function(*given).shape == (7,)
        else:
            with pytest.raises(InputError, match="shape"):
                function(*given)


@pytest.mark.parametrize("name", ["softmax_cross_entropy", "class_mean_cross_entropy"])
def test_rows_of_signs_are_no_probabilities(name):
    signs = 2 * np.eye(4)[CLASSES] - 1
    with pytest.raises(InputError, match="21 negative entries such as -1"):
        LOSSES[name](OUTPUTS, signs)
    np.testing.assert_array_equal(is_correct(OUTPUTS, signs), is_correct(OUTPUTS, CLASSES))


def test_sides_are_compared_where_their_product_is_beyond_floats():
    outputs = np.array([[1e-30], [-1e-30]], np.float32)
    assert is_correct(outputs, np.array([1e-20, 1e-20], np.float32)).tolist() == [1, 0]
