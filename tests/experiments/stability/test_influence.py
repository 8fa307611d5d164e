"""Influence functions against training again, and both against their definitions."""

import numpy as np
import pandas as pd
import pytest
import scipy.optimize

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.stability import influence
from lsa_jax.experiments.stability.influence import leave_one_out, run_influence
from lsa_jax.experiments.stability.samples import Data, ExamplePool, draw_pair


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    return x, np.where(x @ [1.0, -2.0, 0.5] + rng.logistic(size=60) > 0, 1.0, -1.0)


def objective(w, x, y, ridge, m):
    return np.logaddexp(0, -y * (x @ w)).sum() / m + ridge / 2 * (w @ w)


def test_retraining_is_the_optimum_without_the_example(problem):
    x, y = problem
    w, _, retrained = leave_one_out(x, y, 0.01, np.array([0, 5]))
    for change, i in zip(retrained, (0, 5), strict=True):
        left = (np.delete(x, i, axis=0), np.delete(y, i), 0.01, len(x))
        best = scipy.optimize.minimize(objective, np.zeros(3), left, tol=1e-12).x
        np.testing.assert_allclose(w + change, best, atol=1e-5)


def test_the_prediction_is_a_newton_step_without_the_example(problem):
    x, y = problem
    w, predicted, _ = leave_one_out(x, y, 0.01, np.arange(3))
    share = 1 / (1 + np.exp(y * (x @ w)))  # the probability of the other sign
    hessian = x.T @ (x * (share * (1 - share))[:, None]) / 60 + 0.01 * np.eye(3)
    gradients = -(y * share)[:3, None] * x[:3]
    np.testing.assert_allclose(predicted, np.linalg.solve(hessian, gradients.T).T / 60)


def test_influence_predicts_retraining_better_the_larger_the_sample(problem):
    x, y = problem
    errors = []
    for copies in (1, 10):
        # Copies of all examples: one of them counts a tenth as much.
        given = np.tile(x, (copies, 1)), np.tile(y, copies), 0.01, np.arange(8)
        _, predicted, retrained = leave_one_out(*given)
        away = np.linalg.norm(predicted - retrained, axis=1)
        errors.append(np.median(away / np.linalg.norm(retrained, axis=1)))
    assert errors[0] < 0.1
    # The error of the first order is of the second: relative errors fall as 1 / m.
    assert 6 < errors[0] / errors[1] < 14


def test_a_sample_is_compared_with_each_of_its_first_examples_left_out(make):
    """Losses and distances of both ways, against scipy's optima, example by example."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 3)), rng.choice([-1.0, 1.0], 30)
    config = make(question="influence", influence__removed=3, influence__ridge=0.1)[1][0].config
    pool = ExamplePool(np.float32(x), np.float32(y))
    found = run_influence(config, Data(pool, 20))
    sizes = {"num_train": 20, "num_test": 10, "perturbation": "removal"}
    rows = np.asarray(draw_pair(config.seed, config.m, 0, **sizes).sample)
    ones = np.append(np.float32(x), np.ones((30, 1)), axis=1).astype(float)

    def optimum(kept):
        given = (ones[kept], y[kept], 0.1, config.m)
        return scipy.optimize.minimize(objective, np.zeros(4), given, tol=1e-12).x

    def losses(w):
        return np.logaddexp(0, -y[20:] * (ones[20:] @ w))

    whole = optimum(rows)
    without = [optimum(np.delete(rows, i)) for i in range(3)]
    stability = [np.abs(losses(w) - losses(whole)).max() for w in without]
    distance = [np.linalg.norm(w - whole) for w in without]
    course = pd.DataFrame(found.history)
    assert course["removed"].tolist() == [0, 1, 2]
    np.testing.assert_allclose(course["stability"], stability, rtol=1e-3)
    np.testing.assert_allclose(course["distance"], distance, rtol=1e-3)
    for name in ("stability", "predicted_stability", "distance", "predicted_distance"):
        assert found.metrics[name] == course[name].max() > course[name].min()
    assert found.metrics["norm"] == pytest.approx(np.linalg.norm(whole), rel=1e-4)
    # Influence functions are of the first order in 1 / 12.
    np.testing.assert_allclose(course["predicted_distance"], distance, rtol=0.3)
    assert found.metrics["relative_error"] == (course["error"] / course["distance"]).median() < 0.3
    both = np.corrcoef(course["stability"], course["predicted_stability"])[0, 1]
    assert found.metrics["correlation"] == pytest.approx(both)


def test_an_optimum_that_is_not_reached_is_an_error(problem, monkeypatch):
    x, y = problem
    with pytest.raises(NumericalError, match="config.influence.ridge"):
        leave_one_out(np.concatenate([x, x], axis=1), y, 1e-300, np.arange(2))
    monkeypatch.setattr(influence, "_MAX_STEPS", 1)
    with pytest.raises(NumericalError, match="config.influence.ridge"):
        leave_one_out(x, y, 0.01, np.arange(2))


def test_the_optimum_is_reached_whatever_the_scale_of_the_inputs():
    rng = np.random.default_rng(0)
    for size, scale in ((6, 1.0), (50, 10.0), (20, 300.0)):
        x, y = scale * rng.normal(size=(size, 4)), rng.choice([-1.0, 1.0], size)
        w, _, _ = leave_one_out(x, y, 0.01, np.arange(1))
        slopes = -y / (1 + np.exp(y * (x @ w)))
        assert np.linalg.norm(x.T @ slopes / size + 0.01 * w) < 1e-9
