"""The report: scores by task and learner, and the share of the gap that kernels close."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.papers.claims import best_fixed, gap_item, make_claims
from lsa_jax.experiments.lazy_rich.papers.settings import LEARNERS, SETTINGS, TASKS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, tidy
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread


def _scores(own: pd.DataFrame, learner: str) -> pd.Series:
    """Returns a learner's scores by seed."""
    return own[own["learner"] == learner].set_index("seed")["score"]


def _share(runs: Runs, task: str, learner: str) -> str:
    """Returns the share of the gap that a kernel closes, in percent; empty if not run."""
    own, fixed = runs.finished[runs.finished["task"] == task], best_fixed(runs, task)
    low, high, score = (_scores(own, name).mean() for name in (fixed, "network", learner))
    return f"{100 * (score - low) / (high - low):.0f}" if np.isfinite(score) else ""


def _table(runs: Runs, tasks: tuple[str, ...], claims: list[Row]) -> pd.DataFrame:
    """Returns one row a task: all scores, and the closed shares of a gap that is shown."""
    shown = {claim.item for claim in claims if claim.status == "shown"}
    rows = []
    for task in tasks:
        own = runs.finished[runs.finished["task"] == task]
        row = {"data": TASKS[task]}
        for learner, label in LEARNERS.items():
            row[label] = mean_and_spread(_scores(own, learner), ".1f")
        for learner in ("ntk_trained", "rfm"):
            share = _share(runs, task, learner) if gap_item(task) in shown else ""
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
    fine, tasks = results[results["status"] == "ok"], config.sweep.task
    runs = Runs.of(SETTINGS.sweep(config), results, outcomes.read(workdir, fine["id"]))
    claims = decide_all(make_claims(config), runs)
    return Report(
        title=config.title,
        tables=[("Test accuracy, or variance explained, in %", _table(runs, tasks, claims))],
        claims=claims,
        figures={"papers": functools.partial(_draw, fine, tasks)},
        notes=[
            f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation. The gap is "
            "between the network and the better of the two kernels that do not learn. A "
            "kernel closes it where its score is above midway, by 95 % intervals over seeds and "
            "test examples."
        ],
    )
