"""The best learning rate and its claims, on made-up curves with a known best rate."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from reports import make_report

from lsa_jax.experiments.lazy_rich.learning_rates.experiment import best_rate, best_rates, curve
from lsa_jax.experiments.lazy_rich.learning_rates.settings import SETTINGS
from lsa_jax.sweep.variants import set_fields

KEYS = ("parameterization", "width_factor")
OCTAVES = np.arange(-10.0, -1.0, 0.5)
# Slopes of the log loss to the left and right, and how flat its bottom is: of a narrow network and
# of a wide one.
SHARP, FLAT = (0.5, 1.2, 0.5), (0.5, 0.8, 4.0)


def best(heights, octaves=OCTAVES):
    """Returns the best rate of logarithms of losses, [seeds, rates] or [rates]."""
    return best_rate(pd.DataFrame(np.atleast_2d(heights), columns=octaves))


def losses(at, shape, seeds, noise, rng):
    """Returns made-up logarithms of losses, [seeds, rates], whose mean is least at a place."""
    left, right, floor = shape
    x = OCTAVES - at + np.log(left / right) / (left + right)
    mean = np.log(np.exp(-left * x) + np.exp(right * x) + floor)
    # Above its best rate a run depends on its seed.
    spread = noise * (1 + np.maximum(OCTAVES - at, 0) / 2)
    of_seed = 0.2 * rng.normal(size=(seeds, 1))
    return mean + of_seed + spread * rng.normal(size=(seeds, len(OCTAVES)))


@pytest.mark.parametrize("least", [-4.0, -9.2, -1.8])
@pytest.mark.parametrize(("curvature", "skew"), [(0.05, 0.0), (0.05, 0.02), (1.0, 0.1)])
def test_the_best_rate_is_the_least_of_the_polynomial_through_the_lowest_points(
    least, curvature, skew
):
    away = OCTAVES - least
    heights = curvature * away**2 + skew * away**2 * np.tanh(away) + 0.1 * np.abs(away) ** 1.5
    # The curve has one valley: its lowest points are neighbours.
    count = max(5, int((heights <= heights.min() + 1.5).sum()))
    own = np.sort(np.argsort(heights)[:count])
    fitted = np.polynomial.Polynomial.fit(OCTAVES[own], heights[own], 4)
    ends = OCTAVES[own[0]], OCTAVES[own[-1]]
    roots = [root.real for root in fitted.deriv().roots() if abs(root.imag) < 1e-9]
    inside = [root for root in roots if ends[0] <= root <= ends[1]]
    expected = min([*inside, *ends], key=fitted)
    assert best(np.stack([heights + 0.5, heights - 0.5])) == pytest.approx(expected, abs=0.003)


def test_the_best_rate_of_few_rates_and_of_rates_that_failed():
    heights = np.full(len(OCTAVES), np.inf)
    heights[5:8] = 4.0, 1.0, 2.0  # by the differences of the three points
    expected = OCTAVES[6] + 0.5 * (4 - 2) / (2 * (4 - 2 * 1 + 2))
    assert best(heights) == pytest.approx(expected, abs=1e-3)
    for falls, end in ((-1.0, OCTAVES[-1]), (1.0, OCTAVES[0])):
        assert best(falls * OCTAVES) == end
    # Behind a rate that failed nothing is fitted: there is another valley, as deep.
    heights = np.where(OCTAVES < -5, (OCTAVES + 7) ** 2, (OCTAVES + 3) ** 2)
    heights[OCTAVES == -5] = np.inf
    assert best(heights) == pytest.approx(-7, abs=0.01)
    for nothing in (np.ones((2, len(OCTAVES))), np.full((2, len(OCTAVES)), np.nan)):
        assert np.isnan(best(nothing))


def sweep(bests, heights_of):
    """Returns a sweep's results: name and width -> best rates by seed, from heights of a best."""
    rows = [
        {
            "parameterization": name,
            "width_factor": width,
            "seed": seed,
            "learning_rate": 2.0**octave,
            "train_loss": np.exp(height),
            "diverged": False,
            "status": "ok",
        }
        for (name, width), of_seed in bests.items()
        for seed, at in of_seed.items()
        for octave, height in zip(OCTAVES, heights_of(at), strict=True)
    ]
    return pd.DataFrame(rows)


def parabolas(bests, curvature=0.05):
    return sweep(bests, lambda at: curvature * (OCTAVES - at) ** 2 - 1)


def reported(table, tmp_path, **fields):
    """Returns the report on results of a sweep that has all of them."""
    axes = {f"sweep.{n}": tuple(sorted(set(table[n].tolist()))) for n in ("seed", "width_factor")}
    axes["sweep.learning_rate"] = tuple((2.0**OCTAVES).tolist())
    return make_report(set_fields(SETTINGS.default_config(), axes | fields), table, tmp_path)


def test_a_curve_has_a_row_a_seed_and_rates_in_order():
    table = parabolas({("mup", 1): {3: -4.0, 1: -5.0}, ("mup", 8): {3: 0.0}, ("ntk", 1): {3: 0.0}})
    table.loc[(table["seed"] == 1) & (table["learning_rate"] == 2.0**-5), "train_loss"] = 0.0
    found = curve(table, parameterization="mup", width_factor=1)
    assert found.index.tolist() == [1, 3] and found.columns.tolist() == OCTAVES.tolist()
    np.testing.assert_allclose(found.loc[3], 0.05 * (OCTAVES + 4) ** 2 - 1)
    assert found.loc[1, -5.0] == pytest.approx(np.log(1e-12))


def test_parabolas_shift_by_the_mean_of_their_seeds_shifts_with_its_interval(tmp_path):
    # The mean of parabolas of one curvature is least at the mean of their leasts.
    first, last = [-4.0, -4.2, -3.7, -4.1], [-6.3, -5.9, -6.1, -5.8]
    bests = {
        ("standard", 2): dict(enumerate(first)) | {7: -8.0},  # a seed of one width alone
        ("standard", 32): dict(enumerate(last)) | {8: -2.0},
        ("standard", 8): dict.fromkeys(range(4), -2.0),
        ("mup", 2): dict(enumerate(first)),
        ("mup", 32): dict(enumerate(np.add(first, 0.3))),
    }
    fields = {"sweep.seed": (0, 1, 2, 3), "sweep.width_factor": (2, 32)}
    falls, stays = reported(parabolas(bests), tmp_path, **fields).claims
    shifts = np.subtract(last, first)
    half = scipy.stats.t.ppf(0.975, 3) * shifts.std(ddof=1) / 2
    assert falls.ours == pytest.approx(shifts.mean(), abs=0.02)
    assert (falls.low, falls.high) == pytest.approx(
        (shifts.mean() - half, shifts.mean() + half), abs=0.03
    )
    assert stays.ours == pytest.approx(0.3, abs=0.02)
    assert (falls.status, stays.status) == ("shown", "shown")
    found = best_rates(parabolas(bests), KEYS).set_index(["parameterization", "width_factor"])
    expected = np.mean(first), np.std(first, ddof=1) / 2
    assert found.loc[("mup", 2)].tolist() == pytest.approx(expected, abs=0.01)


def test_intervals_cover_the_shift_of_the_best_rate(tmp_path):
    rng, covered, errors = np.random.default_rng(1), [], []
    for _ in range(10):
        made = {
            (name, width): losses(-5.0 + shift * (width > 1), shape, 8, 0.2, rng)
            for name, shift in (("standard", -2.0), ("mup", 0.0))
            for width, shape in ((1, SHARP), (16, FLAT))
        }
        places = {key: {seed: (key, seed) for seed in range(8)} for key in made}
        table = sweep(places, lambda at: made[at[0]][at[1]] - 2)  # noqa: B023
        claims = reported(table, tmp_path).claims
        covered += [c.low < true < c.high for c, true in zip(claims, (-2.0, 0.0), strict=True)]
        found = best_rates(table, KEYS)
        errors.append(found[found["width_factor"] == 16])
    assert 0.84 <= np.mean(covered) <= 1.0
    for _, own in pd.concat(errors).groupby("parameterization"):
        assert own["octaves"].std() == pytest.approx(own["error"].pow(2).mean() ** 0.5, rel=0.4)
