"""Predicted learning curves against Monte Carlo, closed forms and limits."""

import numpy as np
import pytest

from lsa_jax import kernels
from lsa_jax.kernels import kernel_alignment_risk, modes, predict_learning_curve

P = 300
EIGENVALUES = np.arange(1.0, P + 1) ** -1.5
# Columns of random signs: their sum has less noise than one of them.
_SIGNS = np.random.default_rng(9).choice([-0.2, 0.2], (P, 25))
COEFFICIENTS = np.arange(1.0, P + 1)[:, None] ** -0.8 * _SIGNS


def regression(features, targets, train, shift):
    """Returns the squared distance of each row's prediction, summed over the outputs."""
    gram = features @ features[train].T
    weights = np.linalg.solve(gram[train] + shift * np.eye(len(train)), targets[train])
    return np.sum((gram @ weights - targets) ** 2, axis=1)


@pytest.mark.parametrize("ridge", [0.0, 0.03])
def test_gaussian_features_have_the_predicted_errors(ridge):
    rng, n, shift = np.random.default_rng(0), 80, ridge * EIGENVALUES.sum()
    errors, recovered = [], np.zeros(P)
    for _ in range(30):
        modes_at = rng.standard_normal((n + 500, P))
        features, train = modes_at * np.sqrt(EIGENVALUES), np.arange(n)
        found = regression(features, modes_at @ COEFFICIENTS, train, shift)
        errors.append([found[:n].mean(), found[n:].mean()])
        inverse = np.linalg.inv(features[:n] @ features[:n].T + shift * np.eye(n))
        recovered += EIGENVALUES * np.sum(modes_at[:n] * (inverse @ modes_at[:n]), axis=0) / 30
    curve = predict_learning_curve(EIGENVALUES, COEFFICIENTS, [n], ridge)
    train, test = np.mean(errors, axis=0)
    assert curve.test[0] == curve.whole[0] == pytest.approx(test, rel=0.03)
    assert curve.train[0] == pytest.approx(train, rel=0.05, abs=1e-12)
    np.testing.assert_allclose(curve.learnabilities[0], recovered, atol=0.06)
    np.testing.assert_allclose(curve.learnabilities[0, :40], recovered[:40], rtol=0.06)


@pytest.mark.parametrize(("n", "ridge"), [(30, 0.0), (240, 0.05)])
def test_a_pool_with_rotated_eigenvectors_has_the_predicted_errors(n, ridge):
    rng, errors = np.random.default_rng(1), []
    for _ in range(8):
        vectors = np.linalg.qr(rng.standard_normal((P, P)))[0] * np.sqrt(P)
        found = regression(
            vectors * np.sqrt(EIGENVALUES),
            vectors @ COEFFICIENTS,
            np.arange(n),
            ridge * EIGENVALUES.sum(),
        )
        errors.append([found[:n].mean(), found[n:].mean(), found.mean()])
    curve = predict_learning_curve(EIGENVALUES, COEFFICIENTS, [n], ridge, pool=P)
    expected = np.mean(errors, axis=0)
    np.testing.assert_allclose(np.stack(curve[2:])[:, 0], expected, rtol=0.04, atol=1e-12)


@pytest.mark.parametrize("pool", [None, 100])
def test_flat_spectra_have_closed_forms(pool):
    n, p, v = 30, 100, np.full((100, 1), 0.1)
    without = predict_learning_curve(np.ones(p), v, [n], pool=pool)
    # kappa = (p - n) / n, so L = n / p, and the error is (1 - L)^2 / (1 - L).
    assert without.kappa[0] == pytest.approx((p - n) / n)
    np.testing.assert_allclose(without.learnabilities, n / p)
    assert without.whole[0] == pytest.approx(1 - n / p) and without.train[0] == 0
    assert without.test[0] == pytest.approx(1 if pool else 1 - n / p)
    with_ridge = predict_learning_curve(np.ones(p), v, [n], 0.5, pool=pool)
    if pool:  # K = N I: an example says nothing on others, and is shrunk to 1 / (1 + ridge)
        assert with_ridge.train[0] == pytest.approx((0.5 / 1.5) ** 2)
        assert with_ridge.test[0] == pytest.approx(1)
    else:  # p kappa / (1 + kappa) has a quadratic equation: n k^2 - (p + d - n) k - d = 0
        d, b = 50, p + 50 - n
        kappa = (b + np.sqrt(b**2 + 4 * n * d)) / (2 * n)
        assert with_ridge.kappa[0] == pytest.approx(kappa)
        learned = 1 / (1 + kappa)
        error = n / (n - p * learned**2) * (1 - learned) ** 2
        assert with_ridge.test[0] == pytest.approx(error)
        assert with_ridge.train[0] == pytest.approx((d / (n * kappa)) ** 2 * error)


def test_limits_of_numbers_of_examples_and_ridges():
    many = predict_learning_curve(EIGENVALUES, COEFFICIENTS, [10, 10**6, 10**8], 1e-3)
    assert np.all(np.diff(many.test) < 0) and many.test[-1] < 1e-6
    total = np.sum(COEFFICIENTS**2)
    stiff = predict_learning_curve(EIGENVALUES, COEFFICIENTS, [50], 1e9, pool=P)
    np.testing.assert_allclose(np.stack(stiff[2:]), total, rtol=1e-6)
    # A pool much larger than n is the distribution.
    own = (EIGENVALUES, COEFFICIENTS, [20, 100], 1e-2)
    near = predict_learning_curve(*own, pool=10**9)
    for one, other in zip(near, predict_learning_curve(*own), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    # All but one of a pool: what is left out is predicted nearly as by all.
    all_but_one = predict_learning_curve(EIGENVALUES, COEFFICIENTS, [P - 1], 0.1, pool=P)
    shift = 0.1 * EIGENVALUES.sum()
    kept = shift / P / (EIGENVALUES + shift / P)  # K (K + d)^-1 leaves these shares
    exact = np.sum(kept[:, None] ** 2 * COEFFICIENTS**2)
    assert all_but_one.train[0] == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("ridge", [1e-4, 1e-20, 1e-36, 1e-290])
def test_errors_at_as_many_examples_as_modes_fall_as_the_root_of_the_ridge(ridge):
    # There sum kappa / l = d / kappa, so that the error is kappa sum v^2 / l^2 n / (2 sum 1 / l).
    values, coefficients = np.array([1.0, 0.5, 0.1, 0.0]), np.eye(4)[:3]
    coefficients = np.vstack([coefficients, np.zeros(4)])
    found = predict_learning_curve(values, coefficients, [3], ridge)
    kappa = np.sqrt(1.6 * ridge / 13)
    np.testing.assert_allclose(found.kappa, kappa, rtol=10 * np.sqrt(ridge) + 1e-9)
    np.testing.assert_allclose(found.test, 3 * 105 / 26 * kappa, rtol=30 * np.sqrt(ridge) + 1e-9)


def test_modes_are_those_of_the_pool(drawn):
    gram, targets, _ = drawn(25, dimensions=4)[:3]
    spectrum = kernels.eigendecompose(gram)
    values, coefficients = modes(spectrum, targets)
    assert values.sum() == pytest.approx(np.trace(gram) / 25)
    assert np.sum(coefficients**2) == pytest.approx(np.sum(np.asarray(targets) ** 2) / 25)
    rebuilt = (spectrum.vectors * values) @ spectrum.vectors.T * 25
    np.testing.assert_allclose(rebuilt, gram, rtol=1e-4, atol=1e-5)


def test_the_alignment_risk_is_its_formula_and_estimates_the_test_error(drawn):
    gram, targets, _ = drawn(25, dimensions=4)[:3]
    found = kernel_alignment_risk(kernels.eigendecompose(gram), targets, [0.1, 2.0])
    for ridge, risk in zip((0.1, 2.0), found, strict=True):
        inverse = np.linalg.inv(gram / 25 + ridge * np.trace(gram) / 25**2 * np.eye(25))
        top = np.sum((inverse @ targets) ** 2) / 25
        assert risk == pytest.approx(top / (np.trace(inverse) / 25) ** 2, rel=1e-4)
    rng, n, risks = np.random.default_rng(2), 80, []
    for _ in range(20):
        at = rng.standard_normal((n, P))
        spectrum = kernels.eigendecompose((at * EIGENVALUES) @ at.T)
        shift = 0.03 * EIGENVALUES.sum() / spectrum.mean_diagonal
        risks.append(kernel_alignment_risk(spectrum, at @ COEFFICIENTS, [shift])[0])
    curve = predict_learning_curve(EIGENVALUES, COEFFICIENTS, [n], 0.03)
    assert np.mean(risks) == pytest.approx(curve.test[0], rel=0.05)
    assert kernel_alignment_risk(kernels.eigendecompose(np.ones((3, 3))), np.eye(3), [0.0]) == [
        np.inf
    ]
