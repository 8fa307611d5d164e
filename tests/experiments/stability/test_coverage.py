"""How often intervals of exponents contain the exponent: 95 of 100, whatever the tails are."""

import numpy as np
import pytest

from lsa_jax.experiments.stability.fits import fit_decay, interval

FEW, MORE = np.array([250.0, 500, 1000]), np.array([800.0, 1600, 3200, 6400, 12_800])
LAWS = {
    "normal": lambda rng, size: 1 + 0.1 * rng.normal(size=size),
    "uniform": lambda rng, size: rng.uniform(size=size),
    "exponential": lambda rng, size: rng.exponential(size=size),
    "lognormal": lambda rng, size: np.exp(rng.normal(size=size)),
    "wide lognormal": lambda rng, size: np.exp(2 * rng.normal(size=size)),
    "Pareto": lambda rng, size: 1 + rng.pareto(2, size=size),
}


def covered(m, pairs, law, other, exponents, tables, resamples=40):
    """Returns the share of intervals with the exponent in them: of one quantity, of the difference.

    Args:
        m: sizes.
        pairs: of every size.
        law: of the fluctuations of the first quantity, by name.
        other: of those of the second one.
        exponents: of both.
        tables: how many are drawn.
        resamples: subsamples of each.
    """
    rng, found = np.random.default_rng(0), np.zeros(2)
    for _ in range(tables):
        gap, seen = (
            fit_decay(m, [n**b * LAWS[name](rng, pairs) for n in m], resamples)
            for name, b in zip((law, other), exponents, strict=True)
        )
        difference = seen.exponent - gap.exponent
        low, high = interval(difference, seen.subsampled - gap.subsampled)
        found += seen.low <= exponents[1] <= seen.high, low <= exponents[1] - exponents[0] <= high
        assert seen.low <= seen.exponent <= seen.high and low <= difference <= high
    return found / tables


@pytest.mark.parametrize(
    ("m", "pairs", "law", "other", "exponents"),
    [
        (FEW, 40, "normal", "lognormal", (0.0, 0.0)),
        (MORE, 40, "exponential", "Pareto", (-1.0, -1.0)),
        (FEW, 4, "normal", "uniform", (-0.5, 0.0)),
    ],
)
def test_intervals_contain_the_exponent_and_the_difference(m, pairs, law, other, exponents):
    assert (covered(m, pairs, law, other, exponents, 60) >= 0.95).all()


@pytest.mark.slow
@pytest.mark.parametrize("m", [FEW, MORE, np.arange(15_000.0, 50_001, 5000)], ids=len)
@pytest.mark.parametrize("pairs", [4, 40, 90])
@pytest.mark.parametrize("exponents", [(0.0, 0.0), (-0.18, -0.09), (-1.0, -1.0)])
def test_intervals_contain_the_exponent_whatever_the_tails_are(m, pairs, exponents):
    for law, other in (
        ("normal", "normal"),
        ("normal", "lognormal"),
        ("lognormal", "wide lognormal"),
        ("exponential", "Pareto"),
        ("uniform", "exponential"),
    ):
        assert (covered(m, pairs, law, other, exponents, 100) >= 0.94).all(), (law, other)


def test_of_two_or_three_pairs_there_is_no_interval():
    rng = np.random.default_rng(0)
    for pairs in (2, 3):
        fit = fit_decay(FEW, [rng.uniform(0.9, 1, pairs) / n for n in FEW], 50)
        assert fit.exponent < 0 and np.isnan([fit.low, fit.high]).all()
        assert np.isnan(interval(0.0, fit.subsampled - fit.subsampled)).all()
