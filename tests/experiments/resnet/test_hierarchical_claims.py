"""Claims on hierarchical targets, from made-up errors."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.experiments.resnet.hierarchical.claims import by_cell, decisive
from lsa_jax.reporting.outcomes import of_errors
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import ends


def errors(of, num_test=10**8, kept=None):
    """Returns the runs of errors by setting and seed."""
    rows = [
        {"place": place, "seed": seed, "test_error": error, "id": f"{place}-{seed}"}
        for place, values in of.items()
        for seed, error in enumerate(values)
    ]
    return Runs.of([], pd.DataFrame(rows).assign(num_test=num_test), kept, fresh=True)


def test_an_error_of_one_seed_varies_as_a_mean_of_squares():
    """sqrt(2 / 200) = 0.1 of itself; of the best of 25 candidates 3.09 errors, not 1.96."""
    for chosen, reach in ((1, 1.96), (25, 3.09)):
        (found,) = by_cell(errors({0: [0.4]}, 200), ["place"], chosen=chosen).values()
        assert ends(found)[1] - np.log(0.4) == pytest.approx(0.1 * reach, rel=1e-3)


def test_kept_errors_give_the_interval_of_one_seed():
    """Of squares that are 1 and 9 in turn, with deviation 4 over their mean 5."""
    squares, targets = np.tile([1.0, 9.0], 50), np.tile([[3.0], [-3.0]], (50, 1))
    kept = {"0-0": of_errors(squares, targets)}
    np.testing.assert_allclose(
        np.square(kept["0-0"].values[:2], dtype=float), [1 / 9, 1], rtol=1e-3
    )
    (found,) = by_cell(errors({0: [5.0]}, 100, kept), ["place"]).values()
    reach = 1.96 * (4 / 5) / 10
    assert ends(found) == pytest.approx((np.log(5) - reach, np.log(5) + reach), rel=1e-3)


@pytest.mark.parametrize("seeds", [2, 3, 6])
def test_the_best_of_several_settings_has_bonferronis_interval(seeds):
    """Several seeds have Student's interval, to which their own test sets add nothing."""
    values = np.exp(np.linspace(0.0, 1.0, seeds))
    for best, tries in ((False, 1), (True, 3)):
        runs = errors(dict.fromkeys(range(3), values), num_test=50)
        for found in by_cell(runs, ["place"], best=best).values():
            reach = scipy.stats.t.isf(0.025 / tries, seeds - 1) * scipy.stats.sem(np.log(values))
            assert ends(found) == pytest.approx((0.5 - reach, 0.5 + reach))


@pytest.mark.parametrize(
    ("claim", "bound", "place"),
    [
        ("all below", 5.0, 2),  # the largest interval, which contains 2
        ("all below", 0.2, 1),  # surely above
        ("all above", 0.05, 2),
        ("all above", 0.6, 0),  # surely below
        ("one below", 0.7, 0),
        ("one below", 0.01, 0),
    ],
)
def test_the_deciding_setting_is_surely_beyond_the_bound_or_comes_nearest(claim, bound, place):
    of = {0: [0.55, 0.56, 0.57], 1: [0.6, 0.61, 0.62], 2: [0.3, 0.6, 1.1]}
    found = decisive(["place"], claim, bound)(errors(of))
    assert found.values.mean() == pytest.approx(np.mean(np.log(of[place])))


def test_the_best_of_noise_is_seldom_below_its_median():
    """Of six settings whose errors scatter about the bound."""
    rng, below = np.random.default_rng(0), 0
    for _ in range(30):
        of = {place: np.exp(rng.normal(size=3)) for place in range(6)}
        below += ends(decisive(["place"], "one below", 1.0)(errors(of)))[1] < 0
    assert below <= 2
