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


def test_a_growth_is_that_of_each_seed_with_student_s_interval():
    (first, second) = growths([[100.0, 200.0, 1600.0], [100.0, 400.0, np.nan]])
    assert first.interval.mean == pytest.approx(0.75)
    spread = 0.5 / 2**0.5
    reach = scipy.stats.t.ppf(0.975, 1) * spread / 2**0.5
    assert first.high == pytest.approx(0.75 + reach) and first.low(1) == pytest.approx(0.75 - reach)
    # One of five growths to choose the largest from: 0.5 % are as likely as 2.5 % of one.
    wide = scipy.stats.t.ppf(0.995, 1) * spread / 2**0.5
    assert first.low(5) == pytest.approx(0.75 - wide)
    # Only the first seed has the second growth, of which nothing is known.
    assert second.interval.mean == pytest.approx(1.5)
    assert (second.low(1), second.high) == (-np.inf, np.inf)
    assert second.would_take(1.0, 2) == "2 seeds or more of each k"


@pytest.mark.parametrize(("pairs", "bound"), [(1, 0.6), (8, 0.6), (1, 1.0), (8, 1.0)])
def test_as_many_seeds_as_a_growth_would_take_part_it_from_the_bound(pairs, bound):
    """Of seeds that spread alike; refuting takes more where there are more to choose from."""
    (few,) = growths([[100.0, 100 * 4 ** (0.75 + 0.25 * sign)] for sign in (1, -1, 1, -1)], 1.0)
    taken = int(few.would_take(bound, pairs).split()[1])
    for seeds, parted in ((4, False), (taken - 1, False), (taken, True)):
        found = few._replace(interval=few.interval._replace(seeds=seeds))
        assert (found.high < bound or found.low(pairs) > bound) == parted


def test_a_growth_is_wider_by_the_steps_to_within_which_it_is_known():
    (exact,), (known,) = (growths([[100.0, 400.0], [100.0, 400.0]], within) for within in (0, 20))
    assert exact.low(1) == exact.high == pytest.approx(1)
    assert known.high == pytest.approx(np.log(400 / 80) / np.log(4))
    assert known.low(1) == pytest.approx(np.log(380 / 100) / np.log(4))
    (none,) = growths([[20.0, 400.0], [20.0, 400.0]], 20)  # reached before it was looked at
    assert none.high == np.inf and np.isfinite(none.low(1))
    assert none.would_take(3.0, 1) == "evaluations more often"


@pytest.mark.parametrize("spread", [0.001, 0.02, 0.2])
def test_growths_cover_the_exponent_of_few_seeds_looked_at_every_so_many_steps(spread):
    rng, covered = np.random.default_rng(4), 0
    for _ in range(300):
        steps = np.array([210.0, 310.0]) * np.exp(spread * rng.normal(size=(2, 2)))
        (found,) = growths(20 * np.ceil(steps / 20), 20)
        covered += found.low(1) <= np.log(310 / 210) / np.log(4) <= found.high
    assert covered / 300 > 0.93
