"""Exponents of the maxima, and how often their intervals contain the exponent."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.stability.fits import fit_all, fit_decay, interval, power_fit
from lsa_jax.experiments.stability.samples import QUANTITIES

FEW, MORE = np.array([250.0, 500, 1000]), np.array([800.0, 1600, 3200, 6400, 12_800])
LAWS = {
    "normal": lambda rng, size: 1 + 0.1 * rng.normal(size=size),
    "uniform": lambda rng, size: rng.uniform(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "lognormal": lambda rng, size: np.exp(rng.normal(size=size)),
    "Pareto": lambda rng, size: 1 + rng.pareto(2, size=size),
}


def test_the_curve_is_the_least_squares_one_in_the_quantity_itself_not_on_logarithmic_axes():
    """Off a power law: both derivatives of the sum of squares vanish there, and only there."""
    m, values = MORE[:4], np.array([1.0, 0.7, 0.2, 0.15])
    factor, exponent = power_fit(m)(values)
    residual, power = values - factor * m**exponent, m**exponent
    assert abs(residual @ power) < 1e-5 * np.linalg.norm(values) * np.linalg.norm(power)
    slope = factor * power * np.log(m / 800)
    assert abs(residual @ slope) < 1e-5 * np.linalg.norm(values) * np.linalg.norm(slope)
    assert exponent > np.polyfit(np.log(m), np.log(values), 1)[0] + 0.05
    samples = [value * np.array([0.5, 1.0, 0.1 * place]) for place, value in enumerate(values)]
    fit = fit_decay(m, samples, 5)
    assert (fit.factor, fit.exponent) == (factor, exponent)


def test_a_known_exponent_is_recovered_however_steep():
    np.testing.assert_allclose(power_fit(MORE)(3 * MORE**-1.1), (3, -1.1), rtol=1e-6)
    m, values = np.array([1.0, 2, 4, 8]), np.array([9, 0.01, 0.3, 1.0])
    factor, exponent = power_fit(m)(values)
    powers = m ** np.linspace(-15, 2, 1701)[:, None]
    factors = powers @ values / np.sum(powers**2, axis=1)
    least = np.sum((values - factors[:, None] * powers) ** 2, axis=1).min()
    assert np.sum((values - factor * m**exponent) ** 2) <= least * (1 + 1e-6)


@pytest.mark.parametrize("values", [[1.0, 0.5, 0.0], [1.0, np.nan, 0.5], [1.0, 0.5]])
def test_there_is_no_curve_through_few_sizes_or_numbers_that_are_not_positive(values):
    assert power_fit(FEW[: len(values)])(np.array(values)) is None


@pytest.mark.parametrize("lost", [np.nan, np.inf, -np.inf])
def test_a_pair_without_a_finite_number_leaves_no_fit(lost):
    samples = [np.array([1.0, 0.9]) / n for n in FEW]
    assert fit_decay(FEW, samples, 5) is not None
    samples[1] = np.append(samples[1], lost)  # one that is not the largest would go unseen
    assert fit_decay(FEW, samples, 5) is None


@pytest.mark.parametrize("pairs", [1, 2, 3])
def test_of_three_pairs_or_fewer_there_is_no_interval(pairs):
    rng = np.random.default_rng(0)
    fit = fit_decay(FEW, [rng.uniform(0.9, 1, pairs) / n for n in FEW], 50)
    assert fit.exponent < 0 and np.isnan([fit.low, fit.high]).all()
    assert np.isnan(interval(0.0, fit.subsampled - fit.subsampled)).all()


@pytest.mark.parametrize(
    ("m", "pairs", "laws", "exponents"),
    [
        (FEW, 4, ("normal", "lognormal"), (-0.5, 0.0)),
        (MORE, 40, ("exponential", "Pareto"), (-1.0, -1.0)),
    ],
)
def test_intervals_contain_the_exponent_and_the_difference(m, pairs, laws, exponents):
    rng, found, tables = np.random.default_rng(0), np.zeros(2), 60
    for _ in range(tables):
        gap, seen = (
            fit_decay(m, [n**b * LAWS[name](rng, pairs) for n in m], 40)
            for name, b in zip(laws, exponents, strict=True)
        )
        difference = seen.exponent - gap.exponent
        low, high = interval(difference, seen.subsampled - gap.subsampled)
        found += seen.low <= exponents[1] <= seen.high, low <= exponents[1] - exponents[0] <= high
        assert seen.low <= seen.exponent <= seen.high and low <= difference <= high
    assert (found / tables >= 0.95).all()


@pytest.mark.parametrize(("tail", "reach"), [(0.025, 0.96), (0.05, 0.91), (0.004, np.nan)])
def test_an_interval_reaches_as_far_as_that_share_of_the_subsamples(tail, reach):
    away = np.arange(1, 101) / 100 * np.where(np.arange(100) % 2, 1, -1)
    np.testing.assert_allclose(interval(2.0, 2 + away, tail), (2 - reach, 2 + reach))
    np.testing.assert_allclose(interval(2.0, np.append(2 + away, [np.nan] * 20)), (np.nan, np.nan))


def test_a_difference_of_exponents_is_subsampled_on_the_same_pairs():
    rng = np.random.default_rng(0)
    samples = [rng.lognormal(size=40) / n for n in FEW]
    fit = fit_decay(FEW, samples, 50)
    # The same fluctuations about another power change both exponents nearly alike.
    steeper = fit_decay(FEW, [s * n**-0.1 for s, n in zip(samples, FEW, strict=True)], 50)
    difference = fit.exponent - steeper.exponent
    low, high = interval(difference, fit.subsampled - steeper.subsampled)
    assert low <= difference <= high and abs(difference - 0.1) < 0.05
    assert fit.high - fit.low > 5 * (high - low)


def test_a_trial_has_a_fit_a_quantity_and_a_description_of_its_pairs():
    """Of four pairs a size, whose last one failed; each quantity has a power of m of its own."""
    powers = {"loss_gap": -1.0, "stability": -0.5, "distance": 0.25}
    rows = [
        {q: 2 * m ** powers.get(q, 0.0) * (1 - 1e-6 * pair) for q in QUANTITIES}
        | {"m": m, "pair": pair, "train_error": pair / 10}
        for m in (100, 200, 400, 800)
        for pair in range(4)
    ][:-1]
    fixed = {"learner": "logistic", "perturbation": "swap", "seed": 0, "step": 8}
    pairs = pd.DataFrame(rows).assign(**fixed)
    fits = fit_all(pairs, 20).set_index("quantity")
    assert set(fits["pairs"]) == {3} and set(fits["sizes"]) == {4} and fits["tied"].isna().all()
    assert set(fits["train_accuracy"].round(9)) == {0.85}
    for quantity, exponent in powers.items():
        found = fits.loc[quantity]
        np.testing.assert_allclose((found["exponent"], found["factor"]), (exponent, 2), rtol=1e-5)
        less = np.nan if quantity == "loss_gap" else exponent + 1
        np.testing.assert_allclose(found["less_gap"], less, atol=1e-6)
    for sizes in ((400,), (800, 200)):  # the least size at which all pairs are equal
        pairs.loc[pairs["m"].isin(sizes), "loss_gap"] = 0.5
        tied = fit_all(pairs, 20).set_index("quantity")["tied"]
        assert tied["loss_gap"] == min(sizes) and tied.drop("loss_gap").isna().all()
