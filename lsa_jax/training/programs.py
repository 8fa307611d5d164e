"""Compiled programs: initialise one replica, train it for an epoch, evaluate it.

Before training starts, `fitted` checks that all parts of a recipe fit together; afterwards
`measure_throughput` returns the pace.

An epoch is one scan over its batches. Everything random is a function of (key, epoch).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, ArrayLike, Int, Key

from lsa_jax import backend
from lsa_jax.costs import count_flops, peak_flops
from lsa_jax.data.dataset import Dataset, checked_dataset
from lsa_jax.errors import InputError
from lsa_jax.models.model import ExampleShape, Model, accepted
from lsa_jax.parallel import Layout, as_one_part
from lsa_jax.training import losses
from lsa_jax.training.optimizers import check_optimizer, descend
from lsa_jax.training.segments import kept_if

PyTree = Any

# Streams of a run's key, split by meaning.
_INIT, _ORDER, _DRAWS = 0, 1, 2


def _rows_of_dataset(dataset: Dataset, replica: PyTree, index: Array, epoch: Array) -> Dataset:
    del replica, epoch
    return Dataset(dataset.inputs[index], dataset.targets[index])


class Source(NamedTuple):
    """A source of batches.

    Attributes:
        arrays: on the device, shared by all replicas; a `Dataset` for plain data.
        num_examples: examples are numbered 0 to num_examples - 1.
        fetch: `(arrays, replica, index [batch], epoch) -> Dataset` of that batch. The default
            takes rows of a `Dataset`.
    """

    arrays: PyTree
    num_examples: int
    fetch: Callable[[PyTree, PyTree, Array, Array], Dataset] = _rows_of_dataset

    @classmethod
    def of(cls, data: "Source | Dataset", name: str = "data") -> "Source":
        """Returns the source of a data set's rows; a source is returned unchanged.

        Raises:
            InputError: arrays of the data set, the argument `name`, are not accepted, or differ in
                length.
        """
        if isinstance(data, Source):
            return data
        data = checked_dataset(name, data)
        return cls(data, len(data.inputs))

    @property
    def is_plain(self) -> bool:
        """Whether batches are rows of a data set."""
        return self.fetch is _rows_of_dataset

    def outline(self) -> "Source":
        """Returns the source without its arrays, which jax would keep with a program."""
        return self._replace(arrays=None)


class Recipe(NamedTuple):
    """Settings of one replica's training and evaluation; see `train`."""

    model: Model
    loss: Callable
    optimizer: Callable[[PyTree], optax.GradientTransformation]
    metrics: dict[str, Callable]
    batch_size: int
    eval_batch_size: int
    frozen: tuple[str, ...]
    layout: Layout


class ReplicaState(NamedTuple):
    """One replica between two epochs."""

    params: PyTree  # frozen ones included
    opt_state: PyTree  # of the trained parameters
    step: Array  # updates done; constant from the first loss that was not finite
    epoch: Array  # epochs done


def init_key(key: Key[Array, ""]) -> Key[Array, ""]:
    """Returns the key with which a run of this key draws its initial parameters."""
    return jax.random.fold_in(key, _INIT)


def epoch_order(
    key: Key[Array, ""], epoch: Int[ArrayLike, ""], num_examples: int
) -> Int[Array, " n"]:
    """Returns the order in which a run of this key visits its examples in an epoch."""
    order_key = jax.random.fold_in(jax.random.fold_in(key, _ORDER), epoch)
    return jax.random.permutation(order_key, num_examples)


def draw_key(
    key: Key[Array, ""], step: Int[ArrayLike, ""], first: Int[ArrayLike, ""]
) -> Key[Array, ""]:
    """Returns the key with which a run of this key draws masks (`models.Dropout`) in a step.

    `step` is the number of steps due before; `first` is the place in the batch of a device's first
    example, so that devices draw other masks.
    """
    return jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(key, _DRAWS), step), first)


def _padded_batches(index: Array, batch_size: int) -> tuple[Array, Array]:
    """Cuts [n] into [batches, batch_size], filled up from the front with examples of weight 0."""
    count = len(index)
    num_batches = -(-count // batch_size)
    position = jnp.arange(num_batches * batch_size).reshape(num_batches, batch_size)
    return index[position % count], (position < count).astype(jnp.float32)


def split(params: PyTree, frozen: tuple[str, ...]) -> tuple[PyTree, PyTree]:
    """Splits parameters into trained ones and the top-level entries that stay fixed."""
    if not frozen:
        return params, {}
    trained = {name: value for name, value in params.items() if name not in frozen}
    return trained, {name: params[name] for name in frozen}


def join(trained: PyTree, fixed: PyTree) -> PyTree:
    """Undoes `split`."""
    return {**trained, **fixed} if fixed else trained


def make_init(recipe: Recipe, source: Source) -> Callable:
    """Returns `(key, replica, arrays) -> ReplicaState`, an untrained replica."""
    source = source.outline()

    def init(key: Key[Array, ""], replica: PyTree, arrays: PyTree) -> ReplicaState:
        first = jnp.zeros(1, jnp.int32)
        example = jax.eval_shape(source.fetch, arrays, replica, first, jnp.int32(0)).inputs
        params = recipe.model.init(init_key(key), ExampleShape.of(example))
        opt_state = recipe.optimizer(replica).init(split(params, recipe.frozen)[0])
        return ReplicaState(params, opt_state, jnp.int32(0), jnp.int32(0))

    return init


def make_epoch(recipe: Recipe, source: Source) -> Callable:
    """Returns `(state, key, replica, arrays) -> (state, mean loss over the epoch's batches)`.

    A step whose loss is not finite is not taken, nor is any after it: `state.step` then falls short
    of the steps that are due. A model whose `apply` takes a `key` gets one; where batches are
    filled up, a model that takes `counted` gets the weights of the examples.
    """
    source = source.outline()
    model, loss, layout = recipe.model, recipe.loss, recipe.layout
    fills = source.num_examples % recipe.batch_size > 0

    def train_epoch(
        state: ReplicaState, key: Key[Array, ""], replica: PyTree, arrays: PyTree
    ) -> tuple[ReplicaState, Array]:
        optimizer = recipe.optimizer(replica)
        epoch = state.epoch
        order = epoch_order(key, epoch, source.num_examples)
        batches = _padded_batches(order, recipe.batch_size)
        due = epoch * len(batches[0]) + jnp.arange(len(batches[0]))

        def step(
            state: ReplicaState, batch: tuple[Array, Array, Array]
        ) -> tuple[ReplicaState, Array]:
            due, index, weight = batch
            count = jnp.sum(weight)
            index, weight = layout.part((index, weight))
            inputs, targets = source.fetch(arrays, replica, index, epoch)
            trained, fixed = split(state.params, recipe.frozen)
            first = layout.part(jnp.arange(recipe.batch_size))[0]
            counted = weight if fills else None
            own = accepted(model.apply, key=draw_key(key, due, first), counted=counted)

            def mean_loss(trained: PyTree) -> Array:
                outputs = model.apply(join(trained, fixed), inputs, **own)
                return jnp.sum(weight * loss(outputs, targets)) / count

            def both(trained: PyTree) -> tuple[Array, PyTree]:
                return layout.total(jax.value_and_grad(mean_loss)(trained))

            value, trained, opt_state = descend(optimizer, both, trained, state.opt_state)
            if model.next_state is not None:
                found = model.next_state(state.params, inputs, own["key"])
                fixed = fixed | _mean(layout, found)
            after = ReplicaState(join(trained, fixed), opt_state, state.step + 1, epoch)
            going = jnp.isfinite(value) & (state.step == due)
            return kept_if(going, after, state), value

        state, values = lax.scan(step, state, (due, *batches))
        return state._replace(epoch=epoch + 1), jnp.mean(values)

    return train_epoch


def _mean(layout: Layout, tree: PyTree) -> PyTree:
    """Returns the mean over the parts of a batch."""
    return jax.tree.map(lambda a: a / layout.num_parts, layout.total(tree))


def make_evaluate(recipe: Recipe, source: Source) -> Callable:
    """Returns `(state, replica, arrays) -> ({measure: mean over the source}, outcomes)`.

    Outcomes are the values of the metric "accuracy", [examples] in the order of the source; None
    without that metric.

    Examples are fetched as in the latest epoch, for sources that draw them again each epoch. They
    come in one fixed random order: data sets may be sorted by class, and a batch of one class has
    other statistics than the batches that batch normalisation was trained with. Devices that share
    batches have equally many examples, which may make batches larger. No masks are drawn.
    """
    source = source.outline()
    measures = {"loss": recipe.loss, **recipe.metrics}
    layout = recipe.layout
    part_size = -(-min(recipe.eval_batch_size, source.num_examples) // layout.num_parts)
    batch_size = part_size * layout.num_parts
    fills = source.num_examples % batch_size > 0

    kept = source.num_examples if "accuracy" in recipe.metrics else 0

    def evaluate(
        state: ReplicaState, replica: PyTree, arrays: PyTree
    ) -> tuple[dict[str, Array], Array | None]:
        latest_epoch = jnp.maximum(state.epoch - 1, 0)

        def add(
            totals: tuple[Array, Array], batch: tuple[Array, Array]
        ) -> tuple[tuple[Array, Array], None]:
            sums, outcomes = totals
            index, weight = layout.part(batch)
            inputs, targets = source.fetch(arrays, replica, index, latest_epoch)
            given = accepted(recipe.model.apply, counted=weight if fills else None)
            outputs = recipe.model.apply(state.params, inputs, **given)
            values = jnp.stack([measure(outputs, targets) for measure in measures.values()])
            # A padded example must not count even where its output is not finite.
            values = jnp.where(weight > 0, values, 0.0)
            if kept:
                own = values[list(measures).index("accuracy")]
                outcomes = outcomes.at[index].add(own)  # a padded example adds 0
            return (sums + layout.total(values.sum(axis=1)), outcomes), None

        order = jax.random.permutation(jax.random.key(0), source.num_examples)
        batches = _padded_batches(order, batch_size)
        start = jnp.zeros(len(measures)), jnp.zeros(kept)
        (sums, outcomes), _ = lax.scan(add, start, batches)
        means = dict(zip(measures, sums / source.num_examples, strict=True))
        return means, layout.total(outcomes) if kept else None

    return evaluate


# --- checks that data, network, loss, metrics and optimiser fit together -------------------------

_CONTRACT = "accepted: (outputs, targets) -> [n], one number for each of n examples"


class Forms(NamedTuple):
    """Shapes and types for a few examples: parameters, state, outputs and targets [n, ...]."""

    params: PyTree
    state: dict[str, PyTree]
    outputs: PyTree
    targets: PyTree


def _forms_of(
    model: Model, source: Source, keys: Key[Array, " replicas"], replicas: PyTree
) -> Forms:
    """Returns the forms of a network on a source's examples; nothing is computed."""

    def run(count: int) -> Forms:
        def compute(key: Array, replica: PyTree, index: Array, arrays: PyTree) -> Forms:
            batch = _fetched(source, arrays, replica, index, jnp.int32(0))
            params = model.init(key, ExampleShape.of(batch.inputs))
            state = model.next_state(params, batch.inputs, key) if model.next_state else {}
            return Forms(params, state, model.apply(params, batch.inputs), batch.targets)

        given = jax.tree.map(lambda a: a[0], (keys, replicas))
        index = jax.ShapeDtypeStruct((count,), jnp.int32)
        mapped, forms = as_one_part(compute, *given, index, source.arrays)
        try:
            found = jax.eval_shape(mapped, *forms)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # of any library that networks are written with
            line = str(error).strip().partition("\n")[0]
            shape = f"of shape {source.arrays.inputs.shape}" if source.is_plain else "of its source"
            raise InputError(
                f"model fails for inputs {shape} ({type(error).__name__}: {line}); accepted: "
                "inputs that init(key, shape of one) and apply(params, inputs) take"
            ) from error
        return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), found)

    found = run(3)
    if not isinstance(found.outputs, jax.ShapeDtypeStruct):
        raise InputError(
            f"model returns a {type(found.outputs).__name__}; accepted: one array of outputs [n, c]"
        )
    # Where there are as many examples as outputs, a result [c] would pass for one [n].
    return run(5) if np.shape(found.outputs)[1:] == (3,) else found


def _fetched(source: Source, *given: Any) -> Dataset:
    """Returns a batch of a source, or raises InputError where it gives none."""
    accepted = "accepted: (arrays, replica, index [n], epoch) -> Dataset of n examples"
    try:
        batch = source.fetch(*given)
    except InputError:
        raise
    except Exception as error:  # of a user's function
        raise InputError(f"fetch of a source raises {error!r:.200}; {accepted}") from error
    counts = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(batch)}
    if not isinstance(batch, Dataset) or counts != {given[2].shape}:
        raise InputError(f"fetch of a source returns {jax.tree.map(np.shape, batch)}; {accepted}")
    return batch


def fitted(
    recipe: Recipe,
    metrics: dict[str, Callable] | None,
    sources: dict[str, Source],
    keys: Key[Array, " replicas"],
    replicas: PyTree,
) -> Recipe:
    """Checks a recipe against the examples and fills in its metrics and the network's state.

    Metrics of None are accuracy, where outputs can be right or wrong.

    Raises:
        InputError: the loss, a metric, the optimiser, a parameter or a frozen entry does not fit.
    """
    forms = {name: _forms_of(recipe.model, s, keys, replicas) for name, s in sources.items()}
    targets = {name: _known_targets(source) for name, source in sources.items()}
    if metrics is None:
        # One output with targets of zero is a regression, in which nothing is right or wrong.
        one_output = np.shape(forms["train"].outputs)[1:] == (1,)
        zeros = any(t is not None and bool((t == 0).any()) for t in targets.values())
        metrics = {} if one_output and zeros else {"accuracy": losses.is_correct}
    if "loss" in metrics:
        raise InputError("evaluation.metrics has 'loss', the column of the loss; accepted: others")
    functions = {f"evaluation.metrics[{name!r}]": metric for name, metric in metrics.items()}
    for called, function in ({"loss": recipe.loss} | functions).items():
        for name in sources:
            where = "data" if name == "train" else "evaluation.test"
            _check_function(called, function, forms[name], targets[name], where)
    _check_frozen(recipe.frozen, forms["train"].params)
    frozen = (*recipe.frozen, *forms["train"].state)
    trained = split(forms["train"].params, frozen)[0]
    for path, leaf in jax.tree_util.tree_leaves_with_path(trained):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InputError(
                f"model has the parameter {jax.tree_util.keystr(path)} of type {leaf.dtype}; "
                "accepted: floats; name entries of the parameters that are constant in frozen"
            )
    check_optimizer(recipe.optimizer(jax.tree.map(lambda a: a[0], replicas)), trained)
    return recipe._replace(metrics=dict(metrics), frozen=frozen)


def _check_frozen(frozen: tuple[str, ...], params: PyTree) -> None:
    """Raises InputError unless frozen entries are in the parameters."""
    known = list(params) if isinstance(params, dict) else []
    if isinstance(frozen, str) or not set(frozen) <= set(known):
        names = ", ".join(known) or "none"
        raise InputError(f"frozen is {frozen!r}; accepted: a tuple of entries of params: {names}")


def _known_targets(source: Source) -> Array | np.ndarray | None:
    """Returns the targets of a plain data set; None where they are not known."""
    return source.arrays.targets if source.is_plain and backend.dry_run() is None else None


def _check_function(
    called: str, function: Callable, forms: Forms, targets: Array | np.ndarray | None, where: str
) -> None:
    """Raises InputError unless a loss or metric gives one number for each example."""
    try:
        if targets is not None and len(forms.outputs.shape) == 2:
            if losses.check_all(function, forms.outputs.shape[1], targets):
                return
    except InputError as error:
        raise InputError(f"{where}.{error}") from None
    both = f"outputs of shape {forms.outputs.shape} and targets of shape {forms.targets.shape}"
    try:
        found = jax.eval_shape(function, forms.outputs, forms.targets)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        line = str(error).partition("\n")[0]
        raise InputError(f"{called} fails for {both} ({line}); {_CONTRACT}") from error
    shape = getattr(found, "shape", type(found).__name__)
    if shape != forms.outputs.shape[:1]:
        raise InputError(f"{called} returns {shape} for {both}; {_CONTRACT}")
    if targets is not None:
        _check_examples(called, function, forms.outputs, np.asarray(targets))


def _check_examples(called: str, function: Callable, outputs: Any, targets: np.ndarray) -> None:
    """Raises InputError where an example's number depends on the other examples.

    Three examples are computed together and one by one: a mean over comparisons of each output
    with each target has the right shape, too.
    """
    rows = targets.reshape(len(targets), -1)
    few = targets[np.append(0, np.flatnonzero((rows != rows[:1]).any(axis=1))[:2])]
    drawn = np.random.default_rng(0).random((len(few), *outputs.shape[1:]))
    drawn, few = jnp.asarray(drawn, outputs.dtype), jnp.asarray(few)
    together = np.asarray(function(drawn, few), np.float64)
    alone = [function(drawn[i : i + 1], few[i : i + 1]) for i in range(len(few))]
    if not np.allclose(together, np.ravel(alone), rtol=2e-2, atol=1e-3, equal_nan=True):
        raise InputError(
            f"{called} of an example depends on the other examples, for outputs of shape "
            f"{drawn.shape} and targets of shape {few.shape}; {_CONTRACT}; y[:, None] makes a "
            "column of targets y"
        )


# --- pace ----------------------------------------------------------------------------------------


class Throughput(NamedTuple):
    """The pace of a training run, all replicas and devices together.

    Attributes:
        examples_per_second: trained on, by the median epoch of this process (without the first,
            which compiles, where there are others); evaluation is not counted.
        flops_per_second: of the losses and their gradients, as XLA counts them before it
            optimises; None where no peak is known.
        peaks: operations a second of the devices together, by type; None where one of them is not
            in the table, as no CPU is.
    """

    examples_per_second: float
    flops_per_second: float | None
    peaks: dict[str, float] | None

    def peak_fraction(self, dtype: str) -> float | None:
        """Returns the share of the peak that is used; None where the peak is not known."""
        if self.peaks is None or self.flops_per_second is None:
            return None
        return self.flops_per_second / self.peaks[dtype]


def gradient_flops(recipe: Recipe, params: Any, batch: Dataset) -> float | None:
    """Returns the operations of one batch's mean loss and its gradient, as XLA counts them.

    Parameters, of one replica, and the batch are arrays or their shapes.
    """

    def gradient(params: Any, batch: Dataset) -> tuple[Array, Any]:
        trained, fixed = split(params, recipe.frozen)

        def mean_loss(trained: Any) -> Array:
            outputs = recipe.model.apply(join(trained, fixed), batch.inputs)
            return jnp.mean(recipe.loss(outputs, batch.targets))

        return jax.value_and_grad(mean_loss)(trained)

    mapped, forms = as_one_part(gradient, params, batch)
    return count_flops(mapped, *forms)


def measure_throughput(
    recipe: Recipe, source: Source, state: ReplicaState, replicas: Any, seconds: list[float]
) -> Throughput | None:
    """Returns the pace of a run; None where this process trained no epoch of it.

    The state and the values of replicas are arrays [replicas, ...]; `seconds` are those of each
    epoch of this process.
    """
    if not seconds:
        return None
    num_replicas = len(state.step)
    pace = num_replicas * source.num_examples / float(np.median(seconds[1:] or seconds))
    of_devices = [peak_flops(kind) for kind in recipe.layout.device_kinds]
    if None in of_devices:
        return Throughput(pace, None, None)
    params, replica = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), (state.params, replicas)
    )
    index = jax.ShapeDtypeStruct((recipe.batch_size,), jnp.int32)
    epoch = jax.ShapeDtypeStruct((), jnp.int32)
    batch = jax.eval_shape(source.fetch, source.arrays, replica, index, epoch)
    flops = gradient_flops(recipe, params, batch)
    peaks = {dtype: sum(p[dtype] for p in of_devices) for dtype in of_devices[0]}
    return Throughput(pace, None if flops is None else flops * pace / recipe.batch_size, peaks)
