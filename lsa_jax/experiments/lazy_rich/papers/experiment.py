"""Networks, kernels and kernels that learn, on the papers' data.

On each paper's data, with one draw of it for all: the paper's network, trained; exact regression
with its NTK at the start and after training, with a wide NTK, and with the recursive feature
machine over that.

A kernel closes the gap where its score is above midway between the network and its best kernel that
does not learn. The NTK after training was expected to, on all data. The recursive feature machine,
which learns directions of rows, patches or inputs, was expected to where few directions decide (the
sparse signal, hidden patterns), and not where it takes products of inputs (F + alpha G(F)) or to
find an image in noise (figure 6).
"""

import functools
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from lsa_jax import kernels, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.diagnosis.runs import fit_kernel
from lsa_jax.errors import NumericalError
from lsa_jax.experiments.lazy_rich.papers import tasks
from lsa_jax.experiments.lazy_rich.papers.settings import FIXED, LEARNERS, TASKS
from lsa_jax.experiments.lazy_rich.papers.tasks import POINTS, RUN, PaperTask, stream
from lsa_jax.reporting.claims import Claim, Condition, above_chance, decide, shown
from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.outcomes import Outcomes, of_errors
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, binomial_error
from lsa_jax.reporting.statistics import minus, score, times
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, Progress, with_course, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import init_key

# Test examples that a network sees at a time.
_PART = 500

# Predictions of the test targets, and the ridge of a regression.
Predictions = tuple[Float[np.ndarray, "n c"], float | None]


def _columns(targets: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n c"]:
    return targets[:, None] if targets.ndim == 1 else targets


def measure(
    task: PaperTask, outputs: Float[Array | np.ndarray, "n c"]
) -> tuple[float, float, Outcomes]:
    """Returns the score of predictions, in percent, its standard error, and kept outcomes.

    Accuracy of classes; of numbers the share of their variance that is explained, 1 less the mean
    squared error over the variance, which may be negative. The error is that of the draw of test
    examples.
    """
    targets, count = task.test.targets, len(task.test.targets)
    if not task.is_regression:
        right = np.asarray(training.is_correct(outputs, targets)) == 1
        share = float(right.mean())
        return 100 * share, 100 * binomial_error(share, count), Outcomes(right)
    squares = np.sum((np.asarray(outputs) - targets) ** 2, axis=1)
    variance = np.sum(np.var(targets, axis=0))
    explained = float(100 * (1 - squares.mean() / variance))
    error = float(100 * np.std(squares) / np.sqrt(count) / variance)
    return explained, error, of_errors(squares, targets)


class _Group:
    """Learners of a task and seed: shared parts are computed once, when they are needed."""

    def __init__(self, config: Config, task: PaperTask, directory: Path) -> None:
        self._config, self._task, self._directory = config, task, directory
        self._run_key = stream(config, RUN)

    @cached_property
    def _trained(self) -> tuple[Any, training.History]:
        measuring = training.Measuring(self._config.measures, self._config.measured_examples)
        return tasks.train_network(self._run_key, self._task, self._directory, measuring)

    @cached_property
    def _wide(self) -> Predictions:
        return self._solve(self._task.wide.of_transform(np.eye(self._task.wide.size)))

    def with_training(self, outcome: Outcome) -> Outcome:
        """Returns the network's outcome with its training accuracy and measures."""
        history = self._trained[1]
        found = {n: v.item() for n, v in history.rows[-1].items() if n.startswith("train_")}
        outcome = outcome._replace(metrics=outcome.metrics | found)
        if not self._config.measures:
            return outcome
        rows = [
            {"epoch": row["epoch"]} | {n: v.item() for n, v in row.items() if is_measure(n)}
            for row in history.rows
        ]
        return with_course(outcome, rows, history.measured)

    def _network(self) -> Predictions:
        apply, params, inputs = self._task.network.apply, self._trained[0], self._task.test.inputs
        parts = [inputs[start : start + _PART] for start in range(0, len(inputs), _PART)]
        outputs = [np.asarray(apply(params, jnp.asarray(part))) for part in parts]
        return np.concatenate(outputs), None

    def _finite(self, params: Any) -> Predictions:
        return self._solve(kernels.finite_kernel(self._task.network.apply, params))

    def _start(self) -> Any:
        shape = self._task.train.inputs.shape[1:]
        return self._task.network.init(init_key(self._run_key), shape)

    def _machine(self) -> Predictions:
        train, settings = self._task.train, self._config.rfm
        machine = kernels.recursive_feature_machine(
            self._task.wide.of_transform,
            train.inputs,
            _columns(train.targets),
            key=stream(self._config, POINTS),
            size=self._task.wide.size,
            updates=settings.updates,
            points=settings.points,
            ridge=self._wide[1],
            directory=self._directory / SCRATCH / "learned",
        )
        return self._solve(machine.kernel)

    def _solve(self, kernel: Callable[..., Array]) -> Predictions:
        """Returns predictions of an exact regression, and its ridge."""
        train, test = self._task.train, self._task.test
        gram_train = kernels.gram(kernel, train.inputs)
        if not gram_train.any():
            raise NumericalError("the kernel is 0 on all training examples: no unit is active")
        gram_test = kernels.gram(kernel, test.inputs, train.inputs)
        fit = fit_kernel(gram_train, gram_test, _columns(train.targets), self._config.ridge)
        return fit.outputs, fit.ridge

    def predict(self, learner: str) -> Predictions:
        """Returns a learner's predictions for the test examples, and its ridge if it has one."""
        return {
            "network": self._network,
            "ntk_trained": lambda: self._finite(self._trained[0]),
            "ntk_start": lambda: self._finite(self._start()),
            "ntk_wide": lambda: self._wide,
            "rfm": self._machine,
        }[learner]()


def run(group: list[Point], data: Any, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains all learners of a task and seed on the same examples."""
    task = tasks.make_task(group[0].config, data)
    shared, outcomes = _Group(group[0].config, task, directory), []
    for done, point in enumerate(group, start=1):
        outcomes.append(_learn(shared, task, point))
        progress(done / len(group))
    return with_test(outcomes, task.test)


def _learn(shared: _Group, task: PaperTask, point: Point) -> Outcome:
    """Returns the outcome of one learner; where it fails, the others of its group go on."""
    learner = point.config.learner
    try:
        outputs, ridge = shared.predict(learner)
    except NumericalError as error:
        return Outcome({}, [], "failed", str(error))
    found, error, kept = measure(task, outputs)
    classes = 0 if task.is_regression else max(2, _columns(task.test.targets).shape[1])
    metrics = {"num_train": len(task.train.targets), "num_test": len(task.test.targets)}
    metrics |= {"score": found, "score_error": error, "ridge": ridge, "num_classes": classes}
    if classes:
        metrics["chance"] = best_constant_accuracy(task.test.targets)
    outcome = Outcome(metrics, [{"score": found}], outcomes=kept)
    return shared.with_training(outcome) if learner == "network" else outcome


# --- claims and report ----------------------------------------------------------------------------


# Where the recursive feature machine was expected to stay below midway.
NOT_BY_DIRECTIONS = ("figure6", "hierarchical")


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on each task of a sweep."""
    return [claim for task in config.sweep.task for claim in (_gap(task), *_midway(task))]


def _gap(task: str) -> Claim:
    """Returns the claim that the network exceeds its best fixed kernel."""
    item = f"points, network minus its best fixed kernel: {TASKS[task]}"
    gap = minus(score(task=task, learner="network"), _best_fixed(task))
    return Claim(item, gap, above=0.0, conditions=(_learns(task, "network"),), digits=2)


def _midway(task: str) -> list[Claim]:
    """Returns the claims on which side of midway kernels that learn are."""
    there = shown(_gap(task), "there is a gap between network and fixed kernels")
    halves = [times(one, 0.5) for one in (score(task=task, learner="network"), _best_fixed(task))]
    claims = []
    for learner in ("ntk_trained", "rfm"):
        stated = {"paper": "above midway: above 0", "above": 0.0, "conditions": (there,)}
        if learner == "rfm" and task in NOT_BY_DIRECTIONS:
            # A learner that guesses is below anything.
            known = (there, _learns(task, learner))
            stated = {"paper": "below midway: below 0", "below": 0.0, "conditions": known}
        item = f"points of the {LEARNERS[learner]} above midway between fixed and network: "
        beyond = minus(minus(score(task=task, learner=learner), halves[0]), halves[1])
        claims.append(Claim(item + TASKS[task], beyond, digits=2, **stated))
    return claims


def best_fixed(runs: Runs, task: str) -> str | None:
    """Returns the kernel that does not learn with the best mean score; None if none ran."""
    means = {name: score(task=task, learner=name)(runs).values.mean() for name in FIXED}
    ran = {name: mean for name, mean in means.items() if np.isfinite(mean)}
    return max(ran, key=ran.get) if ran else None


def _best_fixed(task: str) -> Statistic:
    def statistic(runs: Runs) -> Sample:
        lost = next(filter(None, (score(task=task, learner=name)(runs).lost for name in FIXED)), "")
        best = best_fixed(runs, task) or FIXED[0]
        return score(task=task, learner=best)(runs)._replace(lost=lost)

    return statistic


def _learns(task: str, learner: str) -> Condition:
    """Returns the condition that a learner is above chance, or explains some variance."""
    name = f"the {LEARNERS[learner]}"
    if task == "hierarchical":  # numbers, not classes
        some = Claim("", score(task=task, learner=learner), above=0.0)
        return shown(some, f"{name} explains some variance")
    return above_chance(name, task=task, learner=learner)


def _scores(own: pd.DataFrame, learner: str) -> pd.Series:
    """Returns a learner's scores by seed."""
    return own[own["learner"] == learner].set_index("seed")["score"]


def _table(runs: Runs, names: tuple[str, ...]) -> pd.DataFrame:
    """Returns one row a task: all scores, and the shares in percent that close a shown gap."""
    rows = []
    for task in names:
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


def _draw(fine: pd.DataFrame, names: tuple[str, ...]) -> Any:
    """Draws the scores of all learners, a row of points a task; bars are ± 1 deviation."""
    figure, ((axis,),) = subplots(1, 1, 7, 0.8 * len(names) + 1.2)
    for place, (learner, label) in enumerate(LEARNERS.items()):
        values = [_scores(fine[fine["task"] == task], learner) for task in names]
        heights = np.arange(len(names)) + 0.14 * (place - 2)
        means = [own.mean() for own in values]
        spreads = [own.std() if len(own) > 1 else 0.0 for own in values]
        style = {"fmt": "o", "color": PALETTE[place], "label": label, "markersize": 5}
        axis.errorbar(means, heights, xerr=spreads, **style)
    axis.set_yticks(range(len(names)), [TASKS[task].replace(" (", "\n(") for task in names])
    axis.set(xlabel="test accuracy, or variance explained (%)")
    axis.invert_yaxis()
    axis.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns table, claims and figure."""
    fine, names = runs.finished, config.sweep.task
    shares, are_numbers = fine["score"] / 100, fine["num_classes"] == 0
    runs = runs.assign(test_accuracy=shares.mask(are_numbers), test_r2=shares.where(are_numbers))
    return Report(
        tables=[("Test accuracy, or variance explained, in %", _table(runs, names))],
        claims=make_claims(config),
        runs=runs,
        figures={"papers": functools.partial(_draw, fine, names)},
        notes=[
            f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation. The gap is "
            "between the network and the better of the two kernels that do not learn. A "
            "kernel closes it where its score is above midway, by 95 % intervals over seeds and "
            "test examples."
        ],
    )


EXPERIMENT = Experiment(
    load=tasks.load,
    run=run,
    report=make_report,
    # The learners of a task and seed share the data and the network.
    varying=("learner",),
    columns=lambda config: {name: config[name] for name in ("task", "learner", "seed")},
)
