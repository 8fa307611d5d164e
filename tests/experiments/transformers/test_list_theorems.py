import json
import math

import jax
import numpy as np
import pytest

from lsa_jax.experiments.transformers import settings
from lsa_jax.experiments.transformers.sampler import (
    DecisionLists,
    cyclic_lists,
    random_lists,
)
from lsa_jax.experiments.transformers.theorems import (
    fixed_value_descent,
    fixed_value_scale,
    list_weights,
    ordered_columns,
    strict_accuracy,
    trained_value_descent,
    trained_value_scale,
)
from lsa_jax.reporting import files
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.run import run_sweep
from lsa_jax.sweep.variants import set_fields


def configure(question, **fields):
    sizes = {"vocabulary_size": 6, "sequence_length": 3, "list_length": 2, "steps_after": 3}
    own = {"sweep.cases": ((6, 3, 2),), "sweep.epsilon": (2.0,), "sweep.seed": (0, 1)}
    return set_fields(settings.default_config(), {"question": question, **sizes, **own, **fields})


def sweep(directory, question):
    config = configure(question)
    points = make_points(config, settings.sweep(config), settings.validate)
    results = run_sweep(config, points, directory, data_dir=None, command=["test"])
    report = json.loads((directory / "report.json").read_text())
    assert [row["status"] for row in report] == ["shown"] * 4
    assert (directory / "decision_lists.svg").stat().st_size > 0
    return results.iloc[0], files.read_metrics(directory, results["id"][0])


def test_theorem_4_3_holds_and_the_loss_falls(tmp_path):
    result, rows = sweep(tmp_path / "out", "value_fixed")
    assert 0 < result["first_perfect"] <= result["bound"]
    assert result["start_accuracy"] == 0 and result["start_loss"] == pytest.approx(math.log(3))
    assert result["largest_rise"] <= 0 and result["least_slope_ratio"] > 1
    assert result["ordered"] == 1 and len(rows) == result["first_perfect"] + 4
    assert result["eigenvalue"] >= max(row["eigenvalue"] for row in rows)
    assert result["bound"] == pytest.approx(32 * 2 * result["eigenvalue"] / math.log(6))
    # Misclassification implies a squared gradient above log^2 L / (16 M).
    least = min(row["gradient_norm"] ** 2 for row in rows if row["accuracy"] < 1)
    assert result["least_slope_ratio"] == pytest.approx(least / (math.log(6) ** 2 / 32))


def test_theorem_4_4_holds_and_v_stays_near(tmp_path):
    result, rows = sweep(tmp_path / "out", "value_near")
    assert 0 < result["first_perfect"] <= result["bound"]
    assert result["largest_rise"] <= 0 and result["least_slope_ratio"] > 1
    assert result["value_distance"] <= 1
    least = trained_value_scale(3, 2, 1 / 20, 2.0, result["start_loss"])
    assert least < result["c"] < 1.01 * least
    # lambda_max eps / (2 l) steps at most, and squared gradients above 16 l^2 / eps until then.
    loss = result["start_loss"]
    assert loss > 1 and result["bound"] == pytest.approx(result["eigenvalue"] * 2.0 / (2 * loss))
    least = min(row["gradient_norm"] ** 2 for row in rows if row["accuracy"] < 1)
    assert result["least_slope_ratio"] == pytest.approx(least / (16 * loss**2 / 2.0))
    farthest = max(row["value_distance"] for row in rows)
    assert result["value_distance"] == pytest.approx(farthest / 2.0)


def test_scales_are_those_of_the_theorems():
    assert fixed_value_scale(8, 3, 1 / 56) == pytest.approx(4 * 9 * 3 * math.log(2) * 56)
    by_hand = (4 * 1.5 * 2 + 6 * 0.5 / 3) * 10 * 9 * 56 + 2
    assert trained_value_scale(3, 2, 1 / 56, 0.5, 1.5) == pytest.approx(by_hand)


def test_descents_start_where_the_theorems_do():
    task = random_lists(jax.random.key(0), 6, 2)
    with jax.enable_x64(True):
        fixed = fixed_value_descent(configure("value_fixed"), task)
        near = trained_value_descent(configure("value_near", epsilon=2.0), task)
        v = np.asarray(fixed.fixed["v"])
        away = np.asarray(near.start["v"]) - near.c * (v / fixed.c)
        loss = float(near.loss(near.start, near.data))
    assert v.max() == fixed.c and (v[task.pi, np.arange(6)] == fixed.c).all()
    assert not np.any(fixed.start["w"]) and set(fixed.start) == {"w"}
    assert 0.5 < np.abs(away).max() <= 1.0 and away.dtype == np.float64
    # Noise on both sides of 0.
    assert away.min() < -0.5 and abs(away.mean()) < 4 * 2 / 12**0.5 / 6
    # What the theorems say: t <= 32 M lambda / log L and lambda eps / (2 l), and squared gradients.
    assert fixed.steps_per_eigenvalue == pytest.approx(32 * 2 / math.log(6))
    assert fixed.threshold == pytest.approx(math.log(6) ** 2 / (16 * 2))
    assert loss > 1 and near.steps_per_eigenvalue == pytest.approx(2.0 / (2 * loss))
    assert near.threshold == pytest.approx(16 * loss**2 / 2.0)
    # Every set of 3 of the 6 tokens has probability 1 / 20; c = 4 n^2 log(L) / delta.
    assert near.delta == pytest.approx(1 / 20)
    assert fixed.c == pytest.approx(4 * 9 * math.log(6) / fixed.delta)


@pytest.mark.parametrize("wrong", [0, 1, 49])
def test_the_accuracy_is_1_where_every_token_is_right_whatever_their_number(wrong):
    # The mean of 49 ones may be 49 * (1 / 49), which is 1 - 1e-16.
    params = {"w": np.zeros((49, 49)), "v": 10 * np.eye(49)}
    sequences = np.arange(49)[:, None]
    labels = np.where(sequences < wrong, (sequences + 1) % 49, sequences)
    with jax.enable_x64(True):
        data = {"sequences": jax.numpy.asarray(sequences), "labels": jax.numpy.asarray(labels)}
        params = jax.tree.map(jax.numpy.asarray, params)
        assert strict_accuracy(params, data) == (49 - wrong) / 49


def test_columns_are_in_order_when_weights_follow_the_list():
    lists = cyclic_lists(4, 2).lists  # of token a: (a + 1, a)
    w = np.array(
        [
            [2.0, 0.0, 0.0, 3.0],
            [3.0, 2.0, 0.0, 0.0],
            [1.0, 3.0, 2.0, 0.0],
            [1.0, 2.0, 1.0, 2.0],
        ]
    )
    assert ordered_columns(w, lists).tolist() == [1, 0, 0, 1]
    row = list_weights(w, lists)
    assert row["weight_1"] == pytest.approx((3 + 3 + 1 + 3) / 4)
    assert row["weight_2"] == pytest.approx((2 + 2 + 2 + 2) / 4)
    assert row["weight_outside"] == pytest.approx((1 + 1 + 0 + 2 + 0 + 0 + 0 + 0) / 8)
    alone = DecisionLists(np.arange(2), np.array([[0, 0], [1, 1]]))
    assert list_weights(w[:2, :2], alone.lists) == {}
