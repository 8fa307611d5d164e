"""Kernel ridge regression and posteriors against linear algebra, scikit-learn and a library."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from lsa_jax._neural_tangents import predict
from lsa_jax.errors import NumericalError
from lsa_jax.kernels import posterior, regress


@pytest.fixture
def problem(drawn):
    return drawn(30, m=11, outputs=2, noise=0)[:3]


@pytest.mark.parametrize("ridge", [1e-8, 1e-3, 10.0])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_predictions_equal_scikit_learns(problem, ridge, dtype):
    ridge = max(ridge, 1e-4) if dtype == "float32" else ridge
    problem = [a.astype(dtype) for a in problem]
    gram_train, targets, gram_test = (a.astype(float) for a in problem)
    peer = KernelRidge(alpha=ridge * np.trace(gram_train) / 30, kernel="precomputed")
    mean = targets.mean(axis=0)
    expected = peer.fit(gram_train, targets - mean).predict(gram_test) + mean
    copies = [a.copy() for a in problem]
    sizes = np.array([1.0, 1e-10])
    fit = regress(problem[0], problem[1] * sizes, problem[2], ridge=ridge)
    np.testing.assert_allclose(fit.predictions / sizes, expected, rtol=1e-6, atol=1e-8)
    exact = np.linalg.cond(gram_train + ridge * np.eye(30) * np.trace(gram_train) / 30, 1)
    assert exact / 3 < fit.condition <= exact * 1.1 and fit.ridge == ridge
    for original, copy in zip(problem, copies, strict=True):
        np.testing.assert_array_equal(original, copy)
    again = gram_test @ fit.weights + mean * sizes
    np.testing.assert_allclose(again, fit.predictions, rtol=1e-6, atol=1e-8)


def test_invariances_and_limits(problem):
    gram_train, targets, gram_test = problem
    at = lambda *changed, ridge=0.1: regress(*changed, ridge=ridge).predictions  # noqa: E731
    plain = at(*problem)
    np.testing.assert_allclose(at(1e6 * gram_train, targets, 1e6 * gram_test), plain, rtol=1e-9)
    np.testing.assert_allclose(at(gram_train, targets + 100, gram_test), plain + 100, rtol=1e-12)
    np.testing.assert_allclose(at(gram_train, targets, gram_train, ridge=0.0), targets, rtol=1e-6)
    np.testing.assert_allclose(at(np.eye(1), np.array([[3.0, 1.0]]), np.ones((4, 1))), [[3, 1]] * 4)
    one_class = regress(gram_train, np.ones((30, 1)), gram_test, ridge=0.1)
    np.testing.assert_array_equal(one_class.predictions, 1.0)


def test_equal_examples_need_a_ridge(problem):
    gram_train, targets, gram_test = problem
    twice = np.ix_([*range(30), 0], [*range(30), 0])
    targets, gram_test = np.vstack([targets, targets[:1]]), gram_test[:, [*range(30), 0]]
    for ridge in (0.0, 1e-17):  # rounding decides whether Cholesky breaks down: refused either way
        with pytest.raises(NumericalError, match="not positive definite"):
            regress(gram_train[twice], targets, gram_test, ridge=ridge)
    assert np.isfinite(regress(gram_train[twice], targets, gram_test, ridge=1e-6).predictions).all()


def test_the_ridge_that_the_message_names_is_enough(problem):
    gram_train, targets, gram_test = problem
    shifted = gram_train - (np.linalg.eigvalsh(gram_train)[0] + 0.01) * np.eye(30)
    with pytest.raises(NumericalError, match="use a ridge well above") as caught:
        regress(shifted, targets, gram_test, ridge=0.0)
    least = float(str(caught.value).split("well above ")[1].split(",")[0])
    with pytest.raises(NumericalError):
        regress(shifted, targets, gram_test, ridge=0.9 * least)
    assert regress(shifted, targets, gram_test, ridge=1.1 * least).condition < 1e6


def test_the_posterior_is_that_of_neural_tangents(drawn):
    gram_train, targets, gram_test, prior = drawn(20, m=6)
    ours = posterior(gram_train, targets, gram_test, prior, ridge=0.05)
    infer = predict.gp_inference(jnp.asarray(gram_train), jnp.asarray(targets), diag_reg=0.05)
    mean, covariance = infer("nngp", jnp.asarray(gram_test), jnp.asarray(prior))
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.covariance, covariance, rtol=1e-4, atol=1e-5)
    few = posterior(gram_train, targets, gram_test, np.diagonal(prior), ridge=0.05)
    np.testing.assert_allclose(few.covariance, np.diagonal(ours.covariance))
    # No variance where targets are known.
    known = posterior(gram_train, targets, gram_train, np.diagonal(gram_train), ridge=0.0)
    np.testing.assert_allclose(known.mean, targets, atol=1e-8)
    assert (known.covariance >= 0).all() and known.covariance.max() < 1e-9


def test_variances_may_be_negative_by_rounding_alone():
    # K = 1 and K_test = a: the variance is 100 - a^2, with a thousandth of the prior for rounding.
    one = np.ones((1, 1))
    near, far = (
        (one, one, 10 * np.sqrt(1 + beyond) * one, np.array([100.0])) for beyond in (5e-4, 2e-3)
    )
    assert posterior(*near, ridge=0.0).covariance == [0.0]
    with pytest.raises(NumericalError, match="1 of 1 variances are negative"):
        posterior(*far, ridge=0.0)
