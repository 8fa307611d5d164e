"""Claims on the papers' data, stated before any run: kernels that close the gap.

A kernel closes the gap where its score is above midway between the network and its best kernel that
does not learn. The NTK after training was expected to, on all data. The recursive feature machine,
which learns directions of rows, patches or inputs, was expected to where few directions decide (the
sparse signal, hidden patterns), and not where it takes products of inputs (F + alpha G(F)) or to
find an image in noise (figure 6).
"""

import ml_collections
import numpy as np
import scipy.stats

from lsa_jax.experiments.lazy_rich.papers.settings import FIXED, LEARNERS, TASKS
from lsa_jax.reporting.claims import Claim, Condition, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic
from lsa_jax.reporting.statistics import minus, value, with_outcomes

# Where the recursive feature machine was expected to stay below midway.
NOT_BY_DIRECTIONS = ("figure6", "hierarchical")
# All other tasks draw a test set for each seed.
_SHARED_TEST = ("figure6",)


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
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
