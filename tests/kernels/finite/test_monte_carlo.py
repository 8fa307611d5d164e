"""Monte Carlo kernels know how exact they are, and stop there; Taylor expansions of any degree."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend, kernels
from lsa_jax.errors import InputError
from lsa_jax.kernels.finite import monte_carlo
from lsa_jax.kernels.matrices import memory


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


@pytest.mark.slow
def test_errors_hold_the_exact_mean_as_often_as_they_say():
    # E[w^2] = 1. Intervals of two errors: 95 %, a little less as draws of w^2 are skewed.
    def inside(seed):
        key = jax.random.key(seed)
        found = kernels.monte_carlo_kernel(
            key, init, apply, X, get="nngp", min_draws=200, max_draws=200
        )
        return abs(found.mean[0, 0] - 1) < 2 * found.error[0, 0]

    assert sum(map(inside, range(40))) >= 33  # fewer: p < 0.002 at 93 %


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


def test_every_draw_is_taken_once_up_to_the_last_one():
    values = np.random.default_rng(0).normal(size=(30, 2, 2))
    taken = []

    def draw_some(numbers):
        assert 0 < len(numbers) <= 7 and max(numbers) < 30
        taken.extend(np.asarray(numbers).tolist())
        return values[np.asarray(numbers)]

    found = monte_carlo._averaged(draw_some, 1e-9, 7, 30)
    assert taken == list(range(30)) and (found.draws, found.converged) == (30, False)
    np.testing.assert_allclose(found.mean, values.mean(0), rtol=1e-10)
    np.testing.assert_allclose(found.error, values.std(0, ddof=1) / 30**0.5, rtol=1e-10)


def test_the_products_of_two_batches_may_be_negative_and_two_draws_are_enough(key):
    settings = {"get": "nngp", "tolerance": 5.0, "min_draws": 2}
    found = kernels.monte_carlo_kernel(key, init, apply, X[:1], 3 * X[1:], **settings)
    weights = np.array([init(jax.random.fold_in(key, i))[0, 0] for i in range(2)], float)
    np.testing.assert_allclose(found.mean, [[-6 * np.mean(weights**2)]], rtol=1e-6)
    assert found.converged and found.draws == 2


def test_memory_holds_draws_in_float64_beside_what_the_device_takes(key, monkeypatch):
    needed = []
    monkeypatch.setattr(backend, "bytes_one_by_one", lambda *given: 10**6)
    monkeypatch.setattr(
        memory, "check_fits_device", lambda what, most, bytes_of, instead: needed.append(bytes_of())
    )
    columns = jnp.ones((5, 1))
    kernels.monte_carlo_kernel(key, init, apply, X, columns, get="nngp", min_draws=7, max_draws=7)
    # The draws, their mean, their squares and the error.
    assert needed[-1] == 10**6 + np.zeros((7 + 3, 2, 5)).nbytes


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"tolerance": 0.0}, "tolerance is 0.0; accepted"),
        ({"min_draws": 1}, "min_draws is 1; accepted"),
        ({"max_draws": 3}, "max_draws is 3; accepted: whole numbers from min_draws, 16, on"),
    ],
)
def test_what_is_not_accepted(key, settings, words):
    with pytest.raises(InputError, match=words):
        kernels.monte_carlo_kernel(key, init, apply, X, **settings)


# --- Taylor expansions --------------------------------------------------------------------------


def polynomial(theta, x):
    return jnp.sin(x * theta["a"]) + theta["b"] ** 3


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
def test_taylor_expansions_are_those_of_the_function_and_of_neural_tangents(degree):
    with jax.enable_x64(True):
        theta = {"a": jnp.array(0.3), "b": jnp.array(-0.7)}
        moved = {"a": jnp.array(0.5), "b": jnp.array(-0.4)}
        x = jnp.array([[1.0], [2.0]])
        found = kernels.taylor_expand(polynomial, theta, degree)(moved, x)
        step, cube = 0.2 * np.asarray(x), [-0.343, 3 * 0.49 * 0.3, 3 * -0.7 * 0.09, 0.027, 0, 0]
        at = 0.3 * np.asarray(x)
        waves = [np.sin(at), np.cos(at), -np.sin(at), -np.cos(at), np.sin(at), np.cos(at)]
        factorials = [1, 1, 2, 6, 24, 120]
        expected = sum(waves[k] * step**k / factorials[k] + cube[k] for k in range(degree + 1))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        nt = importlib.import_module("neural_tangents")
        theirs = nt.taylor_expand(polynomial, theta, degree)(moved, x)
        np.testing.assert_allclose(found, theirs, rtol=1e-12)


def test_degrees_are_whole_numbers():
    with pytest.raises(InputError, match="degree is -1; accepted"):
        kernels.taylor_expand(polynomial, {}, -1)
