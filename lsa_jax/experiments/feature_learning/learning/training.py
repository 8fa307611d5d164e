"""How each learner goes on after its first steps: minibatches, and measures on the way.

Everything here is of one replica; what is random is a function of (seed, step).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int, Key

from lsa_jax import kernels
from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning.stages import (
    FIRST_STEPS,
    LearnerReplica,
    class_weights,
    first_stages,
    initial_params,
    network_of,
)
from lsa_jax.experiments.feature_learning.streams import Learning
from lsa_jax.experiments.feature_learning.truncated_relu import Params
from lsa_jax.training.losses import hinge, is_correct
from lsa_jax.training.optimizers import make_optimizer, make_schedule
from lsa_jax.training.programs import join, split
from lsa_jax.training.segments import kept_if

# Parameters that stay as they are after the first steps.
_FROZEN = {
    "random_features": ("w", "b"),
    "one_step": ("w", "b"),
    "two_step": ("w", "b"),
    "ntk": ("initial",),
}

Row = dict[str, Float[Array, ""]]


class LearnerState(NamedTuple):
    """One run between two steps.

    Attributes:
        params: of the learner's model.
        opt_state: of its trained parameters.
        step: updates done; stays where it is once a loss was not finite.
        idle_scale: what is left of the initial weights orthogonal to all inputs, as a factor.
    """

    params: Any
    opt_state: Any
    step: Int[Array, ""]
    idle_scale: Float[Array, ""]


def total_steps(config: ml_collections.ConfigDict) -> int:
    """Returns the updates of a run in all."""
    if config.learner == "memorise":
        return config.memorise.epochs * (config.data.num_train // config.batch_size)
    return config.steps


def _optimizer(
    config: ml_collections.ConfigDict, replica: LearnerReplica
) -> optax.GradientTransformation:
    if config.learner == "memorise":
        steps_per_epoch = config.data.num_train // config.batch_size
        epochs = config.memorise.epochs
        schedule = make_schedule(
            "cosine", replica.rate, epochs=epochs, steps_per_epoch=steps_per_epoch
        )
        return make_optimizer("adam", schedule)
    return make_optimizer("momentum", replica.rate, momentum=config.momentum)


def _apply(config: ml_collections.ConfigDict, replica: LearnerReplica) -> Callable:
    """Returns the learner's model as `(params, inputs) -> outputs [n, 1]`."""
    apply = network_of(config, replica).apply
    if config.learner != "ntk":
        return apply

    def linear(params: dict[str, Any], x: Array) -> Array:
        expanded = kernels.linearize(apply, params["initial"], precision="default")
        return expanded(params["weights"], x)

    return linear


def start_states(config: ml_collections.ConfigDict, replica: LearnerReplica) -> LearnerState:
    """Returns the states of a run before its minibatches, along a first axis.

    One of a learner on fixed features or of a frozen stage, three of the network.
    """
    stages = [(initial_params(config, replica)[0], jnp.float32(1))]
    first = FIRST_STEPS.get(config.learner, 0)
    if first:
        stages = first_stages(config, replica)[: first + 1]
    if config.learner in ("one_step", "two_step"):
        stages = stages[-1:]
    states = []
    for place, (params, idle_scale) in enumerate(stages):
        step = first - len(stages) + 1 + place
        if config.learner == "ntk":
            params = {"initial": params, "weights": params}
        elif config.learner in ("random_features", "one_step", "two_step"):
            params = params | {"a": jnp.zeros_like(params["a"])}
        trained, _ = split(params, _FROZEN.get(config.learner, ()))
        opt_state = _optimizer(config, replica).init(trained)
        states.append(LearnerState(params, opt_state, jnp.int32(step), idle_scale))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def batch_rows(
    key: Key[Array, ""], first: Int[Array, ""], count: int, num_examples: int, batch_size: int
) -> Int[Array, "count batch"]:
    """Returns the examples of steps `first` to `first` + `count` - 1, reshuffled every epoch."""
    per_epoch = num_examples // batch_size
    epochs = first // per_epoch + jnp.arange(-(-count // per_epoch) + 1)
    orders = jax.vmap(
        lambda epoch: jax.random.permutation(jax.random.fold_in(key, epoch), num_examples)
    )(epochs)
    rows = orders[:, : per_epoch * batch_size].reshape(-1, batch_size)
    return lax.dynamic_slice_in_dim(rows, first % per_epoch, count)


def advance(
    config: ml_collections.ConfigDict,
    count: int,
    state: LearnerState,
    replica: LearnerReplica,
    num_steps: Int[Array, ""],
) -> tuple[LearnerState, Row]:
    """Takes up to `count` minibatch steps, then measures the run where it then stands.

    A step whose loss is not finite is not taken, nor is any after it.
    """
    apply, optimizer = _apply(config, replica), _optimizer(config, replica)
    frozen = _FROZEN.get(config.learner, ())
    first = state.step
    rows = batch_rows(
        jax.random.fold_in(replica.key, Learning.ORDER),
        first,
        count,
        len(replica.train.targets),
        config.batch_size,
    )

    weights = jnp.ones_like(replica.train.targets)
    if config.class_weights == "all_steps":
        weights = class_weights(replica.train.targets)

    def take(index: Array, carry: tuple[LearnerState, Array]) -> tuple[LearnerState, Array]:
        state, _ = carry
        inputs, targets = replica.train.inputs[rows[index]], replica.train.targets[rows[index]]
        trained, fixed = split(state.params, frozen)

        def mean_loss(trained: Params) -> Array:
            losses = hinge(apply(join(trained, fixed), inputs), targets)
            return jnp.mean(weights[rows[index]] * losses)

        value, gradient = jax.value_and_grad(mean_loss)(trained)
        updates, opt_state = optimizer.update(gradient, state.opt_state, trained)
        params = join(optax.apply_updates(trained, updates), fixed)
        going = jnp.isfinite(value) & (state.step == first + index)
        after = state._replace(params=params, opt_state=opt_state, step=state.step + 1)
        return kept_if(going, after, state), value

    state, loss = lax.fori_loop(0, num_steps, take, (state, jnp.float32(jnp.nan)))
    return state, {"batch_loss": loss} | measure(config, state, replica)


def accuracies(
    apply: Callable, params: Any, dataset: Dataset, batch_size: int
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Returns the accuracy and the mean of both classes' accuracies, in pieces of a batch."""
    count = len(dataset.targets)
    pieces = -(-count // batch_size)
    index = jnp.arange(pieces * batch_size).reshape(pieces, batch_size) % count

    def right(rows: Array) -> Array:
        return is_correct(apply(params, dataset.inputs[rows]), dataset.targets[rows])

    correct = lax.map(right, index).reshape(-1)[:count]
    positive = dataset.targets > 0
    balanced = jnp.mean(
        jnp.stack([jnp.sum(correct * side) / jnp.sum(side) for side in (positive, ~positive)])
    )
    return jnp.mean(correct), balanced


def cosines(
    weights: Float[Array, "p neurons"],
    idle: Float[Array, "q neurons"],
    direction: Float[Array, " p"],
) -> Float[Array, " neurons"]:
    """Returns each neuron's cosine with a direction of length 1; 0 for a weight of zero.

    Args:
        weights: coordinates of w_i in the space of the inputs.
        idle: those orthogonal to it.
        direction: in the space of the inputs.
    """
    # Weights after step 1 are as small as 1e-6: their squares must not underflow.
    largest = jnp.maximum(jnp.max(jnp.abs(weights)), jnp.max(jnp.abs(idle), initial=0.0))
    largest = jnp.where(largest > 0, largest, 1.0)
    weights, idle = weights / largest, idle / largest
    norms = jnp.sqrt(jnp.sum(weights**2, axis=0) + jnp.sum(idle**2, axis=0))
    return jnp.where(norms > 0, direction @ weights / jnp.where(norms > 0, norms, 1.0), 0.0)


def measure(config: ml_collections.ConfigDict, state: LearnerState, replica: LearnerReplica) -> Row:
    """Measures a run: accuracy, on training examples too, and how near neurons are to the truth.

    There are as many training examples as test ones, the first ones. The linearised network has no
    neurons that turn; its cosines are NaN.
    """
    apply, count = _apply(config, replica), len(replica.test.targets)
    first = Dataset(*(part[:count] for part in replica.train))
    accuracy, balanced = accuracies(apply, state.params, replica.test, config.batch_size)
    train_accuracy, _ = accuracies(apply, state.params, first, config.batch_size)
    row = {
        "train_accuracy": train_accuracy,
        "test_accuracy": accuracy,
        "test_balanced_accuracy": balanced,
    }
    names = ("cosine", "cosine_minus", "share_near")
    if config.learner == "ntk":
        return row | dict.fromkeys(names, jnp.float32(jnp.nan))
    idle = state.idle_scale * initial_params(config, replica)[1]
    found = cosines(state.params["w"], idle, replica.direction)
    near = jnp.abs(found) >= np.cos(np.deg2rad(config.angle))
    values = (jnp.max(found), jnp.max(-found), jnp.mean(near))
    return row | dict(zip(names, values, strict=True))
