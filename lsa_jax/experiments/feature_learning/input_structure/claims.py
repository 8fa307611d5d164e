"""What the paper says of students on real and injected inputs, beside what came out."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import answers_a_constant, doubt, undecided
from lsa_jax.experiments.feature_learning.input_structure.tasks import mixture_parts
from lsa_jax.reporting.claims import compare, every, measured
from lsa_jax.reporting.intervals import difference_error
from lsa_jax.reporting.report import Claim

# A student's accuracy on the labelled part may be this many points below that of direct training.
AS_GOOD = 2.0

# What seeds differ in.
_MEASURES = ("test_accuracy", "test_labelled_part", "test_injected_part", "test_loss")

# Students learn labels if some of them have a test loss below this share of a constant's.
LEARNED, _CLASSES = 0.95, 10


def local_minimum(sizes: list[int], losses: list[float]) -> int:
    """Returns the size at the first minimum of a curve: where the next larger one is worse.

    Source: Shi, Wei and Liang (2022), algorithm 1: the minimum in the classical regime.
    """
    for place in range(len(sizes) - 1):
        if losses[place + 1] > losses[place]:
            return sizes[place]
    return sizes[-1]


def size_curves(fine: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Returns the runs of each curve of loss against size: those with two sizes or more."""
    curves = {"on the data set": fine[fine["learner"] == "direct"]}
    students = fine[fine["learner"] == "student"]
    for (teacher, share), rows in (
        students.groupby(["teacher_size", "share"]) if len(students) else ()
    ):
        curves[f"teacher of size {int(teacher)}, share {share:g}"] = rows
    return {name: rows for name, rows in curves.items() if rows["size"].nunique() > 1}


class Labels(NamedTuple):
    """What a data set's labels are.

    Attributes:
        test: test images.
        largest: share of the most frequent label, which a constant answer has right.
        seeds: of the networks that a sweep asks for.
        no_trend: sizes of the students of which the paper says that nothing is significant.
    """

    test: int
    largest: float = 0.1
    seeds: Sequence[int] = ()
    no_trend: Sequence[int] = ()


def _by_seed(rows: pd.DataFrame, column: str) -> pd.Series:
    return rows.set_index("seed").reindex(columns=[column])[column].astype(float)


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
    the student does. Seeds share data, and start from the same network: differences are of a seed.
    """
    labelled, injected = (_by_seed(rows, f"test_{part}_part") for part in ("labelled", "injected"))
    level, alone = _by_seed(direct, "test_accuracy"), _by_seed(control, "test_labelled_part")
    course = course.reindex(columns=["seed", "test_labelled_part", "test_injected_part"])
    slower = (course["test_labelled_part"] - course["test_injected_part"]).groupby(course["seed"])
    fewest = max(min(mixture_parts(rows["share"].iloc[0], labels.test)), 1)
    error = 100 * difference_error(labelled.mean(), injected.mean(), fewest)
    guesses = answers_a_constant(level, labels.largest, labels.test)
    guesses = guesses or answers_a_constant(labelled, labels.largest, fewest)
    if "teacher_accuracy" in rows:
        of_teacher = answers_a_constant(rows["teacher_accuracy"], labels.largest, labels.test)
        guesses = guesses or of_teacher and f"the teacher: {of_teacher}"
    as_good = f"not below by more than {AS_GOOD:g}"

    def claim(words: str, paper: str, gap: pd.Series, least: float, unless: str, *beside) -> Claim:
        item = f"points of test accuracy, {words}, {name}"
        options = {"above": least, "examples_error": error, "unless": unless, "digits": 2}
        found = compare(item, paper, 100 * gap.dropna(), **options)
        if found.status == "not run":
            return found._replace(note="what it is held against is not there")
        found = doubt(found, [rows, *beside], labels.seeds, _MEASURES, fewest)
        if rows["size"].iloc[0] in labels.no_trend:
            return found._replace(paper="no significant trend", status="measured", note="")
        return found

    ends = "labelled minus injected part at the end"
    worse = claim(ends, "above 0: worse", labelled - injected, 0.0, guesses)
    same = guesses or ("" if worse.status == "shown" else "the injected part is not worse")
    mean = slower.mean()
    whole = level - _by_seed(rows, "test_accuracy")
    during = "labelled minus injected part, mean over training"
    return [
        claim(
            "labelled part minus direct training", as_good, labelled - level, -AS_GOOD, same, direct
        ),
        worse,
        claim(
            "labelled part minus the same labels alone",
            as_good,
            labelled - alone,
            -AS_GOOD,
            same,
            control,
        ),
        claim(during, "above 0: slower", mean, 0.0, same),
        claim("direct training minus whole mixture", "above 0", whole, 0.0, same, direct),
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
    return claims + _injected_claims(students, labels)


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
        pictures, gaussian = (_by_seed(own, "test_injected_part") for own in kinds)
        examples = mixture_parts(share, labels.test)[1]
        error = difference_error(pictures.mean(), gaussian.mean(), examples)
        item = "points of test accuracy, Tiny ImageNet part minus Gaussian part, "
        item += f"teacher {int(teacher)}, student {int(size)}, share {share:g}"
        options = {"above": 0.0, "examples_error": 100 * error, "digits": 2}
        options["unless"] = answers_a_constant(pictures, labels.largest, examples)
        gap = 100 * (pictures - gaussian).dropna()
        claim = compare(item, "above 0 (figure 23)", gap, **options)
        claims.append(doubt(claim, kinds, labels.seeds, _MEASURES, examples))
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
        parts = [
            [_by_seed(own, f"test_{part}_part") for part in ("labelled", "injected")]
            for own in both
        ]
        gaps = [labelled - injected for labelled, injected in parts]
        fewest = max(min(mixture_parts(share, labels.test)), 1)
        error = math.hypot(*(difference_error(a.mean(), b.mean(), fewest) for a, b in parts))
        item = "points of test accuracy, labelled minus injected part at the end, "
        item += f"student {most} minus student {least}, teacher {int(teacher)}, share {share:g}"
        unless = "" if all((gap > 0).all() for gap in gaps) else "the injected part is not worse"
        for labelled, _ in parts:
            unless = unless or answers_a_constant(labelled, labels.largest, fewest)
        more = 100 * (gaps[0] - gaps[1]).dropna()
        options = {"above": 0.0, "examples_error": 100 * error, "unless": unless, "digits": 2}
        claim = compare(item, "above 0 (figure 25)", more, **options)
        claims.append(doubt(claim, both, labels.seeds, _MEASURES, fewest))
    return claims


def _minimum(rows: pd.DataFrame) -> float:
    """Returns where one seed's curve has its first minimum; not-a-number if no labels are learned.

    Of teachers whose labels no student learns the curve has no such minimum.
    """
    losses = rows.groupby("size")["test_loss"].mean()
    learned = losses.min() < LEARNED * math.log(_CLASSES)
    return float(local_minimum(list(losses.index), list(losses))) if learned else math.nan


def choice_claims(fine: pd.DataFrame) -> list[Claim]:
    """Returns which size algorithm 1 gives the teacher, beside the sizes that teachers had."""
    direct = fine[fine["learner"] == "direct"]
    sizes = direct["size"].nunique()
    if sizes < 3:  # no minimum between two others
        return []
    chosen = direct.groupby("seed")[["size", "test_loss"]].apply(_minimum)
    (teacher, *_) = sorted(fine.loc[fine["learner"] == "student", "teacher_size"].unique())
    item = "size of the teacher by algorithm 1: first minimum of the test loss on the data set"
    listed = ", ".join(f"{size:g}" for size in chosen)
    # Of losses in no order the first minimum is at place n with a chance of (n + 1) / (n + 2)!.
    place = sum(direct["size"].unique() < teacher)
    luck = max(1 / sizes, (place + 1) / math.factorial(place + 2))
    claim = every(item, f"{teacher:g}", chosen == teacher, listed, luck=luck)
    return [undecided(claim, _gaps(direct), when=claim.status != "not run")]


def _gaps(rows: pd.DataFrame) -> str:
    """Says how many losses a curve lacks, whose minimum may be elsewhere; and if seeds are one."""
    losses = rows.pivot_table(index="size", columns="seed", values="test_loss")
    lost = int(losses.isna().sum().sum())
    if lost:
        return f"{lost} of {losses.size} runs failed or are not there"
    equal = losses.shape[1] > 1 and (losses.nunique(axis=1) == 1).all()
    return f"all of {losses.shape[1]} seeds are equal" if equal else ""


def size_claims(fine: pd.DataFrame) -> list[Claim]:
    """Returns where the curves have their first minimum: students' moves right with the teacher."""
    minima = {
        name: rows.groupby("seed")[["size", "test_loss"]].apply(_minimum)
        for name, rows in size_curves(fine).items()
    }
    of_students = [found for name, found in minima.items() if name.endswith("share 1")]
    if len(of_students) < 2:  # one teacher: nothing to move with
        return []
    item = "size of the student at the first minimum of the test loss, largest minus least teacher"
    paper = "rises with the teacher's size (figure 26)"
    steps = pd.DataFrame(of_students).diff().iloc[1:]
    losses = _least_losses(fine)
    same = _same_minimum_claims(minima.get("on the data set"), of_students[0], fine)
    listed = ", ".join(
        f"{name}: {found.mean():g}" if found.notna().all() else f"{name}: not learned"
        for name, found in minima.items()
    )
    if steps.isna().any(axis=None) or (steps < 0).any(axis=None):
        rises = every(item, paper, [False], listed)
    else:
        rises = compare(item, paper, steps.sum(min_count=1), above=0.0)._replace(ours=listed)
    lacks = filter(None, (_gaps(rows) for rows in size_curves(fine).values()))
    return [*_with_gaps([rises, *same], next(lacks, "")), *losses]


def _with_gaps(claims: list[Claim], gaps: str) -> list[Claim]:
    return [undecided(claim, gaps, when=claim.status != "not run") for claim in claims]


def _least_losses(fine: pd.DataFrame) -> list[Claim]:
    """Returns how well each curve's labels are learned: a constant has a loss of ln 10 = 2.3."""
    claims = []
    for name, rows in size_curves(fine).items():
        least = rows.groupby("seed")["test_loss"].min()
        item = f"least test loss over sizes, {name}"
        claims.append(measured(item, "", round(least.mean(), 3), least))
    return claims


def _same_minimum_claims(
    direct: pd.Series | None, students: pd.Series, fine: pd.DataFrame
) -> list[Claim]:
    """Returns whether networks on L and students of the least teacher have one best size.

    "Roughly the same" (figure 26 a, b) are neighbours among the sizes that were run.
    """
    if direct is None:
        return []
    sizes = sorted(fine["size"].unique())
    both = pd.DataFrame({"direct": direct, "students": students})
    item = "first minima on the data set and of the least teacher's students, in each seed"
    listed = "; ".join(f"{row.direct:g} and {row.students:g}" for row in both.itertuples())
    place = both.map(lambda size: sizes.index(size) if size in sizes else math.nan)
    near = (place["direct"] - place["students"]).abs() <= 1
    # Of two sizes drawn at random from n, this share are neighbours or one.
    luck = (3 * len(sizes) - 2) / len(sizes) ** 2
    return [every(item, "roughly the same (figure 26 a, b)", near, listed, luck=luck)]
