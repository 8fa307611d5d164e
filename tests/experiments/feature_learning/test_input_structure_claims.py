"""Claims and report on students, on best sizes, and on the teacher that algorithm 1 chooses."""

import itertools

import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.feature_learning.input_structure.claims import (
    local_minimum,
    make_claims,
    num_test,
)
from lsa_jax.experiments.feature_learning.input_structure.report import make_report
from lsa_jax.experiments.feature_learning.input_structure.settings import SETTINGS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import binomial_error

NOISE = 0.002 * np.array([0.0, 1.0, -1.0, 0.5, -0.5])
LEARNED = {"labelled": 0.95, "injected": 0.8, "whole": 0.87, "direct": 0.951, "alone": 0.952}
SIZES = (2, 9, 25, 50)
make = maker(
    SETTINGS,
    {
        "data.num_test": 2000,
        "sweep.share": (0.0, 0.5),
        "sweep.size": (50,),
        "sweep.direct_size": (50,),
    },
)


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


def table(config, found=None, of=lambda point: {}):
    """Returns made-up results, of accuracies or of `of`: point to those."""
    points = SETTINGS.sweep(config)
    rows = pd.DataFrame(
        {"injected": config.data.injected, "status": "ok", "id": f"{place}", "test_loss": 0.3}
        | {name.split(".")[-1]: value for name, value in point.items()}
        | measures(point, (found or {}) | of(point))
        for place, point in enumerate(points)
    )
    moved = [name for name in rows if name.startswith(("test_", "course_"))]
    for sign, name in zip(itertools.cycle((1, -1)), moved):
        rows[name] += sign * NOISE[rows["seed"]]
    return rows


def decided(config, found=None, of=lambda point: {}, keep=slice(None)):
    """Returns the rows by the words of their items."""
    rows = table(config, found, of)[keep]
    runs = Runs.of(SETTINGS.sweep(config), rows).assign(num_test=num_test(config))
    return {
        row.item.removeprefix("points of test accuracy, "): row
        for row in decide_all(make_claims(config), runs)
    }


def test_a_student_that_learns_the_labelled_part_better_is_shown():
    found = decided(make()[0])
    assert {row.status for row in found.values()} == {"shown"} and len(found) == 5
    gaps = {item.partition(", teacher")[0]: row.ours for item, row in found.items()}
    assert gaps == {
        "labelled minus injected part at the end": pytest.approx(15),
        "labelled minus injected part, mean over training": pytest.approx(25),
        "labelled part minus direct training": pytest.approx(-0.1),
        "labelled part minus the same labels alone": pytest.approx(-0.2),
        "direct training minus whole mixture": pytest.approx(8.1),
    }


@pytest.mark.parametrize(
    "found",
    [
        dict.fromkeys(LEARNED, 0.1),  # nothing is learned
        dict.fromkeys(LEARNED, 0.9),  # equal
        {"labelled": 0.6, "injected": 0.9, "whole": 0.95, "direct": 0.8},  # exchanged
        {"teacher": 0.1},
        {"labelled": 0.2, "injected": 0.1, "largest_label": 0.2},  # a skewed teacher's constant
    ],
)
def test_students_that_guess_or_do_not_part_the_inputs_show_nothing(found):
    statuses = {row.status for row in decided(make()[0], found).values()}
    assert statuses <= {"condition not met", "undecided", "not shown"}


def test_parts_have_as_many_test_inputs_as_the_share_gives_them():
    """Of 900 images a mixture of a quarter has 300 others; of three quarters 300 labelled ones."""
    for share, counts in ((0.25, (900, 300)), (0.75, (300, 900))):
        found = decided(make(data__num_test=900, sweep__share=(share,), sweep__seed=(0,))[0])
        (row,) = [row for item, row in found.items() if "at the end" in item]
        pairs = zip((0.95, 0.8), counts, strict=True)
        reach = 100 * 1.96 * np.hypot(*(binomial_error(*pair) for pair in pairs))
        assert row.high - row.low == pytest.approx(2 * reach, rel=5e-3)
        # Above a half, others have more labelled images than the student.
        others = {row.status for item, row in found.items() if "direct training" in item}
        assert (others == {"measured"}) == (share > 0.5)


@pytest.mark.parametrize(
    ("least", "most", "status"),
    [(0.1, 0.2, "shown"), (0.1, 0.05, "not shown"), (0.0, 0.2, "condition not met")],
)
def test_a_larger_student_parts_the_inputs_more_where_its_gap_is_larger(least, most, status):
    found = decided(
        make(sweep__size=(20, 50), sweep__direct_size=(20, 50))[0],
        of=lambda point: {"injected": 0.95 - (most if point["size"] == 50 else least)},
    )
    (row,) = [row for item, row in found.items() if "student 50 minus" in item]
    assert row.status == status


@pytest.mark.parametrize(
    ("pictures", "gaussian", "status"),
    [(0.5, 0.2, "shown"), (0.2, 0.5, "not shown"), (0.12, 0.11, "condition not met")],
)
def test_pictures_are_learned_better_than_gaussian_inputs(pictures, gaussian, status):
    kinds = {"gaussian": gaussian, "tiny_imagenet": pictures}
    found = decided(
        make(data__dataset="cifar10", sweep__injected=tuple(kinds))[0],
        of=lambda point: {"injected": kinds.get(point.get("data.injected"), 0.0)},
    )
    (row,) = [row for item, row in found.items() if "Tiny ImageNet" in item]
    assert row.status == status


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
    ("larger", "least", "status"),
    [
        ((25,) * 8, 0.5, "shown"),
        ((9, *(25,) * 7), 0.5, "not shown"),
        ((2,) * 8, 0.5, "not shown"),
        ((25,) * 8, 2.18, "shown"),
        ((25,) * 8, 2.19, "not shown"),  # of a constant's loss, log 10 = 2.30, more than 0.95
    ],
)
def test_a_student_s_best_size_rises_with_its_teacher_s_in_every_seed(larger, least, status):
    rises, near, *losses = sizes({None: (9,) * 8, 9: (9,) * 8, 50: larger}, least=least)
    assert (rises.status, near.status) == (status, "shown")
    assert [row.status for row in losses] == ["measured"] * 3


@pytest.mark.parametrize(
    ("direct", "status"),
    [
        ((25,) * 8, "shown"),
        ((50,) * 8, "not shown"),
        ((25,) * 7 + (50,), "not shown"),
        ((25,) * 3, "undecided"),
    ],
)
def test_minima_are_the_same_where_they_are_neighbours_in_more_seeds_than_by_luck(direct, status):
    count = len(direct)
    _, near, *_ = sizes({None: direct, 9: (9,) * count, 50: (25,) * count})
    assert near.status == status


@pytest.mark.parametrize(
    ("chosen", "status"),
    [((9,) * 4, "shown"), ((9, 9, 25, 9), "not shown"), ((9,) * 3, "undecided")],
)
def test_the_teacher_s_size_is_that_of_algorithm_1_in_every_seed(chosen, status):
    *_, row = sizes({None: chosen, 9: chosen}, teachers=(9,), share=0.0)
    assert "algorithm 1" in row.item and row.status == status
    assert row.ours == ", ".join(map(str, chosen))


@pytest.fixture
def report_of(tmp_path):
    """Returns a function of a configuration and results to their report."""
    parts = {"test_labelled_part": 0.9, "test_injected_part": 0.6, "test_accuracy": 0.75}
    course = [{"step": step, **parts} for step in (0, 5)]

    def made(config, rows):
        for run in rows["id"]:
            files.write_run(tmp_path, run, {"id": run, "status": "ok"}, course)
        rows = rows.assign(parameters=10 * rows["size"], train_loss=0.1, least_used_class=0.05)
        return make_report(config, rows, tmp_path)

    return made


def test_the_report_has_students_by_part_and_step_and_losses_by_size(report_of):
    config = make(sweep__size=(9, 50), sweep__direct_size=(9, 50), sweep__share=(0.5, 1.0))[0]
    rows = table(config).drop(columns=["course_labelled_part", "course_injected_part"])
    report = report_of(config, rows.assign(test_loss=1 / rows["size"]))
    (_, students), (_, losses) = report.tables
    assert students["share"].tolist() == ["0.5", "0.5", "1", "1"]
    assert losses["parameters"].tolist() == [90, 500]
    assert losses["on the data set"].tolist() == pytest.approx([1 / 9, 1 / 50])
    curves = report.figures["curves"]()
    drawn = [axis.get_title() for axis in curves.axes]
    assert drawn == ["teacher 9, student 9, share 0.5", "teacher 9, student 50, share 0.5"]
    lines = {line.get_label(): line.get_ydata().tolist() for line in curves.axes[0].get_lines()}
    assert list(lines.values()) == [pytest.approx([v, v]) for v in (90, 60, 75, 75)]
    assert len(report.figures["sizes"]().axes) == 3
    # Of a sweep that has come to the networks on the data set alone.
    parts = ["test_labelled_part", "test_injected_part"]
    direct = rows[rows["learner"] == "direct"].drop(columns=parts)
    assert [heading for heading, _ in report_of(config, direct).tables] == ["Test loss by size"]


def test_students_of_the_teacher_that_algorithm_1_chose_for_their_seed(report_of):
    best = (9, 15, 15, 9)
    axes = {"direct_size": (5, 9, 15, 25), "teacher_size": (9, 15), "size": (25,)}
    fields = {f"sweep__{name}": values for name, values in axes.items()}
    config = make(**fields, sweep__seed=(0, 1, 2, 3))[0]
    rows = table(
        config,
        of=lambda point: {"labelled": 0.8 + point.get("teacher_size", 0) / 100, "injected": 0.7},
    )
    at_best = rows["size"] == rows["seed"].map(dict(enumerate(best)))
    rows = rows.assign(test_loss=0.5 - 0.2 * at_best + 0.001 * rows["seed"])
    rows = rows.drop(columns=["course_labelled_part", "course_injected_part"])
    found = report_of(config, rows).claims
    (parts,) = [r for r in found if "by algorithm 1, student 25" in r.item and "end" in r.item]
    assert parts.ours == pytest.approx(10 + np.mean(best), abs=0.5)
    same = report_of(config, rows[rows["seed"].isin((0, 3))]).claims
    assert not any("by algorithm 1" in row.item for row in same)
