"""Networks on S and S', one after the other: ResNets, and ResNets linearised at their start.

Batch normalisation standardises by the batch in training. In evaluation it uses the mean of the
statistics of the first batches of the model's own sample, at its final parameters, so that an
example's loss does not depend on the other examples. The linearised network keeps the statistics of
its start on the training pool: its loss is convex in its parameters.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key

from lsa_jax import kernels
from lsa_jax.experiments.stability.cifar_resnet import cifar_resnet
from lsa_jax.experiments.stability.samples import (
    ExamplePool,
    Pair,
    fetch_member,
    summarize,
    unpacked_scale,
)
from lsa_jax.sweep.fields import Config
from lsa_jax.training import LOSSES, make_optimizer

Tree = Any
_loss = LOSSES["softmax_cross_entropy"]


class NetworkLearner(NamedTuple):
    """A network, trained and evaluated with different statistics."""

    init: Callable  # `key -> params`
    fixed: Callable  # `(params at the start, inputs) -> tree` that all models share and none trains
    train: Callable  # `(params, fixed, inputs) -> outputs` on the statistics of the batch
    context: Callable  # `(params, inputs) -> tree`: the statistics for evaluation, from one batch
    evaluate: Callable  # `(params, fixed, context, inputs) -> outputs`


class Members(NamedTuple):
    """Both models of a pair between two updates; arrays are [2, ...]."""

    params: Tree  # of both models
    opt_state: Tree  # the optimiser's
    finite: Bool[Array, "2"]  # False once a loss was not finite


def make_learner(config: Config, input_shape: tuple[int, ...], num_classes: int) -> NetworkLearner:
    """Returns the network of a configuration."""
    model = cifar_resnet(config.model.depth, num_classes, channels=config.model.channels)

    def init(key: Key[Array, ""]) -> Tree:
        return model.init(key, input_shape)

    if config.learner == "resnet":
        return NetworkLearner(
            init,
            lambda params, inputs: {},
            lambda params, fixed, inputs: model.apply(params, inputs),
            model.statistics,
            lambda params, fixed, context, inputs: model.apply(params, inputs, statistics=context),
        )

    def linearized(params: Tree, fixed: Tree, inputs: Array) -> Array:
        def apply(weights: Tree, x: Array) -> Array:
            return model.apply(weights, x, statistics=fixed["statistics"])

        return kernels.linearize(apply, fixed["initial"], precision="default")(params, inputs)

    return NetworkLearner(
        init,
        lambda params, inputs: {"initial": params, "statistics": model.statistics(params, inputs)},
        linearized,
        lambda params, inputs: {},
        lambda params, fixed, context, inputs: linearized(params, fixed, inputs),
    )


def _images(pool: ExamplePool, rows: Int[Array, " n"]) -> Float[Array, "n h w c"]:
    return pool.inputs[rows].astype(jnp.float32) * unpacked_scale(pool.inputs)


class Networks(NamedTuple):
    """The training of pairs of networks; arrays that no model trains are `fixed`."""

    config: Config
    learner: NetworkLearner
    num_train: int  # size of the training pool

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """SGD with the configuration's momentum and falls of the rate."""
        training = self.config.training
        falls = dict.fromkeys(training.decay_steps, training.decay_factor)
        rate = optax.piecewise_constant_schedule(training.learning_rate, falls)
        name = "momentum" if training.momentum else "sgd"
        options = {"momentum": training.momentum, "weight_decay": training.weight_decay}
        return make_optimizer(name, rate, **options)

    def init(self, key: Key[Array, ""]) -> Members:
        """Returns two copies of one start."""
        params = self.learner.init(key)
        start = (params, self.optimizer.init(params), jnp.array(True))
        return Members(*jax.tree.map(lambda a: jnp.stack([a, a]), start))

    def advance(
        self,
        members: Members,
        pair: Pair,
        pool: ExamplePool,
        fixed: Tree,
        order: Int[Array, "steps batch"],
        count: Int[Array, ""],
    ) -> Members:
        """Takes the first `count` updates of `order` on one model, then on the other.

        A model stops before the update whose loss is not finite.
        """
        optimizer = self.optimizer

        def train(arguments: tuple[Int[Array, ""], Members]) -> Members:
            which, start = arguments

            def take(step: Int[Array, ""], state: Members) -> Members:
                rows, weights = fetch_member(pair, which, order[step])
                inputs, targets = _images(pool, rows), pool.targets[rows]

                def mean_loss(params: Tree) -> Array:
                    losses = _loss(self.learner.train(params, fixed, inputs), targets)
                    return jnp.sum(weights * losses) / jnp.sum(weights)

                value, gradient = jax.value_and_grad(mean_loss)(state.params)
                updates, opt_state = optimizer.update(gradient, state.opt_state, state.params)
                finite = state.finite & jnp.isfinite(value)
                after = Members(optax.apply_updates(state.params, updates), opt_state, finite)
                kept = jax.tree.map(lambda new, old: jnp.where(finite, new, old), after, state)
                return kept._replace(finite=finite)

            return lax.fori_loop(0, count, take, start)

        return lax.map(train, (jnp.arange(2), members))

    def _context(self, params: Tree, pool: ExamplePool, rows: Array) -> Tree:
        """Returns the statistics for evaluation: the mean over the sample's first batches."""
        size = min(self.config.training.batch_size, len(rows))
        batches = min(self.config.model.statistics_batches, len(rows) // size)
        parts = lax.map(
            lambda index: self.learner.context(params, _images(pool, index)),
            rows[: batches * size].reshape(batches, size),
        )
        return jax.tree.map(lambda a: jnp.mean(a, axis=0), parts)

    def _evaluate(
        self, params: Tree, fixed: Tree, context: Tree, pool: ExamplePool, rows: Int[Array, " n"]
    ) -> tuple[Float[Array, " n"], Bool[Array, " n"]]:
        """Returns the losses of examples, and whether their predictions are wrong."""
        size = min(self.config.eval_batch_size, len(rows))
        count = -(-len(rows) // size)
        padded = rows[jnp.arange(count * size) % len(rows)].reshape(count, size)

        def batch(index: Int[Array, " b"]) -> tuple[Array, Array]:
            outputs = self.learner.evaluate(params, fixed, context, _images(pool, index))
            targets = pool.targets[index]
            # Not a number is no right answer.
            right = jnp.argmax(outputs, axis=1) == jnp.argmax(targets, axis=1)
            return _loss(outputs, targets), ~right | jnp.isnan(outputs).any(axis=1)

        losses, wrong = lax.map(batch, padded)
        return losses.reshape(-1)[: len(rows)], wrong.reshape(-1)[: len(rows)]

    def measure(
        self, members: Members, pair: Pair, pool: ExamplePool, fixed: Tree
    ) -> tuple[dict[str, Float[Array, ""]], Bool[Array, " test"]]:
        """Returns the quantities of one pair, see `samples.summarize`, and correct answers.

        All quantities are not-a-number where a model stopped at a loss that was not finite.
        """
        test = jnp.arange(self.num_train, len(pool.targets))
        # Both models on both parts at once: the losses of A(S') on S are not used, but cost little.
        rows, count = jnp.concatenate([test, pair.sample]), len(test)

        def one(arguments: tuple[Int[Array, ""], Tree]) -> tuple[Array, Array]:
            which, params = arguments
            context = self._context(params, pool, fetch_member(pair, which)[0])
            return self._evaluate(params, fixed, context, pool, rows)

        losses, wrong = lax.map(one, (jnp.arange(2), members.params))
        on_test = losses[:, :count], wrong[:, :count]
        on_train = losses[0, count:], wrong[0, count:]
        found, going = summarize(members.params, on_test, on_train), jnp.all(members.finite)
        numbers = {name: jnp.where(going, value, jnp.nan) for name, value in found.items()}
        return numbers, ~wrong[0, :count]

    def connect(
        self, members: Members, pair: Pair, pool: ExamplePool, fixed: Tree
    ) -> dict[str, Float[Array, " alphas"]]:
        """Returns the accuracy on S and on the test set at alpha W_S + (1 - alpha) W_S'.

        Source: Karp (thesis, 2024), section 2.4.2; Frankle et al. (2020).
        """
        path = self.config.connectivity
        sample = pair.sample[: path.num_train]
        test = jnp.arange(self.num_train, len(pool.targets))[: path.num_test]
        rows, count = jnp.concatenate([sample, test]), len(sample)

        def end(arguments: tuple[Int[Array, ""], Tree]) -> Tree:
            which, params = arguments
            return self._context(params, pool, fetch_member(pair, which)[0])

        ends = lax.map(end, (jnp.arange(2), members.params))

        def at(alpha: Float[Array, ""]) -> dict[str, Array]:
            def between(both: Tree) -> Tree:
                return jax.tree.map(lambda a: alpha * a[0] + (1 - alpha) * a[1], both)

            params = between(members.params)
            if path.statistics == "recomputed":
                context = self._context(params, pool, pair.sample)
            else:
                # Beyond the ends a variance could fall below zero.
                context = jax.tree_util.tree_map_with_path(_no_negative_variance, between(ends))
            _, wrong = self._evaluate(params, fixed, context, pool, rows)
            return {
                "train_accuracy": 1 - jnp.mean(wrong[:count], dtype=jnp.float32),
                "test_accuracy": 1 - jnp.mean(wrong[count:], dtype=jnp.float32),
            }

        return lax.map(at, jnp.asarray(alphas(self.config)))


def alphas(config: Config) -> Float[np.ndarray, " alphas"]:
    """Returns equally spaced places on the line through both models, from -1 to 2."""
    places = np.linspace(-1, 2, config.connectivity.num_alphas)
    # Rounded, so that 0 and 1, the models, are exact.
    return places.round(12).astype(np.float32)


def _no_negative_variance(path: tuple, leaf: Array) -> Array:
    return jnp.maximum(leaf, 0.0) if path[-1].key == "variance" else leaf
