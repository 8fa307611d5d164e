"""One eigendecomposition against a solution for every ridge, and training to every time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from lsa_jax import kernels, models
from lsa_jax._neural_tangents import predict, stax
from lsa_jax.errors import NumericalError
from lsa_jax.kernels import (
    eigendecompose,
    gradient_flow,
    leave_one_out,
    leave_one_out_ridge,
    regress,
    ridge_path,
)

RIDGES = (1e-6, 1e-3, 0.1, 10.0)
TIMES = (0.0, 0.5, 30.0, 1e4)


@pytest.fixture
def given(drawn):
    return drawn(25, dimensions=4)[:3]


def test_the_path_is_a_regression_for_every_ridge(given):
    gram_train, targets, gram_test = given
    path = ridge_path(eigendecompose(gram_train), targets, gram_test, RIDGES)
    for ridge, predictions in zip(RIDGES, path, strict=True):
        expected = regress(gram_train, targets, gram_test, ridge=ridge).predictions
        np.testing.assert_allclose(predictions, expected, rtol=1e-6, atol=1e-9)


def test_leaving_one_out_in_closed_form_is_leaving_one_out(given):
    gram_train, targets, _ = given
    errors = leave_one_out(eigendecompose(gram_train), targets, RIDGES)
    for ridge, error in zip(RIDGES, errors, strict=True):
        each = []
        for i in range(25):
            rest = np.arange(25) != i
            kernel, mean = gram_train[np.ix_(rest, rest)], targets[rest].mean(0)
            # The ridge stays the same number, over the trace of all examples.
            shifted = kernel + ridge * np.trace(gram_train) / 25 * np.eye(24)
            fit = gram_train[i, rest] @ np.linalg.solve(shifted, targets[rest] - mean) + mean
            each.append((targets[i] - fit) ** 2)
        np.testing.assert_allclose(error, np.mean(each), rtol=1e-6)
    assert leave_one_out_ridge(gram_train, targets, RIDGES[::-1]) == RIDGES[np.argmin(errors)]
    # A mean alone predicts, with any ridge: the smallest is taken.
    assert leave_one_out_ridge(np.eye(20), np.ones((20, 1)), (0.5, 0.125, 2.0)) == 0.125
    # Of two examples each is predicted by the other.
    two = np.array([[1.0, 5.0], [4.0, 3.0]])
    errors = leave_one_out(eigendecompose(np.diag([1.0, 3.0])), two, (0.1, 1.0))
    np.testing.assert_allclose(errors, (3.0**2 + 2.0**2) / 2)


def test_ridges_that_leave_the_matrix_singular_are_passed_over():
    ones, targets = np.ones((20, 20)) - 1e-6 * np.eye(20), np.arange(20.0)[:, None]
    spectrum = eigendecompose(ones)
    assert np.isinf(leave_one_out(spectrum, targets, (0.0, 0.5))).tolist() == [True, False]
    assert [p is None for p in ridge_path(spectrum, targets, ones, (0.0, 0.5))] == [True, False]
    with pytest.raises(NumericalError, match="with ridge 1e-12"):
        leave_one_out_ridge(ones, targets, (0.0, 1e-12))


@pytest.mark.parametrize("started", [False, True])
def test_gradient_flow_is_that_of_neural_tangents(given, started):
    gram_train, targets, gram_test = given
    rng = np.random.default_rng(1)
    first = [rng.normal(size=(n, 3)) * started for n in (25, 8)]
    starts = {"train_outputs": first[0], "test_outputs": first[1]} if started else {}
    spectrum = eigendecompose(gram_train)
    flow = gradient_flow(spectrum, targets, gram_test, TIMES, ridge=1e-2, **starts)
    peer = predict.gradient_descent_mse(
        jnp.asarray(gram_train), jnp.asarray(targets), diag_reg=1e-2
    )
    first_train, first_test = map(jnp.asarray, first)
    for index, time in enumerate(TIMES):
        _, test = peer(time, first_train, first_test, jnp.asarray(gram_test))
        np.testing.assert_allclose(flow.test[index], test, rtol=1e-4, atol=2e-5)
        # The peer's own training outputs count the ridge as a part of the kernel.
        _, train = peer(time, first_train, first_train, jnp.asarray(gram_train))
        np.testing.assert_allclose(flow.train[index], train, rtol=1e-4, atol=2e-5)


def test_gradient_flow_solves_its_differential_equation_and_ends_at_interpolation(given):
    gram_train, targets, gram_test = given
    n, c = targets.shape

    def velocity(_, state):
        missing = state.reshape(-1, c)[:n] - targets
        return -(np.concatenate([gram_train, gram_test]) @ missing).ravel() / (n * c)

    solved = scipy.integrate.solve_ivp(
        velocity, (0, 30), np.zeros((n + 8) * c), rtol=1e-9, atol=1e-11
    ).y[:, -1]
    flow = gradient_flow(eigendecompose(gram_train), targets, gram_test, (0.0, 30.0, np.inf))
    assert not flow.train[0].any() and not flow.test[0].any()
    found = np.concatenate([flow.train[1], flow.test[1]])
    np.testing.assert_allclose(found, solved.reshape(-1, c), atol=1e-7)
    np.testing.assert_allclose(flow.train[2], targets, atol=1e-9)
    last = gram_test @ np.linalg.solve(gram_train, targets)
    np.testing.assert_allclose(flow.test[2], last, rtol=1e-6, atol=1e-7)


def test_gradient_flow_stays_finite_where_the_kernel_is_singular(given):
    gram_train, targets, gram_test = given
    twice = [*range(25), 0]
    gram_train, targets = gram_train[np.ix_(twice, twice)], targets[twice]
    # A float32 kernel is indefinite by rounding; that must not grow with time.
    spectrum = eigendecompose(gram_train.astype(np.float32) - 1e-7 * np.eye(26))
    assert spectrum.values[0] < 0
    flow = gradient_flow(spectrum, targets, gram_test[:, twice], (1e12,))
    assert np.abs(flow.train).max() < 3 and np.isfinite(flow.test).all()
    with pytest.raises(NumericalError):
        gradient_flow(spectrum, targets, gram_test[:, twice], (np.inf,))
    indefinite = eigendecompose(np.diag([2.5, 2.5, -1.0]) / 4 * 3)
    with pytest.raises(NumericalError, match="its smallest eigenvalue is -0.75"):
        gradient_flow(indefinite, np.eye(3), np.eye(3), (1.0,))


@pytest.mark.parametrize("get, time, ridge", [("ntk", 20.0, 0.0), ("nngp", np.inf, 1e-2)])
def test_the_mean_of_an_ensemble_is_that_of_neural_tangents(get, time, ridge):
    import neural_tangents as nt

    inputs, test_inputs, targets = (
        np.asarray(jax.random.normal(jax.random.key(i), shape))
        for i, shape in enumerate([(9, 6), (4, 6), (9, 2)])
    )
    model = models.network([models.Dense(64), models.Relu(), models.Dense(2)])
    kernel = getattr(model, get)
    ours = kernels.ensemble_mean(kernel, inputs, targets, test_inputs, time=time, ridge=ridge)
    kernel_fn = stax.serial(stax.Dense(64), stax.Relu(), stax.Dense(2))[2]
    peer = nt.predict.gradient_descent_mse_ensemble(kernel_fn, inputs, targets, diag_reg=ridge)
    theirs = peer(None if np.isinf(time) else time, test_inputs, get)
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3)
    with pytest.raises(NumericalError):
        twice = np.concatenate([inputs, inputs])
        kernels.ensemble_mean(kernel, twice, np.tile(targets, (2, 1)), test_inputs)
