"""Curves of runs: their numbers, their axis, their points."""

import math

import pytest

from lsa_jax.reporting import courses


def test_numbers_are_what_can_be_drawn_but_what_counts_the_rows():
    row = {"step": 3, "epoch": 1, "loss": 2, "name": "a", "lost": math.nan, "far": math.inf}
    assert courses.numbers(row | {"nothing": None, "list": [1.0]}) == {"loss": 2.0}
    assert courses.numbers({}) == {}


@pytest.mark.parametrize(
    ("rows", "name", "places"),
    [
        ([{"step": 4, "epoch": 0}, {"step": 9, "epoch": 1}], "step", [4, 9]),
        ([{"epoch": 2}, {"epoch": 5, "step": 7}], "epoch", [2, 5]),
        ([{"step": 4}, {"loss": 1.0}, {"step": 6}], "row", [0, 1, 2]),
        ([], "row", []),
    ],
)
def test_rows_are_counted_by_what_all_of_them_have(rows, name, places):
    assert courses.counter(rows) == name and courses.steps(rows) == places
