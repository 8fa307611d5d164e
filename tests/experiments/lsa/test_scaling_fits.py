import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.lsa.signal_scaling.fits import (
    describe,
    fit_power_law,
    growths_of,
    local_exponents,
    reached_from,
)


def test_a_power_law_is_found_exactly():
    k = np.array([16, 64, 256])
    fit = fit_power_law(k, 3 * k**1.5)
    assert (fit.exponent, fit.factor) == pytest.approx((1.5, 3.0))
    assert fit.error == pytest.approx(0, abs=1e-7) and fit.low <= fit.exponent <= fit.high
    np.testing.assert_allclose(local_exponents(k, 3 * k**1.5), 1.5)


def test_a_constant_has_exponent_0_without_error():
    fit = fit_power_law(np.array([16, 64, 256]), np.full(3, 0.7))
    assert fit == (0.0, 0.0, 0.0, 0.0, pytest.approx(0.7))


def test_an_interval_of_three_points_is_students_with_one_degree_of_freedom():
    fit = fit_power_law(np.array([1.0, 10, 100]), np.array([1.0, 20, 100]))
    reach = 12.7062 * fit.error
    assert (fit.low, fit.high) == pytest.approx((1 - reach, 1 + reach), rel=1e-4)
    # The deviations from a straight line in units of log 10 are 1, -2 and 1 times log10(2) / 3.
    assert fit.error == pytest.approx(np.log10(2) / 3 * (6 / 1 / 2) ** 0.5)
    assert describe(fit) == f"1.000 ± {fit.error:.3f}"
    assert describe(fit, interval=True).endswith(f" ({fit.low:.2f} to {fit.high:.2f})")


def test_the_interval_covers_the_exponent_as_often_as_it_says():
    rng, k = np.random.default_rng(0), np.repeat([10.0, 30.0, 100.0, 300.0], 2)
    fits = [fit_power_law(k, 2 * k**0.5 * np.exp(0.3 * rng.standard_normal(8))) for _ in range(400)]
    covered = np.mean([fit.low <= 0.5 <= fit.high for fit in fits])
    assert covered == pytest.approx(0.95, abs=0.035)
    assert np.std([fit.exponent for fit in fits]) == pytest.approx(
        np.sqrt(np.mean([fit.error**2 for fit in fits])), rel=0.1
    )


def test_two_points_have_a_slope_without_error_and_one_has_none():
    fit = fit_power_law(np.array([10, 100]), np.array([1, 100]))
    assert fit.exponent == pytest.approx(2) and np.isnan([fit.error, fit.low, fit.high]).all()
    assert describe(fit) == "2.000 (two k)"
    assert fit_power_law(np.array([10, 10]), np.array([1, 2])) is None
    assert fit_power_law(np.array([10, 20]), np.array([1, 0])) is None


def test_k0_is_above_the_last_miss():
    k = np.array([1, 2, 4, 4, 8, 8])
    assert reached_from(k, np.array([False, True, True, False, True, True])) == 8
    assert reached_from(k, np.ones(6, bool)) == 1
    assert reached_from(k, np.arange(6) < 5) is None


def growths(steps, within=0.0):
    """Returns the growths of one row a seed, one column at k = 4, 16, ..."""
    seeds, places = np.indices(np.shape(steps)).reshape(2, -1)
    values = np.ravel(steps)
    kept = np.isfinite(values)
    columns = (4.0 ** (1 + places), seeds, values)
    return growths_of(*(pd.Series(column[kept]) for column in columns), within)


def ends(growth, pairs=1):
    """Returns the interval of a growth, its lower end as one of so many."""
    mean = growth.values.mean()
    low = mean - growth.reach(0.025 / pairs) - growth.below
    return low, mean + growth.reach(0.025) + growth.above


def test_a_growth_is_that_of_each_seed_with_students_interval():
    (first, second) = growths([[100.0, 200.0, 1600.0], [100.0, 400.0, np.nan]])
    assert first.values.mean() == pytest.approx(0.75)
    spread = 0.5 / 2**0.5
    reach = scipy.stats.t.ppf(0.975, 1) * spread / 2**0.5
    np.testing.assert_allclose(ends(first), [0.75 - reach, 0.75 + reach])
    # Only the first seed has the second growth, whose error is not known.
    assert second.values.mean() == pytest.approx(1.5)
    assert ends(second) == (-np.inf, np.inf)


def test_a_growth_is_wider_by_the_steps_to_within_which_it_is_known():
    (exact,), (known,) = (growths([[100.0, 400.0], [100.0, 400.0]], within) for within in (0, 20))
    np.testing.assert_allclose(ends(exact), [1, 1])
    expected = np.log([380 / 100, 400 / 80]) / np.log(4)
    np.testing.assert_allclose(ends(known), expected)
    (none,) = growths([[20.0, 400.0], [20.0, 400.0]], 20)  # reached before it was looked at
    assert ends(none)[1] == np.inf and np.isfinite(ends(none)[0])


@pytest.mark.parametrize("spread", [0.001, 0.02, 0.2])
def test_growths_cover_the_exponent_of_few_seeds_looked_at_every_so_many_steps(spread):
    rng, covered = np.random.default_rng(4), 0
    for _ in range(300):
        steps = np.array([210.0, 310.0]) * np.exp(spread * rng.normal(size=(2, 2)))
        (found,) = growths(20 * np.ceil(steps / 20), 20)
        low, high = ends(found)
        covered += low <= np.log(310 / 210) / np.log(4) <= high
    assert covered / 300 > 0.93
