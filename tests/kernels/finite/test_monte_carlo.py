"""Monte Carlo kernels: means, standard errors, and when they stop."""

import jax
import jax.numpy as jnp
import numpy as np

from lsa_jax import kernels


def apply(weight, x):
    return x @ weight  # of which K(x, x') = x x' w^2 as products of outputs


def init(key):
    return jax.random.normal(key, (1, 1))


X = jnp.array([[1.0], [-2.0]])


def test_errors_are_standard_errors_of_the_draws(key):
    found = kernels.monte_carlo_kernel(
        key, init, apply, X, get="nngp", min_draws=7, max_draws=30, tolerance=1e-9
    )
    weights = np.array([init(jax.random.fold_in(key, i))[0, 0] for i in range(30)], float)
    draws = weights[:, None, None] ** 2 * np.outer(X, X)
    np.testing.assert_allclose(found.mean, draws.mean(0), rtol=1e-6)
    np.testing.assert_allclose(found.error, draws.std(0, ddof=1) / 30**0.5, rtol=1e-5)
    assert (found.draws, found.converged) == (30, False)


def test_it_stops_where_errors_are_small_enough(key):
    settings = {"get": "nngp", "min_draws": 16, "max_draws": 10_000}
    rough, fine = (
        kernels.monte_carlo_kernel(key, init, apply, X, tolerance=tolerance, **settings)
        for tolerance in (0.4, 0.1)
    )
    for found, tolerance in ((rough, 0.4), (fine, 0.1)):
        assert found.converged and found.error.max() <= tolerance * np.abs(found.mean).max()
    assert rough.draws < fine.draws < 10_000
    # The derivative is x for every draw: no error, so the first look is the last.
    tangent = kernels.monte_carlo_kernel(key, init, apply, X, X[:1])
    assert tangent.draws == 16 and not tangent.error.any()
    np.testing.assert_array_equal(tangent.mean, [[1.0], [-2.0]])


def test_the_products_of_two_batches_may_be_negative_and_two_draws_are_enough(key):
    settings = {"get": "nngp", "tolerance": 5.0, "min_draws": 2}
    found = kernels.monte_carlo_kernel(key, init, apply, X[:1], 3 * X[1:], **settings)
    weights = np.array([init(jax.random.fold_in(key, i))[0, 0] for i in range(2)], float)
    np.testing.assert_allclose(found.mean, [[-6 * np.mean(weights**2)]], rtol=1e-6)
    assert found.converged and found.draws == 2
