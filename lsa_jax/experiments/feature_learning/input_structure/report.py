"""The report on input structure: accuracy on real and on injected inputs, loss by size."""

import functools
import math
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.input_structure.tasks import mixture_parts
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import cell, chance_warning, compare, difference_error, every
from lsa_jax.reporting.curves import draw_mean, tidy
from lsa_jax.reporting.report import Claim, Report

# A student's accuracy on the labelled part may be this many points below that of direct training.
AS_GOOD = 2.0

# Students learn labels if some of them have a test loss below this share of a constant's.
LEARNED, _CLASSES = 0.95, 10

_TEST_IMAGES = 10_000

_LINES = {
    "test_labelled_part": ("labelled part", "#0072B2"),
    "test_injected_part": ("injected part", "#D55E00"),
    "test_accuracy": ("whole mixture", "#009E73"),
}
_DIRECT = ("trained on the data set directly", "#000000")


def _cell(values: pd.Series) -> str:
    return cell(100 * values, ".2f")


def local_minimum(sizes: list[int], losses: list[float]) -> int:
    """Returns the size at the first minimum of a curve: where the next larger one is worse.

    Source: Shi, Wei and Liang (2022), algorithm 1: the minimum in the classical regime.
    """
    for place in range(len(sizes) - 1):
        if losses[place + 1] > losses[place]:
            return sizes[place]
    return sizes[-1]


def _curves(fine: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    described = ["learner", "teacher_size", "share", "size", "seed"]
    rows = []
    for point in fine.to_dict("records"):
        own = {name: point.get(name) for name in described}
        rows += [own | row for row in files.read_metrics(workdir, point["id"])]
    return pd.DataFrame(rows)


def _student_table(students: pd.DataFrame, direct: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for (teacher, share, size), rows in students.groupby(["teacher_size", "share", "size"]):
        line = {"teacher": int(teacher), "share": f"{share:g}", "student": int(size)}
        line |= {label: _cell(rows[name]) for name, (label, _) in _LINES.items()}
        line["trained directly"] = _cell(direct.loc[direct["size"] == size, "test_accuracy"])
        line["teacher on the data set"] = _cell(rows["teacher_accuracy"])
        least, most = rows["least_used_class"].mean(), rows["most_used_class"].mean()
        line["share of its labels on U"] = f"{least:.3f} to {most:.3f}"
        lines.append(line)
    return pd.DataFrame(lines)


def _size_table(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns test loss by size, one column a curve: networks on L, students by teacher."""
    columns = {}
    for name, rows in _size_curves(fine).items():
        columns[name] = rows.groupby("size")["test_loss"].mean()
    table = pd.DataFrame(columns)
    counts = fine.groupby("size")["parameters"].first()
    table.insert(0, "parameters", counts.reindex(table.index))
    return table.reset_index()


def _size_curves(fine: pd.DataFrame) -> dict[str, pd.DataFrame]:
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


def _student_claims(
    students: pd.DataFrame, direct: pd.DataFrame, curves: pd.DataFrame, num_test: int
) -> list[Claim]:
    claims = []
    for (teacher, share, size), rows in students.groupby(["teacher_size", "share", "size"]):
        own = direct[direct["size"] == size]
        if share in (0, 1) or own.empty:
            continue
        name = f"teacher {int(teacher)}, student {int(size)}, share {share:g}"
        course = curves[
            (curves["learner"] == "student")
            & (curves["teacher_size"] == teacher)
            & (curves["size"] == size)
            & (curves["share"] == share)
        ]
        control = students[
            (students["teacher_size"] == teacher)
            & (students["size"] == size)
            & (students["share"] == 0)
        ]
        level = own["test_accuracy"].mean()
        claims += _panel_claims(name, rows, level, control, course, num_test)
    return claims


def _size_gap_claims(students: pd.DataFrame) -> list[Claim]:
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


def _choice_claims(fine: pd.DataFrame) -> list[Claim]:
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


def _size_claims(fine: pd.DataFrame) -> list[Claim]:
    """Returns where the curves have their first minimum: students' moves right with the teacher."""
    minima = {
        name: rows.groupby("seed")[["size", "test_loss"]].apply(_minimum)
        for name, rows in _size_curves(fine).items()
    }
    of_students = [found for name, found in minima.items() if name.endswith("share 1")]
    if len(of_students) < 2:  # one teacher: nothing to move with
        return []
    item = "size of the student at the first minimum of the test loss, largest minus least teacher"
    paper = "rises with the teacher's size (figure 26)"
    steps = pd.DataFrame(of_students).diff().iloc[1:]
    same = _same_minimum_claims(minima.get("on the data set"), of_students[0], fine)
    listed = ", ".join(
        f"{name}: {found.mean():g}" if found.notna().all() else f"{name}: not learned"
        for name, found in minima.items()
    )
    if steps.isna().any(axis=None) or (steps < 0).any(axis=None):
        return [every(item, paper, [False], listed), *same]
    return [compare(item, paper, steps.sum(), above=0.0)._replace(ours=listed), *same]


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


def draw_curves(curves: pd.DataFrame) -> Any:
    """Draws test accuracy against steps, one panel a student: parts, mixture, direct training."""
    import matplotlib.pyplot as plt

    mixed = curves["share"].between(0, 1, inclusive="neither")
    students = curves[(curves["learner"] == "student") & mixed]
    panels = list(students.groupby(["teacher_size", "share", "size"]))
    count = max(len(panels), 1)
    figure, axes = plt.subplots(
        1, count, figsize=(4.5 * count, 3.8), squeeze=False, layout="constrained"
    )
    for axis, ((teacher, share, size), rows) in zip(axes[0], panels, strict=False):
        lines = [(name, label, color, rows) for name, (label, color) in _LINES.items()]
        direct = curves[(curves["learner"] == "direct") & (curves["size"] == size)]
        lines.append(("test_accuracy", *_DIRECT, direct))
        for name, label, color, of_line in lines:
            if of_line.empty:
                continue
            accuracy, steps = of_line[name] * 100, of_line["step"]
            draw_mean(axis, accuracy, steps, color=color, limits=(0, 100), label=label)
        title = f"teacher {int(teacher)}, student {int(size)}, share {share:g}"
        axis.set(title=title, xlabel="steps", ylabel="test accuracy (%)")
        tidy(axis)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if handles:  # below, as lines of small networks are anywhere in a panel
        figure.legend(
            handles, labels, frameon=False, fontsize="small", loc="outside lower center", ncols=2
        )
    return figure


def draw_sizes(fine: pd.DataFrame) -> Any:
    """Draws test loss against the number of parameters, one panel a curve."""
    import matplotlib.pyplot as plt

    curves = _size_curves(fine)
    figure, axes = plt.subplots(
        1, len(curves), figsize=(4 * len(curves), 3.6), squeeze=False, layout="constrained"
    )
    for axis, (name, rows) in zip(axes[0], curves.items(), strict=True):
        for split, color in (("test", "#0072B2"), ("train", "#999999")):
            stats = rows.groupby("parameters")[f"{split}_loss"].agg(["mean", "std"])
            axis.errorbar(
                stats.index,
                stats["mean"],
                stats["std"].fillna(0),
                fmt="o-",
                markersize=3,
                color=color,
                label=f"{split} loss",
            )
        axis.set(xscale="log", xlabel="parameters", title=name)
        tidy(axis)
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep."""
    columns = ["teacher_size", "share", "size", "test_labelled_part", "test_injected_part"]
    fine = results[results["status"] == "ok"]
    fine = fine.reindex(columns=list(dict.fromkeys([*fine.columns, *columns])))
    students, direct = (fine[fine["learner"] == name] for name in ("student", "direct"))
    curves = _curves(fine, workdir)
    tables, claims, figures = [], [], {}
    if len(students):
        tables.append(("Test accuracy in % at the end", _student_table(students, direct)))
        claims += _student_claims(students, direct, curves, config.data.num_test or _TEST_IMAGES)
        claims += _size_gap_claims(students)
        # Students on injected inputs alone are drawn by size.
        if students["share"].between(0, 1, inclusive="neither").any():
            figures["curves"] = functools.partial(draw_curves, curves)
    if _size_curves(fine):
        tables.append(("Test loss by size", _size_table(fine)))
        claims += _choice_claims(fine) if students["share"].lt(1).any() else _size_claims(fine)
        figures["sizes"] = functools.partial(draw_sizes, fine)
    notes = [
        "Means over seeds ± their standard deviation. Students are measured against the teacher's "
        "labels, direct training against the data set's. The injected part is worse both for what "
        "its inputs lack and for how hard the teacher's labels of them are. The paper gives no "
        f"optimiser, batch or epochs: {config.optimizer} with rate {config.learning_rate:g}, "
        f"batches of {config.batch_size}, {config.epochs} epochs, R with weight "
        f"{config.regularizer:g} and lambda = {config.entropy:g} are ours."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=claims,
        figures=figures,
        extra_tables={"curves": curves},
        notes=notes,
    )
