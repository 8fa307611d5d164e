"""Claims, table and figure: scores by task and learner, and kernels that close the gap.

A kernel closes the gap where its score is above midway between the network and its best kernel that
does not learn. The NTK after training was expected to, on all data. The recursive feature machine,
which learns directions of rows, patches or inputs, was expected to where few directions decide (the
sparse signal, hidden patterns), and not where it takes products of inputs (F + alpha G(F)) or to
find an image in noise (figure 6).
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from lsa_jax.experiments.lazy_rich.papers.settings import FIXED, LEARNERS, SETTINGS, TASKS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import Claim, Condition, decide_all, shown
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic
from lsa_jax.reporting.statistics import minus, value, with_outcomes
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

# Where the recursive feature machine was expected to stay below midway.
NOT_BY_DIRECTIONS = ("figure6", "hierarchical")
# All other tasks draw a test set for each seed.
_SHARED_TEST = ("figure6",)


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on each task of a sweep."""
    return [claim for task in config.sweep.task for claim in _task_claims(task)]


def gap_item(task: str) -> str:
    """Returns the item of the claim on a task's gap."""
    return f"points, network minus its best fixed kernel: {TASKS[task]}"


def _task_claims(task: str) -> list[Claim]:
    network, fixed = score(task, "network"), _best_fixed(task)
    gap = Claim(
        item=gap_item(task),
        statistic=minus(network, fixed),
        above=0.0,
        conditions=(_learns(task, "network"),),
        digits=2,
    )
    there = shown(gap, "there is a gap between network and fixed kernels")
    claims = [gap]
    for learner in ("ntk_trained", "rfm"):
        below = learner == "rfm" and task in NOT_BY_DIRECTIONS
        above_midway = minus(minus(score(task, learner), _half(network)), _half(fixed))
        claims.append(
            Claim(
                item=f"points of the {LEARNERS[learner]} above midway between fixed and network: "
                f"{TASKS[task]}",
                paper="below midway: below 0" if below else "above midway: above 0",
                statistic=above_midway,
                above=-np.inf if below else 0.0,
                below=0.0 if below else np.inf,
                # A learner that guesses is below anything.
                conditions=(there, _learns(task, learner)) if below else (there,),
                digits=2,
            )
        )
    return claims


def score(task: str, learner: str) -> Statistic:
    """Returns the statistic of a learner's scores in percent, with kept outcomes."""

    def of_outcomes(values: np.ndarray) -> np.ndarray:
        # Of numbers, the explained share of variance: errors are over the deviation.
        return values if values.dtype == bool else 100 * (1 - values.astype(float) ** 2)

    def statistic(runs: Runs) -> Sample:
        own = runs.where(task=task, learner=learner)
        found = value("score")(own)
        if own.finished.empty:
            return found
        found = found._replace(
            unit=100.0 if own.finished["num_classes"].iloc[0] else 1.0,
            error=float(own.finished["score_error"].mean()),
            count=int(own.finished["num_test"].iloc[0]),
            shared=task in _SHARED_TEST,
        )
        return with_outcomes(found, own, of_outcomes)

    return statistic


def best_fixed(runs: Runs, task: str) -> str | None:
    """Returns the kernel that does not learn with the best mean score; None if none ran."""
    means = {name: score(task, name)(runs).values.mean() for name in FIXED}
    ran = {name: mean for name, mean in means.items() if np.isfinite(mean)}
    return max(ran, key=ran.get) if ran else None


def _best_fixed(task: str) -> Statistic:
    def statistic(runs: Runs) -> Sample:
        lost = next(filter(None, (score(task, name)(runs).lost for name in FIXED)), "")
        return score(task, best_fixed(runs, task) or FIXED[0])(runs)._replace(lost=lost)

    return statistic


def _half(statistic: Statistic) -> Statistic:
    """Returns half of a score."""

    def half(runs: Runs) -> Sample:
        sample = statistic(runs)
        examples = None if sample.examples is None else sample.examples / 2
        return sample._replace(values=sample.values / 2, examples=examples, error=sample.error / 2)

    return half


def _learns(task: str, learner: str) -> Condition:
    """Returns the condition that a learner is above chance, or explains some variance."""

    def unmet(runs: Runs) -> str:
        sample, rows = score(task, learner)(runs), runs.where(task=task, learner=learner).finished
        if rows.empty:
            return ""
        classes = int(rows["num_classes"].iloc[0])
        guess = 100 * float(rows.get("chance", 1 / rows["num_classes"]).max()) if classes else 0.0
        mean = float(sample.values.mean())
        if mean - scipy.stats.norm.isf(TAIL) * sample.error > guess:
            return ""
        return f"a score of {mean:.1f}, where a constant answer has {guess:.1f}"

    return Condition(f"the {LEARNERS[learner]} learns", unmet)


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
    figure, ((axis,),) = subplots(1, 1, 7, 0.8 * len(tasks) + 1.2)
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
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
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
