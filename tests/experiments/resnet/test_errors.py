"""Intervals of squared errors: of one, of the best of several, of the worst."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from resnet_rows import EXACT

from lsa_jax.experiments.resnet import errors as errors_module
from lsa_jax.reporting.claims import ONE_SEED


def test_an_error_varies_as_a_mean_of_squares_of_the_test_examples():
    found = errors_module.errors_claim(("x", "y"), pd.Series([0.4]), num_test=200, below=1.0)
    # sqrt(2 / 200) = 0.1 of itself, on a logarithmic scale.
    assert (found.low, found.high) == pytest.approx(
        (0.4 * np.exp(-0.196), 0.4 * np.exp(0.196)), rel=1e-3
    )
    assert found.status == "shown" and found.ours == 0.4


def test_what_is_the_best_of_several_widths_has_a_wider_interval():
    """Three seeds, 4.30 standard errors for one and 10.89 for one of six."""
    errors = pd.Series(np.exp([-0.1, 0.0, 0.1]))
    found = {
        at: errors_module.errors_at(
            at, ("x", "y"), dict.fromkeys(range(6), errors), num_test=EXACT, below=1.5
        )
        for at in ("every", "some")
    }
    for at, reach, status in (("every", 4.303, "shown"), ("some", 10.886, "undecided")):
        assert np.log(found[at].high) == pytest.approx(reach * 0.1 / np.sqrt(3), rel=1e-3)
        assert found[at].status == status
    assert found["some"].note.startswith("it would take about ")


def test_what_decides_is_the_interval_that_comes_nearest_or_lies_farthest():
    """Of two settings one has the lower mean, and the wider interval, from 0.14 to 1.5."""
    near, wide = pd.Series([0.59, 0.6, 0.61]), pd.Series([0.3, 0.45, 0.7])

    def found(at, **bounds):
        errors = {"near": near, "wide": wide}
        claim = errors_module.errors_at(at, ("x", "y"), errors, num_test=EXACT, **bounds)
        return claim.status, claim.ours

    assert found("every", below=2.0) == ("shown", 0.45)
    assert found("some", below=10.0) == ("shown", 0.6)
    assert found("every", above=0.1) == ("shown", 0.45)
    assert found("every", below=1.0) == ("undecided", 0.45)
    assert found("every", below=0.5) == ("not shown", 0.6)
    assert found("some", below=1.0) == ("shown", 0.6)
    assert found("some", below=0.4) == ("undecided", 0.45)


def test_what_was_chosen_of_candidates_by_its_test_error_has_a_wider_interval():
    """1.96 errors for one, 3.09 for one of 25."""
    for chosen, reach in ((1, 1.96), (25, 3.09)):
        found = errors_module.errors_claim(
            ("x", "y"), pd.Series([1.0]), num_test=200, chosen_of=chosen
        )
        assert np.log(found.high) == pytest.approx(0.1 * reach, rel=1e-3)


def test_candidates_are_as_many_as_the_largest_search_has():
    assert errors_module.candidates(pd.DataFrame({"candidates": [6, np.nan, 25]})) == 25
    assert errors_module.candidates(pd.DataFrame({"candidates": [np.nan]})) == 1
    assert errors_module.candidates(pd.DataFrame({"ridge": [0.1]})) == 1


def test_errors_that_are_missing_equal_or_of_few_examples_decide_nothing():
    def found(errors, num_test=200, below=1.0):
        claim = errors_module.errors_claim(
            ("x", "y"), pd.Series(errors), num_test=num_test, below=below
        )
        return claim.status, claim.note

    assert found([0.1, 0.11]) == ("shown", "")
    assert found([0.1, np.nan, np.inf]) == ("undecided", "2 of 3 runs failed or are not there")
    assert found([np.nan]) == ("not run", "1 of 1 runs failed or are not there")
    for below in (1.0, 0.01):
        assert found([0.1, 0.1], below=below) == ("undecided", "all of 2 seeds are equal")
    few = f"29 test examples are too few; {ONE_SEED}"
    assert found([0.1], num_test=29) == ("undecided", few)
    assert found([0.1], num_test=30) == ("shown", ONE_SEED)


def test_that_nothing_is_learned_at_any_width_takes_all_of_them():
    names, many = ("item", "paper"), {"num_test": 2000, "below": 0.675, "refuted_from": 1.35}

    def status(**errors):
        series = {width: pd.Series(found) for width, found in errors.items()}
        claim = errors_module.errors_at("some", names, series, **many)
        return claim.status, claim.note

    none, part = [1.99, 2.0, 2.01], [0.83, 1.1, 1.62]
    assert status(narrow=none, wide=none) == ("not shown", "")
    # What is surely not below a half, and perhaps below all of it, has the larger upper end.
    assert status(narrow=[1.45, 1.451, 1.452], wide=part)[0] == "undecided"
    assert status(wide=[1.0, 1.1, 1.2]) == ("undecided", "it may be below 1.35, and not 0.675")
    failed = "3 of 6 runs failed or are not there"
    assert status(narrow=none, wide=[np.nan] * 3) == ("undecided", failed)


def test_the_best_of_several_settings_has_as_much_wider_an_interval_from_two_seeds_on():
    """Of three at once, 0.025 / 3 lies beyond either end: Bonferroni, with Student's t."""
    for seeds in (2, 3, 6):
        values = pd.Series(np.linspace(1.0, 2.0, seeds))
        wide = errors_module._widened(values, 3)
        wider = scipy.stats.t.ppf(1 - 0.025 / 3, seeds - 1) / scipy.stats.t.ppf(0.975, seeds - 1)
        assert wide.mean() == pytest.approx(1.5)
        assert wide.std() / values.std() == pytest.approx(wider)
        pd.testing.assert_series_equal(errors_module._widened(values, 1), values)
    one = pd.Series([1.0])
    pd.testing.assert_series_equal(errors_module._widened(one, 3), one)


def test_what_one_setting_refutes_of_all_is_refuted_with_runs_missing_and_of_some_it_is_not():
    errors = {"a": pd.Series([0.9, 0.91, 0.92]), "b": pd.Series([0.9, np.nan, 0.92])}
    for at, status in (("every", "not shown"), ("some", "undecided")):
        options = {"num_test": EXACT, "below": 0.5}
        claim = errors_module.errors_at(at, ("x", "y"), errors, **options)
        assert claim.status == status and claim.note == "1 of 6 runs failed or are not there"
