"""The posterior of a Gaussian process against neural-tangents and the textbook's formula."""

import tracemalloc

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax._neural_tangents import predict
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import posterior


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(20, 3)), rng.normal(size=(6, 3))
    rbf = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 4)  # noqa: E731
    targets = rng.normal(size=(20, 2))
    # A diagonal that is neither 1 nor constant: noise is a share of its mean.
    s, t = rng.uniform(1, 4, size=(20, 1)), rng.uniform(1, 4, size=(6, 1))
    return s * rbf(x, x) * s.T, targets, t * rbf(test, x) * s.T, t * rbf(test, test) * t.T


def test_mean_and_covariance_are_those_of_neural_tangents(given):
    gram_train, targets, gram_test, prior = given
    ours = posterior(*given, ridge=0.05)
    infer = predict.gp_inference(jnp.asarray(gram_train), jnp.asarray(targets), diag_reg=0.05)
    mean, covariance = infer("nngp", jnp.asarray(gram_test), jnp.asarray(prior))
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.covariance, covariance, rtol=1e-4, atol=1e-5)


def test_variances_are_the_diagonal_of_the_covariance(given):
    gram_train, targets, gram_test, prior = given
    few = posterior(gram_train, targets, gram_test, np.diagonal(prior), ridge=0.05)
    np.testing.assert_allclose(
        few.covariance, np.diagonal(posterior(*given, ridge=0.05).covariance)
    )
    assert few.condition < 1e4


@pytest.mark.parametrize("full", [False, True])
def test_the_posterior_takes_the_memory_that_it_states(full):
    n, m = 300, 600
    factors = np.random.default_rng(0).normal(size=(n + m, 400))
    matrix = factors @ factors.T
    gram_train, gram_test = matrix[:n, :n].copy(), matrix[n:, :n].copy()
    prior = matrix[n:, n:].copy() if full else np.diagonal(matrix)[n:].copy()
    few = slice(2)  # a first call, in which types are prepared to be checked
    posterior(
        gram_train[few, few], np.eye(2), gram_test[few, few], prior[(few,) * prior.ndim], ridge=0.1
    )
    tracemalloc.start()
    posterior(gram_train, np.ones((n, 1)), gram_test, prior, ridge=0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * 8 * (n * (n + m) + m * m * full)


def test_there_is_no_variance_where_targets_are_known(given):
    gram_train, targets, _, _ = given
    known = posterior(gram_train, targets, gram_train, np.diagonal(gram_train), ridge=0.0)
    np.testing.assert_allclose(known.mean, targets, atol=1e-8)
    assert (known.covariance >= 0).all() and known.covariance.max() < 1e-9


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_together_is_refused(given):
    gram_train, targets, gram_test, prior = given
    with pytest.raises(InputError, match=r"prior is \(5, 6\); accepted with 6 test examples"):
        posterior(gram_train, targets, gram_test, prior[:5], ridge=0.1)
    with pytest.raises(NumericalError, match="6 of 6 variances are negative, down to .* larger"):
        posterior(gram_train, targets, 10 * gram_test, prior, ridge=0.1)
    prior = prior.copy()
    prior[3, 2] = np.nan
    with pytest.raises(NumericalError, match="prior has entries that are not finite"):
        posterior(gram_train, targets, gram_test, prior, ridge=0.1)
    # Eigenvalues -2 and 10; the mean diagonal is 4.
    with pytest.raises(NumericalError, match="smallest eigenvalue is -0.5 of its mean diagonal"):
        posterior(np.array([[4.0, 6], [6, 4]]), np.eye(2), np.ones((1, 2)), np.ones(1), ridge=0.0)


def test_variances_may_be_negative_by_rounding_alone():
    # K = 1 and K_test = a: the variance is 100 - a^2, with a thousandth of the prior for rounding.
    one = np.ones((1, 1))
    for beyond, accepted in ((0.5e-3, True), (2e-3, False)):
        given = one, one, 10 * np.sqrt(1 + beyond) * one, np.array([100.0])
        if accepted:
            assert posterior(*given, ridge=0.0).covariance == [0.0]
        else:
            with pytest.raises(NumericalError, match="1 of 1 variances are negative"):
                posterior(*given, ridge=0.0)
