"""Linear models on S and S' side by side: both read one batch, which is gathered once.

f(x) = <w, x> + b on rows of pixels, targets +1 and -1; logistic loss, or half the squared error.
An update takes one gather and four products of a matrix with a vector. The gather and the turning
of bytes into floats take almost all of its time, so a pair shares them: the example in which S and
S' differ is left out of the batch's products and added by itself, in both models alike, so that
equal samples give equal bits.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from lsa_jax import backend
from lsa_jax.experiments.stability.samples import (
    ExamplePool,
    Pair,
    fetch_member,
    summarize,
    unpacked_scale,
)
from lsa_jax.parallel import in_one_kernel
from lsa_jax.sweep.fields import Config
from lsa_jax.training import LOSSES


class LinearModels(NamedTuple):
    """The models of S and of S'."""

    w: Float[Array, "2 d"]  # weights of the inputs
    b: Float[Array, "2"]  # biases


# Of outputs [n] and signs [n].
_LOSSES = {
    "logistic": lambda outputs, signs: LOSSES["logistic"](outputs[:, None], signs),
    "linear_regression": lambda f, signs: LOSSES["squared_error"](f[:, None], signs[:, None]),
}


def init(key: Key[Array, ""], num_inputs: int) -> LinearModels:
    """Returns two copies of one start: Glorot's uniform weights, bias 0."""
    limit = (6 / (num_inputs + 1)) ** 0.5
    w = jax.random.uniform(key, (num_inputs,), minval=-limit, maxval=limit)
    return LinearModels(jnp.stack([w, w]), jnp.zeros(2))


def _outputs(models: LinearModels, inputs: Float[Array, "n d"], scale: float) -> Array:
    """Returns [2, n]; one product a model, as XLA's for one vector are the fast ones on a CPU."""
    products = [inputs @ (scale * w) for w in models.w]
    return jnp.stack(products) + models.b[:, None]


def advance(
    config: Config,
    models: LinearModels,
    pair: Pair,
    pool: ExamplePool,
    order: Int[Array, "steps batch"],
    count: Int[Array, ""],
) -> LinearModels:
    """Takes the first `count` updates of `order` on both models."""
    if backend.is_cpu():
        # Pairs run one after the other there, so this is one sample's memory, not that of all.
        pair, pool = _own_copy(pair, pool)
    loss, rate = _LOSSES[config.learner], config.training.learning_rate
    scale = unpacked_scale(pool.inputs)

    def slope(outputs: Float[Array, "2 n"], targets: Float[Array, "2 n"]) -> Float[Array, "2 n"]:
        return jax.grad(lambda f: jnp.sum(jax.vmap(loss)(f, targets)))(outputs)

    def descend(
        models: LinearModels, pair: Pair, pool: ExamplePool, order: Array, count: Array
    ) -> LinearModels:
        own = pool.inputs[pair.rows].astype(jnp.float32)
        own_targets = pool.targets[pair.rows]

        def take(step: Int[Array, ""], models: LinearModels) -> LinearModels:
            positions = order[step]
            rows = pair.sample.at[positions].get(mode="promise_in_bounds")
            # With bounds unchecked, as rows are: checks cost more than the copy.
            inputs = pool.inputs.at[rows].get(mode="promise_in_bounds").astype(jnp.float32)
            targets = pool.targets.at[rows].get(mode="promise_in_bounds")
            hit = positions == pair.position
            hits = jnp.sum(hit)
            both = jnp.broadcast_to(targets[None], (2, len(targets)))
            slopes = slope(_outputs(models, inputs, scale), both)
            slopes = jnp.where(hit[None], 0.0, slopes)
            own_outputs = jnp.sum(own * (scale * models.w), axis=1) + models.b
            own_slopes = slope(own_outputs[:, None], own_targets[:, None])[:, 0]
            own_slopes = own_slopes * pair.weights * hits
            examples = len(targets) - hits * (1 - pair.weights)
            gradient = jnp.stack([s @ inputs for s in slopes]) + own_slopes[:, None] * own
            step_size = rate / examples
            return LinearModels(
                models.w - (step_size * scale)[:, None] * gradient,
                models.b - step_size * (jnp.sum(slopes, axis=1) + own_slopes),
            )

        return lax.fori_loop(0, count, take, models)

    return in_one_kernel(descend)(models, pair, pool, order, count)


def _own_copy(pair: Pair, pool: ExamplePool) -> tuple[Pair, ExamplePool]:
    """Returns the same pair in a pool of its own examples.

    Rows of all of MNIST are so far apart in memory that an update would take half as long again.
    """
    rows = jnp.concatenate([pair.sample, pair.rows])
    m = len(pair.sample)
    own = pair._replace(sample=jnp.arange(m), rows=jnp.arange(m, m + 2))
    return own, ExamplePool(pool.inputs[rows], pool.targets[rows])


def measure(
    config: Config, num_train: int, models: LinearModels, pair: Pair, pool: ExamplePool
) -> tuple[dict[str, Float[Array, ""]], Bool[Array, " test"]]:
    """Returns the quantities of one pair, see `samples.summarize`, and correct answers."""
    loss, scale = _LOSSES[config.learner], unpacked_scale(pool.inputs)

    def evaluate(inputs: Array, targets: Array) -> tuple[Array, Array]:
        outputs = _outputs(models, inputs.astype(jnp.float32), scale)
        losses = jax.vmap(loss, (0, None))(outputs, targets)
        return losses, outputs * targets[None] <= 0

    rows, _ = fetch_member(pair, 0)
    test = evaluate(pool.inputs[num_train:], pool.targets[num_train:])
    train = evaluate(pool.inputs[rows], pool.targets[rows])
    return summarize(models, test, (train[0][0], train[1][0])), ~test[1][0]
