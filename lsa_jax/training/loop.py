"""The training loop: control returns to Python after each epoch to report, save and evaluate.

It knows nothing of any paper. Batches come from a `Source`; what varies between replicas (a noise
level, a learning rate) is a tree that is passed to the source and to the optimiser.

Each epoch visits every example once, in an order drawn from (key, epoch); a partial last batch is
filled up with examples of weight zero. Everything random is a function of (key, epoch), so a run
that continues from a checkpoint ends with the same bits as one that was never stopped.
"""

import dataclasses
import hashlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Key

from lsa_jax import backend
from lsa_jax.arrays import digest, random_key
from lsa_jax.checks import integer, require
from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.models.model import Model, state_names
from lsa_jax.parallel import Layout, ReplicaLayout, kept_programs, layout_of
from lsa_jax.training.checkpoints import program_text
from lsa_jax.training.course import NOTHING, Cost, Course, Measuring, course_of
from lsa_jax.training.optimizers import SameForAll, optimizers_of
from lsa_jax.training.programs import (
    PyTree,
    Recipe,
    ReplicaState,
    Source,
    Throughput,
    fitted,
    make_epoch,
    make_evaluate,
    make_init,
    measure_throughput,
)
from lsa_jax.training.segments import NOWHERE, Checkpoints, run_segments


class History(NamedTuple):
    """Values measured along a training run.

    Attributes:
        rows: a dictionary for each report: `epoch` and `step` (numbers done), `batch_loss` (mean
            over the epoch's batches as they were trained on; epoch 0 has none), `train_loss`,
            `test_loss`, metrics likewise. Values are [replicas], or numbers for a single run.
        failures: by replica, why it stopped learning. Its parameters are those before the step
            whose loss was not finite.
        throughput: of this process; None where all epochs were done before.
        measured: cost of measuring; None where nothing was measured. Measures stand in the rows
            of epochs 0, 1, 2, 4, ... and the last, with `Measuring`'s names as columns.
        outcomes: [replicas, test examples], or [test examples] for a single run: whether the
            trained network classifies each test example correctly; None without a test set or
            the metric "accuracy".
    """

    rows: list[dict[str, Any]]
    failures: dict[int, str]
    throughput: Throughput | None
    measured: Cost | None = None
    outcomes: Bool[np.ndarray, "..."] | None = None


# Before the first update, so of no learning rate.
_AT_START = (
    "check the network's outputs at the start and the data; to exclude a class, give it a large "
    "negative output in place of -inf"
)


class Evaluation(NamedTuple):
    """How a run is measured along the way.

    Attributes:
        test: examples to evaluate on, in addition to the training examples.
        metrics: `(outputs, targets) -> [n]` by name, in addition to the loss; None: accuracy,
            unless there is one output and a target is zero: then targets are numbers, not classes.
        every: epochs between evaluations; the last epoch is always evaluated.
        batch_size: examples a step; where devices share batches, rounded up to a multiple of their
            number. With batch normalisation, results depend on it.
        measuring: measures of lazy and rich, from the start on.
        start: evaluate before the first epoch too.
        stop: `(row of a report, values [replicas]) -> bool`; True ends training there.
        watch: `(epoch, parameters [replicas, ...] as numpy arrays)`, called after epochs 1, 2, 4...
    """

    test: Dataset | Source | None = None
    metrics: dict[str, Callable] | None = None
    every: int = 1
    batch_size: int = 512
    measuring: Measuring = NOTHING
    start: bool = False
    stop: Callable[[dict[str, np.ndarray]], bool] | None = None
    watch: Callable[[int, PyTree], None] | None = None


BY_EPOCH = Evaluation()


@dataclasses.dataclass(frozen=True)
class _Job:
    """A recipe and the outlines of its sources; jobs of equal keys have equal programs."""

    key: tuple
    layout: Layout
    recipe: Recipe = dataclasses.field(compare=False)
    sources: dict[str, Source] = dataclasses.field(compare=False)


def _map_programs(job: _Job) -> tuple[Callable, Callable, dict[str, Callable]]:
    """Returns `make_init`, `make_epoch`, and `make_evaluate` by source, mapped by the layout."""
    layout, recipe, train = job.layout, job.recipe, job.sources["train"]
    evaluate = {n: layout.map(make_evaluate(recipe, s), 2) for n, s in job.sources.items()}
    epoch = layout.map(make_epoch(recipe, train), 3, donate=True)
    return layout.map(make_init(recipe, train), 2), epoch, evaluate


# Groups of a sweep often differ in their data and in values of replicas alone.
_kept_programs = kept_programs(_map_programs)
# Of runs without checkpoints, whose programs have no text; lowering them would cost as much.
_latest_programs = kept_programs(_map_programs, most=2)


class _Run:
    """One training run: its arguments, its programs, and the table of its reports."""

    def __init__(
        self,
        recipe: Recipe,
        sources: dict[str, Source],
        given: tuple[Key[Array, " replicas"], PyTree],
        epochs: int,
        evaluation: Evaluation,
        is_kept: bool,
    ) -> None:
        """Takes keys and values of replicas, and whether checkpoints are kept."""
        self._recipe, self._sources, self._given = recipe, sources, given
        self._epochs, self._evaluation, self._train = epochs, evaluation, sources["train"]
        self.layout = layout = recipe.layout
        self.steps_per_epoch = -(-self._train.num_examples // recipe.batch_size)
        self._texts = self._program_texts() if is_kept else {}
        init, self._epoch, self._evaluate = self._programs()
        self._keys, self._replicas = layout.spread(given)
        self._arrays = {name: layout.share(source.arrays) for name, source in sources.items()}
        self.start = init(self._keys, self._replicas, self._arrays["train"])
        self.course = self._course(evaluation.measuring, epochs)
        self.seconds: list[float] = []  # of each epoch that this process trained
        self.keeps_outcomes = "test" in sources and "accuracy" in recipe.metrics
        self.outcomes: np.ndarray | None = None  # of the latest evaluation
        measured = [f"{s}_{m}" for s in sources for m in ("loss", *recipe.metrics)]
        shape = epochs + 1, layout.num_replicas  # NaN between reports
        self.table = {name: np.full(shape, np.nan) for name in ("batch_loss", *measured)}
        due = range(0 if evaluation.start else 1, epochs + 1)
        self._reports = [e for e in due if e % evaluation.every == 0 or e == epochs]

    def _programs(self) -> tuple[Callable, Callable, dict[str, Callable]]:
        """Returns the programs; those of an earlier run with equal texts, or the same functions."""
        recipe, model, metrics = self._recipe, self._recipe.model, self._recipe.metrics
        outlines = {name: source.outline() for name, source in self._sources.items()}
        if self._texts:
            texts = (hashlib.sha256(text.encode()).digest() for text in self._texts.values())
            # The texts have the evaluation of one source, whose size may be below a batch's.
            key = *texts, *outlines, recipe.eval_batch_size
            return _kept_programs(_Job(key, recipe.layout, recipe, outlines))
        made = recipe.optimizer
        given = made.optimizer if isinstance(made, SameForAll) else made
        functions = model.init, model.apply, model.next_state, recipe.loss, given
        fetched = [(name, id(one.fetch), one.num_examples) for name, one in outlines.items()]
        sizes = recipe.batch_size, recipe.eval_batch_size, recipe.frozen
        key = *map(id, (*functions, *metrics.values())), *metrics, *fetched, *sizes
        return _latest_programs(_Job(key, recipe.layout, recipe, outlines))

    def _program_texts(self) -> dict[str, str]:
        """Returns the programs of one replica that decide the bits of a run, by name."""
        recipe = self._recipe._replace(layout=ReplicaLayout(1, jax.local_devices()[:1]))
        train, last = self._train, self._sources.get("test", self._train)
        first = jax.eval_shape(lambda *trees: jax.tree.map(lambda a: a[0], trees), *self._given)
        init, epoch = make_init(recipe, train), make_epoch(recipe, train)
        evaluate = make_evaluate(recipe, last)
        text, state = program_text(init, *first, train.arrays)
        return {
            "initial parameters": text,
            "model, loss or optimiser": program_text(epoch, state, *first, train.arrays)[0],
            "evaluation": program_text(evaluate, state, first[1], last.arrays)[0],
        }

    def identity(self) -> dict[str, int]:
        """Returns hashes of all that decides the bits of a run, by name.

        Of the functions of `evaluation` only the metrics count.
        """
        (keys, replicas), evaluation = self._given, self._evaluation
        measuring = evaluation.measuring
        how = evaluation.every, evaluation.start, measuring.names, measuring.examples
        test = self._sources.get("test")
        programs = {name: digest(text) for name, text in self._texts.items()}
        return {
            "keys": digest(keys),
            "replicas": digest(replicas),
            "epochs": self._epochs,
            "batch size": self._recipe.batch_size,
            "frozen parameters": digest(repr(self._recipe.frozen)),
            "training examples": digest(self._train.arrays),
            "test examples": digest(() if test is None else test.arrays),
            **programs,
            "evaluation": digest(f"{how} {programs['evaluation']}"),
        }

    def _course(self, measuring: Measuring, epochs: int) -> Course | None:
        source, replicas = self._train, self._given[1]
        if not measuring.names:
            return None

        def fetch(replica: int, index: Array) -> Dataset:
            own = jax.tree.map(lambda a: a[replica], replicas)
            return source.fetch(source.arrays, own, index, jnp.int32(0))

        model, starts, state = self._recipe.model, self.layout.gather(self.start.params), ()
        if model.next_state is not None:
            first = jax.tree.map(lambda leaf: leaf[0], starts)
            state = state_names(model, first, fetch(0, jnp.arange(1)).inputs)
        return course_of(
            measuring._replace(loss=measuring.loss or self._recipe.loss, state=state),
            model.apply,
            starts,
            fetch,
            source.num_examples,
            range(epochs + 1),
            epochs * source.num_examples,
        )

    def advance(self, state: ReplicaState, done: int) -> ReplicaState:
        """Trains for an epoch and evaluates where that is due."""
        if done == 0 and 0 in self._reports:
            self._report(0, state, np.full(self.layout.num_replicas, np.nan))
        begun = time.monotonic()
        state, loss = self._epoch(state, self._keys, self._replicas, self._arrays["train"])
        loss = self.layout.gather(loss)  # waits for the devices
        self.seconds.append(time.monotonic() - begun)
        if done + 1 in self._reports:
            self._report(done + 1, state, loss)
        watch = self._evaluation.watch
        if watch is not None and not (done + 1) & done:  # a power of two
            watch(done + 1, self.layout.gather(state.params))
        return state

    def _report(self, epoch: int, state: ReplicaState, batch_loss: np.ndarray) -> None:
        for name, values in {"batch_loss": batch_loss, **self.evaluate(state)}.items():
            self.table[name][epoch] = values

    def evaluate(self, state: ReplicaState) -> dict[str, np.ndarray]:
        """Returns each replica's measures on every source, as `<source>_<measure>`."""
        row = {}
        for name, function in self._evaluate.items():
            found = function(state, self._replicas, self._arrays[name])
            measured, outcomes = self.layout.gather(found)
            row |= {f"{name}_{measure}": value for measure, value in measured.items()}
            if name == "test" and self.keeps_outcomes:
                self.outcomes = outcomes == 1
        return row

    def steps(self, state: ReplicaState) -> np.ndarray:
        """Returns the updates that each replica has done; in a dry run all that were due."""
        found = self.layout.gather(state.step)
        if backend.dry_run() is None:
            return found
        return np.full_like(found, len(self.seconds) * self.steps_per_epoch)

    def going(self, state: ReplicaState, done: int) -> bool:
        """Whether a replica still learns and the reports do not end the training."""
        stop = self._evaluation.stop
        if done and done in self._reports and stop is not None:
            if stop({name: values[done] for name, values in self.table.items()}):
                return False
        return bool((self.steps(state) == done * self.steps_per_epoch).any())

    def failures(self, state: ReplicaState, done: int) -> dict[int, str]:
        """Returns why replicas stopped at a loss, or ended with outputs, that was not finite."""
        found = {}
        last = max((epoch for epoch in self._reports if epoch <= done), default=self._reports[0])
        told = [v[last] for n, v in self.table.items() if n.endswith(("_loss", "_accuracy"))]
        finite = np.isfinite(told).all(axis=0)  # other metrics may be undefined
        for replica, step in enumerate(self.steps(state)):
            if step < done * self.steps_per_epoch:
                way_out = "lower the learning rate or check the data" if step else _AT_START
                found[replica] = f"the loss was not finite at step {step}; {way_out}"
            elif not finite[replica]:
                found[replica] = f"the outputs were not finite after step {step}, the last"
        return found

    def rows(self, done: int) -> list[dict[str, Any]]:
        """Returns the reports of the epochs that are done."""
        marks = self.course.marks if self.course is not None else []
        rows = []
        for epoch in sorted(epoch for epoch in {*self._reports, *marks} if epoch <= done):
            row = {"epoch": epoch, "step": epoch * self.steps_per_epoch}
            if epoch in self._reports:
                row |= {name: values[epoch] for name, values in self.table.items()}
            if not epoch:  # before the first batch
                row.pop("batch_loss", None)
            if self.course is not None:
                row |= self.course.row(epoch)
            rows.append(row)
        return rows

    def history(self, state: ReplicaState, done: int, cost: Cost | None) -> History:
        """Returns the history of a run that ended in a state."""
        failures = self.failures(state, done)
        if self.keeps_outcomes and self.outcomes is None:  # an earlier process did all epochs
            self.evaluate(state)
        given = self.layout.gather(state), self._given[1], self.seconds
        pace = measure_throughput(self._recipe, self._train, *given)
        return History(self.rows(done), failures, pace, cost, self.outcomes)


def _check_keys(
    key: Key[Array, "..."], replicas: PyTree
) -> tuple[Key[Array, " replicas"], PyTree, bool]:
    """Returns keys and values of replicas, and whether a single key was given.

    Raises:
        InputError: no key or keys of jax.random, or values of another number of replicas.
    """
    key = random_key("key", key, "...")
    if isinstance(key, jax.core.Tracer):
        raise InputError(
            "key is traced, by jax.jit or jax.vmap around train; accepted: a key outside of them, "
            "or keys [replicas] in place of jax.vmap"
        )
    if key.ndim > 1 or not key.size:
        raise InputError(
            f"key has shape {key.shape}; accepted: one key, or keys [replicas] of jax.random.split"
        )
    if key.ndim == 0:
        return key[None], jax.tree.map(lambda a: jnp.asarray(a)[None], replicas), True
    for path, leaf in jax.tree_util.tree_leaves_with_path(replicas):
        if np.shape(leaf)[:1] != key.shape:
            raise InputError(
                f"replicas{jax.tree_util.keystr(path)} has shape {np.shape(leaf)}; accepted: "
                f"[{len(key)}, ...], a value for each key"
            )
    return key, replicas, False


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
        require(name, value, integer(1))


def _check_kinds(
    model: Any, evaluation: Any, kept: Any, layout: Any, count: int, batch_size: Any
) -> None:
    """Raises InputError unless settings have their types, and a layout places all replicas."""
    for name, value, kind in (
        ("model", model, Model),
        ("evaluation", evaluation, Evaluation),
        ("checkpoints", kept, Checkpoints),
        ("layout", layout, Layout),
        ("evaluation.metrics", getattr(evaluation, "metrics", None), dict | None),
        ("evaluation.measuring", getattr(evaluation, "measuring", NOTHING), Measuring),
    ):
        if not isinstance(value, kind):
            accepted = getattr(kind, "__name__", kind)
            if kind is Model:
                accepted = "models.Model, as models.from_flax_linen(network) and others return"
            raise InputError(f"{name} is a {type(value).__name__}; accepted: {accepted}")
    if layout.num_replicas != count:
        raise InputError(
            f"layout is of {layout.num_replicas} replicas, for {count} keys; accepted: "
            f"parallel.layout_of({count})"
        )
    if batch_size % layout.num_parts:
        raise InputError(
            f"batch_size is {batch_size} on {layout.num_parts} devices that share batches; "
            f"accepted: multiples of {layout.num_parts}"
        )


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
        model: the network; its kernel is not used. Where `apply` takes a `key`, as with
            `models.Dropout`, each step draws with a key of its own. A model whose examples act on
            one another takes `counted`: see `models.Model`.
        data: the training examples.
        loss: `(outputs, targets) -> [n]`, the loss of each example; batches take the mean.
        optimizer: an optax transformation, or a function that makes one from a replica's values.
            Its update may take `value`, `grad` and `value_fn` as further arguments.
        epochs: passes over the data.
        batch_size: examples a step, over all devices.
        evaluation: test examples, metrics, and how often they are computed.
        replicas: a tree of arrays [replicas, ...] of values that vary between replicas. A
            replica's part is passed to the source's `fetch` and to `optimizer`.
        frozen: top-level entries of the parameters that stay as they were initialised.
        layout: placement on the devices; default: replicas spread over all devices.
        checkpoints: where to save the state and continue from, and after how many epochs.
        progress: called with the fraction done after each epoch.

    Returns:
        The parameters and the history. With keys [replicas] both have an axis of replicas.

    Raises:
        InputError: a size below 1, no examples, a loss, metric, optimiser or key that does not
            fit, or a checkpoint of another run.
        NumericalError: the loss of a single run was not finite; of many, see `History.failures`.
    """
    key, replicas, single = _check_keys(key, replicas)
    layout = layout_of(len(key)) if layout is None else layout
    require("batch_size", batch_size, integer(1))
    _check_kinds(model, evaluation, checkpoints, layout, len(key), batch_size)
    sources = {"train": Source.of(data)}
    if evaluation.test is not None:
        sources["test"] = Source.of(evaluation.test, "evaluation.test")
    _check_sizes({"epochs": epochs}, evaluation, checkpoints, sources)
    recipe = Recipe(
        model,
        loss,
        optimizers_of(optimizer, replicas),
        {},
        min(batch_size, layout.num_parts * -(-sources["train"].num_examples // layout.num_parts)),
        evaluation.batch_size,
        frozen,
        layout,
    )
    recipe = fitted(recipe, evaluation.metrics, sources, key, replicas)
    is_kept = checkpoints.directory is not None and backend.dry_run() is None
    run = _Run(recipe, sources, (key, replicas), epochs, evaluation, is_kept)
    state, done, cost = run_segments(
        run.start,
        run.table,
        range(1, epochs + 1),
        run.advance,
        kept=checkpoints,
        layout=run.layout,
        going=run.going,
        identity=run.identity,
        progress=lambda done: progress and progress(done / epochs),
        course=run.course,
    )
    params, history = run.layout.gather(state.params), run.history(state, done, cost)
    return _single(params, history) if single else (params, history)


def _single(params: PyTree, history: History) -> tuple[PyTree, History]:
    """Removes the axis of replicas of a single run."""
    if history.failures:
        raise NumericalError(history.failures[0])
    rows = [
        {name: value[0] if isinstance(value, np.ndarray) else value for name, value in row.items()}
        for row in history.rows
    ]
    outcomes = None if history.outcomes is None else history.outcomes[0]
    return jax.tree.map(lambda a: np.asarray(a[0]), params), history._replace(
        rows=rows, outcomes=outcomes
    )
