"""Pairs (S, S') of figure 2.1 trained together, against a loop over the pairs."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

from benchmarks.measure import Contest
from lsa_jax import training
from lsa_jax.experiments.stability import linear
from lsa_jax.experiments.stability.samples import (
    ExamplePool,
    Pair,
    draw_order,
    draw_pair,
    start_key,
)
from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.parallel import ReplicaLayout
from lsa_jax.sweep.variants import set_fields

# Inputs are bytes, most of them 0, as those of MNIST; their values do not change the time.
_SEED, _PIXELS, _TEST = 0, 784, 1000


def contests(*, quick: bool) -> Iterator[Contest]:
    """Yields contests at two sizes, or at a tiny one if `quick`."""
    for m in (40,) if quick else (800, 12_800):
        yield _contest(m, num_pairs=2, num_steps=4 if quick else 4000)


def _pool(num_train: int) -> ExamplePool:
    rng = np.random.default_rng(_SEED)
    shape = (num_train + _TEST, _PIXELS)
    inputs = rng.integers(0, 256, shape, np.uint8) * (rng.random(shape) < 0.2)
    return ExamplePool(inputs, rng.choice([-1.0, 1.0], len(inputs)).astype(np.float32))


def _contest(m: int, num_pairs: int, num_steps: int) -> Contest:
    """Logistic regression on both samples of some pairs, from one start and in one order."""
    pool = _pool(4 * m)
    batch_size = min(128, m)
    config = set_fields(SETTINGS.default_config(), {"training.batch_size": batch_size})
    pairs = [
        draw_pair(_SEED, m, pair, num_train=4 * m, num_test=_TEST, perturbation="swap")
        for pair in range(num_pairs)
    ]
    order = draw_order(_SEED, m, batch_size, jnp.int32(0), num_steps)
    start = linear.init(start_key(_SEED), _PIXELS)
    ours, traced = _together(config, start, pairs, pool, order)
    return Contest(
        "logistic regression on S and S'",
        f"m = {m}, {num_steps} updates",
        num_pairs,
        ours,
        "pair after pair",
        {"a jitted step each": _one_by_one(config, start, pairs, pool, order)},
        traced,
    )


def _together(
    config: Any, start: Any, pairs: list[Pair], pool: ExamplePool, order: Array
) -> tuple[Callable, Callable]:
    """Returns the training of all pairs, and the same without moving results to the host."""
    layout = ReplicaLayout(len(pairs))
    program = layout.map(functools.partial(linear.advance, config), 2)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *pairs)
    models = jax.tree.map(lambda a: jnp.stack([a] * len(pairs)), start)
    shared = layout.share((pool, order, jnp.int32(len(order))))
    spread = layout.spread((models, stacked))
    on_devices = functools.partial(program, *spread, *shared)
    return lambda: jnp.asarray(layout.gather(on_devices()).w), on_devices


def _one_by_one(
    config: Any, start: Any, pairs: list[Pair], pool: ExamplePool, order: Array
) -> Callable:
    """Trains as a plain script would: a data set a sample, batches from the host, a call a step."""
    rule = optax.sgd(config.training.learning_rate)

    @jax.jit
    def step(params: Any, state: Any, inputs: Array, targets: Array) -> tuple[Any, Any]:
        def mean_loss(params: Any) -> Array:
            outputs = (inputs @ params[0] + params[1])[:, None]
            return jnp.mean(training.LOSSES["logistic"](outputs, targets))

        updates, state = rule.update(jax.grad(mean_loss)(params), state)
        return optax.apply_updates(params, updates), state

    positions = np.asarray(order)
    pixels = (pool.inputs / np.float32(255)).astype(np.float32)

    def train(pair: Pair, which: int) -> Array:
        rows = np.asarray(pair.sample).copy()
        rows[int(pair.position)] = int(pair.rows[which])
        inputs, targets = pixels[rows], pool.targets[rows]
        params = (start.w[which], jnp.zeros(()))
        state = rule.init(params)
        for batch in positions:
            params, state = step(params, state, inputs[batch], targets[batch])
        return params[0]

    def run() -> Array:
        return jnp.stack([jnp.stack([train(pair, which) for which in (0, 1)]) for pair in pairs])

    return run
