"""Where does a kernel that learns close the gap to a network, and where not: on the papers' data.

On each paper's data, with one draw of it for all: the paper's network, trained; exact regression
with its NTK at the start and after training, with a wide NTK, and with the recursive feature
machine over that.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import kernels, training
from lsa_jax.data.dataset import best_constant_accuracy
from lsa_jax.errors import NumericalError
from lsa_jax.experiments.lazy_rich.papers import tasks
from lsa_jax.experiments.lazy_rich.papers.report import make_report
from lsa_jax.experiments.lazy_rich.papers.tasks import PaperTask
from lsa_jax.experiments.lazy_rich.streams import Papers
from lsa_jax.reporting.measure_names import is_measure
from lsa_jax.reporting.outcomes import Outcomes
from lsa_jax.reporting.samples import binomial_error
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, with_course, with_test
from lsa_jax.sweep.points import Point
from lsa_jax.training.programs import init_key

# Test examples that a network sees at a time.
_PART = 500


def _stream(config: ml_collections.ConfigDict, place: int) -> Array:
    return jax.random.fold_in(jax.random.key(config.seed), place)


def _columns(targets: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n c"]:
    return targets[:, None] if targets.ndim == 1 else targets


def outcomes_of(task: PaperTask, outputs: Float[Array | np.ndarray, "n c"]) -> Outcomes:
    """Returns whether each test example is right, or its error over the targets' deviation."""
    targets = task.test.targets
    if not task.is_regression:
        return Outcomes(np.asarray(training.is_correct(outputs, targets)) == 1)
    errors = np.sqrt(np.sum((np.asarray(outputs) - targets) ** 2, axis=1))
    return Outcomes((errors / np.sqrt(np.sum(np.var(targets, axis=0)))).astype(np.float16))


def score(task: PaperTask, outputs: Float[Array | np.ndarray, "n c"]) -> tuple[float, float]:
    """Returns how good predictions of the test targets are, in percent, and its standard error.

    Accuracy of classes; of numbers the share of their variance that is explained, 1 less the mean
    squared error over the variance, which may be negative. The error is that of the draw of test
    examples.
    """
    targets = task.test.targets
    if not task.is_regression:
        share = float(np.mean(training.is_correct(outputs, targets)))
        return 100 * share, 100 * binomial_error(share, len(targets))
    errors = np.sum((np.asarray(outputs) - targets) ** 2, axis=1)
    variance = np.sum(np.var(targets, axis=0))
    spread = np.std(errors) / np.sqrt(len(errors))
    return float(100 * (1 - errors.mean() / variance)), float(100 * spread / variance)


class _Group:
    """What the learners of a task and seed share: each part is computed once, when it is needed."""

    def __init__(self, config: ml_collections.ConfigDict, task: PaperTask, directory: Path) -> None:
        self._config, self._task, self._directory = config, task, directory
        self._run_key = _stream(config, Papers.RUN)
        self._trained: Any = None
        self.history: training.History | None = None
        self._wide: tuple[np.ndarray, float] | None = None

    def trained(self) -> Any:
        """Returns the network's parameters after training."""
        if self._trained is None:
            measuring = training.Measuring(self._config.measures, self._config.measured_examples)
            self._trained, self.history = tasks.train_network(
                self._run_key, self._task, self._directory, lambda fraction: None, measuring
            )
        return self._trained

    def with_training(self, outcome: Outcome, learner: str) -> Outcome:
        """Returns a learner's outcome, that of the network with how it was trained.

        That is its loss on the training examples, its accuracy there, and measures along the way.
        """
        if learner != "network" or self.history is None:
            return outcome
        last = self.history.rows[-1]
        found = {n: v.item() for n, v in last.items() if n.startswith("train_")}
        outcome = outcome._replace(metrics=outcome.metrics | found)
        if not self._config.measures:
            return outcome
        rows = [
            {"epoch": row["epoch"]} | {n: v.item() for n, v in row.items() if is_measure(n)}
            for row in self.history.rows
        ]
        return with_course(outcome, rows, self.history.measured)

    def _network(self) -> np.ndarray:
        apply, params, inputs = self._task.network.apply, self.trained(), self._task.test.inputs
        parts = [inputs[start : start + _PART] for start in range(0, len(inputs), _PART)]
        return np.concatenate([np.asarray(apply(params, jnp.asarray(part))) for part in parts])

    def _at(self, params: Any) -> tuple[np.ndarray, float]:
        return self._solve(kernels.finite_kernel(self._task.network.apply, params))

    def wide(self) -> tuple[np.ndarray, float]:
        """Returns the predictions of the wide kernel, and its ridge."""
        if self._wide is None:
            self._wide = self._solve(self._task.wide.of_transform(np.eye(self._task.wide.size)))
        return self._wide

    def _machine(self) -> tuple[np.ndarray, float]:
        train, settings = self._task.train, self._config.rfm
        machine = kernels.recursive_feature_machine(
            self._task.wide.of_transform,
            train.inputs,
            _columns(train.targets),
            key=_stream(self._config, Papers.POINTS),
            size=self._task.wide.size,
            updates=settings.updates,
            points=settings.points,
            ridge=self.wide()[1],
            directory=self._directory / SCRATCH / "learned",
        )
        return self._solve(machine.kernel)

    def _solve(self, kernel: Callable[..., Array]) -> tuple[np.ndarray, float]:
        """Returns an exact regression's predictions, and the ridge that held-out examples chose."""
        train, test = self._task.train, self._task.test
        gram_train = kernels.gram(kernel, train.inputs)
        if not gram_train.any():
            raise NumericalError("the kernel is 0 on all training examples: no unit is active")
        gram_test = kernels.gram(kernel, test.inputs, train.inputs)
        targets = _columns(train.targets)
        key = _stream(self._config, Papers.RIDGE)
        ridge = kernels.select_ridge(key, gram_train, targets, self._config.ridge)
        return kernels.regress(gram_train, targets, gram_test, ridge=ridge).predictions, ridge

    def predict(self, learner: str) -> tuple[np.ndarray, float | None]:
        """Returns a learner's predictions for the test examples, and its ridge if it has one."""
        if learner == "network":
            return self._network(), None
        if learner == "ntk_trained":
            return self._at(self.trained())
        if learner == "ntk_start":
            shape = self._task.train.inputs.shape[1:]
            return self._at(self._task.network.init(init_key(self._run_key), shape))
        return self.wide() if learner == "ntk_wide" else self._machine()


def run(
    group: list[Point], data: Any, directory: Path, progress: Callable[[float], None]
) -> list[Outcome]:
    """Lets all learners of a task and seed learn from the same examples."""
    task = tasks.make_task(group[0].config, data)
    shared, outcomes = _Group(group[0].config, task, directory), []
    for done, point in enumerate(group, start=1):
        outcomes.append(_learn(shared, task, point))
        progress(done / len(group))
    return with_test(outcomes, task.test)


def _learn(shared: _Group, task: PaperTask, point: Point) -> Outcome:
    """Returns what one learner came to; where it fails, the others of its group go on."""
    learner = point.config.learner
    own = {name: point.config[name] for name in ("task", "learner", "seed")}
    try:
        outputs, ridge = shared.predict(learner)
    except NumericalError as error:
        return Outcome(own, [], "failed", str(error))
    found, error = score(task, outputs)
    classes = 0 if task.is_regression else max(2, _columns(task.test.targets).shape[1])
    sizes = {"num_train": len(task.train.targets), "num_test": len(task.test.targets)}
    solved = {"score": found, "score_error": error, "ridge": ridge, "num_classes": classes}
    if classes:
        solved["chance"] = best_constant_accuracy(task.test.targets)
    outcome = Outcome(own | sizes | solved, [{"score": found}], outcomes=outcomes_of(task, outputs))
    return shared.with_training(outcome, learner)


# The learners of a task and seed share the data and the network.
EXPERIMENT = Experiment(load=tasks.load, run=run, report=make_report, varying=("learner",))
