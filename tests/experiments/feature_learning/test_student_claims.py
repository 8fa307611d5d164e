"""Claims on students, on the best sizes, and on the teacher that algorithm 1 chooses."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning import tables
from lsa_jax.experiments.feature_learning.input_structure import settings
from lsa_jax.experiments.feature_learning.input_structure.claims import make_claims, num_test
from lsa_jax.experiments.feature_learning.input_structure.experiment import groups
from lsa_jax.experiments.feature_learning.input_structure.report import make_report
from lsa_jax.experiments.feature_learning.input_structure.sizes import local_minimum
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import binomial_error
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

NOISE = 0.002 * np.array([0.0, 1.0, -1.0, 0.5, -0.5])
LEARNED = {"labelled": 0.95, "injected": 0.8, "whole": 0.87, "direct": 0.951, "alone": 0.952}


def configure(**fields):
    given = {"data.num_test": 2000, "sweep.share": (0.0, 0.5), "sweep.size": (50,)}
    return set_fields(settings.default_config(), given | {"sweep.direct_size": (50,)} | fields)


def measures(point, found):
    """Returns the measures of a run; accuracies by part, the whole, direct training, and alone."""
    own = LEARNED | found
    if point["learner"] == "direct":
        return {"test_accuracy": own["direct"]}
    labelled = own["labelled"] if point["share"] else own["alone"]
    named = {"test_labelled_part": labelled, "test_injected_part": own["injected"]}
    named |= {"course_labelled_part": labelled, "course_injected_part": own["injected"] - 0.1}
    named |= {"teacher_accuracy": own.get("teacher", 0.97), "test_accuracy": own["whole"]}
    return named | {"largest_label": own.get("largest_label", 0.11), "most_used_class": 0.12}


def decide(config, found=None, of=lambda point: {}, lost=(), equal=False):
    """Returns the rows by the words of their items, of accuracies or of `of`: point to those."""
    points = settings.sweep(config)
    rows = pd.DataFrame(
        {"injected": config.data.injected, "status": "ok", "id": f"{place}", "test_loss": 0.3}
        | {name.split(".")[-1]: value for name, value in point.items()}
        | measures(point, (found or {}) | of(point))
        for place, point in enumerate(points)
    )
    moved = [name for name in rows if name.startswith(("test_", "course_"))]
    for sign, name in zip(itertools.cycle((1, -1)), moved):
        rows[name] += sign * NOISE[rows["seed"]] * (not equal)
    runs = Runs.of(points, rows[~rows["seed"].isin(lost)]).assign(num_test=num_test(config))
    return {
        row.item.removeprefix("points of test accuracy, "): row
        for row in decide_all(make_claims(config), runs)
    }


def statuses(found):
    return {row.status for row in found.values()}


def test_a_student_that_learns_the_labelled_part_better_is_shown():
    found = decide(configure())
    assert statuses(found) == {"shown"} and len(found) == 5
    gaps = {item.partition(", teacher")[0]: row.ours for item, row in found.items()}
    assert gaps["labelled minus injected part at the end"] == pytest.approx(15)
    assert gaps["labelled minus injected part, mean over training"] == pytest.approx(25)
    assert gaps["labelled part minus direct training"] == pytest.approx(-0.1)
    assert gaps["labelled part minus the same labels alone"] == pytest.approx(-0.2)
    assert gaps["direct training minus whole mixture"] == pytest.approx(8.1)


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
def test_students_that_guess_or_cannot_tell_the_parts_show_nothing(found):
    assert statuses(decide(configure(), found)) <= {"condition not met", "undecided", "not shown"}


def test_students_of_lost_equal_or_few_runs_show_nothing():
    assert statuses(decide(configure(), lost=(3,))) == {"condition not met"}
    assert statuses(decide(configure(), equal=True)) == {"condition not met"}
    assert statuses(decide(configure(**{"data.num_test": 20}))) == {"condition not met"}


@pytest.mark.parametrize(("direct", "status"), [(0.969, "undecided"), (0.99, "not shown")])
def test_as_good_as_direct_training_is_at_most_two_points_below(direct, status):
    found = decide(configure(), {"direct": direct})
    (row,) = [row for item, row in found.items() if "part minus direct" in item]
    assert (row.status, row.paper) == (status, "not below by more than 2")


def test_parts_have_as_many_test_inputs_as_the_share_gives_them():
    """Of 900 images a mixture of a quarter has 300 others; of three quarters 300 labelled ones."""
    for share, counts in ((0.25, (900, 300)), (0.75, (300, 900))):
        config = configure(**{"data.num_test": 900, "sweep.share": (share,), "sweep.seed": (0,)})
        found = decide(config)
        (row,) = [row for item, row in found.items() if "at the end" in item]
        pairs = zip((0.95, 0.8), counts, strict=True)
        reach = 100 * 1.96 * np.hypot(*(binomial_error(*pair) for pair in pairs))
        assert row.high - row.low == pytest.approx(2 * reach, rel=5e-3)
        # Above a half, others have more labelled images than the student.
        beside = {row.status for item, row in found.items() if "direct training" in item}
        assert (beside == {"measured"}) == (share > 0.5)


def test_of_fc_9_on_mnist_the_paper_sees_no_significant_trend():
    found = decide(configure(**{"sweep.size": (9, 50), "sweep.direct_size": (9, 50)}))
    nine = {item: row for item, row in found.items() if "student 9, share" in item}
    assert statuses(nine) == {"measured"} and len(nine) == 5
    assert {row.primary for row in nine.values()} == {False}
    (primary,) = [item for item, row in found.items() if row.primary]
    assert "at the end, teacher 9, student 50" in primary


@pytest.mark.parametrize(
    ("least", "most", "status"),
    [(0.1, 0.2, "shown"), (0.1, 0.05, "not shown"), (0.0, 0.2, "condition not met")],
)
def test_a_larger_student_parts_the_inputs_more_where_its_gap_is_larger(least, most, status):
    config = configure(**{"sweep.size": (20, 50), "sweep.direct_size": (20, 50)})

    def of(point):
        return {"injected": 0.95 - (most if point["size"] == 50 else least)}

    (row,) = [row for item, row in decide(config, of=of).items() if "student 50 minus" in item]
    assert row.status == status


@pytest.mark.parametrize(
    ("pictures", "gaussian", "status"),
    [(0.5, 0.2, "shown"), (0.2, 0.5, "not shown"), (0.12, 0.11, "condition not met")],
)
def test_pictures_are_learned_better_than_gaussian_inputs(pictures, gaussian, status):
    kinds = ("gaussian", "tiny_imagenet")
    config = configure(**{"data.dataset": "cifar10", "sweep.injected": kinds})

    def of(point):
        return {"injected": pictures if point.get("data.injected") == kinds[1] else gaussian}

    (row,) = [row for item, row in decide(config, of=of).items() if "Tiny ImageNet" in item]
    assert (row.paper, row.status) == ("above 0 (figure 23)", status)
    points = make_points(config, settings.sweep(config), settings.validate)
    assert len(groups(points)) == 3


def test_the_first_minimum_is_where_the_next_size_is_worse():
    assert local_minimum([2, 5, 9, 20, 50], [0.5, 0.4, 0.3, 0.35, 0.2]) == 9
    assert local_minimum([2, 5], [0.5, 0.4]) == 5


SIZES = (2, 9, 25, 50)


def sizes(best, teachers=(9, 50), share=1.0, least=0.5, lost=0):
    """Returns the rows on losses whose first minima `best` has by teacher, None for none."""
    count = len(best[None])
    axes = {"teacher_size": teachers, "share": (share,), "size": SIZES, "direct_size": SIZES}
    axes |= {"seed": tuple(range(count))}
    config = configure(**{f"sweep.{name}": values for name, values in axes.items()})
    points = settings.sweep(config)
    rows = pd.DataFrame(points).assign(status="ok", injected="gaussian")
    teacher = [None if pd.isna(t) else int(t) for t in rows["teacher_size"]]
    where = [best[t][seed] for t, seed in zip(teacher, rows["seed"], strict=True)]
    own = [least if t == 50 else 0.5 for t in teacher]
    rows["test_loss"] = np.where(rows["size"] == where, own, 2.3) + 1e-6 * rows["seed"]
    runs = Runs.of(points, rows[lost:])
    return decide_all(make_claims(config), runs)


@pytest.mark.parametrize(
    ("larger", "status"),
    [((25,) * 8, "shown"), ((9, *(25,) * 7), "not shown"), ((2,) * 8, "not shown")],
)
def test_a_student_s_best_size_rises_with_its_teacher_s_in_every_seed(larger, status):
    rises, near, *losses = sizes({None: (9,) * 8, 9: (9,) * 8, 50: larger})
    assert (rises.status, near.status) == (status, "shown")
    assert [row.status for row in losses] == ["measured"] * 3
    rises, *_ = sizes({None: (9,) * 8, 9: (9,) * 8, 50: (25,) * 8}, lost=33)
    assert rises.status == "condition not met"


def test_labels_that_no_student_learns_have_no_best_size():
    """A constant's loss is log 10 = 2.30; below 0.95 of it something was learned."""
    for least, status in ((2.18, "shown"), (2.19, "not shown")):
        rises, *_ = sizes({None: (9,) * 4, 9: (9,) * 4, 50: (25,) * 4}, least=least)
        assert rises.status == status


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
def test_the_teacher_s_size_is_what_algorithm_1_chooses_in_every_seed(chosen, status):
    *_, row = sizes({None: chosen, 9: chosen}, teachers=(9,), share=0.0)
    assert "algorithm 1" in row.item and row.status == status
    assert row.ours == ", ".join(map(str, chosen))


@pytest.mark.parametrize("variant", ["full", "small"])
@pytest.mark.parametrize(("teacher", "student"), [(5, 9), (2, 8)])
def test_algorithm_1_has_resnets_on_either_side_of_the_teacher_to_choose_from(
    variant, teacher, student
):
    config = tables.resnet_students(variant, {}, teacher=teacher, student=student)
    chosen = config.sweep.direct_size
    assert min(chosen) < teacher < max(chosen) and {teacher, student} <= set(chosen)


def test_students_of_the_teacher_that_algorithm_1_chose_for_their_seed(tmp_path, write_courses):
    best = (9, 15, 15, 9)
    axes = {"direct_size": (5, 9, 15, 25), "teacher_size": (9, 15), "size": (25,)}
    fields = {f"sweep.{name}": values for name, values in axes.items()}
    config = configure(**fields, **{"sweep.seed": (0, 1, 2, 3)})
    points = settings.sweep(config)
    rows = pd.DataFrame(
        {
            "id": f"{place}",
            "status": "ok",
            "least_used_class": 0.1,
            "parameters": 1,
            "injected": "gaussian",
        }
        | {"train_loss": 0.1, "test_loss": 0.5 - 0.2 * (point["size"] == best[point["seed"]])}
        | point
        | measures(point, {"labelled": 0.8 + point.get("teacher_size", 0) / 100, "injected": 0.7})
        for place, point in enumerate(points)
    )
    rows["test_loss"] += 0.001 * rows["seed"]
    write_courses(tmp_path, dict.fromkeys(rows["id"], []))
    rows = rows.drop(columns=["course_labelled_part", "course_injected_part"])
    found = make_report(config, rows, tmp_path).claims
    own = [row for row in found if "teachers by algorithm 1, student 25" in row.item]
    (parts,) = [row for row in own if "part at the end" in row.item]
    assert parts.ours == pytest.approx(10 + np.mean(best))
    same = make_report(config, rows[rows["seed"].isin((0, 3))], tmp_path).claims
    assert not any("by algorithm 1" in row.item for row in same)
