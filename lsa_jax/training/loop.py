"""The one training loop. Python comes up between epochs to report, checkpoint and evaluate.

It knows nothing of any paper. What a batch is, comes from a `Source`; what varies between replicas
(a noise level, a learning rate) is a tree handed to the source and to the optimiser.

Each epoch visits every example once, in an order drawn from (key, epoch); a partial last batch is
filled up with examples of weight zero. Everything random is a function of (key, epoch), so a run
that goes on from a checkpoint ends with the same bits as one that was never stopped.
"""

import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Key

from lsa_jax import backend
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.models.model import Model
from lsa_jax.parallel import Layout, ReplicaLayout
from lsa_jax.training import contracts, identities
from lsa_jax.training.measuring import NOTHING, Cost, Course, Measuring, course_of
from lsa_jax.training.programs import (
    PyTree,
    Recipe,
    ReplicaState,
    Source,
    make_epoch,
    make_evaluate,
    make_init,
)
from lsa_jax.training.segments import NOWHERE, Checkpoints, run_segments
from lsa_jax.training.throughput import Throughput, measure_throughput


class History(NamedTuple):
    """What was measured on the way.

    Attributes:
        rows: one dictionary a report: `epoch` and `step` (how many are done), `batch_loss` (mean
            over the epoch's batches while they were trained on; epoch 0 has none), `train_loss`,
            `test_loss`, metrics likewise. Values are [replicas], or numbers for a single run.
        failures: by replica, why it stopped learning. Its parameters are those before the step
            whose loss was not finite.
        throughput: the pace of this process; None where all epochs were done before.
        measured: what measuring took; None where nothing was measured. Its rows are those of epochs
            0, 1, 2, 4, ... and the last, with `Measuring`'s names as columns.
        outcomes: [replicas, test examples], or [test examples] for a single run: whether the
            trained network has each test example right; None without a test set or the metric
            "accuracy".
    """

    rows: list[dict[str, Any]]
    failures: dict[int, str]
    throughput: Throughput | None
    measured: Cost | None = None
    outcomes: Bool[np.ndarray, "..."] | None = None


class Evaluation(NamedTuple):
    """How a run is measured on the way.

    Attributes:
        test: examples to evaluate on, beside the training examples.
        metrics: `(outputs, targets) -> [n]` by name, measured beside the loss; None: accuracy,
            unless there is one output, beside targets of zero: these are numbers, not classes.
        every: epochs between evaluations; the last epoch is always evaluated.
        batch_size: examples a step; where devices share batches, rounded up to a multiple of their
            number. With batch normalisation, results depend on it.
        measuring: how lazy or rich the run is, measured from the start on.
        start: measure before the first epoch too.
        stop: `(row of a report, values [replicas]) -> bool`; True ends training there.
    """

    test: Dataset | Source | None = None
    metrics: dict[str, Callable] | None = None
    every: int = 1
    batch_size: int = 512
    measuring: Measuring = NOTHING
    start: bool = False
    stop: Callable[[dict[str, np.ndarray]], bool] | None = None


BY_EPOCH = Evaluation()


class _Run:
    """One training run's programs, compiled for a layout."""

    def __init__(
        self,
        recipe: Recipe,
        sources: dict[str, Source],
        keys: Key[Array, " replicas"],
        replicas: PyTree,
    ) -> None:
        self.layout = layout = recipe.layout
        self.measures = [f"{s}_{m}" for s in sources for m in ("loss", *recipe.metrics)]
        self._recipe, self._train = recipe, sources["train"]
        self.steps_per_epoch = -(-sources["train"].num_examples // recipe.batch_size)
        self._given = replicas
        self._keys, self._replicas = layout.spread((keys, replicas))
        self._arrays = {name: layout.share(source.arrays) for name, source in sources.items()}
        self._epoch = layout.map(make_epoch(recipe, sources["train"]), 3, donate=True)
        self._evaluate = {
            name: layout.map(make_evaluate(recipe, source), 2) for name, source in sources.items()
        }
        init = layout.map(make_init(recipe, sources["train"]), 2)
        self.start = init(self._keys, self._replicas, self._arrays["train"])
        self.seconds: list[float] = []  # of each epoch that this process trained
        self.keeps_outcomes = "test" in sources and "accuracy" in recipe.metrics
        self.outcomes: np.ndarray | None = None  # of the latest evaluation
        self.course: Course | None = None

    def watch(self, measuring: Measuring, epochs: int) -> None:
        """Has measures taken along the run, if any are asked for."""
        if not measuring.names:
            return
        recipe, source, given = self._recipe, self._train, self._given
        starts = self.layout.gather(self.start.params)

        def fetch(replica: int, index: Array) -> Dataset:
            own = jax.tree.map(lambda a: a[replica], given)
            return source.fetch(source.arrays, own, index, jnp.int32(0))

        self.course = course_of(
            measuring,
            recipe.model.apply,
            starts,
            fetch,
            source.num_examples,
            range(epochs + 1),
            epochs * source.num_examples,
        )

    def measure(self, state: ReplicaState, epoch: int) -> None:
        """Takes the measures that are due after an epoch."""
        if self.course is not None and epoch in self.course.marks:
            self.course.take(epoch, self.layout.gather(state.params))

    def train_epoch(self, state: ReplicaState) -> tuple[ReplicaState, np.ndarray]:
        """Trains for an epoch; returns each replica's mean loss over its batches, too."""
        start = time.monotonic()
        state, loss = self._epoch(state, self._keys, self._replicas, self._arrays["train"])
        loss = self.layout.gather(loss)  # waits for the devices
        self.seconds.append(time.monotonic() - start)
        return state, loss

    def evaluate(self, state: ReplicaState) -> dict[str, np.ndarray]:
        """Returns each replica's measures on every source, as `<source>_<measure>`."""
        row = {}
        for name, function in self._evaluate.items():
            found = function(state, self._replicas, self._arrays[name])
            measured, outcomes = self.layout.gather(found)
            for measure, value in measured.items():
                row[f"{name}_{measure}"] = value
            if name == "test" and self.keeps_outcomes:
                self.outcomes = outcomes == 1
        return row

    def pace(self, state: ReplicaState) -> Throughput | None:
        """Returns the pace of this process from a state as numpy arrays; None if it did nothing."""
        return measure_throughput(self._recipe, self._train, state, self._given, self.seconds)

    def steps(self, state: ReplicaState) -> np.ndarray:
        """Returns the updates that each replica has done; in a dry run all that were due."""
        found = self.layout.gather(state.step)
        if backend.dry_run() is None:
            return found
        return np.full_like(found, len(self.seconds) * self.steps_per_epoch)


class _Table:
    """The reports of a run as one array [reports, columns, replicas], so that it can be saved."""

    def __init__(self, run: _Run, epochs: int, evaluation: Evaluation) -> None:
        self.columns = ["batch_loss", *run.measures]
        width = run.layout.num_replicas
        due = range(0 if evaluation.start else 1, epochs + 1)
        self.epochs = [e for e in due if e % evaluation.every == 0 or e == epochs]
        self.values = np.full((len(self.epochs), len(self.columns), width), np.nan)

    def add(self, epoch: int, row: dict[str, np.ndarray]) -> None:
        self.values[self.epochs.index(epoch)] = [row[column] for column in self.columns]

    def row(self, epoch: int) -> dict[str, np.ndarray]:
        """Returns the report of an epoch, by column; nothing where there is none."""
        if epoch not in self.epochs:
            return {}
        return dict(zip(self.columns, self.values[self.epochs.index(epoch)], strict=True))

    def rows(self, run: _Run, done: int) -> list[dict[str, Any]]:
        found = dict(zip(self.epochs, self.values, strict=True))
        marks = run.course.marks if run.course is not None else []
        rows = []
        for epoch in sorted({*self.epochs, *marks}):
            row = {"epoch": epoch, "step": epoch * run.steps_per_epoch}
            if epoch in found:
                row |= dict(zip(self.columns, found[epoch], strict=True))
            if not epoch:  # before the first batch
                row.pop("batch_loss", None)
            if run.course is not None:
                row |= run.course.row(epoch)
            rows.append(row)
        return [row for row in rows if row["epoch"] <= done]


def _find_failures(steps: np.ndarray, due: int, last: np.ndarray) -> dict[int, str]:
    """Says which replicas stopped at a loss that was not finite, or ended with such measures."""
    failures = {}
    for replica, step in enumerate(steps):
        if step < due:
            failures[replica] = (
                f"the loss was not finite at step {step}; lower the learning rate or check the data"
            )
        elif not np.isfinite(last[:, replica]).all():
            failures[replica] = f"the outputs were not finite after step {step}, the last"
    return failures


def _check_sizes(
    sizes: dict[str, int], evaluation: Evaluation, kept: Checkpoints, sources: dict[str, Source]
) -> None:
    sizes = sizes | {
        "evaluation.every": evaluation.every,
        "evaluation.batch_size": evaluation.batch_size,
        "checkpoints.every": kept.every,
        **{f"number of {name} examples": s.num_examples for name, s in sources.items()},
    }
    for name, value in sizes.items():
        if value < 1:
            raise InputError(f"{name} is {value}; accepted: 1 or more")


def _sources(data: Dataset | Source, test: Dataset | Source | None) -> dict[str, Source]:
    found = {"train": Source.of(data)}
    return found if test is None else found | {"test": Source.of(test, "evaluation.test")}


def _go_through(
    run: _Run,
    epochs: int,
    evaluation: Evaluation,
    kept: Checkpoints,
    progress: Callable[[float], None] | None,
    identity: Callable[[], dict[str, int]],
) -> tuple[PyTree, History]:
    """Trains from the last checkpoint to the end."""
    table = _Table(run, epochs, evaluation)

    def advance(state: ReplicaState, done: int) -> ReplicaState:
        if done == 0:
            run.measure(state, 0)
            if evaluation.start:
                row = run.evaluate(state)
                table.add(0, {"batch_loss": np.full_like(row["train_loss"], np.nan), **row})
        state, batch_loss = run.train_epoch(state)
        run.measure(state, done + 1)
        if done + 1 in table.epochs:
            table.add(done + 1, {"batch_loss": batch_loss, **run.evaluate(state)})
        return state

    def going(state: ReplicaState, done: int) -> bool:
        report = table.row(done) if done and evaluation.stop else {}
        if report and evaluation.stop(report):
            return False
        return bool((run.steps(state) == done * run.steps_per_epoch).any())

    tables = table.values if run.course is None else (table.values, run.course.values)
    state, done = run_segments(
        run.start,
        tables,
        range(1, epochs + 1),
        advance,
        kept=kept,
        layout=run.layout,
        going=going,
        identity=identity,
        progress=lambda done: progress and progress(done / epochs),
    )
    reported = [place for place, epoch in enumerate(table.epochs) if epoch <= done]
    last = table.values[max(reported, default=-1)]
    failures = _find_failures(run.steps(state), done * run.steps_per_epoch, last)
    if run.keeps_outcomes and run.outcomes is None:  # all epochs were done by an earlier process
        run.evaluate(state)
    state = run.layout.gather(state)
    cost = run.course and run.course.cost(run.seconds, epochs)
    history = History(table.rows(run, done), failures, run.pace(state), cost, run.outcomes)
    return state.params, history


def train(
    key: Key[Array, "..."],
    model: Model,
    data: Dataset | Source,
    loss: Callable,
    optimizer: optax.GradientTransformation | Callable[[PyTree], optax.GradientTransformation],
    *,
    epochs: int,
    batch_size: int,
    evaluation: Evaluation = BY_EPOCH,
    replicas: PyTree = None,
    frozen: tuple[str, ...] = (),
    layout: Layout | None = None,
    checkpoints: Checkpoints = NOWHERE,
    progress: Callable[[float], None] | None = None,
) -> tuple[PyTree, History]:
    """Trains one network, or many replicas of it, by minibatch gradient descent.

    Args:
        key: one key for one run, or keys [replicas].
        model: what is trained; its kernel is not used. Where `apply` takes a `key`, as that of a
            network with `models.Dropout` does, each step draws with one of its own. One whose
            examples act on one another takes `counted`: see `models.Model`.
        data: the training examples.
        loss: `(outputs, targets) -> [n]`, the loss of each example; batches take the mean.
        optimizer: an optax transformation, or a function that makes one from a replica's values.
            Of further arguments of its update it may ask for `value`, `grad` and `value_fn`.
        epochs: passes over the data.
        batch_size: examples a step, over all devices.
        evaluation: on what it is measured beside the training examples, and how often.
        replicas: a tree of arrays [replicas, ...]: what varies between replicas. A replica's part
            is handed to the source's `fetch` and to `optimizer`.
        frozen: top-level entries of the parameters that stay as they were initialised.
        layout: how the work lies on the devices; default: replicas spread over all devices.
        checkpoints: where to save the state and to go on from, and after how many epochs.
        progress: called with the fraction done after each epoch.

    Returns:
        The parameters and the history. With keys [replicas] both have an axis of replicas.

    Raises:
        InputError: a size below 1, no examples, a loss, metric, optimiser or key that does not
            fit, or a checkpoint of another run.
        NumericalError: the loss of a single run was not finite; of many, see `History.failures`.
    """
    key, replicas, single = contracts.check_keys(key, replicas)
    sources = _sources(data, evaluation.test)
    recipe = Recipe(
        model,
        loss,
        contracts.optimizers_of(optimizer, replicas),
        {},
        batch_size,
        evaluation.batch_size,
        frozen,
        layout or ReplicaLayout(len(key)),
    )
    _check_sizes({"epochs": epochs, "batch_size": batch_size}, evaluation, checkpoints, sources)
    recipe = contracts.fitted(recipe, evaluation.metrics, sources, key, replicas)
    run = _Run(recipe, sources, key, replicas)
    run.watch(evaluation.measuring, epochs)
    identity = functools.partial(
        identities.of_training, recipe, sources, key, replicas, epochs, evaluation
    )
    params, history = _go_through(run, epochs, evaluation, checkpoints, progress, identity)
    return _single(params, history) if single else (params, history)


def _single(params: PyTree, history: History) -> tuple[PyTree, History]:
    """Takes the axis of replicas away from the one run that there is."""
    if history.failures:
        raise NumericalError(history.failures[0])
    rows = [
        {name: value[0] if isinstance(value, np.ndarray) else value for name, value in row.items()}
        for row in history.rows
    ]
    outcomes = None if history.outcomes is None else history.outcomes[0]
    return jax.tree.map(lambda a: a[0], params), history._replace(rows=rows, outcomes=outcomes)
