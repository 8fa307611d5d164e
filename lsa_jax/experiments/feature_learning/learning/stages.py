"""How the network starts: its draw, and two full-batch steps with rates of their own.

Everything here is of one replica, a function of its seed and settings.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
from jax import lax
from jaxtyping import Array, Float, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning.settings import rate_of
from lsa_jax.experiments.feature_learning.learning.tasks import PatternTask
from lsa_jax.experiments.feature_learning.streams import Learning
from lsa_jax.experiments.feature_learning.truncated_relu import (
    Params,
    truncated_relu_network,
)
from lsa_jax.models.model import Model
from lsa_jax.training.losses import hinge

# Full-batch steps that a learner starts with; the first counts of `steps` are theirs.
FIRST_STEPS = {"network": 2, "one_step": 1, "two_step": 2}


class LearnerReplica(NamedTuple):
    """What is one run's own.

    Attributes:
        key: the seed's key.
        train: examples to learn from.
        test: examples to measure with.
        direction: [p], the ground truth at length 1.
        output_std: of the initial a.
        rate: of all steps after the first ones.
    """

    key: Key[Array, ""]
    train: Dataset
    test: Dataset
    direction: Float[Array, " p"]
    output_std: Float[Array, ""]
    rate: Float[Array, ""]


def make_replica(config: ml_collections.ConfigDict, task: PatternTask) -> LearnerReplica:
    """Returns what is one run's own, from its settings and its task."""
    std = config.output_std
    if config.learner == "memorise":
        std = config.memorise.output_std
    elif std is None:
        std = task.scale**2 / (task.gamma * config.data.k**2)
    return LearnerReplica(
        jax.random.key(config.seed),
        task.train,
        task.test,
        jnp.asarray(task.direction),
        jnp.float32(std),
        jnp.float32(rate_of(config, config.learner)),
    )


def network_of(
    config: ml_collections.ConfigDict, replica: LearnerReplica, noise_std: float = 0.0
) -> Model:
    """Returns the network that all learners start from."""
    std = config.data.k**-0.5 if config.weight_std is None else config.weight_std
    return truncated_relu_network(
        config.m,
        weight_std=std,
        bias_std=config.bias_std,
        output_std=replica.output_std,
        noise_std=noise_std,
    )


def initial_params(
    config: ml_collections.ConfigDict, replica: LearnerReplica
) -> tuple[Params, Array]:
    """Draws the network.

    Returns:
        Its parameters as far as inputs reach them, w [p, 2 m], and the weights orthogonal to all
        inputs, [d - p, 2 m]: those that no gradient changes.
    """
    key = jax.random.fold_in(replica.key, Learning.INIT)
    params = network_of(config, replica).init(key, (config.data.d,))
    p = replica.direction.shape[0]
    return params | {"w": params["w"][:p]}, params["w"][p:]


def class_weights(targets: Float[Array, " n"]) -> Float[Array, " n"]:
    """Returns each example's weight: one over twice the share of its class.

    Source: Shi, Wei and Liang (2022), eq. 295.
    """
    positive = jnp.mean(targets > 0)
    return 0.5 / jnp.where(targets > 0, positive, 1 - positive)


def _full_gradient(
    config: ml_collections.ConfigDict, params: Params, replica: LearnerReplica
) -> Params:
    """Returns the gradient of the mean hinge loss over all examples, classes weighed if asked."""
    apply = network_of(config, replica, config.smoothing).apply
    inputs, targets = replica.train
    weights = jnp.ones_like(targets)
    if config.class_weights != "none":
        weights = class_weights(targets)
    pieces = jax.tree.map(
        lambda a: a.reshape(-1, config.batch_size, *a.shape[1:]), (inputs, targets, weights)
    )

    def loss(params: Params, piece: tuple[Array, Array, Array]) -> Array:
        inputs, targets, weights = piece
        return jnp.sum(weights * hinge(apply(params, inputs), targets)) / len(replica.train.targets)

    def add(total: Params, piece: tuple[Array, Array, Array]) -> tuple[Params, None]:
        return jax.tree.map(jnp.add, total, jax.grad(loss)(params, piece)), None

    return lax.scan(add, jax.tree.map(jnp.zeros_like, params), pieces)[0]


def first_stages(
    config: ml_collections.ConfigDict, replica: LearnerReplica
) -> list[tuple[Params, Float[Array, ""]]]:
    """Returns parameters and idle scale at the start, after step 1 and after step 2.

    Decay of 1 / (2 eta) makes w the gradient's step alone in step 1, and w and a in step 2. So the
    decayed start is left out rather than subtracted, which float32 would not do exactly; step 1
    keeps `leftover` times eta of it.

    Source: Shi, Wei and Liang (2022), section 3.1 and theorem 26; class weights: eq. 295.
    """
    start, _ = initial_params(config, replica)
    eta, kept = config.first_rate, config.leftover * config.first_rate
    slope = _full_gradient(config, start, replica)
    one = jax.tree.map(lambda p, g: p - eta * g, start, slope)
    one["w"] = kept * start["w"] - eta * slope["w"]
    slope = _full_gradient(config, one, replica)
    eta = config.second_rate
    if eta is None:
        moments = replica.train.inputs.T @ replica.train.inputs / len(replica.train.targets)
        squares = jnp.sum(slope["w"] * (moments @ slope["w"]), axis=0)
        alive = jnp.maximum(jnp.sum(squares > 0), 1)
        eta = config.feature_scale / jnp.sqrt(jnp.sum(squares) / alive)
    two = {
        "w": -eta * slope["w"],
        "b": one["b"] - eta * slope["b"],
        "a": -eta * slope["a"],
    }
    return [(start, jnp.float32(1)), (one, jnp.float32(kept)), (two, jnp.float32(0))]
