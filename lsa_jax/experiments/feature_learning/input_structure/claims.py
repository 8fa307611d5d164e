"""What the paper says of students on real and injected inputs, beside what came out."""

import math
from typing import Any

import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import answers_a_constant, doubt
from lsa_jax.experiments.feature_learning.input_structure.differences import (
    MEASURES,
    Labels,
    Side,
    by_seed,
    difference_claim,
    guesses,
    largest_label,
    parts_of,
)
from lsa_jax.experiments.feature_learning.input_structure.sizes import chosen_sizes
from lsa_jax.experiments.feature_learning.input_structure.tasks import mixture_parts
from lsa_jax.reporting.claims import compare
from lsa_jax.reporting.intervals import difference_error
from lsa_jax.reporting.report import Claim

# A student's accuracy on the labelled part may be this many points below that of direct training.
AS_GOOD = 2.0


def _panel_claims(
    name: str,
    rows: pd.DataFrame,
    direct: pd.DataFrame,
    control: pd.DataFrame,
    course: pd.DataFrame,
    labels: Labels,
) -> list[Claim]:
    """Returns what one panel of figures 22 and 23 shows of a student beside direct training.

    A student that is as good as direct training where both guess, or where it cannot tell the
    parts, says nothing. Direct training learns the data set's labels, the control the teacher's, as
    the student does. Above a share of a half either has more labelled images than the student.
    """
    labelled, injected = parts_of(rows, rows, labels.test)
    columns = ["seed", "test_labelled_part", "test_injected_part"]
    means = course.reindex(columns=columns).groupby("seed", as_index=False).mean()
    during = parts_of(rows, means, labels.test)
    examples = labelled.examples + injected.examples
    whole = Side(by_seed(rows, "test_accuracy"), examples, rows, labelled.seen)
    level = Side(by_seed(direct, "test_accuracy"), labels.test, direct)
    alone = Side(by_seed(control, "test_labelled_part"), labels.test, control)
    guess = guesses(rows, labelled, level.accuracy, labels)

    def claim(
        words: str, paper: str, first: Side, second: Side, least: float, unless: str
    ) -> Claim:
        item = f"points of test accuracy, {words}, {name}"
        return difference_claim(item, paper, (first, second), least, unless, labels)

    ends = "labelled minus injected part at the end"
    worse = claim(ends, "above 0: worse", labelled, injected, 0.0, guess)
    same = guess or ("" if worse.status == "shown" else "the injected part is not worse")
    as_good = (f"not below by more than {AS_GOOD:g}", labelled)
    course_words = "labelled minus injected part, mean over training"
    return [
        claim("labelled part minus direct training", *as_good, level, -AS_GOOD, same),
        worse,
        claim("labelled part minus the same labels alone", *as_good, alone, -AS_GOOD, same),
        claim(course_words, "above 0: slower", *during, 0.0, same),
        claim("direct training minus whole mixture", "above 0", level, whole, 0.0, same),
    ]


def panels(runs: pd.DataFrame) -> list[tuple[str, dict[str, Any], pd.DataFrame]]:
    """Returns the panels of figures 22 to 25: name, settings and runs of students alike.

    The name says what is injected where it differs.
    """
    keys = ["teacher_size", "share", "size", "injected"]
    several = runs["injected"].nunique() > 1
    found = []
    for values, rows in runs.groupby(keys) if len(runs) else ():
        of = dict(zip(keys, values, strict=True))
        name = f"teacher {int(of['teacher_size'])}, student {int(of['size'])}"
        name += f", share {of['share']:g}" + (f", {of['injected']}" if several else "")
        found.append((name, of, rows))
    return found


def _like(runs: pd.DataFrame, of: dict[str, Any]) -> pd.DataFrame:
    """Returns the students of the settings given."""
    chosen = runs["learner"] == "student"
    for name, value in of.items():
        chosen &= runs[name] == value
    return runs[chosen]


def student_claims(
    students: pd.DataFrame, direct: pd.DataFrame, curves: pd.DataFrame, labels: Labels
) -> list[Claim]:
    """Returns what figures 22, 24 and 25 say of each panel, then what figure 23 does of two.

    Args:
        students: their runs.
        direct: runs of networks on the data set directly.
        curves: one row an evaluation of all of them.
        labels: of the data set.
    """
    claims = []
    for name, of, rows in panels(students):
        if of["share"] in (0, 1):
            continue
        own = direct[direct["size"] == of["size"]]
        control, course = _like(students, of | {"share": 0.0}), _like(curves, of)
        claims += _panel_claims(name, rows, own, control, course, labels)
    claims += _chosen_claims(students, direct, curves, labels)
    return claims + _injected_claims(students, labels)


def _chosen_claims(
    students: pd.DataFrame, direct: pd.DataFrame, curves: pd.DataFrame, labels: Labels
) -> list[Claim]:
    """Returns the same of each seed's students whose teacher has the size algorithm 1 gave it.

    None where it chose one size in every seed, or one that no teacher had.
    """
    chosen = chosen_sizes(direct)
    if chosen.nunique() < 2 or not set(chosen) <= set(students["teacher_size"]):
        return []
    claims = []
    own, course = (
        rows[rows["teacher_size"] == rows["seed"].map(chosen)] for rows in (students, curves)
    )
    for name, of, rows in panels(own.assign(teacher_size=0)):
        if of["share"] in (0, 1):
            continue
        of = {key: value for key, value in of.items() if key != "teacher_size"}
        name = name.replace("teacher 0", "teachers by algorithm 1")
        beside = direct[direct["size"] == of["size"]]
        control = _like(own, of | {"share": 0.0})
        claims += _panel_claims(name, rows, beside, control, _like(course, of), labels)
    return claims


def _injected_claims(students: pd.DataFrame, labels: Labels) -> list[Claim]:
    """Returns whether Tiny ImageNet's inputs are learned better than Gaussian ones.

    Each has a teacher of its own, regularised on its inputs.

    Source: Shi, Wei and Liang (2022), appendix E.5.2: figure 23 beside figure 22.
    """
    claims = []
    for (teacher, share, size), rows in students.groupby(["teacher_size", "share", "size"]):
        kinds = [rows[rows["injected"] == kind] for kind in ("tiny_imagenet", "gaussian")]
        if share == 0 or any(own.empty for own in kinds):
            continue
        pictures, gaussian = (by_seed(own, "test_injected_part") for own in kinds)
        examples = mixture_parts(share, labels.test)[1]
        error = difference_error(pictures.mean(), gaussian.mean(), examples)
        item = "points of test accuracy, Tiny ImageNet part minus Gaussian part, "
        item += f"teacher {int(teacher)}, student {int(size)}, share {share:g}"
        options = {"above": 0.0, "examples_error": 100 * error, "digits": 2}
        constant = by_seed(kinds[0], "most_used_class").fillna(labels.largest)
        options["unless"] = answers_a_constant(pictures, constant, examples)
        gap = 100 * (pictures - gaussian).dropna()
        claim = compare(item, "above 0 (figure 23)", gap, **options)
        claims.append(doubt(claim, kinds, labels.seeds, MEASURES, examples))
    return claims


def size_gap_claims(students: pd.DataFrame, labels: Labels) -> list[Claim]:
    """Returns whether the largest student parts labelled from injected inputs more than the least.

    Source: Shi, Wei and Liang (2022), appendix E.5.3: figure 25 beside figure 22 (a).
    """
    claims = []
    for (teacher, share), rows in students.groupby(["teacher_size", "share"]):
        least, most = int(rows["size"].min()), int(rows["size"].max())
        if share in (0, 1) or least == most:
            continue
        both = [rows[rows["size"] == size] for size in (most, least)]
        parts = [parts_of(own, own, labels.test) for own in both]
        gaps = [labelled.accuracy - injected.accuracy for labelled, injected in parts]
        sides = [side for of_size in parts for side in of_size]
        fewest, error = min(side.examples for side in sides), math.hypot(*map(Side.error, sides))
        item = "points of test accuracy, labelled minus injected part at the end, "
        item += f"student {most} minus student {least}, teacher {int(teacher)}, share {share:g}"
        unless = "" if all((gap > 0).all() for gap in gaps) else "the injected part is not worse"
        for labelled, _ in parts:
            constant = largest_label(labelled.runs, labels)
            unless = unless or answers_a_constant(labelled.accuracy, constant, labelled.examples)
        more = 100 * (gaps[0] - gaps[1]).dropna()
        options = {"above": 0.0, "examples_error": error, "unless": unless, "digits": 2}
        claim = compare(item, "above 0 (figure 25)", more, **options)
        claims.append(doubt(claim, both, labels.seeds, MEASURES, fewest))
    return claims
