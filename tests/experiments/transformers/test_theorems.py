"""Theorems 4.3 and 4.4: starts, bounds and descents, and the Hessian's largest eigenvalue."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_sweeps import maker

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.transformers import theorems
from lsa_jax.experiments.transformers.experiment import EXPERIMENT
from lsa_jax.experiments.transformers.sampler import DecisionLists, cyclic_lists, random_lists
from lsa_jax.experiments.transformers.settings import SETTINGS

SMALL = {"vocabulary_size": 6, "sequence_length": 3, "list_length": 2, "steps_after": 3}
SMALL |= {"sweep.cases": ((6, 3, 2),), "sweep.epsilon": (2.0,), "sweep.seed": (0, 1)}
make = maker(SETTINGS, SMALL)


@pytest.mark.parametrize("question", ["value_fixed", "value_near"])
def test_theorems_hold_with_the_bounds_as_written(question, tmp_path):
    _, points = make(question=question, sweep__seed=(0,))
    (outcome,) = EXPERIMENT.run(points, None, tmp_path, lambda fraction: None)
    result, rows = outcome.metrics, outcome.history
    assert 0 < result["first_perfect"] <= result["bound"] and result["largest_rise"] <= 0
    assert len(rows) == result["first_perfect"] + 4
    assert result["eigenvalue"] * (1 + 1e-6) >= max(row["eigenvalue"] for row in rows)
    least = min(row["gradient_norm"] ** 2 for row in rows if row["accuracy"] < 1)
    loss = result["start_loss"]
    if question == "value_fixed":  # t <= 32 M lambda / log L; squared gradient > log^2 L / (16 M)
        assert result["start_accuracy"] == 0 and loss == pytest.approx(math.log(3))
        bound, threshold = 32 * 2 * result["eigenvalue"] / math.log(6), math.log(6) ** 2 / 32
        assert result["ordered"] == 1
    else:  # t <= lambda eps / (2 l); squared gradient > 16 l^2 / eps
        bound, threshold = result["eigenvalue"] * 2.0 / (2 * loss), 16 * loss**2 / 2.0
        needed = theorems.trained_value_scale(3, 2, 1 / 20, 2.0, loss)
        assert loss > 1 and needed < result["c"] < 1.01 * needed
        farthest = max(row["value_distance"] for row in rows)
        assert result["value_distance"] == pytest.approx(farthest / 2.0) and farthest <= 2
    assert result["bound"] == pytest.approx(bound)
    assert result["least_slope_ratio"] == pytest.approx(least / threshold) and least > threshold


def test_the_scale_is_that_of_theorem_4_4():
    by_hand = (4 * 1.5 * 2 + 6 * 0.5 / 3) * 10 * 9 * 56 + 2
    assert theorems.trained_value_scale(3, 2, 1 / 56, 0.5, 1.5) == pytest.approx(by_hand)


def test_descents_start_where_the_theorems_do():
    task = random_lists(jax.random.key(0), 6, 2)
    with jax.enable_x64(True):
        fixed = theorems.fixed_value_descent(make(question="value_fixed")[0], task)
        near = theorems.trained_value_descent(make(question="value_near", epsilon=2.0)[0], task)
        v = np.asarray(fixed.fixed["v"])
        away = np.asarray(near.start["v"]) - near.c * (v / fixed.c)
    assert v.max() == fixed.c and (v[task.pi, np.arange(6)] == fixed.c).all()
    assert not np.any(fixed.start["w"]) and set(fixed.start) == {"w"}
    assert 0.5 < np.abs(away).max() <= 1.0 and away.dtype == np.float64
    # Noise on both sides of 0.
    assert away.min() < -0.5 and abs(away.mean()) < 4 * 2 / 12**0.5 / 6
    # Every set of 3 of the 6 tokens has probability 1 / 20; c = 4 n^2 log(L) / delta.
    assert near.delta == pytest.approx(1 / 20)
    assert fixed.c == pytest.approx(4 * 9 * math.log(6) / fixed.delta)


@pytest.mark.parametrize("wrong", [0, 1, 49])
def test_accuracy_counts_tokens_without_rounding(wrong):
    # The mean of 49 ones may be 49 * (1 / 49), which is 1 - 1e-16.
    sequences = np.arange(49)[:, None]
    labels = np.where(sequences < wrong, (sequences + 1) % 49, sequences)
    with jax.enable_x64(True):
        data = {"sequences": jnp.asarray(sequences), "labels": jnp.asarray(labels)}
        params = {"w": jnp.zeros((49, 49)), "v": 10 * jnp.eye(49)}
        assert theorems.strict_accuracy(params, data) == (49 - wrong) / 49


def test_columns_are_in_order_when_weights_follow_the_list():
    lists = cyclic_lists(4, 2).lists  # of token a: (a + 1, a)
    w = np.array([[2.0, 0, 0, 3], [3, 2, 0, 0], [1, 3, 2, 0], [1, 2, 1, 2]])
    assert theorems.ordered_columns(w, lists).tolist() == [1, 0, 0, 1]
    row = theorems.list_weights(w, lists)
    assert row["weight_1"] == pytest.approx((3 + 3 + 1 + 3) / 4)
    assert row["weight_2"] == pytest.approx((2 + 2 + 2 + 2) / 4)
    assert row["weight_outside"] == pytest.approx((1 + 1 + 0 + 2) / 8)
    alone = DecisionLists(np.arange(2), np.array([[0, 0], [1, 1]]))
    assert theorems.list_weights(w[:2, :2], alone.lists) == {}


@pytest.mark.parametrize(
    ("curvatures", "largest"), [([-9, 2, 2, 1], 2), ([0, 0, 0, 0], 0), ([0, 0, 3, 1], 3)]
)
def test_the_largest_eigenvalue_is_the_most_positive_one(curvatures, largest):
    def bowl(params, curvatures):
        return 0.5 * jnp.sum(curvatures * params**2)

    found = theorems.largest_eigenvalue(bowl, jnp.zeros(4), jnp.asarray(curvatures, jnp.float32))
    assert found == pytest.approx(largest)
    with pytest.raises(NumericalError):
        theorems.largest_eigenvalue(bowl, jnp.zeros(4), jnp.array([1.0, np.inf, 1.0, 1.0]))
