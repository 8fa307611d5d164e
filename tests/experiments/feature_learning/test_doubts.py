"""What speaks against any results is said where it does, and nowhere else."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning import doubts
from lsa_jax.reporting.intervals import REACH, binomial_error
from lsa_jax.reporting.report import Claim

MEASURES = ("accuracy", "norm")


def rows(*accuracies, **columns):
    found = pd.DataFrame({"accuracy": accuracies}, dtype=float)
    return found.assign(seed=found.index, **columns)


def claim(status, note=""):
    return Claim("an item", "above 0", 1.0, None, status, note=note)


def test_seeds_without_a_result_are_counted():
    assert doubts.missing_runs(rows(1, 2), (0, 1)) == ""
    assert doubts.missing_runs(rows(1, 2), (1, 0, 0)) == ""
    assert doubts.missing_runs(rows(1, 2), (0, 1, 2)) == "1 of 3 runs failed or are not there"
    assert doubts.missing_runs(pd.DataFrame(), (0, 1)) == "2 of 2 runs failed or are not there"


@pytest.mark.parametrize("lost", [np.nan, np.inf])
def test_a_seed_without_a_finite_number_has_no_result(lost):
    none = "1 of 2 runs failed or are not there"
    assert doubts.missing_runs(rows(0.9, lost), (0, 1), MEASURES) == none
    assert doubts.missing_runs(rows(0.9, 0.8, norm=[lost, 1.0]), (0, 1), MEASURES) == none
    assert doubts.missing_runs(rows(0.9, 0.8, other=lost), (0, 1), MEASURES) == ""
    # An NTK has no cosine in any seed.
    assert doubts.missing_runs(rows(0.9, 0.8, norm=np.nan), (0, 1), MEASURES) == ""
    assert doubts.doubt(claim("shown"), [rows(0.9, lost)], (0, 1), MEASURES).note == none


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (rows(0.9, 0.9), "all of 2 seeds are equal"),
        (rows(0.9, 0.9, 0.9, norm=1.5), "all of 3 seeds are equal"),
        (rows(0.9, 0.91), ""),
        (rows(0.9, 0.9, norm=[1.0, 1.5]), ""),
        (rows(0.9), ""),
        (rows(1, 1), ""),
        (rows(1, 1, norm=2.0), "all of 2 seeds are equal"),
        (rows(np.nan, np.nan, norm=2.0), "all of 2 seeds are equal"),
        (rows(np.nan, np.nan), ""),
        (rows(0.9, np.nan), ""),
        (rows(0.9, 0.9, 0.9, norm=[1.0, np.nan, 1.0]), "all of 2 seeds are equal"),
    ],
)
def test_seeds_are_equal_where_all_that_was_measured_is_but_for_accuracies_of_1(found, said):
    assert doubts.equal_seeds(found, MEASURES) == said


def test_a_seed_may_answer_a_constant_unless_its_interval_is_above_it():
    accuracy, examples = 0.9, 100
    end = accuracy - REACH * binomial_error(accuracy, examples)
    for constant, near in ((end - 1e-6, 0), (end, 2), (end + 1e-6, 2)):
        said = doubts.answers_a_constant(pd.Series([accuracy] * 2), constant, examples)
        assert said == ("2 of 2 seeds may be no better than a constant answer" if near else "")
    one = doubts.answers_a_constant(pd.Series([0.9, 0.5, 0.95]), 0.5, 1000)
    assert one == "1 of 3 seeds may be no better than a constant answer"
    # Labels of a seed's own: what is 0.6 of them in one seed is 0.5 in the others.
    own = pd.Series([0.5, 0.5, 0.6])
    assert doubts.answers_a_constant(pd.Series([0.6] * 3), own, 1000) == one


def test_missing_runs_speak_against_what_is_shown_and_equal_seeds_and_few_examples_against_all():
    differ, same, asked = rows(0.8, 0.9), rows(0.9, 0.9), (0, 1)
    for status in ("shown", "not shown"):
        told = claim(status)
        assert doubts.doubt(told, [differ], asked, MEASURES, 30) == told
        assert (
            doubts.doubt(told, [differ, same], asked, MEASURES).note == "all of 2 seeds are equal"
        )
        assert doubts.doubt(told, [differ], asked, MEASURES, 29).status == "undecided"
    lost = "1 of 3 runs failed or are not there"
    three = iter([0, 1, 2])
    assert doubts.doubt(claim("shown"), iter([differ]), three, MEASURES).note == lost
    assert doubts.doubt(claim("not shown"), [differ], (0, 1, 2), MEASURES) == claim("not shown")
