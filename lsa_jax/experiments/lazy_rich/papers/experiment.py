"""Networks, kernels and kernels that learn, on the papers' data.

On each paper's data, with one draw of it for all: the paper's network, trained; exact regression
with its NTK at the start and after training, with a wide NTK, and with the recursive feature
machine over that.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import kernels, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.diagnosis.runs import fit_kernel
from lsa_jax.errors import NumericalError
from lsa_jax.experiments.lazy_rich.papers import tasks
from lsa_jax.experiments.lazy_rich.papers.report import make_report
from lsa_jax.experiments.lazy_rich.papers.tasks import POINTS, RUN, PaperTask, stream
from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.outcomes import Outcomes, of_errors
from lsa_jax.reporting.samples import binomial_error
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


def score(
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
    found, error, kept = score(task, outputs)
    classes = 0 if task.is_regression else max(2, _columns(task.test.targets).shape[1])
    metrics = {"num_train": len(task.train.targets), "num_test": len(task.test.targets)}
    metrics |= {"score": found, "score_error": error, "ridge": ridge, "num_classes": classes}
    if classes:
        metrics["chance"] = best_constant_accuracy(task.test.targets)
    outcome = Outcome(metrics, [{"score": found}], outcomes=kept)
    return shared.with_training(outcome) if learner == "network" else outcome


EXPERIMENT = Experiment(
    load=tasks.load,
    run=run,
    report=make_report,
    # The learners of a task and seed share the data and the network.
    varying=("learner",),
    columns=lambda config: {name: config[name] for name in ("task", "learner", "seed")},
)
