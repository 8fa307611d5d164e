"""Claims on students of real and injected inputs: figures 22 to 26, and algorithm 1.

Source: Shi, Wei and Liang (ICLR 2022), appendix E.5.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable

import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.input_structure.settings import mixture_parts
from lsa_jax.reporting.claims import Claim, above_chance, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import accuracy, minus
from lsa_jax.sweep.fields import Config

# Students learn labels if some of them have a test loss below this share of a constant's.
LEARNED, _CLASSES = 0.95, 10
DIRECT = {"learner": "direct"}


def local_minimum(sizes: list[int], losses: list[float]) -> int:
    """Returns the size at the first minimum of a curve: where the next larger one is worse.

    Source: algorithm 1: the minimum in the classical regime.
    """
    rises = np.diff(losses) > 0
    return sizes[int(rises.argmax()) if rises.any() else -1]


def first_minima(runs: Runs, **curve: object) -> pd.Series:
    """Returns a curve's first minimum by seed; not-a-number where no size learns the labels."""
    found = {}
    for seed, rows in runs.where(**curve).finished.groupby("seed"):
        losses = rows.groupby("size")["test_loss"].mean()
        learned = losses.min() < LEARNED * math.log(_CLASSES)
        found[seed] = local_minimum(list(losses.index), list(losses)) if learned else math.nan
    return pd.Series(found, dtype=float)


def curves(config: Config) -> dict[str, dict[str, object]]:
    """Returns the settings of each curve of loss against size: those of two sizes or more."""
    axes = config.sweep
    found = {"on the data set": DIRECT} if len(axes.direct_size) > 1 else {}
    for teacher in axes.teacher_size * (len(axes.size) > 1):
        for share in axes.share:
            own = {"learner": "student", "teacher_size": teacher, "share": share}
            found[f"teacher of size {teacher}, share {share:g}"] = own
    return found


def choice_claims(config: Config) -> list[Claim]:
    """Returns the claim that algorithm 1 gives the teacher the size of the least one run."""
    sizes, teacher = config.sweep.direct_size, min(config.sweep.teacher_size)
    # Of losses in random order the first minimum is at place n with probability (n + 1) / (n + 2)!.
    place = sum(size < teacher for size in sizes)
    claim = Claim(
        item=f"seeds in which algorithm 1 gives the teacher the size {teacher}: first minimum of "
        "the test loss on the data set",
        paper="all",
        statistic=_of_minima([DIRECT], lambda minima: minima == teacher),
        every=True,
        luck=max(1 / len(sizes), (place + 1) / math.factorial(place + 2)),
        ours=lambda runs: ", ".join(f"{size:g}" for size in first_minima(runs, **DIRECT)),
    )
    return [claim] if len(sizes) > 2 else []


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

    rising = Claim(
        item="seeds in which a student's size at the first minimum of its test loss rises with "
        "the teacher's",
        paper="all (figure 26)",
        statistic=_of_minima(students, rises),
        every=True,
        # The share of all lists of sizes that rise and are not constant.
        luck=(math.comb(count + len(students) - 1, len(students)) - count) / count ** len(students),
    )
    neighbours = Claim(
        item="seeds in which the first minima on the data set and of the least teacher's "
        "students are neighbours",
        paper="all: roughly the same (figure 26 a, b)",
        statistic=_of_minima([DIRECT, students[0]], near),
        every=True,
        # The share of pairs of sizes that are neighbours or equal.
        luck=(3 * count - 2) / count**2,
    )
    losses = [
        Claim(item=f"least test loss over sizes, {name}", statistic=_least_loss(curve), digits=3)
        for name, curve in found.items()
    ]
    return [rising, *[neighbours] * (DIRECT in found.values()), *losses]


def _of_minima(chosen: list[dict[str, object]], holds: Callable) -> Statistic:
    """Returns the statistic that is 1 in seeds in which curves' first minima have a property."""

    def statistic(runs: Runs) -> Sample:
        own = [runs.where(**curve) for curve in chosen]
        minima = pd.DataFrame([first_minima(curve) for curve in own])
        held = np.asarray(holds(*minima.to_numpy()), float)
        lost = next(filter(None, (curve.lost("test_loss") for curve in own)), "")
        equal = any(curve.equal_seeds() for curve in own)
        return Sample(pd.Series(held, minima.columns), lost=lost, equal=equal)

    return statistic


def _least_loss(curve: dict[str, object]) -> Statistic:
    def statistic(runs: Runs) -> Sample:
        own = runs.where(**curve)
        return Sample(own.finished.groupby("seed")["test_loss"].min(), lost=own.lost("test_loss"))

    return statistic


# A student's accuracy on the labelled part may be this many points below that of direct training.
AS_GOOD = 2.0
# Of students FC(9) on MNIST "the results do not show a significant trend" (appendix E.5.2).
NO_TREND = {"mnist": (9,)}
# Sizes of the paper's teachers: claims on them at a share of a half are primary.
TEACHERS = {"mnist": 9, "cifar10": 5, "svhn": 2, "digits": None}

# The size that stands for each seed's teacher of algorithm 1: `report` adds its students' runs.
CHOSEN = 0
_TEST_IMAGES = {"mnist": 10_000, "cifar10": 10_000, "svhn": 26_032, "digits": 360}

Panel = dict[str, object]


def make_claims(config: Config, *, chosen: bool = False) -> list[Claim]:
    """Returns the claims of a sweep.

    Args:
        config: of the sweep.
        chosen: whether the runs have students of the teachers that algorithm 1 chose.
    """
    if {*config.sweep.share} <= {1.0}:
        return size_claims(config)
    mixed = [own for own in panels(config) if 0 < own["share"] < 1]
    first = [own for own in mixed if own["teacher_size"] == config.sweep.teacher_size[0]]
    by_seed = [own | {"teacher_size": CHOSEN} for own in first * chosen]
    claims = [claim for own in mixed + by_seed for claim in _panel_claims(config, own)]
    for own in mixed:
        if own["size"] == max(config.sweep.size) > min(config.sweep.size):
            claims.append(_size_gap_claim(config, own))
        if own["injected"] == "tiny_imagenet" and "gaussian" in config.sweep.injected:
            claims.append(_kind_claim(config, own))
    return claims + choice_claims(config)


def num_test(config: Config) -> int:
    """Returns the number of labelled test images."""
    return config.data.num_test or _TEST_IMAGES[config.data.dataset]


def panels(config: Config) -> list[Panel]:
    """Returns the settings of students that are alike: the panels of figures 22 to 25."""
    axes = config.sweep
    names = ("injected", "teacher_size", "share", "size")
    kinds = axes.injected or (config.data.injected,)
    found = itertools.product(kinds, axes.teacher_size, axes.share, axes.size)
    return [{"learner": "student"} | dict(zip(names, own, strict=True)) for own in found]


def panel_name(config: Config, own: Panel) -> str:
    """Returns a panel's name; it contains the kind of injected inputs where there are several."""
    teacher = f"teacher {own['teacher_size']}"
    if own["teacher_size"] == CHOSEN:
        teacher = "teachers by algorithm 1"
    return f"{teacher}, student {own['size']}, {_share_words(config, own)}"


def _share_words(config: Config, own: Panel) -> str:
    kind = f", {own['injected']}" if len(config.sweep.injected) > 1 else ""
    return f"share {own['share']:g}{kind}"


def _accuracy(config: Config, own: Panel, column: str = "test_accuracy") -> Statistic:
    """Returns a student's accuracy on the mixture, or on a part of it, with its test inputs."""
    labelled, injected = mixture_parts(own["share"], num_test(config))
    counts = {"labelled": labelled, "injected": injected, "accuracy": labelled + injected}
    count = counts[column.split("_")[1]]
    return lambda runs: accuracy(column, **own)(runs.assign(num_test=count))


def _gap(words: str, paper: str, first: Statistic, second: Statistic, **options: object) -> Claim:
    """Returns the claim that one accuracy exceeds another, by more than 0 unless `above` is set."""
    options = {"above": 0.0} | options
    item = f"points of test accuracy, {words}"
    return Claim(item=item, paper=paper, statistic=minus(first, second), digits=2, **options)


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
        _accuracy(config, own, "test_labelled_part"),
        _accuracy(config, own, "test_injected_part"),
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
    share of a half direct training and the control, which learns the teacher's labels alone, have
    more labelled images than the student: differences are only measured.
    """
    worse, name = _worse(config, own), panel_name(config, own)
    labelled, alone = (
        _accuracy(config, of, "test_labelled_part") for of in (own, own | {"share": 0.0})
    )
    direct, whole = accuracy(learner="direct", size=own["size"]), _accuracy(config, own)
    as_good = f"not below by more than {AS_GOOD:g}"
    parts = {"conditions": (shown(worse, "the injected part is worse"),)}
    near = {"above": -AS_GOOD} | parts
    slower = _gap(
        f"labelled minus injected part, mean over training, {name}",
        "above 0: slower",
        _accuracy(config, own, "course_labelled_part"),
        _accuracy(config, own, "course_injected_part"),
        **parts,
    )
    same = f"labelled part minus the same labels alone, {name}"
    others = [
        _gap(f"labelled part minus direct training, {name}", as_good, labelled, direct, **near),
        _gap(same, as_good, labelled, alone, **near),
        _gap(f"direct training minus whole mixture, {name}", "above 0", direct, whole, **parts),
    ]
    if own["share"] > 0.5:
        others = _only_measured(others, "the student has fewer labelled images")
    claims = [worse, slower, *others]
    if own["size"] in NO_TREND.get(config.data.dataset, ()):
        return _only_measured(claims, "no significant trend")
    return claims


def _only_measured(claims: list[Claim], paper: str) -> list[Claim]:
    changed = {"above": -math.inf, "paper": paper, "primary": False}
    return [dataclasses.replace(claim, **changed) for claim in claims]


def _kind_claim(config: Config, pictures: Panel) -> Claim:
    """Returns the claim that Tiny ImageNet's inputs are learned better than Gaussian ones.

    Each has a teacher of its own, regularised on its inputs. Source: figures 22 and 23.
    """
    part = {"column": "test_injected_part", "chance": "most_used_class"}
    return _gap(
        f"Tiny ImageNet part minus Gaussian part, teacher {pictures['teacher_size']}, student "
        f"{pictures['size']}, share {pictures['share']:g}",
        "above 0 (figure 23)",
        _accuracy(config, pictures, "test_injected_part"),
        _accuracy(config, pictures | {"injected": "gaussian"}, "test_injected_part"),
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
