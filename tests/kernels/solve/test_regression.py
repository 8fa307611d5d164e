"""Kernel ridge regression against linear algebra written out, and what it refuses."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels import regress, select_ridge
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.solve import cholesky
from lsa_jax.kernels.solve.regression import fitted_weights


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    x, test = rng.normal(size=(30, 5)), rng.normal(size=(11, 5))
    weights = rng.normal(size=(5, 2))
    rbf = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 4)  # noqa: E731
    # A diagonal that is neither 1 nor constant: a ridge is a share of its mean.
    s, t = rng.uniform(0.7, 2, size=(30, 1)), rng.uniform(0.7, 2, size=(11, 1))
    gram_train, gram_test = s * rbf(x, x) * s.T, t * rbf(test, x) * s.T
    return gram_train, np.tanh(x @ weights), gram_test, np.tanh(test @ weights)


@pytest.mark.parametrize("ridge", [1e-8, 1e-3, 10.0])
def test_predictions_equal_scikit_learns(problem, ridge):
    gram_train, targets, gram_test, _ = problem
    peer = KernelRidge(alpha=ridge * np.trace(gram_train) / 30, kernel="precomputed")
    mean = targets.mean(axis=0)
    expected = peer.fit(gram_train, targets - mean).predict(gram_test) + mean
    fit = regress(gram_train, targets, gram_test, ridge=ridge)
    np.testing.assert_allclose(fit.predictions, expected, rtol=1e-6, atol=1e-8)
    assert fit.ridge == ridge


def test_fitted_weights_make_the_predictions(problem, monkeypatch):
    gram_train, targets, gram_test, _ = problem
    weights = fitted_weights(gram_train, targets, ridge=0.1)
    expected = regress(gram_train, targets, gram_test, ridge=0.1).predictions
    np.testing.assert_allclose(gram_test @ weights + targets.mean(axis=0), expected, rtol=1e-9)
    monkeypatch.setattr(memory, "host_available", lambda: 7199.0)
    with pytest.raises(InputError, match=r"30 examples takes 7.2e\+03 bytes"):  # 8 n^2
        fitted_weights(gram_train, targets, ridge=0.1)


def test_no_ridge_interpolates(problem):
    gram_train, targets, _, _ = problem
    fit = regress(gram_train, targets, gram_train, ridge=0.0)
    np.testing.assert_allclose(fit.predictions, targets, rtol=1e-6, atol=1e-8)


def test_ridge_is_relative_to_the_kernels_scale(problem):
    gram_train, targets, gram_test, _ = problem
    fits = [regress(c * gram_train, targets, c * gram_test, ridge=0.1) for c in (1.0, 1e6)]
    np.testing.assert_allclose(fits[0].predictions, fits[1].predictions, rtol=1e-9)


def test_the_condition_number_is_estimated(problem):
    gram_train, targets, gram_test, _ = problem
    fit = regress(gram_train, targets, gram_test, ridge=0.01)
    exact = np.linalg.cond(gram_train + 0.01 * np.eye(30) * np.trace(gram_train) / 30, 1)
    assert exact / 3 < fit.condition <= exact * 1.01


def test_equal_examples_need_a_ridge(problem):
    gram_train, targets, gram_test, _ = problem
    twice = np.ix_([*range(30), 0], [*range(30), 0])
    targets, gram_test = np.vstack([targets, targets[:1]]), gram_test[:, [*range(30), 0]]
    least = -1e-9 * 31 / np.trace(gram_train[twice])
    with pytest.raises(NumericalError, match=f"ridge 0: its smallest eigenvalue is {least:.2g} "):
        regress(gram_train[twice] - 1e-9 * np.eye(31), targets, gram_test, ridge=0.0)
    for ridge in (0.0, 1e-17):  # rounding decides whether Cholesky breaks down: refused either way
        with pytest.raises(NumericalError, match="not positive definite"):
            regress(gram_train[twice], targets, gram_test, ridge=ridge)
    assert np.isfinite(regress(gram_train[twice], targets, gram_test, ridge=1e-6).predictions).all()


def test_the_ridge_that_the_message_names_is_enough(problem):
    gram_train, targets, gram_test, _ = problem
    shifted = gram_train - (np.linalg.eigvalsh(gram_train)[0] + 0.01) * np.eye(30)
    with pytest.raises(NumericalError, match="use a ridge well above") as caught:
        regress(shifted, targets, gram_test, ridge=0.0)
    least = float(str(caught.value).split("well above ")[1].split(",")[0])
    with pytest.raises(NumericalError, match="not positive definite"):
        regress(shifted, targets, gram_test, ridge=0.9 * least)
    assert regress(shifted, targets, gram_test, ridge=1.1 * least).condition < 1e6


def test_a_float32_kernel_is_solved_in_float64(problem):
    gram_train, targets, gram_test, _ = problem
    single = [a.astype(np.float32) for a in (gram_train, targets, gram_test)]
    exact = regress(*(a.astype(float) for a in single), ridge=1e-9)
    np.testing.assert_allclose(regress(*single, ridge=1e-9).predictions, exact.predictions)


def test_what_was_given_is_left_as_it_was(problem):
    copies = [a.copy() for a in problem[:3]]
    regress(*problem[:3], ridge=0.1)
    for given, copy in zip(problem[:3], copies, strict=True):
        np.testing.assert_array_equal(given, copy)


def test_a_constant_added_to_the_targets_is_added_to_the_predictions(problem):
    gram_train, targets, gram_test, _ = problem
    fits = [regress(gram_train, targets + c, gram_test, ridge=0.1) for c in (0.0, 100.0)]
    np.testing.assert_allclose(fits[1].predictions, fits[0].predictions + 100, rtol=1e-12)


def test_one_example_predicts_itself_everywhere():
    fit = regress(np.eye(1), np.array([[3.0, 1.0]]), np.ones((4, 1)), ridge=0.1)
    np.testing.assert_allclose(fit.predictions, [[3.0, 1.0]] * 4)


@pytest.mark.parametrize("name", ["gram_train", "targets", "gram_test"])
def test_numbers_that_are_not_finite_are_refused(problem, name):
    arguments = dict(zip(("gram_train", "targets", "gram_test"), problem[:3], strict=True))
    arguments[name] = arguments[name].copy()
    arguments[name][0, 0] = np.nan
    with pytest.raises(NumericalError, match=f"{name} has entries that are not finite"):
        regress(**arguments, ridge=0.1)


@pytest.mark.usefixtures("unchecked")
def test_wrong_arguments_are_refused(problem):
    gram_train, targets, gram_test, _ = problem
    with pytest.raises(InputError, match="ridge is -1"):
        regress(gram_train, targets, gram_test, ridge=-1)
    with pytest.raises(InputError, match=r"accepted with 30 targets: \(30, c\), \(30, 30\)"):
        regress(gram_train[:29], targets, gram_test, ridge=1)
    with pytest.raises(InputError, match=r"targets has shape \(30,\)"):
        regress(gram_train, targets[:, 0], gram_test, ridge=1)
    with pytest.raises(InputError, match="differs from its transpose by"):
        regress(gram_train + np.tri(30), targets, gram_test, ridge=1)
    with pytest.raises(InputError, match="gram_train has trace 0"):
        regress(0 * gram_train, targets, gram_test, ridge=1)
    with pytest.raises(InputError, match="0 targets"):
        regress(np.zeros((0, 0)), np.zeros((0, 2)), np.zeros((3, 0)), ridge=1)


def test_the_ridge_chosen_predicts_held_out_examples_best(key, problem):
    gram_train, targets, gram_test, truth = problem
    noisy = targets + np.random.default_rng(1).normal(size=targets.shape)
    ridges = (1e-8, 0.3, 1e3)
    chosen = select_ridge(key, gram_train, noisy, ridges)
    errors = {
        ridge: np.mean(
            (regress(gram_train, noisy, gram_test, ridge=ridge).predictions - truth) ** 2
        )
        for ridge in ridges
    }
    assert chosen == min(errors, key=errors.get) == 0.3


def test_of_equally_good_ridges_the_smallest_is_chosen(key):
    constant = np.ones((20, 1))  # the mean alone predicts it, with any ridge
    assert select_ridge(key, np.eye(20), constant, (0.1, 0.01, 1.0)) == 0.01


def test_a_single_ridge_is_taken_as_it_is_and_none_is_refused(key, problem):
    gram_train, targets, _, _ = problem
    assert select_ridge(key, gram_train, targets, (7.0,)) == 7.0
    with pytest.raises(InputError, match="ridge is -1"):
        select_ridge(key, gram_train, targets, (0.1, -1))
    with pytest.raises(InputError, match="no ridges"):
        select_ridge(key, gram_train, targets, ())
    with pytest.raises(InputError, match="held_out is 1.0 of 30 examples"):
        select_ridge(key, *problem[:2], [0.1, 1.0], held_out=1.0)
    with pytest.raises(InputError, match="held_out is 0.2 of 2 examples"):
        select_ridge(key, gram_train[:2, :2], targets[:2], (1.0, 2.0))


def test_ridges_that_fail_are_passed_over(key):
    ones, targets = np.ones((20, 20)) - 1e-6 * np.eye(20), np.arange(20.0)[:, None]
    assert select_ridge(key, ones, targets, (0.0, 0.5)) == 0.5
    with pytest.raises(NumericalError, match="not positive definite"):
        select_ridge(key, ones, targets, (0.0, 1e-12))


@pytest.mark.parametrize("ridge", [1e-4, 0.1])
def test_float32_with_refinement_is_as_good_as_float64(problem, ridge):
    single = [a.astype(np.float32) for a in problem[:3]]
    exact = regress(*single, ridge=ridge)
    # Targets of any size, each of which is refined.
    sizes = np.array([1.0, 1e-10])
    scaled = single[0], single[1] * sizes, single[2]
    refined = regress(*scaled, ridge=ridge, precision="float32")
    refined = refined._replace(predictions=refined.predictions / sizes)
    np.testing.assert_allclose(refined.predictions, exact.predictions, rtol=1e-8, atol=1e-9)
    assert refined.condition == pytest.approx(exact.condition, rel=0.1)


def test_float32_says_when_it_cannot_be_refined(problem):
    gram_train, targets, gram_test, _ = problem
    with pytest.raises(
        NumericalError, match="in float32 with ridge 1e-12; use precision='float64'"
    ):
        regress(np.ones((30, 30)), targets, gram_test, ridge=1e-12, precision="float32")
    # A factor of another matrix stands for one that rounding has spoilt.
    spoilt = cholesky.factorize(3 * np.eye(30) - 0.09, 0.0, "float32")
    with pytest.raises(NumericalError, match="refinement of a float32 factorisation stopped at"):
        cholesky.refine(spoilt, 20 * gram_train, targets)


def test_the_memory_of_the_kernel_can_be_used(problem):
    gram_train, targets, gram_test, _ = problem
    expected = regress(gram_train, targets, gram_test, ridge=0.1).predictions
    for order in "CF":
        own = np.array(gram_train, order=order)
        fit = regress(own, targets, gram_test, ridge=0.1, overwrite=True)
        np.testing.assert_allclose(fit.predictions, expected, rtol=1e-12)
        assert not np.array_equal(own, gram_train)
    with pytest.raises(
        InputError, match="gram_train is float32; accepted: a contiguous, writeable"
    ):
        regress(gram_train.astype(np.float32), targets, gram_test, ridge=0.1, overwrite=True)
    with pytest.raises(InputError, match="overwrite is True and precision is 'float32'"):
        regress(gram_train, targets, gram_test, ridge=0.1, overwrite=True, precision="float32")
    with pytest.raises(NumericalError, match="not positive definite with ridge 0; use a larger"):
        regress(np.ones((30, 30)), targets, gram_test, ridge=0, overwrite=True)


def test_a_single_class_is_predicted_everywhere(problem):
    gram_train, _, gram_test, _ = problem
    for precision in ("float64", "float32"):
        fit = regress(gram_train, np.ones((30, 1)), gram_test, ridge=0.1, precision=precision)
        np.testing.assert_array_equal(fit.predictions, 1.0)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_the_memory_is_refused_with_the_numbers(problem, monkeypatch):
    monkeypatch.setattr(memory, "host_available", lambda: 7000.0)
    with pytest.raises(InputError, match=r"30 examples takes 7.2e\+03 bytes .* 7e\+03 are"):
        regress(*problem[:3], ridge=0.1)
    assert regress(*problem[:3], ridge=0.1, precision="float32").condition > 1
    with pytest.raises(InputError, match="precision is 'half'; accepted: float64, float32"):
        regress(*problem[:3], ridge=0.1, precision="half")
