"""One eigendecomposition gives what a solve for every ridge, or training to every time, gives."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

from lsa_jax._neural_tangents import predict
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import (
    eigendecompose,
    gradient_flow,
    leave_one_out,
    leave_one_out_ridge,
    regress,
    ridge_path,
    select_ridge,
)
from lsa_jax.kernels.matrices import memory

RIDGES = (1e-6, 1e-3, 0.1, 10.0)
TIMES = (0.0, 0.5, 30.0, 1e4)


@pytest.fixture
def given():
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(25, 4)), rng.normal(size=(8, 4))
    rbf = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 4)  # noqa: E731
    targets = np.tanh(x @ rng.normal(size=(4, 3))) + 0.2 * rng.normal(size=(25, 3))
    # A diagonal that is neither 1 nor constant: a ridge is a share of its mean.
    scale, scale_test = rng.uniform(1, 4, size=25), rng.uniform(1, 4, size=8)
    gram_train = scale[:, None] * rbf(x, x) * scale[None]
    return gram_train, targets, scale_test[:, None] * rbf(test, x) * scale[None]


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


def test_of_two_examples_each_is_predicted_by_the_other_and_of_equal_ridges_the_least_is_taken():
    targets = np.array([[1.0, 5.0], [4.0, 3.0]])
    errors = leave_one_out(eigendecompose(np.diag([1.0, 3.0])), targets, (0.1, 1.0))
    np.testing.assert_allclose(errors, (3.0**2 + 2.0**2) / 2)
    # A mean alone predicts, with any ridge.
    assert leave_one_out_ridge(np.eye(20), np.ones((20, 1)), (0.5, 0.125, 2.0)) == 0.125


def test_what_does_not_fit_the_memory_is_refused_with_the_numbers(given, monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 19_999.0)
    with pytest.raises(InputError, match=r"25 examples takes 2e\+04 bytes"):  # 32 n^2
        eigendecompose(given[0])
    monkeypatch.setattr(memory, "host_available", lambda: 40_000.0)
    assert len(eigendecompose(given[0]).values) == 25


def test_many_ridges_are_chosen_among_as_few_are(key, given):
    gram_train, targets, _ = given
    many = tuple(np.geomspace(1e-6, 10, 40))
    chosen = select_ridge(key, gram_train, targets, many)  # by one eigendecomposition
    near = many[max(0, many.index(chosen) - 10) : many.index(chosen) + 10]
    assert select_ridge(key, gram_train, targets, near) == chosen  # by a factorisation for each


def test_ridges_that_leave_the_matrix_singular_are_passed_over(given):
    ones, targets = np.ones((20, 20)) - 1e-6 * np.eye(20), np.arange(20.0)[:, None]
    spectrum = eigendecompose(ones)
    assert np.isinf(leave_one_out(spectrum, targets, (0.0, 0.5))).tolist() == [True, False]
    assert [p is None for p in ridge_path(spectrum, targets, ones, (0.0, 0.5))] == [True, False]
    with pytest.raises(NumericalError, match="not positive definite with ridge 1e-12"):
        leave_one_out_ridge(ones, targets, (0.0, 1e-12))


@pytest.mark.parametrize("started", [False, True])
def test_gradient_flow_is_that_of_neural_tangents(given, started):
    gram_train, targets, gram_test = given
    rng = np.random.default_rng(1)
    outputs = (rng.normal(size=(25, 3)), rng.normal(size=(8, 3)))
    flow = gradient_flow(
        eigendecompose(gram_train),
        targets,
        gram_test,
        TIMES,
        train_outputs=outputs[0] if started else None,
        test_outputs=outputs[1] if started else None,
        ridge=1e-2,
    )
    peer = predict.gradient_descent_mse(
        jnp.asarray(gram_train), jnp.asarray(targets), diag_reg=1e-2
    )
    first = outputs if started else (np.zeros((25, 3)), np.zeros((8, 3)))
    first_train, first_test = map(jnp.asarray, first)
    for index, time in enumerate(TIMES):
        _, test = peer(time, first_train, first_test, jnp.asarray(gram_test))
        np.testing.assert_allclose(flow.test[index], test, rtol=1e-4, atol=2e-5)
        # The peer's own training outputs count the ridge as a part of the kernel.
        _, train = peer(time, first_train, first_train, jnp.asarray(gram_train))
        np.testing.assert_allclose(flow.train[index], train, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_gradient_flow_gives_training_examples_the_same_outputs_as_test_examples(given, ridge):
    gram_train, targets, _ = given
    outputs = np.random.default_rng(1).normal(size=(25, 3))
    flow = gradient_flow(
        eigendecompose(gram_train),
        targets,
        gram_train,
        (*TIMES, np.inf),
        train_outputs=outputs,
        test_outputs=outputs,
        ridge=ridge,
    )
    np.testing.assert_allclose(flow.train, flow.test, rtol=1e-7, atol=1e-7)


def test_gradient_flow_solves_its_differential_equation(given):
    gram_train, targets, gram_test = given
    n, c = targets.shape

    def velocity(_, state):
        missing = state.reshape(-1, c)[:n] - targets
        return -(np.concatenate([gram_train, gram_test]) @ missing).ravel() / (n * c)

    solved = scipy.integrate.solve_ivp(
        velocity, (0, 30), np.zeros((n + 8) * c), rtol=1e-9, atol=1e-11
    ).y[:, -1]
    flow = gradient_flow(eigendecompose(gram_train), targets, gram_test, (30.0,))
    np.testing.assert_allclose(
        np.concatenate([flow.train[0], flow.test[0]]), solved.reshape(-1, c), atol=1e-7
    )


def test_gradient_flow_begins_at_the_start_and_ends_at_interpolation(given):
    gram_train, targets, gram_test = given
    flow = gradient_flow(eigendecompose(gram_train), targets, gram_test, (0.0, np.inf))
    assert not flow.train[0].any() and not flow.test[0].any()
    np.testing.assert_allclose(flow.train[1], targets, atol=1e-9)
    np.testing.assert_allclose(
        flow.test[1], gram_test @ np.linalg.solve(gram_train, targets), rtol=1e-6, atol=1e-7
    )


def test_gradient_flow_stays_finite_where_the_kernel_is_singular(given):
    gram_train, targets, gram_test = given
    twice = [*range(25), 0]
    gram_train, targets = gram_train[np.ix_(twice, twice)], targets[twice]
    # A float32 kernel is indefinite by rounding; that must not grow with time.
    spectrum = eigendecompose(gram_train.astype(np.float32) - 1e-7 * np.eye(26))
    assert spectrum.values[0] < 0
    flow = gradient_flow(spectrum, targets, gram_test[:, twice], (1e12,))
    assert np.abs(flow.train).max() < 3 and np.isfinite(flow.test).all()
    with pytest.raises(NumericalError, match="not positive definite with ridge 0"):
        gradient_flow(spectrum, targets, gram_test[:, twice], (np.inf,))
    with pytest.raises(NumericalError, match="its smallest eigenvalue is -0.75"):
        gradient_flow(
            eigendecompose(np.diag([2.5, 2.5, -1.0]) / 4 * 3), np.eye(3), np.eye(3), (1.0,)
        )


@pytest.mark.usefixtures("unchecked")
def test_a_matrix_may_differ_from_its_transpose_by_a_thousandth_of_its_mean_diagonal():
    for scale in (1e-3, 1.0, 1e6):
        for share, accepted in ((0.9e-3, True), (1.1e-3, False)):
            matrix = 5 * np.eye(10)
            matrix[2, 7] = 5 * share
            if accepted:
                assert len(eigendecompose(scale * matrix).values) == 10
            else:
                with pytest.raises(InputError, match="from its transpose by 0.0011 of its mean"):
                    eigendecompose(scale * matrix)


@pytest.mark.usefixtures("unchecked")
def test_wrong_arguments_are_refused(given):
    gram_train, targets, gram_test = given
    spectrum = eigendecompose(gram_train)
    with pytest.raises(InputError, match=r"gram_train is \(3, 4\); accepted: \(n, n\)"):
        eigendecompose(np.ones((3, 4)))
    with pytest.raises(InputError, match="gram_train has trace -6; accepted: more than 0"):
        eigendecompose(-2 * np.eye(3))
    # Eigenvalues -2 and 10; the mean diagonal is 4.
    with pytest.raises(NumericalError, match="smallest eigenvalue is -0.5 of its mean diagonal"):
        leave_one_out_ridge(np.array([[4.0, 6], [6, 4]]), np.eye(2), [0.1, 0.2])
    with pytest.raises(InputError, match=r"gram_train is \(0, 0\)"):
        eigendecompose(np.zeros((0, 0)))
    with pytest.raises(InputError, match=r"targets are \(24, 3\); accepted with 25 examples"):
        leave_one_out(spectrum, targets[:24], RIDGES)
    with pytest.raises(InputError, match="there is 1 example; accepted: 2 or more"):
        leave_one_out_ridge(np.eye(1), np.eye(1), RIDGES)
    with pytest.raises(InputError, match=r"times are \[-1.0\]"):
        gradient_flow(spectrum, targets, gram_test, (-1.0,))
    with pytest.raises(InputError, match=r"test_outputs are \(25, 3\); accepted: None or \(8, 3\)"):
        gradient_flow(spectrum, targets, gram_test, (1.0,), test_outputs=targets)
    with pytest.raises(InputError, match=r"gram_test is \(8, 24\)"):
        list(ridge_path(spectrum, targets, gram_test[:, 1:], RIDGES))
