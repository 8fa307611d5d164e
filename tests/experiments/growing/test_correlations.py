"""Intervals of rank correlations over operators, and of their differences."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing.correlations import (
    correlate,
    not_told_apart,
    rank_error,
    transformed,
)


def test_ranks_of_few_operators_have_a_large_error():
    """Fieller, Hartley and Pearson (1957): the standard error of atanh(r) is 1.03 / (n - 3)^1/2."""
    assert rank_error(pd.Series([28, 40])) == pytest.approx(np.sqrt(1.06 / 25))
    assert rank_error(pd.Series([4])) == pytest.approx(np.sqrt(1.06))
    counts = pd.Series([5, 6, 7])
    found = transformed(pd.Series([1.0, -1.0, 0.5]), counts)
    # The next order to the same has two neighbours exchanged.
    steps = [1 - np.corrcoef(range(n), [1, 0, *range(2, n)])[0, 1] for n in (5, 6)]
    expected = [np.arctanh(1 - steps[0] / 2), -np.arctanh(1 - steps[1] / 2), np.arctanh(0.5)]
    np.testing.assert_allclose(found, expected)


def test_a_claim_names_the_bounds_that_decide_it():
    values, operators = pd.Series([0.5, 0.6, 0.55]), pd.Series([300] * 3)
    assert correlate("order", "", values, operators, above=0.3).item == "order, above 0.3"
    assert correlate("order", "", values, operators, below=0.7).item == "order, below 0.7"
    few = correlate("order", "", values, pd.Series([3] * 3), below=0.7)
    none = correlate("order", "", values * np.nan, operators, below=0.7)
    assert few.item == none.item == "order, below 0.7"


def test_seeds_without_a_correlation_leave_that_of_the_others_undecided():
    operators = pd.Series([300] * 3)
    some = correlate("order", "", pd.Series([0.5, np.nan, 0.6]), operators, above=0.3)
    assert (some.ours, some.status) == (0.55, "undecided") and some.low < 0.55 < some.high
    assert some.note.startswith("1 of 3")
    none = correlate("order", "", pd.Series([np.nan] * 3), operators, above=0.3)
    assert (none.ours, none.status, none.low) == ("", "undecided", None)


def test_four_operators_have_an_interval_and_three_have_none():
    values = pd.Series([0.5, 0.6, 0.55])
    lows = [correlate("", "", values, pd.Series([count] * 3)).low for count in (3, 4)]
    assert lows[0] is None and -1 < lows[1] < 0.5


def told(early, initial, operators, seeds=3):
    """Returns why losses of so many seeds, alike but for 0.001, foretell no more than another."""
    jitter = 1e-3 * (np.arange(seeds) - (seeds - 1) / 2)
    count = pd.Series([operators] * seeds)
    return not_told_apart(pd.Series(early + jitter), pd.Series(initial - jitter), count)


def test_differences_have_the_errors_of_both_correlations():
    """With 12 operators and no other error, atanh has to differ by 1.96 (2 x 1.06 / 9)^1/2."""
    reach = 1.96 * np.sqrt(2 * 1.06 / 9)
    assert told(np.tanh(1.02 * reach), 0.0, 12) == ""
    assert told(np.tanh(0.98 * reach), 0.0, 12) == (
        "whether the loss on growing tells less is undecided: it would take about 1.1 times as "
        "many operators"
    )
    assert told(0.0, np.tanh(1.02 * reach), 12) == "the loss on growing tells as much"


@pytest.mark.parametrize("early", [0.8, 0.986])
def test_what_the_thesis_prints_is_told_apart_from_seven_operators_on(early):
    """Figures 5.2 and 5.3: -0.418 on growing, 0.8 after 200 and 0.986 after 5,000 steps, of 30."""
    assert [told(early, -0.418, operators) for operators in (7, 12, 30)] == [""] * 3


def test_losses_on_growing_that_are_equal_foretell_nothing():
    early, equal = pd.Series([0.97, 0.98, 0.96]), pd.Series([np.nan] * 3)
    assert not_told_apart(early, equal, pd.Series([12] * 3)) == ""
    assert not_told_apart(equal, early, pd.Series([12] * 3)) == ""  # there is nothing to doubt


def test_differences_are_of_the_same_seed():
    """Both scatter from seed to seed, together: the early one is above by the same each time."""
    initial = pd.Series([-0.6, 0.0, 0.6])
    early = np.tanh(np.arctanh(initial) + 1.0)
    assert not_told_apart(early, initial, pd.Series([100] * 3)) == ""
    assert not_told_apart(early[::-1].reset_index(drop=True), initial, pd.Series([100] * 3)) != ""


@pytest.mark.parametrize("operators", [2, 3])
def test_too_few_operators_are_said_once_by_all_claims(operators):
    assert told(0.5, 0.4, operators) == ""
