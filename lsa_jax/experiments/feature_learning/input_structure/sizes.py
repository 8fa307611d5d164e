"""Best sizes: of networks on the data set, of students, and of the teacher by algorithm 1.

Source: Shi, Wei and Liang (ICLR 2022), appendix E.5, algorithm 1 and figure 26.
"""

import math
from collections.abc import Callable

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.reporting.claims import Claim
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic

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


def curves(config: ml_collections.ConfigDict) -> dict[str, dict[str, object]]:
    """Returns the settings of each curve of loss against size: those of two sizes or more."""
    axes = config.sweep
    found = {"on the data set": DIRECT} if len(axes.direct_size) > 1 else {}
    for teacher in axes.teacher_size * (len(axes.size) > 1):
        for share in axes.share:
            own = {"learner": "student", "teacher_size": teacher, "share": share}
            found[f"teacher of size {teacher}, share {share:g}"] = own
    return found


def choice_claims(config: ml_collections.ConfigDict) -> list[Claim]:
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


def size_claims(config: ml_collections.ConfigDict) -> list[Claim]:
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
