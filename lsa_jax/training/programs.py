"""Compiled programs: initialise one replica, train it for an epoch, and evaluate it.

An epoch is one scan over its batches. Everything random is a function of (key, epoch).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax
from jaxtyping import Array, ArrayLike, Int, Key

from lsa_jax.data.dataset import Dataset, checked_dataset
from lsa_jax.models.model import ExampleShape, Model, accepted
from lsa_jax.parallel import Layout
from lsa_jax.training.optimizers import descend
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

        Args:
            data: a data set or a source.
            name: of the argument, for messages.

        Raises:
            InputError: a data set's arrays are not accepted, or differ in length.
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
        """Returns the source without its arrays, which a program would keep in memory.

        jax keeps programs for as long as the process lives.
        """
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
    """One replica between two epochs.

    Attributes:
        params: parameters, frozen ones included.
        opt_state: the optimiser's state for the trained parameters.
        step: updates done; constant from the first loss that was not finite.
        epoch: epochs done.
    """

    params: PyTree
    opt_state: PyTree
    step: Array
    epoch: Array


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

    Args:
        key: of the run.
        step: number of steps due before.
        first: place in the batch of a device's first example, so that devices draw other masks.
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

        state, losses = lax.scan(step, state, (due, *batches))
        return state._replace(epoch=epoch + 1), jnp.mean(losses)

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
