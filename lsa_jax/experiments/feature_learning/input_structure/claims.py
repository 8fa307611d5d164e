"""What the paper says of students on real and injected inputs, beside what came out."""

import math
from typing import Any

import pandas as pd

from lsa_jax.experiments.feature_learning.input_structure.tasks import mixture_parts
from lsa_jax.reporting.claims import chance_warning, compare, every, measured
from lsa_jax.reporting.intervals import difference_error
from lsa_jax.reporting.report import Claim

# A student's accuracy on the labelled part may be this many points below that of direct training.
AS_GOOD = 2.0

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


def _panel_claims(
    name: str,
    rows: pd.DataFrame,
    level: float,
    control: pd.DataFrame,
    course: pd.DataFrame,
    num_test: int,
) -> list[Claim]:
    """Returns what one panel of figures 22 and 23 shows of a student beside direct training.

    A student that is as good as direct training where both guess, or where it cannot tell the
    parts, says nothing. Direct training learns the data set's labels, the control the teacher's, as
    the student does.
    """
    labelled, injected = rows["test_labelled_part"], rows["test_injected_part"]
    slower = (course["test_labelled_part"] - course["test_injected_part"]).groupby(course["seed"])
    guesses = chance_warning(level, _CLASSES, num_test)
    fewest = max(min(mixture_parts(rows["share"].iloc[0], num_test)), 1)
    error = difference_error(labelled.mean(), injected.mean(), fewest)
    worse = compare(
        f"points of test accuracy, labelled minus injected part at the end, {name}",
        "above 0: worse",
        100 * (labelled - injected),
        above=0.0,
        examples_error=100 * error,
        unless=guesses,
        digits=2,
    )
    same = guesses or ("" if worse.status == "shown" else "the injected part is not worse")
    claims = [worse]
    alone = control["test_labelled_part"].mean()
    as_good = f"not below by more than {AS_GOOD:g}"
    for item, paper, gap, least in (
        ("labelled part minus direct training", as_good, labelled - level, -AS_GOOD),
        ("labelled part minus the same labels alone", as_good, labelled - alone, -AS_GOOD),
        (
            "labelled minus injected part, mean over training",
            "above 0: slower",
            slower.mean(),
            0.0,
        ),
        ("direct training minus whole mixture", "above 0", level - rows["test_accuracy"], 0.0),
    ):
        options = {"above": least, "examples_error": 100 * error, "unless": same, "digits": 2}
        item = f"points of test accuracy, {item}, {name}"
        claims.append(compare(item, paper, 100 * gap, **options))
    claims = claims if len(control) else [*claims[:2], *claims[3:]]
    return [claims[1], claims[0], *claims[2:]]


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
    students: pd.DataFrame, direct: pd.DataFrame, curves: pd.DataFrame, num_test: int
) -> list[Claim]:
    """Returns what figures 22, 24 and 25 say of each panel, then what figure 23 does of two.

    Args:
        students: their runs.
        direct: runs of networks on the data set directly.
        curves: one row an evaluation of all of them.
        num_test: test images of the data set.
    """
    claims = []
    for name, of, rows in panels(students):
        own = direct[direct["size"] == of["size"]]
        if of["share"] in (0, 1) or own.empty:
            continue
        control, course = _like(students, of | {"share": 0.0}), _like(curves, of)
        level = own["test_accuracy"].mean()
        claims += _panel_claims(name, rows, level, control, course, num_test)
    return claims + _injected_claims(students, num_test)


def _injected_claims(students: pd.DataFrame, num_test: int) -> list[Claim]:
    """Returns whether Tiny ImageNet's inputs are learned better than Gaussian ones.

    Each has a teacher of its own, regularised on its inputs.

    Source: Shi, Wei and Liang (2022), appendix E.5.2: figure 23 beside figure 22.
    """
    claims = []
    for (teacher, share, size), rows in students.groupby(["teacher_size", "share", "size"]):
        found = rows.pivot(index="seed", columns="injected", values="test_injected_part")
        if share == 0 or not {"gaussian", "tiny_imagenet"} <= set(found):
            continue
        pictures, gaussian = found["tiny_imagenet"], found["gaussian"]
        examples = mixture_parts(share, num_test)[1]
        error = difference_error(pictures.mean(), gaussian.mean(), examples)
        item = "points of test accuracy, Tiny ImageNet part minus Gaussian part, "
        item += f"teacher {int(teacher)}, student {int(size)}, share {share:g}"
        options = {"above": 0.0, "examples_error": 100 * error, "digits": 2}
        options["unless"] = chance_warning(pictures.mean(), _CLASSES, examples)
        claims.append(compare(item, "above 0 (figure 23)", 100 * (pictures - gaussian), **options))
    return claims


def size_gap_claims(students: pd.DataFrame) -> list[Claim]:
    """Returns whether the largest student parts labelled from injected inputs more than the least.

    Source: Shi, Wei and Liang (2022), appendix E.5.3: figure 25 beside figure 22 (a).
    """
    claims = []
    for (teacher, share), rows in students.groupby(["teacher_size", "share"]):
        least, most = int(rows["size"].min()), int(rows["size"].max())
        if share in (0, 1) or least == most:
            continue
        gaps = rows.set_index("seed").assign(
            gap=lambda of: 100 * (of["test_labelled_part"] - of["test_injected_part"])
        )
        more = gaps.loc[gaps["size"] == most, "gap"] - gaps.loc[gaps["size"] == least, "gap"]
        item = "points of test accuracy, labelled minus injected part at the end, "
        item += f"student {most} minus student {least}, teacher {int(teacher)}, share {share:g}"
        unless = "" if (gaps["gap"] > 0).all() else "the injected part is not worse"
        claims.append(
            compare(item, "above 0 (figure 25)", more, above=0.0, unless=unless, digits=2)
        )
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
    return [every(item, f"{teacher:g}", chosen == teacher, listed, luck=1 / sizes)]


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
        return [every(item, paper, [False], listed), *same, *losses]
    return [compare(item, paper, steps.sum(), above=0.0)._replace(ours=listed), *same, *losses]


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
