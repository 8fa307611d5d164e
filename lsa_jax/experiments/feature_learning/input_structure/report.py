"""Students of real and injected inputs: claims, tables and figures 22 to 26, and algorithm 1.

Source: Shi, Wei and Liang (ICLR 2022), appendix E.5.
"""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.input_structure.settings import mixture_parts
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, above_chance, shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, legend_below, panels_of
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import accuracy, minus
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config, product

# A student's accuracy on the labelled part may be this many points below that of direct training.
AS_GOOD = 2.0
# Students learn labels if some of them have a test loss below this share of a constant's.
LEARNED, _CLASSES = 0.95, 10
# Of students FC(9) on MNIST "the results do not show a significant trend" (appendix E.5.2).
NO_TREND = {"mnist": (9,)}
# Sizes of the paper's teachers: claims on them at a share of a half are primary.
TEACHERS = {"mnist": 9, "cifar10": 5, "svhn": 2, "digits": None}
_TEST_IMAGES = {"mnist": 10_000, "cifar10": 10_000, "svhn": 26_032, "digits": 360}

# Settings of networks that are trained on the data set, and of one student's or one curve's runs.
DIRECT = {"learner": "direct"}
Panel = dict[str, object]

# The size that stands for each seed's teacher of algorithm 1: `report` adds its students' runs.
CHOSEN = 0


# --- sizes at the first minimum of the test loss (figure 26, algorithm 1) ------------------------


def first_minima(runs: Runs, **curve: object) -> pd.Series:
    """Returns the size at a curve's first minimum by seed: where the next larger one is worse.

    It is not-a-number where no size learns the labels.

    Source: algorithm 1: the minimum in the classical regime.
    """
    found = {}
    for seed, rows in runs.where(**curve).finished.groupby("seed"):
        losses = rows.groupby("size")["test_loss"].mean()
        rises = np.append(np.diff(losses) > 0, True)
        learned = losses.min() < LEARNED * math.log(_CLASSES)
        found[seed] = losses.index[rises.argmax()] if learned else math.nan
    return pd.Series(found, dtype=float)


def curves(config: Config) -> dict[str, Panel]:
    """Returns the settings of each curve of loss against size: those of two sizes or more."""
    axes = config.sweep
    found = {"on the data set": DIRECT} if len(axes.direct_size) > 1 else {}
    for teacher in axes.teacher_size * (len(axes.size) > 1):
        for share in axes.share:
            own = {"learner": "student", "teacher_size": teacher, "share": share}
            found[f"teacher of size {teacher}, share {share:g}"] = own
    return found


def _in_every_seed(
    item: str, paper: str, chosen: list[Panel], holds: Callable, **options: Any
) -> list[Claim]:
    """Returns the claim that curves' first minima have a property in every seed."""

    def statistic(runs: Runs) -> Sample:
        own = [runs.where(**curve) for curve in chosen]
        minima = pd.DataFrame([first_minima(curve) for curve in own])
        held = np.asarray(holds(*minima.to_numpy()), float)
        lost = next(filter(None, (curve.lost("test_loss") for curve in own)), "")
        equal = any(curve.equal_seeds() for curve in own)
        return Sample(pd.Series(held, minima.columns), lost=lost, equal=equal)

    return [Claim(f"seeds in which {item}", statistic, paper=paper, every=True, **options)]


def choice_claims(config: Config) -> list[Claim]:
    """Returns the claim that algorithm 1 gives the teacher the size of the least one run."""
    sizes, teacher = config.sweep.direct_size, min(config.sweep.teacher_size)
    if len(sizes) < 3:
        return []
    # Of losses in random order the first minimum is at place n with probability (n + 1) / (n + 2)!.
    place = sum(size < teacher for size in sizes)
    return _in_every_seed(
        f"algorithm 1 gives the teacher the size {teacher}: first minimum of the test loss on the "
        "data set",
        "all",
        [DIRECT],
        lambda minima: minima == teacher,
        luck=max(1 / len(sizes), (place + 1) / math.factorial(place + 2)),
        ours=lambda runs: ", ".join(f"{size:g}" for size in first_minima(runs, **DIRECT)),
    )


def size_claims(config: Config) -> list[Claim]:
    """Returns the claims on figure 26: a student's best size moves right with its teacher's."""
    found, count = curves(config), len(config.sweep.size)
    students = [curve for curve in found.values() if curve != DIRECT]
    if len(students) < 2:
        return []
    order = sorted({*config.sweep.size, *config.sweep.direct_size})

    def rises(*minima: np.ndarray) -> np.ndarray:
        steps = np.diff(minima, axis=0)
        return (steps >= 0).all(axis=0) & (steps.sum(axis=0) > 0)

    def near(*minima: np.ndarray) -> np.ndarray:
        first, second = np.searchsorted(order, minima)
        return (abs(first - second) <= 1) & np.isfinite(minima).all(axis=0)

    rising = _in_every_seed(
        "a student's size at the first minimum of its test loss rises with the teacher's",
        "all (figure 26)",
        students,
        rises,
        # The share of all lists of sizes that rise and are not constant.
        luck=(math.comb(count + len(students) - 1, len(students)) - count) / count ** len(students),
    )
    neighbours = _in_every_seed(
        "the first minima on the data set and of the least teacher's students are neighbours",
        "all: roughly the same (figure 26 a, b)",
        [DIRECT, students[0]],
        near,
        luck=(3 * count - 2) / count**2,  # the share of pairs that are neighbours or equal
    )
    return rising + neighbours * (DIRECT in found.values())


# --- accuracies of the parts (figures 22 to 25) --------------------------------------------------


def make_claims(config: Config, *, chosen: bool = False) -> list[Claim]:
    """Returns the claims of a sweep; `chosen` ones have students of algorithm 1's teachers."""
    if {*config.sweep.share} <= {1.0}:
        return size_claims(config)
    mixed = [own for own in panels(config) if 0 < own["share"] < 1]
    first = [own for own in mixed if own["teacher_size"] == config.sweep.teacher_size[0]]
    by_seed = [own | {"teacher_size": CHOSEN} for own in first * chosen]
    claims = []
    for own in mixed + by_seed:
        if own["size"] not in NO_TREND.get(config.data.dataset, ()):
            claims += _panel_claims(config, own)
    for own in mixed:
        if own["size"] == max(config.sweep.size) > min(config.sweep.size):
            claims.append(_size_gap_claim(config, own))
        if own["injected"] == "tiny_imagenet" and "gaussian" in config.sweep.injected:
            claims.append(_kind_claim(own))
    return claims + choice_claims(config)


def panels(config: Config) -> list[Panel]:
    """Returns the settings of students that are alike: the panels of figures 22 to 25."""
    axes = config.sweep
    kinds = {"learner": ("student",), "injected": axes.injected or (config.data.injected,)}
    return product(kinds | {name: axes[name] for name in ("teacher_size", "share", "size")})


def panel_name(config: Config, own: Panel) -> str:
    """Returns a panel's name; it contains the kind of injected inputs where there are several."""
    teacher = f"teacher {own['teacher_size']}"
    if own["teacher_size"] == CHOSEN:
        teacher = "teachers by algorithm 1"
    return f"{teacher}, student {own['size']}, {_share_words(config, own)}"


def _share_words(config: Config, own: Panel) -> str:
    kind = f", {own['injected']}" if len(config.sweep.injected) > 1 else ""
    return f"share {own['share']:g}{kind}"


def counted(config: Config, runs: Runs) -> Runs:
    """Returns the runs with their numbers of test inputs: of the data set, each part and both."""
    count = config.data.num_test or _TEST_IMAGES[config.data.dataset]
    # Networks on the data set have no share: all of their test inputs are labelled.
    shares = runs.finished["share"].fillna(0.0)
    parts = pd.DataFrame([mixture_parts(share, count) for share in shares], shares.index)
    return runs.assign(
        num_test=count, num_labelled=parts[0], num_injected=parts[1], num_mixture=parts.sum(axis=1)
    )


def _part(own: Panel, part: str, when: str = "test") -> Statistic:
    """Returns a student's accuracy on a part of the mixture, at the end or as "course"'s mean."""
    return accuracy(f"{when}_{part}_part", examples=f"num_{part}", **own)


def _gap(words: str, paper: str, first: Statistic, second: Statistic, **options: object) -> Claim:
    """Returns the claim that one accuracy exceeds another, by more than 0 unless `above` is set."""
    options = {"paper": paper, "above": 0.0} | options
    return Claim(f"points of test accuracy, {words}", minus(first, second), **options)


def _worse(config: Config, own: Panel) -> Claim:
    """Returns the claim that a student is worse on the injected part, if all learn their labels.

    Direct training learns the labels of the data set; the student learns its teacher's labels.
    Chance is the share of the largest class in either.
    """
    papers = own["teacher_size"] == TEACHERS[config.data.dataset] and own["share"] == 0.5
    part = {"column": "test_labelled_part", "chance": "largest_label"}
    return _gap(
        f"labelled minus injected part at the end, {panel_name(config, own)}",
        "above 0: worse",
        _part(own, "labelled"),
        _part(own, "injected"),
        conditions=(
            above_chance("direct training", classes=10, learner="direct", size=own["size"]),
            above_chance("the teacher", classes=10, column="teacher_accuracy", **own),
            above_chance("the student", classes=10, **part, **own),
        ),
        primary=papers and own["injected"] == "gaussian",
    )


def _panel_claims(config: Config, own: Panel) -> list[Claim]:
    """Returns the claims of one panel of figures 22 and 23.

    Comparisons with direct training need a student that is worse on the injected part. Above a
    share of a half there are none: direct training and the control, which learns the teacher's
    labels alone, have more labelled images than the student.
    """
    labelled, alone = (_part(of, "labelled") for of in (own, own | {"share": 0.0}))
    direct = accuracy(learner="direct", size=own["size"])
    course = [_part(own, part, "course") for part in ("labelled", "injected")]
    whole = accuracy(examples="num_mixture", **own)
    as_good = f"not below by more than {AS_GOOD:g}"
    # Words, the paper's statement, the accuracies, and their least difference.
    gaps = [
        ("labelled minus injected part, mean over training", "above 0: slower", *course, 0.0),
        ("labelled part minus direct training", as_good, labelled, direct, -AS_GOOD),
        ("labelled part minus the same labels alone", as_good, labelled, alone, -AS_GOOD),
        ("direct training minus whole mixture", "above 0", direct, whole, 0.0),
    ]
    worse, name = _worse(config, own), panel_name(config, own)
    conditions = (shown(worse, "the injected part is worse"),)
    return [worse] + [
        _gap(f"{words}, {name}", paper, first, second, above=above, conditions=conditions)
        for words, paper, first, second, above in (gaps if own["share"] <= 0.5 else gaps[:1])
    ]


def _kind_claim(pictures: Panel) -> Claim:
    """Returns the claim that Tiny ImageNet's inputs are learned better than Gaussian ones.

    Each has a teacher of its own, regularised on its inputs. Source: figures 22 and 23.
    """
    part = {"column": "test_injected_part", "chance": "most_used_class"}
    return _gap(
        "Tiny ImageNet part minus Gaussian part, teacher {teacher_size}, student {size}, share "
        "{share:g}".format(**pictures),
        "above 0 (figure 23)",
        _part(pictures, "injected"),
        _part(pictures | {"injected": "gaussian"}, "injected"),
        conditions=(above_chance("the student", classes=10, **part, **pictures),),
    )


def _size_gap_claim(config: Config, largest: Panel) -> Claim:
    """Returns the claim that the gap between the parts is larger for the largest student.

    Source: appendix E.5.3, figures 22 (a) and 25.
    """
    sizes = (largest["size"], min(config.sweep.size))
    both = [_worse(config, largest | {"size": size}) for size in sizes]
    words = [f"student {size} is worse on the injected part" for size in sizes]
    return _gap(
        f"labelled minus injected part at the end, student {sizes[0]} minus student {sizes[1]}, "
        f"teacher {largest['teacher_size']}, {_share_words(config, largest)}",
        "above 0 (figure 25)",
        *(one.statistic for one in both),
        conditions=tuple(shown(*one) for one in zip(both, words, strict=True)),
    )


# --- tables and figures -------------------------------------------------------------------------

_LINES = {
    "test_labelled_part": "labelled part",
    "test_injected_part": "injected part",
    "test_accuracy": "whole mixture",
}
# Columns of the first table, of the students' runs and of the networks on the data set.
_COLUMNS = _LINES | {
    "teacher_accuracy": "teacher on the data set",
    "least_used_class": "least share of a class in its labels of U",
    "most_used_class": "largest share",
    "test_loss": "test loss",
    "parameters": "parameters",
}
_SETTINGS = ["learner", "injected", "teacher_size", "share", "size"]


def _with_chosen(config: Config, runs: Runs) -> tuple[Runs, bool]:
    """Adds each seed's students whose teacher has the size that algorithm 1 gave it.

    None are added where it chose one size in every seed, or one that no teacher had.
    """
    chosen, axes = first_minima(runs, **DIRECT), config.sweep
    if len(axes.direct_size) < 3 or chosen.nunique() < 2 or not {*chosen} <= {*axes.teacher_size}:
        return runs, False

    def both(rows: pd.DataFrame) -> pd.DataFrame:
        own = rows[rows["teacher_size"] == rows["seed"].map(chosen)]
        return pd.concat([rows, own.assign(teacher_size=CHOSEN)])

    return runs._replace(planned=both(runs.planned), finished=both(runs.finished)), True


def _draw_curves(config: Config, courses: pd.DataFrame) -> Any:
    """Draws test accuracy against steps, one panel a student: parts, mixture, direct training."""
    runs = Runs.of([], courses)
    drawn = [own for own in panels(config) if 0 < own["share"] < 1]
    figure, axes = panels_of(len(drawn), 4, 4.5, 3.8)
    for axis, own in zip(axes, drawn, strict=True):
        rows, direct = (runs.where(**of).finished for of in (own, DIRECT | {"size": own["size"]}))
        lines = [(name, label, rows) for name, label in _LINES.items()]
        lines.append(("test_accuracy", "trained on the data set directly", direct))
        for (name, label, of_line), color in zip(lines, PALETTE, strict=False):
            if len(of_line):
                accuracy, steps = of_line[name] * 100, of_line["step"]
                draw_mean(axis, accuracy, steps, color=color, limits=(0, 100), label=label)
        axis.set(title=panel_name(config, own), xlabel="steps", ylabel="test accuracy (%)")
    # Below, as lines of small networks are anywhere in a panel.
    legend_below(figure, axes[0], ncols=2, fontsize="small")
    return figure


def _draw_sizes(config: Config, runs: Runs) -> Any:
    """Draws test loss against the number of parameters, one panel a curve."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    found = curves(config)
    figure, axes = panels_of(len(found), 4, 4, 3.6)
    for axis, (name, curve) in zip(axes, found.items(), strict=True):
        rows = runs.where(**curve).finished
        for split, color in (("test", PALETTE[0]), ("train", PALETTE[7])):
            style = {"color": color, "label": f"{split} loss", "marker": "o", "markersize": 3}
            draw_mean(axis, rows[f"{split}_loss"], rows["parameters"], **style)
        axis.set(xscale="log", xlabel="parameters", title=name)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.xaxis.set_minor_formatter(NullFormatter())  # its labels would lie on each other
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _with_means(config: Config, runs: Runs, workdir: Path) -> tuple[Runs, pd.DataFrame]:
    """Returns the runs, with mean accuracies over training, and their courses by step."""
    rows = runs.finished
    if "injected" not in rows:
        rows = rows.assign(injected=config.data.injected)
    courses = files.read_histories(workdir, rows, ["id", *_SETTINGS, "seed"])
    # Networks on the data set alone have no columns of the students.
    rows, courses = (
        table.reindex(columns=table.columns.union(_LINES, sort=False)) for table in (rows, courses)
    )
    names = {f"test_{part}_part": f"course_{part}_part" for part in ("labelled", "injected")}
    means = courses.groupby("id")[list(names)].mean().rename(columns=names)
    return counted(config, runs._replace(finished=rows.join(means, on="id"))), courses


_NOTE = (
    "Means over seeds ± their standard deviation. Students are measured by the teacher's "
    "labels, direct training by the data set's. The injected part is worse both because its "
    "inputs lack structure and because the teacher's labels of them are hard. The paper gives "
    "no optimiser, batch, epochs or weight of R: the configuration's are ours."
)


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep."""
    runs, courses = _with_means(config, runs, workdir)
    figures = {}
    # Students on injected inputs alone are drawn by size.
    if runs.finished["share"].between(0, 1, inclusive="neither").any():
        figures["curves"] = functools.partial(_draw_curves, config, courses)
    if curves(config):
        figures["sizes"] = functools.partial(_draw_sizes, config, runs)
    deciding, chosen = _with_chosen(config, runs)
    table = table_of_means(runs.finished, _SETTINGS, _COLUMNS)
    return Report(
        tables=[("Accuracy and loss at the end", table)],
        claims=make_claims(config, chosen=chosen),
        runs=deciding,
        figures=figures,
        extra_tables={"curves": courses},
        notes=[_NOTE],
    )
