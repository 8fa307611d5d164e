"""What speaks against numbers of several seeds, in its words, and what becomes of a claim then."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.reporting.doubts import doubted, few_examples, lost_runs, no_sample
from lsa_jax.reporting.report import Claim

PLANNED = [{"width": width, "seed": seed} for width in (1, 2) for seed in (0, 1, 2)]


def test_thirty_test_examples_are_enough():
    assert few_examples(30) == few_examples(np.inf) == ""
    assert few_examples(29) == "29 test examples are too few"


def rows(of=6, **columns):
    return pd.DataFrame(PLANNED[:of]).assign(score=np.arange(of) / 7.0, **columns)


def test_runs_without_a_result_are_named_up_to_three():
    assert lost_runs(PLANNED, rows(), ["score"]) == "" and lost_runs([], rows(0)) == ""
    one = lost_runs(PLANNED, rows(5))
    assert one == "1 of 6 runs have no result: width 2, seed 2"
    three = lost_runs(PLANNED, rows(3))
    assert three.endswith(": width 2, seed 0; width 2, seed 1; width 2, seed 2")
    four = lost_runs(PLANNED, rows(2))
    assert four.startswith("4 of 6") and four.endswith("width 2, seed 1; 1 more")
    five = lost_runs(PLANNED, rows(1))
    assert five.startswith("5 of 6") and five.endswith("width 2, seed 0; 2 more")


def test_runs_of_one_sweep_may_differ_in_which_settings_they_have():
    planned = [{"seed": 0}, {"seed": 0, "rate": 0.1}, {"seed": 1, "rate": 0.1}]
    table = pd.DataFrame({"seed": [0, 1], "rate": [0.1, 0.2]})
    assert lost_runs(planned, table) == "1 of 3 runs have no result: seed 1, rate 0.1"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_run_without_a_finite_number_in_every_column_has_no_result(value):
    table = rows(other=1.0)
    table.loc[4, "other"] = value
    assert lost_runs(PLANNED, table, ["score"]) == ""
    assert lost_runs(PLANNED, table, ["score", "other"]).endswith("width 2, seed 1")
    assert lost_runs(PLANNED, table, ["absent"]).startswith("6 of 6")


def test_seeds_are_a_sample_where_they_differ_at_some_setting():
    assert no_sample(rows(), ["score"], ["width"]) == no_sample(rows(), ["score"]) == ""
    assert no_sample(rows(0), ["score"]) == ""
    assert no_sample(rows().query("seed == 1"), ["score"]) == "it would take 2 seeds or more"
    assert no_sample(rows().query("seed < 2"), ["score"]) == ""
    by_width = rows().assign(score=rows()["width"] / 3.0)
    assert no_sample(by_width, ["score"], ["width"]) == "all of 3 seeds are equal"
    assert no_sample(by_width, ["score"]) == ""
    by_width.loc[5, "score"] = 0.5
    assert no_sample(by_width, ["score"], ["width"]) == ""


@pytest.mark.parametrize(
    ("status", "with_against", "with_refuted"),
    [
        ("shown", "undecided", "undecided"),
        ("undecided", "undecided", "undecided"),
        ("not shown", "not shown", "undecided"),
        ("not run", "not run", "not run"),
        ("measured", "measured", "measured"),
    ],
)
def test_what_is_left_may_refute_and_what_is_no_sample_may_not(status, with_against, with_refuted):
    claim = Claim("item", "paper", 1.0, None, status, note="known; other")
    assert doubted(claim, ["", ""], [""]) == claim
    left = doubted(claim, ["", "lost"])
    assert left.status == with_against
    kept = status in ("not shown", "measured")
    assert left.note == ("known; other" if kept else "lost; known; other")
    both = doubted(claim, ["lost", "known"], ["", "equal"])
    assert both.status == with_refuted
    notes = {"measured": "known; other", "not shown": "equal; known; other"}
    assert both.note == notes.get(status, "lost; known; equal; other")
    assert doubted(claim._replace(note=""), ["lost"]).note == ("" if kept else "lost")
