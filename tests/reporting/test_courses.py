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


def test_a_course_goes_from_the_least_to_the_largest_of_all_runs():
    rows = {
        "a": [{"step": 2, "x": -1.0}, {"step": 4, "x": 3.0}, {"step": 8, "x": 1.0}],
        "b": [{"epoch": 0, "x": 1.0}, {"epoch": 5, "x": 7.0}],
    }
    name, drawn = courses.draw(rows)
    assert name == "x"
    width, height = courses.WIDTH, courses.HEIGHT
    for run, steps, values in (("a", (2, 4, 8), (-1, 3, 1)), ("b", (0, 5), (1, 7))):
        expected = [
            f"{step / 8 * width:.1f},{height * (7 - value) / 8:.1f}"
            for step, value in zip(steps, values, strict=True)
        ]
        assert drawn[run].points.split() == expected
    assert drawn["b"].about == "x 1 at epoch 0, 7 at epoch 5; axis -1 to 7"
    # A run that stays where it is at step 0 has no width and no height.
    _, still = courses.draw({"a": [{"step": 0, "x": 2.0}] * 2})
    assert still["a"].points == f"0.0,{height:.1f} 0.0,{height:.1f}"
    assert courses.draw({"a": [], "b": [{"step": 1}], "c": [{"step": 0, "x": 1.0}]}) == (None, {})
