"""Made-up students on real and injected inputs: nothing in favour of the paper may read shown."""

import numpy as np
import pandas as pd
import pytest
from student_rows import injected_rows

from lsa_jax.experiments.feature_learning.input_structure import claims as input_structure
from lsa_jax.experiments.feature_learning.input_structure import differences
from lsa_jax.experiments.feature_learning.input_structure import sizes as structure_sizes


def test_a_curve_of_noise_has_its_minimum_early_and_chooses_no_teacher(nothing_shown):
    """Of four losses in no order, the first minimum is the second in one case of three."""
    rows = [
        {"learner": "direct", "size": size, "seed": seed, "test_loss": 1 + 0.01 * seed + loss}
        for seed in range(3)
        for size, loss in zip((2, 5, 9, 18), (0.1, 0.0, 0.1, 0.05), strict=True)
    ]
    of_teacher = {"learner": "student", "teacher_size": 5, "size": 9, "seed": 0}
    nothing_shown(structure_sizes.choice_claims(pd.DataFrame([*rows, of_teacher])))
    more = [row | {"seed": row["seed"] + 3, "test_loss": row["test_loss"] + 0.03} for row in rows]
    found = pd.DataFrame([*rows, *more, of_teacher])
    assert structure_sizes.choice_claims(found)[0].status == "shown"
    nothing_shown(structure_sizes.choice_claims(found.drop(index=2)))
    # A seed that failed at every size is not seen in what is left.
    assert structure_sizes.choice_claims(found, range(6))[0].status == "shown"
    lost = structure_sizes.choice_claims(found, range(7))
    nothing_shown(lost)
    assert "4 of 28 runs have no result: size 2, seed 6" in lost[0].note


def test_students_are_held_against_direct_training_of_the_same_seed(nothing_shown):
    noise = np.array([0.0, 0.002, -0.002, 0.001, -0.001])
    labelled, injected = list(0.95 + noise), list(0.8 - noise)
    whole = list(0.87 + noise)
    shown = students(labelled, injected, whole, list(0.95 + noise))
    assert [claim.status for claim in shown] == [*("shown",) * 2, "not run", *("shown",) * 2]
    # Direct training whose seeds are further apart than it is from the student.
    wide = [0.7, 0.99, 0.95, 0.8, 0.99]
    claims = students(labelled, injected, whole, wide)
    nothing_shown([claim for claim in claims if "direct training" in claim.item])
    # A constant answer has 11.35 % of MNIST right.
    labels = {"largest": 0.1135, "test": 10_000}
    constant = [0.1135, 0.1134, 0.1135, 0.1136, 0.1135]
    nothing_shown(students(constant, list(0.05 + noise), [0.08] * 5, constant, **labels))
    # Equal seeds, too few seeds, too few test images, a teacher that guesses.
    nothing_shown(students([0.95] * 5, [0.8] * 5, [0.87] * 5, [0.95] * 5))
    nothing_shown(students(labelled, injected, whole, labelled, seeds=range(8)))
    nothing_shown(students(labelled, injected, whole, labelled, test=20))
    nothing_shown(students(labelled, injected, whole, labelled, teacher=0.1))
    # None was trained directly: said, not left out.
    claims = students(labelled, injected, whole, [])
    of_direct = [claim for claim in claims if "direct training" in claim.item]
    assert [claim.status for claim in of_direct] == ["not run"] * 2
    assert all("not there" in claim.note for claim in of_direct)


def test_of_fc_9_on_mnist_the_paper_sees_no_significant_trend():
    found = students(
        [0.95, 0.951, 0.952], [0.8, 0.801, 0.803], [0.87] * 3, [0.95] * 3, no_trend=(9,)
    )
    assert {claim.status for claim in found} == {"measured", "not run"}


def test_a_gap_that_grows_counts_test_images_seeds_and_chance(nothing_shown):
    def gaps(labelled, smaller, larger, **fields):
        rows = [
            {"teacher_size": 9, "share": 0.5, "size": size, "seed": seed}
            | {"test_labelled_part": labelled + 0.001 * seed}
            | {"test_injected_part": labelled + 0.001 * seed - gap}
            for size, of in ((9, smaller), (50, larger))
            for seed, gap in enumerate(of)
        ]
        labels = differences.Labels(**{"test": 2000, "seeds": range(3)} | fields)
        return input_structure.size_gap_claims(pd.DataFrame(rows), labels)

    least, most = (0.05, 0.051, 0.049), (0.2, 0.21, 0.19)
    assert gaps(0.9, least, most)[0].status == "shown"
    nothing_shown(gaps(0.9, least, most, test=20))
    nothing_shown(gaps(0.9, least, (0.06, 0.061, 0.059), test=500))
    nothing_shown(gaps(0.9, least, most, seeds=range(5)))
    nothing_shown(gaps(0.1, (0.01, 0.011, 0.012), (0.08, 0.081, 0.079)))


def students(labelled, injected, whole, direct, teacher=0.97, share=0.5, alone=(), **fields):
    """Returns the claims on students of a share, by seed; `alone` is the control's labelled part.

    `course` are the seeds whose evaluations are there, `largest_label` that of the teacher.
    """
    rows = pd.DataFrame({"test_labelled_part": labelled, "test_injected_part": injected})
    fixed = {"learner": "student", "teacher_size": 9, "size": 9, "injected": "gaussian"}
    fixed |= {"teacher_accuracy": teacher, "largest_label": fields.pop("largest_label", np.nan)}
    course = fields.pop("course", range(len(rows)))
    rows = rows.assign(seed=range(len(rows)), test_accuracy=whole, share=share, **fixed)
    own = pd.DataFrame({"size": 9, "test_accuracy": direct, "seed": range(len(direct))})
    control = pd.DataFrame({"test_labelled_part": alone, "seed": range(len(alone)), "share": 0.0})
    labels = {"test": 2000, "seeds": range(len(rows))} | fields
    return input_structure.student_claims(
        pd.concat([rows, control.assign(**fixed)]) if len(alone) else rows,
        own,
        rows[rows["seed"].isin(course)],
        differences.Labels(**labels),
    )


NOISE = np.array([0.0, 0.002, -0.002, 0.001, -0.001])


def test_what_is_the_same_of_every_input_is_held_against_the_teacher_s_own_labels(nothing_shown):
    """A constant has a fifth of a skewed teacher's labels right, where each class is a tenth."""

    def constant(**fields):
        parts = (list(0.2 + NOISE), list(0.1 - NOISE), list(0.15 + NOISE), list(0.2 + NOISE))
        return students(*parts, **{"teacher": 0.35} | fields)

    assert "shown" in {claim.status for claim in constant(largest_label=0.1)}
    nothing_shown(constant(largest_label=0.2))
    nothing_shown(constant(largest_label=[0.1, 0.1, 0.1, 0.1, 0.2]))
    # Where it is not recorded: a teacher with nine tenths right has no label that is much larger.
    for teacher in (0.35, 0.9):
        nothing_shown(constant(teacher=teacher))
        assert "label is not recorded" in constant(teacher=teacher)[0].note
    assert "shown" in {claim.status for claim in constant(teacher=0.95)}


def test_of_injected_inputs_a_constant_has_the_teacher_s_most_used_class_right(nothing_shown):
    rows = injected_rows((0.3, 0.301, 0.302), (0.1, 0.101, 0.102))
    labels = differences.Labels(2000, seeds=range(3))
    for share, status in ((0.3, "undecided"), (0.15, "shown")):
        found = input_structure._injected_claims(rows.assign(most_used_class=share), labels)
        assert [claim.status for claim in found] == [status]


def test_students_beside_networks_of_more_labelled_images_are_measured_alone():
    """At three quarters a student has a third of the images that its control and direct have."""
    parts = (list(0.95 + NOISE), list(0.8 - NOISE), list(0.85 + NOISE), list(0.96 + NOISE))
    for share, statuses in ((0.5, ["shown"] * 5), (0.75, ["measured", "shown"] * 2 + ["measured"])):
        claims = students(*parts, share=share, alone=list(0.951 + NOISE[::-1]), test=20_000)
        assert [claim.status for claim in claims] == statuses
        for claim in claims:
            assert ("33 % of the labelled images" in claim.note) == (claim.status == "measured")


def test_a_seed_without_its_course_is_no_seed_of_a_mean_over_it():
    parts = (list(0.95 + NOISE), list(0.8 - NOISE), list(0.85 + NOISE), list(0.96 + NOISE))
    for course, status in ((range(5), "shown"), (range(3), "undecided"), ((), "not run")):
        (slower,) = (claim for claim in students(*parts, course=course) if "over" in claim.item)
        assert slower.status == status
        assert ("2 of 5 runs failed or are not there" in slower.note) == (status == "undecided")


@pytest.mark.parametrize(
    ("labelled", "injected", "whole", "direct"),
    [
        ([0.1] * 3, [0.1] * 3, [0.1] * 3, [0.1] * 3),  # nothing is learned
        ([0.1] * 3, [0.05] * 3, [0.05] * 3, [0.1] * 3),
        ([0.9] * 3, [0.9] * 3, [0.9] * 3, [0.9] * 3),  # equal
        ([0.6] * 3, [0.9] * 3, [0.95] * 3, [0.8] * 3),  # exchanged
        ([0.85, 0.9, 0.95], [0.96, 0.84, 0.9], [0.86, 0.95, 0.9], [0.85, 0.96, 0.9]),  # noise
        ([0.9], [0.89], [0.9], [0.9]),  # one seed
    ],
)
def test_students_that_guess_are_equal_or_noise_show_nothing(
    labelled, injected, whole, direct, nothing_shown
):
    nothing_shown(students(labelled, injected, whole, direct))


@pytest.mark.parametrize(
    ("tiny", "gaussian"),
    [
        ([0.1] * 3, [0.05] * 3),  # nothing is learned
        ([0.1] * 3, [0.1] * 3),
        ([0.7] * 3, [0.7] * 3),  # equal
        ([0.5] * 3, [0.7] * 3),  # exchanged
        ([0.6, 0.7, 0.5], [0.5, 0.55, 0.6]),  # noise
        ([0.505], [0.5]),  # one seed, and fewer examples than would tell
    ],
)
def test_pictures_that_are_learned_no_better_than_gaussian_inputs_show_nothing(
    tiny, gaussian, nothing_shown
):
    students = injected_rows(tiny, gaussian)
    labels = differences.Labels(2000, seeds=range(len(tiny)))
    nothing_shown(input_structure._injected_claims(students, labels))


def sizes(losses):
    """Returns the claims on losses (teacher, seed) of students of size 1 to 5."""
    rows = [
        {"learner": "student", "teacher_size": teacher, "share": 1.0, "size": size, "seed": seed}
        | {"test_loss": loss}
        for teacher in (10, 100, 500)
        for seed in range(3)
        for size, loss in enumerate(losses(teacher, seed), start=1)
    ]
    return structure_sizes.size_claims(pd.DataFrame(rows))


def test_minima_of_noise_and_of_labels_that_nobody_learns_do_not_move(nothing_shown):
    rng = np.random.default_rng(3)
    nothing_shown(sizes(lambda teacher, seed: 2.3 + 0.02 * rng.normal(size=5)))
    nothing_shown(sizes(lambda teacher, seed: 1.0 + 0.1 * rng.normal(size=5)))
    nothing_shown(sizes(lambda teacher, seed: abs(np.arange(5) - 2.0)))
