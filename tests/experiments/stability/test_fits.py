"""Exponents of the maxima, and intervals that know nothing of what is claimed."""

import numpy as np
import pytest

from lsa_jax.experiments.stability.fits import fit_decay, fit_power, interval


def test_the_fit_recovers_a_known_exponent():
    m, rng = np.array([800.0, 1600, 3200, 6400]), np.random.default_rng(0)
    np.testing.assert_allclose(fit_power(m, 3 * m**-1.1), (3, -1.1), rtol=1e-6)
    # Uniform below the curve: maxima of many come close to it.
    samples = [7 * n**-0.8 * rng.uniform(size=400) for n in m]
    fit = fit_decay(m, samples, 50)
    assert fit.low <= fit.exponent <= fit.high and fit.high - fit.low < 0.1
    np.testing.assert_allclose([fit.exponent, fit.mean_exponent], -0.8, atol=0.06)
    assert fit_power(m, np.array([1.0, 0.5, 0.0, 0.1])) is None
    # One pair of a size is no sample: there is a curve, and no interval.
    alone = fit_decay(m, [7 * n ** np.array([-0.8]) for n in m], 50)
    np.testing.assert_allclose(alone.exponent, -0.8, rtol=1e-6)
    assert np.isnan([alone.low, alone.high]).all()
    assert fit_power(m[:2], m[:2]) is None


def test_the_curve_is_the_least_squares_one_in_the_quantity_itself_not_on_logarithmic_axes():
    """Off a power law: both derivatives of the sum of squares vanish there, and only there."""
    m, values = np.array([800.0, 1600, 3200, 6400]), np.array([1.0, 0.7, 0.2, 0.15])
    factor, exponent = fit_power(m, values)
    residual, power = values - factor * m**exponent, m**exponent
    assert abs(residual @ power) < 1e-5 * np.linalg.norm(values) * np.linalg.norm(power)
    slope = factor * power * np.log(m / 800)
    assert abs(residual @ slope) < 1e-5 * np.linalg.norm(values) * np.linalg.norm(slope)
    on_logarithms = np.polyfit(np.log(m), np.log(values), 1)[0]
    assert exponent > on_logarithms + 0.05
    samples = [value * np.array([0.5, 1.0, 0.1 * place]) for place, value in enumerate(values)]
    fit = fit_decay(m, samples, 5)
    means = np.mean(samples, axis=1)
    assert (fit.factor, fit.exponent) == (factor, exponent)
    assert fit.log_slope == pytest.approx(on_logarithms)
    assert fit.mean_exponent == fit_power(m, means)[1] != fit.exponent


def test_a_difference_of_exponents_is_subsampled_on_the_same_pairs():
    m, rng = np.array([100.0, 200, 400]), np.random.default_rng(0)
    samples = [rng.lognormal(size=40) / n for n in m]
    fit = fit_decay(m, samples, 50)
    # The same fluctuations about another power: what they do to both exponents is nearly the same.
    steeper = fit_decay(m, [s * n**-0.1 for s, n in zip(samples, m, strict=True)], 50)
    difference = fit.exponent - steeper.exponent
    low, high = interval(difference, fit.subsampled - steeper.subsampled)
    assert low <= difference <= high and abs(difference - 0.1) < 0.05
    assert fit.high - fit.low > 5 * (high - low)


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_a_pair_without_a_finite_number_leaves_no_fit(lost):
    m = np.array([100.0, 200, 400])
    samples = [np.array([1.0, 0.9]) / n for n in m]
    assert fit_decay(m, samples, 5) is not None
    samples[1] = np.append(samples[1], lost)  # one that is not the largest would go unseen
    assert fit_decay(m, samples, 5) is None


def test_the_curve_of_one_large_value_among_noise_is_found_however_steep():
    m, values = np.array([1.0, 2, 4, 8]), np.array([9, 0.01, 0.3, 1.0])
    factor, exponent = fit_power(m, values)
    powers = m ** np.linspace(-15, 2, 1701)[:, None]
    factors = powers @ values / np.sum(powers**2, axis=1)
    least = np.sum((values - factors[:, None] * powers) ** 2, axis=1).min()
    assert np.sum((values - factor * m**exponent) ** 2) <= least * (1 + 1e-6)
    assert -11 < exponent < -8
