"""Which sizes are best: of networks on the data set, of students, of the teacher by algorithm 1."""

import math
from collections.abc import Sequence

import pandas as pd

from lsa_jax.reporting.claims import compare, every, measured
from lsa_jax.reporting.doubts import doubted, lost_runs, no_sample
from lsa_jax.reporting.report import Claim

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


def first_minimum(rows: pd.DataFrame) -> float:
    """Returns where one seed's curve has its first minimum; not-a-number if no labels are learned.

    Of teachers whose labels no student learns the curve has no such minimum.
    """
    losses = rows.groupby("size")["test_loss"].mean()
    learned = losses.min() < LEARNED * math.log(_CLASSES)
    return float(local_minimum(list(losses.index), list(losses))) if learned else math.nan


def chosen_sizes(direct: pd.DataFrame) -> pd.Series:
    """Returns the teacher's size that algorithm 1 chooses, by seed; empty where none is between."""
    if direct["size"].nunique() < 3 or "test_loss" not in direct:
        return pd.Series(dtype=float)
    return direct.groupby("seed")[["size", "test_loss"]].apply(first_minimum)


def choice_claims(fine: pd.DataFrame, seeds: Sequence[int] = ()) -> list[Claim]:
    """Returns which size algorithm 1 gives the teacher, beside the sizes that teachers had.

    Args:
        fine: the runs that did not fail.
        seeds: that the sweep asks for.
    """
    direct = fine[fine["learner"] == "direct"]
    sizes, chosen = direct["size"].nunique(), chosen_sizes(direct)
    if chosen.empty:
        return []
    (teacher, *_) = sorted(fine.loc[fine["learner"] == "student", "teacher_size"].unique())
    item = "size of the teacher by algorithm 1: first minimum of the test loss on the data set"
    listed = ", ".join(f"{size:g}" for size in chosen)
    # Of losses in no order the first minimum is at place n with a chance of (n + 1) / (n + 2)!.
    place = sum(direct["size"].unique() < teacher)
    luck = max(1 / sizes, (place + 1) / math.factorial(place + 2))
    claim = every(item, f"{teacher:g}", chosen == teacher, listed, luck=luck)
    return [doubted(claim, refuted=_against(direct, seeds))]


def _against(rows: pd.DataFrame, seeds: Sequence[int]) -> list[str]:
    """Returns what speaks against a curve's minimum: losses that it lacks, seeds that are one."""
    planned = [
        {"size": size, "seed": seed}
        for size in rows["size"].unique()
        for seed in sorted({*seeds, *rows["seed"]})
    ]
    lost = lost_runs(planned, rows, ["test_loss"])
    return [lost, no_sample(rows, ["test_loss"], ["size"])]


def size_claims(fine: pd.DataFrame, seeds: Sequence[int] = ()) -> list[Claim]:
    """Returns where the curves have their first minimum: students' moves right with the teacher.

    Arguments as in `choice_claims`.
    """
    curves = size_curves(fine)
    minima = {
        name: rows.groupby("seed")[["size", "test_loss"]].apply(first_minimum)
        for name, rows in curves.items()
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
    against = [why for rows in curves.values() for why in _against(rows, seeds)]
    return [*(doubted(claim, refuted=against) for claim in (rises, *same)), *losses]


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
