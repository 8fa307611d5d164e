"""Where a learning rate is best: on made-up curves whose best rate is known."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.lazy_rich.learning_rates import settings
from lsa_jax.experiments.lazy_rich.learning_rates.best import best_rate, best_rates
from lsa_jax.experiments.lazy_rich.learning_rates.claims import make_claims
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.variants import set_fields

OCTAVES = np.arange(-10.0, -1.0, 0.5)
# Slopes of the log loss to the left and right, and how flat its bottom is: of a narrow network and
# of a wide one.
SHARP, FLAT = (0.5, 1.2, 0.5), (0.5, 0.8, 4.0)


def losses(best, shape, seeds, noise, rng):
    """Returns made-up logarithms of losses, [seeds, rates], whose mean is least at `best`."""
    left, right, floor = shape
    x = OCTAVES - best + np.log(left / right) / (left + right)
    mean = np.log(np.exp(-left * x) + np.exp(right * x) + floor)
    # Above its best rate a run hangs on its seed.
    spread = noise * (1 + np.maximum(OCTAVES - best, 0) / 2)
    of_seed = 0.2 * rng.normal(size=(seeds, 1))
    return mean + of_seed + spread * rng.normal(size=(seeds, len(OCTAVES)))


def plain(heights):
    """Returns the mean over seeds of the least of each one's parabola through three points."""
    found = []
    for row in heights:
        at = np.clip(np.argmin(row), 1, len(row) - 2)
        square, slope, _ = np.polyfit(OCTAVES[at - 1 : at + 2], row[at - 1 : at + 2], 2)
        found.append(-slope / (2 * square))
    return np.mean(found)


def test_the_best_rate_of_a_quartic_is_its_least_and_one_that_fails_is_left_out():
    heights = 0.1 * (OCTAVES + 4.3) ** 4 + 0.2 * (OCTAVES + 4.3) ** 2
    heights[-1] = np.nan
    assert best_rate(OCTAVES, np.stack([heights - 1, heights + 1])) == pytest.approx(-4.3, abs=0.01)
    assert np.isnan(best_rate(OCTAVES, np.ones((2, len(OCTAVES)))))
    assert np.isnan(best_rate(OCTAVES, np.full((2, len(OCTAVES)), np.nan)))


def test_of_three_rates_with_a_loss_the_best_is_that_of_their_parabola():
    heights = np.full(len(OCTAVES), np.inf)
    heights[5:8] = 4.0, 1.0, 2.0
    # By the differences of the three points.
    expected = OCTAVES[6] + 0.5 * (4 - 2) / (2 * (4 - 2 * 1 + 2))
    assert best_rate(OCTAVES, heights[None]) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("noise", "most"), [(0.15, 0.3), (0.3, 0.6)])
def test_on_flat_bottoms_the_shift_is_off_by_half_of_what_single_seeds_leasts_are(noise, most):
    rng, ours, theirs = np.random.default_rng(0), [], []
    for _ in range(80):
        first, moved = -5 + rng.uniform(-0.5, 0.5), rng.choice([0.0, 1.0, -2.0])
        narrow = losses(first, SHARP, 8, noise, rng)
        wide = losses(first + moved, FLAT, 8, noise, rng)
        ours.append(best_rate(OCTAVES, wide) - best_rate(OCTAVES, narrow) - moved)
        theirs.append(plain(wide) - plain(narrow) - moved)
    off, plainly = (np.sqrt(np.mean(np.square(errors))) for errors in (ours, theirs))
    assert off < most and off < 0.6 * plainly
    assert abs(np.mean(ours)) < 0.12


def table(shifts, noise, rng):
    """Returns a sweep's results where the best rate moves so between widths 1 and 16."""
    rows = []
    for name, shift in shifts.items():
        for width, shape, best in ((1, SHARP, -5.0), (16, FLAT, -5.0 + shift)):
            heights = losses(best, shape, 8, noise, rng)
            rows += [
                {
                    "parameterization": name,
                    "width_factor": width,
                    "seed": seed,
                    "learning_rate": 2.0**octave,
                    # All learn: at the best rates losses are below log 10.
                    "train_loss": np.exp(heights[seed, place] - 2),
                }
                for seed in range(8)
                for place, octave in enumerate(OCTAVES)
            ]
    return pd.DataFrame(rows)


def claims_of(results):
    axes = {"sweep.width_factor": (1, 16), "sweep.seed": tuple(range(8))}
    axes["sweep.learning_rate"] = tuple((2.0**OCTAVES).tolist())
    config = set_fields(settings.default_config(), axes)
    return decide_all(make_claims(config), Runs.of([], results))


def test_intervals_cover_the_shift_of_the_best_rate():
    rng, covered = np.random.default_rng(1), []
    for _ in range(25):
        claims = claims_of(table({"standard": -2.0, "mup": 0.0}, 0.2, rng))
        covered += [c.low < true < c.high for c, true in zip(claims, (-2.0, 0.0), strict=True)]
    assert 0.84 <= np.mean(covered) <= 1.0


def test_a_rate_that_is_best_at_the_end_of_those_swept_shows_nothing():
    rng = np.random.default_rng(2)
    falls, stays = claims_of(table({"standard": -6.0, "mup": 0.0}, 0.02, rng))
    assert falls.status == stays.status == "condition not met"
    falls, stays = claims_of(table({"standard": -2.0, "mup": 0.0}, 0.02, rng))
    assert (falls.status, stays.status) == ("shown", "shown")


def test_the_table_has_the_error_of_the_mean():
    rng = np.random.default_rng(3)
    found = [best_rates(table({"mup": 0.0}, 0.2, rng)) for _ in range(30)]
    wide = pd.concat(f[f["width_factor"] == 16] for f in found)
    assert wide["octaves"].std() == pytest.approx(wide["error"].pow(2).mean() ** 0.5, rel=0.4)
