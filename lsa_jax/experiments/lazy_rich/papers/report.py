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

from lsa_jax.experiments.lazy_rich.papers.settings import FIXED, LEARNERS, TASKS
from lsa_jax.reporting.claims import Claim, Condition, decide, shown
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic
from lsa_jax.reporting.statistics import minus, times, value, with_outcomes
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

# Where the recursive feature machine was expected to stay below midway.
NOT_BY_DIRECTIONS = ("figure6", "hierarchical")
# All other tasks draw a test set for each seed.
_SHARED_TEST = ("figure6",)


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on each task of a sweep."""
    return [claim for task in config.sweep.task for claim in (_gap(task), *_midway(task))]


def _gap(task: str) -> Claim:
    """Returns the claim that the network exceeds its best fixed kernel."""
    item = f"points, network minus its best fixed kernel: {TASKS[task]}"
    gap, conditions = minus(score(task, "network"), _best_fixed(task)), (_learns(task, "network"),)
    return Claim(item, gap, above=0.0, conditions=conditions, digits=2)


def _midway(task: str) -> list[Claim]:
    """Returns the claims on which side of midway kernels that learn are."""
    there = shown(_gap(task), "there is a gap between network and fixed kernels")
    halves = [times(one, 0.5) for one in (score(task, "network"), _best_fixed(task))]
    claims = []
    for learner in ("ntk_trained", "rfm"):
        stated = {"paper": "above midway: above 0", "above": 0.0, "conditions": (there,)}
        if learner == "rfm" and task in NOT_BY_DIRECTIONS:
            # A learner that guesses is below anything.
            known = (there, _learns(task, learner))
            stated = {"paper": "below midway: below 0", "below": 0.0, "conditions": known}
        item = f"points of the {LEARNERS[learner]} above midway between fixed and network: "
        beyond = minus(minus(score(task, learner), halves[0]), halves[1])
        claims.append(Claim(item + TASKS[task], beyond, digits=2, **stated))
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


def _table(runs: Runs, tasks: tuple[str, ...]) -> pd.DataFrame:
    """Returns one row a task: all scores, and the shares in percent that close a shown gap."""
    rows = []
    for task in tasks:
        own = runs.finished[runs.finished["task"] == task]
        scores = {learner: _scores(own, learner) for learner in LEARNERS}
        row = {"data": TASKS[task]}
        row |= {LEARNERS[name]: mean_and_spread(of, ".1f") for name, of in scores.items()}
        is_shown = decide(_gap(task), runs).status == "shown"
        for learner in ("ntk_trained", "rfm"):
            closed = ""
            if is_shown and len(scores[learner]):
                ends = (best_fixed(runs, task), "network", learner)
                low, high, own = (scores[name].mean() for name in ends)
                closed = f"{100 * (own - low) / (high - low):.0f}"
            row[f"gap closed by {LEARNERS[learner]} (%)"] = closed
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


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns table, claims and figure."""
    del workdir
    fine, tasks = runs.finished, config.sweep.task
    return Report(
        tables=[("Test accuracy, or variance explained, in %", _table(runs, tasks))],
        claims=make_claims(config),
        figures={"papers": functools.partial(_draw, fine, tasks)},
        notes=[
            f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation. The gap is "
            "between the network and the better of the two kernels that do not learn. A "
            "kernel closes it where its score is above midway, by 95 % intervals over seeds and "
            "test examples."
        ],
    )
