"""Influence functions against training again, and both against their definitions."""

import numpy as np
import pytest
import scipy.optimize

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.stability import influence
from lsa_jax.experiments.stability.influence import fit, leave_one_out


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    return x, np.where(x @ [1.0, -2.0, 0.5] + rng.logistic(size=60) > 0, 1.0, -1.0)


def objective(w, x, y, ridge, m):
    return np.logaddexp(0, -y * (x @ w)).sum() / m + ridge / 2 * (w @ w)


def test_retraining_is_the_optimum_without_the_example(problem):
    x, y = problem
    w, found = leave_one_out(x, y, 0.01, np.array([0, 5]))
    for change, i in zip(found.retrained, (0, 5), strict=True):
        left = (np.delete(x, i, axis=0), np.delete(y, i), 0.01, len(x))
        best = scipy.optimize.minimize(objective, np.zeros(3), left, tol=1e-12).x
        np.testing.assert_allclose(w + change, best, atol=1e-5)


def test_influence_foretells_retraining_better_the_larger_the_sample(problem):
    x, y = problem
    errors = []
    for copies in (1, 10):
        # Copies of all examples: one of them counts a tenth as much.
        _, found = leave_one_out(np.tile(x, (copies, 1)), np.tile(y, copies), 0.01, np.arange(8))
        away = np.linalg.norm(found.predicted - found.retrained, axis=1)
        errors.append(np.median(away / np.linalg.norm(found.retrained, axis=1)))
    assert errors[0] < 0.1
    # What is left out of the first order is of the second: relative errors fall as 1 / m.
    assert 6 < errors[0] / errors[1] < 14


def test_an_optimum_that_is_not_reached_is_an_error(problem, monkeypatch):
    x, y = problem
    with pytest.raises(NumericalError, match="not finite"):
        fit(x, y, 0.01, weights=np.full(60, np.nan), start=np.zeros(3))
    monkeypatch.setattr(influence, "_MAX_STEPS", 1)
    with pytest.raises(NumericalError, match="raise config.influence.ridge"):
        fit(x, y, 0.01, weights=np.ones(60), start=np.zeros(3))
