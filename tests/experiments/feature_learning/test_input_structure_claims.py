"""Claims and tables on students, on best sizes, and on the teacher that algorithm 1 chooses."""

import itertools

import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.feature_learning.input_structure.report import (
    counted,
    local_minimum,
    make_claims,
)
from lsa_jax.experiments.feature_learning.input_structure.settings import SETTINGS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import binomial_error

NOISE = 0.002 * np.array([0.0, 1.0, -1.0, 0.5, -0.5])
LEARNED = {"labelled": 0.95, "injected": 0.8, "whole": 0.87, "direct": 0.951, "alone": 0.952}
SIZES = (2, 9, 25, 50)
ONE = {"sweep.share": (0.0, 0.5), "sweep.size": (50,), "sweep.direct_size": (50,)}
make = maker(SETTINGS, {"data.num_test": 2000, **ONE})


def measures(point, found):
    """Returns the measures of a run: accuracies by part, the whole, direct training, and alone."""
    own = LEARNED | found
    if point["learner"] == "direct":
        return {"test_accuracy": own["direct"]}
    labelled = own["labelled"] if point["share"] else own["alone"]
    named = {"test_labelled_part": labelled, "test_injected_part": own["injected"]}
    named |= {"course_labelled_part": labelled, "course_injected_part": own["injected"] - 0.1}
    named |= {"teacher_accuracy": own.get("teacher", 0.97), "test_accuracy": own["whole"]}
    return named | {"largest_label": own.get("largest_label", 0.11), "most_used_class": 0.12}


def table(config, of=lambda point: {}):
    """Returns made-up results; `of` changes a point's accuracies."""
    rows = pd.DataFrame(
        {"injected": config.data.injected, "status": "ok", "id": f"{place}", "test_loss": 0.3}
        | {name.split(".")[-1]: value for name, value in point.items()}
        | measures(point, of(point))
        for place, point in enumerate(SETTINGS.sweep(config))
    )
    moved = [name for name in rows if name.startswith(("test_", "course_"))]
    for sign, name in zip(itertools.cycle((1, -1)), moved):
        rows[name] += sign * NOISE[rows["seed"]]
    return rows


def decided(config, of=lambda point: {}):
    """Returns the rows by the words of their items."""
    runs = counted(config, Runs.of(SETTINGS.sweep(config), table(config, of)))
    return {
        row.item.removeprefix("points of test accuracy, "): row
        for row in decide_all(make_claims(config), runs)
    }


KINDS = {"sweep__injected": ("tiny_imagenet", "gaussian"), "data__dataset": "cifar10"}
TWO_SIZES = {"sweep__size": (20, 50), "sweep__direct_size": (20, 50)}


def of_kinds(pictures, gaussian):
    parts = {"tiny_imagenet": pictures, "gaussian": gaussian}
    return lambda point: {"injected": parts.get(point.get("data.injected"), 0.0)}


def of_sizes(least, most):
    return lambda point: {"injected": 0.95 - (most if point["size"] == 50 else least)}


@pytest.mark.parametrize(
    ("fields", "of", "words", "status"),
    [
        ({}, lambda point: {"teacher": 0.1}, "at the end", "condition not met"),
        # A skewed teacher's constant.
        (
            {},
            lambda point: {"labelled": 0.2, "injected": 0.1, "largest_label": 0.2},
            "at the end",
            "condition not met",
        ),
        ({}, lambda point: {"injected": 0.95}, "minus direct training", "condition not met"),
        ({}, lambda point: {"direct": 0.968}, "minus direct training", "undecided"),
        ({}, lambda point: {"direct": 0.99}, "minus direct training", "not shown"),
        ({}, lambda point: {"alone": 0.99}, "same labels alone", "not shown"),
        (TWO_SIZES, of_sizes(0.1, 0.2), "student 50 minus", "shown"),
        (TWO_SIZES, of_sizes(0.1, 0.05), "student 50 minus", "not shown"),
        (TWO_SIZES, of_sizes(0.0, 0.2), "student 50 minus", "condition not met"),
        (KINDS, of_kinds(0.5, 0.2), "Tiny ImageNet", "shown"),
        (KINDS, of_kinds(0.2, 0.5), "Tiny ImageNet", "not shown"),
        (KINDS, of_kinds(0.12, 0.11), "Tiny ImageNet", "condition not met"),
    ],
)
def test_each_claim_has_its_threshold_and_conditions(fields, of, words, status):
    found = decided(make(**fields)[0], of)
    assert status in {row.status for item, row in found.items() if words in item}


def test_parts_have_as_many_test_inputs_as_the_share_gives_them():
    """Of 900 images a mixture of a quarter has 300 others; of three quarters 300 labelled ones."""
    for share, counts in ((0.25, (900, 300)), (0.75, (300, 900))):
        found = decided(make(data__num_test=900, sweep__share=(share,), sweep__seed=(0,))[0])
        (row,) = [row for item, row in found.items() if "at the end" in item]
        pairs = zip((0.95, 0.8), counts, strict=True)
        reach = 100 * 1.96 * np.hypot(*(binomial_error(*pair) for pair in pairs))
        assert row.high - row.low == pytest.approx(2 * reach, rel=5e-3)
        # Above a half, others have more labelled images than the student: there is no claim.
        assert any("direct training" in item for item in found) == (share < 0.5)


def test_the_first_minimum_is_where_the_next_size_is_worse():
    assert local_minimum([2, 5, 9, 20, 50], [0.5, 0.4, 0.3, 0.35, 0.2]) == 9
    assert local_minimum([2, 5], [0.5, 0.4]) == 5


def sizes(best, teachers=(9, 50), share=1.0, least=0.5):
    """Returns the rows on losses whose first minima `best` has by teacher, None for none."""
    count = len(best[None])
    axes = {"teacher_size": teachers, "share": (share,), "size": SIZES, "direct_size": SIZES}
    axes |= {"seed": tuple(range(count))}
    config = make(**{f"sweep__{name}": values for name, values in axes.items()})[0]
    rows = pd.DataFrame(SETTINGS.sweep(config)).assign(status="ok", injected="gaussian")
    teacher = [None if pd.isna(t) else int(t) for t in rows["teacher_size"]]
    where = [best[t][seed] for t, seed in zip(teacher, rows["seed"], strict=True)]
    own = [least if t == 50 else 0.5 for t in teacher]
    rows["test_loss"] = np.where(rows["size"] == where, own, 2.3) + 1e-6 * rows["seed"]
    rows = rows.assign(**dict.fromkeys(measures({"learner": "student", "share": 0.5}, {}), 0.5))
    return decide_all(make_claims(config), Runs.of(SETTINGS.sweep(config), rows))


@pytest.mark.parametrize(
    ("direct", "larger", "least", "statuses"),
    [
        ((9,) * 8, (25,) * 8, 0.5, ("shown", "shown")),
        ((9,) * 8, (9, *(25,) * 7), 0.5, ("not shown", "shown")),
        ((9,) * 8, (2,) * 8, 0.5, ("not shown", "shown")),
        ((9,) * 8, (25,) * 8, 2.18, ("shown", "shown")),
        # Of a constant's loss, log 10 = 2.30, more than 0.95.
        ((9,) * 8, (25,) * 8, 2.19, ("not shown", "shown")),
        # Minima of neighbouring sizes count as the same, in more seeds than by chance.
        ((25,) * 8, (25,) * 8, 0.5, ("shown", "shown")),
        ((50,) * 8, (25,) * 8, 0.5, ("shown", "not shown")),
        ((25,) * 7 + (50,), (25,) * 8, 0.5, ("shown", "not shown")),
        ((25,) * 3, (25,) * 3, 0.5, ("undecided", "undecided")),
    ],
)
def test_a_student_s_best_size_follows_its_teacher_s_in_every_seed(direct, larger, least, statuses):
    found = sizes({None: direct, 9: (9,) * len(direct), 50: larger}, least=least)
    assert tuple(row.status for row in found) == statuses


@pytest.mark.parametrize(
    ("chosen", "status"),
    [((9,) * 4, "shown"), ((9, 9, 25, 9), "not shown"), ((9,) * 3, "undecided")],
)
def test_the_teacher_s_size_is_that_of_algorithm_1_in_every_seed(chosen, status):
    *_, row = sizes({None: chosen, 9: chosen}, teachers=(9,), share=0.0)
    assert "algorithm 1" in row.item and row.status == status
    assert row.ours == ", ".join(map(str, chosen))
