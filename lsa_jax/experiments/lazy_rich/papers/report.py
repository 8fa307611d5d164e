"""The report: scores by task and learner, and which learned kernels close the gap to the network.

A kernel closes the gap where it is nearer to the network than to the best kernel that does not
learn: where its score is above midway between the two. Beforehand was said that the NTK after
training does on all data; and that the recursive feature machine, which learns directions of rows,
patches or inputs, does where few directions decide (the sparse signal, hidden patterns), and does
not where it takes products of inputs (F + alpha G(F)) or to find an image in noise (figure 6). A
learner that guesses, or explains no variance, says nothing of what its kind can do.
"""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.papers.settings import FIXED, LEARNERS, TASKS, sweep
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import doubts
from lsa_jax.reporting.curves import PALETTE, tidy
from lsa_jax.reporting.intervals import REACH
from lsa_jax.reporting.report import Claim, Report

# Where the recursive feature machine was expected to stay below midway.
_NOT_BY_DIRECTIONS = ("figure6", "hierarchical")

_NO_GAP = "no gap between network and fixed kernels is shown"


def _scores(own: pd.DataFrame, learner: str) -> pd.Series:
    """Returns a learner's scores by seed."""
    return own[own["learner"] == learner].set_index("seed")["score"]


def _error(own: pd.DataFrame, learner: str) -> float:
    """Returns the standard error of a learner's scores from the draw of test examples."""
    return float(own.loc[own["learner"] == learner, "score_error"].mean())


def best_fixed(own: pd.DataFrame) -> str | None:
    """Returns which of the kernels that do not learn is best on a task's runs; None if none ran."""
    means = {name: _scores(own, name).mean() for name in FIXED if len(_scores(own, name))}
    return max(means, key=means.get) if means else None


def _chance(own: pd.DataFrame, learner: str) -> str:
    """Returns the warning that a learner guesses, or explains nothing; empty where it does not."""
    rows = own[own["learner"] == learner]
    if rows.empty:
        return ""
    classes, mean = int(rows["num_classes"].iloc[0]), float(rows["score"].mean())
    if not classes:
        nothing = mean - REACH * _error(own, learner) <= 0
        return f"the {LEARNERS[learner]} is not shown to explain any variance" if nothing else ""
    num_test, largest = int(rows["num_test"].iloc[0]), deciding.largest_of(rows)
    return deciding.chance_warning(mean / 100, classes, num_test, largest)


def _gap_item(task: str) -> str:
    """Returns what the claim on a task's gap is called."""
    return f"points, network minus its best fixed kernel: {TASKS[task]}"


def _task_claims(config: ml_collections.ConfigDict, task: str, own: pd.DataFrame) -> list[Claim]:
    name, fixed = TASKS[task], best_fixed(own)
    expected = dict.fromkeys(("ntk_trained", "rfm"), "above midway")
    if task in _NOT_BY_DIRECTIONS:
        expected["rfm"] = "below midway"
    gap_item = _gap_item(task)
    items = {
        learner: f"points of the {LEARNERS[learner]} above midway between fixed and network: {name}"
        for learner in expected
    }
    network = _scores(own, "network")
    if fixed is None or network.empty:
        missing = {gap_item: "above 0"} | {items[of]: word for of, word in expected.items()}
        return [deciding.not_run(item, word) for item, word in missing.items()]
    kernel, errors = _scores(own, fixed), {of: _error(own, of) for of in ("network", fixed)}
    gap = deciding.compare(
        gap_item,
        "above 0",
        (network - kernel).dropna(),
        above=0.0,
        examples_error=float(np.hypot(*errors.values())),
        unless=_chance(own, "network"),
        digits=2,
    )
    gap = doubts.doubted(gap, **_doubts(config, task, own, ("network", *FIXED)))
    found = [gap]
    for learner, word in expected.items():
        own_error = _error(own, learner) if len(_scores(own, learner)) else 0.0
        closed = "" if gap.status == "shown" else _NO_GAP
        # One that guesses is below anything.
        guesses = _chance(own, learner) if word.startswith("below") else ""
        claim = deciding.compare(
            items[learner],
            word,
            (_scores(own, learner) - (network + kernel) / 2).dropna(),
            above=0.0 if word.startswith("above") else -np.inf,
            below=0.0 if word.startswith("below") else np.inf,
            examples_error=float(np.hypot(own_error, np.hypot(*errors.values()) / 2)),
            unless=closed or guesses,
            digits=2,
        )
        compared = ("network", *FIXED, learner)
        found.append(doubts.doubted(claim, **_doubts(config, task, own, compared)))
    return found


def _doubts(
    config: ml_collections.ConfigDict, task: str, own: pd.DataFrame, learners: tuple[str, ...]
) -> dict:
    """Returns what speaks against comparing some learners on a task, for `doubted`."""
    wanted = [
        point for point in sweep(config) if point["task"] == task and point["learner"] in learners
    ]
    rows = own[own["learner"].isin(learners)]
    sample = doubts.no_sample(rows, ["score"], ["learner"])
    return {"against": [doubts.lost_runs(wanted, rows, ["score"])], "refuted": [sample]}


def make_claims(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> list[Claim]:
    """Returns what was expected of each task, beside what came out.

    Args:
        config: of the sweep.
        fine: finished runs: `task`, `learner`, `seed`, `score`, `score_error`, `num_test`,
            `num_classes` (0 of a task of numbers).
    """
    tasks = config.sweep.task
    return [c for task in tasks for c in _task_claims(config, task, fine[fine["task"] == task])]


def _share(own: pd.DataFrame, learner: str) -> str:
    """Returns which part of the gap a learned kernel closes, in percent; empty if not run."""
    low, high, score = (_scores(own, name).mean() for name in (best_fixed(own), "network", learner))
    return f"{100 * (score - low) / (high - low):.0f}" if np.isfinite(score) else ""


def _table(fine: pd.DataFrame, tasks: tuple[str, ...], claims: list[Claim]) -> pd.DataFrame:
    """Returns one row a task: scores of all learners, and the parts closed of a gap if shown."""
    shown = {claim.item for claim in claims if claim.status == "shown"}
    rows = []
    for task in tasks:
        own = fine[fine["task"] == task]
        row = {"data": TASKS[task]}
        for learner, label in LEARNERS.items():
            row[label] = deciding.cell(_scores(own, learner), ".1f")
        for learner in ("ntk_trained", "rfm"):
            share = _share(own, learner) if _gap_item(task) in shown else ""
            row[f"gap closed by {LEARNERS[learner]} (%)"] = share
        rows.append(row)
    return pd.DataFrame(rows)


def _draw(fine: pd.DataFrame, tasks: tuple[str, ...]) -> Any:
    """Draws the scores of all learners, a row of points a task; bars are ± 1 deviation."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7, 0.8 * len(tasks) + 1.2), layout="constrained")
    for place, (learner, label) in enumerate(LEARNERS.items()):
        values = [_scores(fine[fine["task"] == task], learner) for task in tasks]
        heights = np.arange(len(tasks)) + 0.14 * (place - 2)
        axis.errorbar(
            [own.mean() for own in values],
            heights,
            xerr=[own.std() if len(own) > 1 else 0.0 for own in values],
            fmt="o",
            color=PALETTE[place],
            label=label,
            markersize=5,
        )
    axis.set_yticks(range(len(tasks)), [TASKS[task].replace(" (", "\n(") for task in tasks])
    axis.set(xlabel="test accuracy, or variance explained (%)")
    axis.invert_yaxis()
    tidy(axis)
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns table, claims and figure."""
    del workdir  # everything is in the results
    fine, tasks = results[results["status"] == "ok"], config.sweep.task
    claims = make_claims(config, fine)
    return Report(
        title=config.title,
        tables=[("Test accuracy, or variance explained, in %", _table(fine, tasks, claims))],
        claims=claims,
        figures={"papers": functools.partial(_draw, fine, tasks)},
        notes=[
            f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation. The gap is "
            "that between the network and the better of the two kernels that do not learn. A "
            "kernel closes it where its score is above midway, by 95 % intervals over seeds and "
            "test examples."
        ],
    )
