"""Figure A.1: two rates of the loss gap are told apart, or they are not."""

import numpy as np
import pandas as pd
import pytest
from stability_rows import draw_pairs_table

from lsa_jax.experiments.stability.fits import fit_decay
from lsa_jax.experiments.stability.regions import region_claims

A1_SIZES = np.array([1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000])


@pytest.fixture
def a1(make):
    """Returns a function of pairs and fields to their claims of regions."""

    def claims_of(pairs, **fields):
        axes = {"sweep__m": tuple(map(int, A1_SIZES)), "fit__resamples": 50}
        return region_claims(make(paper="figA_1", **axes | fields)[0], pairs)

    return claims_of


def two_rates(below, above=-0.3, num_pairs=20):
    pairs = draw_pairs_table(A1_SIZES, {}, num_pairs=num_pairs)
    rate = np.where(pairs["m"] < 15_000, below, above)
    pairs["loss_gap"] *= pairs["m"] * (pairs["m"] / 15_000) ** rate
    return pairs.assign(learner="resnet")


@pytest.mark.parametrize(
    ("below", "above", "status"),
    [
        (-0.9, -0.3, "shown"),
        (-0.3, -0.9, "shown"),
        (-0.3, -0.3, "not shown"),
        (-0.9, 0.3, "undecided"),
        (0.3, 0.9, "undecided"),
        (0.3, -0.9, "undecided"),
    ],
)
def test_figure_a1_asks_whether_the_loss_gap_falls_at_another_rate_below_its_range(
    a1, below, above, status
):
    (claim,) = a1(two_rates(below, above))
    assert claim.status == status
    note = "the loss gap is not shown to fall in both ranges"
    assert claim.note == (note if status == "undecided" else "")
    if status == "shown":
        assert claim.low < below - above < claim.high


def test_the_interval_of_two_rates_is_that_of_both(a1):
    pairs = two_rates(-0.9)
    (claim,) = a1(pairs)
    below, above = (
        fit_decay_of(pairs[inside]) for inside in (pairs["m"] < 15_000, pairs["m"] > 14_999)
    )
    reach = np.hypot(below.high - below.exponent, above.high - above.exponent)
    expected = below.exponent - above.exponent + reach * np.r_[-1, 1]
    np.testing.assert_allclose((claim.low, claim.high), expected)


def fit_decay_of(pairs):
    found = [(m, part.to_numpy()) for m, part in pairs.groupby("m")["loss_gap"]]
    return fit_decay(np.array([m for m, _ in found], float), [values for _, values in found], 50)


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (
            lambda pairs: pairs.assign(train_error=0.02 * (pairs["m"] == 50_000)),
            "not fitted: a training accuracy of 0.98 at m = 50,000",
        ),
        (lambda pairs: pairs[pairs["m"] > 1000], "7 of 8 sizes"),
        (lambda pairs: pairs.drop_duplicates("m"), "1 of 2 pairs of a size"),
        (lambda pairs: pairs.groupby("m").head(3), "it would take 4 pairs a size"),
        (
            lambda pairs: pairs.assign(loss_gap=pairs.groupby("m")["loss_gap"].transform("max")),
            "all pairs of m = 1,000 are equal",
        ),
        (lambda pairs: pairs.assign(loss_gap=-pairs["loss_gap"]), "no power law in trial 0"),
    ],
)
def test_regions_of_runs_that_say_nothing_show_nothing(a1, change, note):
    for below in (-0.9, -0.3):
        (claim,) = a1(change(two_rates(below)))
        assert claim.status == "undecided" and note in claim.note


def test_a_range_of_two_sizes_has_no_rate(a1):
    pairs = two_rates(-0.9)
    for some in (pairs[pairs["m"] < 30_000], pairs[pairs["m"] > 2000]):
        (claim,) = a1(some, sweep__m=tuple(sorted(set(some["m"]))))
        assert (claim.status, claim.note) == ("not run", "a rate takes 3 sizes on either side")


def test_regions_of_several_trials_are_students_t_of_the_difference(a1):
    trials = [
        two_rates(-0.9 + shift).assign(seed=seed) for seed, shift in enumerate((0, 0.02, 0.1))
    ]
    (claim,) = a1(pd.concat(trials), sweep__seed=(0, 1, 2))
    found = [
        fit_decay_of(t[t["m"] < 15_000]).exponent - fit_decay_of(t[t["m"] > 14_999]).exponent
        for t in trials
    ]
    reach = 4.303 * np.std(found, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(
        (claim.low, claim.high), np.mean(found) + reach * np.r_[-1, 1], rtol=1e-3
    )
    assert claim.status == "shown"
    (claim,) = a1(pd.concat(trials[:2]), sweep__seed=(0, 1, 2))
    assert (claim.status, claim.note) == ("undecided", "2 of 3 trials")
    (claim,) = a1(pd.concat([trials[0].assign(seed=k) for k in range(3)]), sweep__seed=(0, 1, 2))
    assert (claim.status, claim.note) == ("undecided", "trials are equal")


@pytest.mark.parametrize(("scatter", "status"), [(0.01, "not shown"), (1.0, "undecided")])
def test_one_rate_is_told_where_intervals_are_short(a1, scatter, status):
    rng = np.random.default_rng(0)
    pairs = draw_pairs_table(A1_SIZES, {}, num_pairs=60)
    pairs["loss_gap"] = pairs["m"] ** -0.5 * np.exp(scatter * rng.normal(size=len(pairs)))
    (claim,) = a1(pairs)
    assert claim.status == status
    words = "" if status == "not shown" else "it would take about"
    assert claim.note.startswith(words) and bool(claim.note) == bool(words)
