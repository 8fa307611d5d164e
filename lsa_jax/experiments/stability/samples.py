"""Pairs of samples S and S': the pool that they are drawn from, order, and the pair's quantities.

Karp (thesis, 2024), section 2.2. S is a uniform subset of the training pool, z a uniform test
example and i a uniform position; S' is S with z in place of its i-th example. All pairs of a size
are trained from one start and meet the positions 0 to m - 1 in one order.

Nothing is copied: a sample is the list of its examples' rows in one array that all pairs share.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from lsa_jax.data import images, resize
from lsa_jax.errors import InputError
from lsa_jax.experiments.stability.settings import LINEAR
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point

# Quantities of a pair, and their names in tables and figures.
QUANTITIES = {
    "loss_gap": "loss gap",
    "error_gap": "0-1 gap",
    "stability": "stability",
    "distance": "distance",
    "norm": "norm",
    "normalized_distance": "normalised distance",
}
MEASURES = (*QUANTITIES, "train_loss", "test_loss", "train_error", "test_error")

# Streams of a seed's key: the start, the order of batches, the samples of a pair.
_START, _ORDER, _SAMPLES = range(3)


class ExamplePool(NamedTuple):
    """The one copy of the examples that all samples point into."""

    # [n, ...], the training pool and after it the test examples; bytes or float32
    inputs: Shaped[Array | np.ndarray, "n ..."]
    # [n] signs or [n, classes] one-hot rows, in the same order
    targets: Float[Array | np.ndarray, "n ..."]


class Data(NamedTuple):
    """The examples of all points: rows and signs for linear models, images and one-hot rows."""

    pool: ExamplePool  # training pool, then test examples
    num_train: int  # size of the training pool

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the training pool and the test set, as `draw_pair` takes them."""
        count = self.num_train
        return {"num_train": count, "num_test": len(self.pool.targets) - count}


def make_data(config: Config, data_dir: Path | None) -> Data:
    """Reads the images and puts both splits in one pool.

    Linear models separate the first half of the classes, -1, from the second, 1.

    Raises:
        InputError: data are missing, or there are fewer test examples than the configuration needs.
    """
    found = images.load(config.data.dataset, data_dir)
    test, count = found.test, config.data.num_test
    if count is not None:
        if count > len(test.targets):
            raise InputError(
                f"config.data.num_test is {count}; accepted: 1 to {len(test.targets)}, or None"
            )
        draws = np.random.default_rng(config.data.test_seed).random(len(test.targets))
        chosen = np.sort(np.argsort(draws)[:count])
        test = test._replace(inputs=test.inputs[chosen], targets=test.targets[chosen])
    inputs = np.concatenate([found.train.inputs, test.inputs])
    inputs = pack(inputs if config.data.size is None else resize(inputs, config.data.size))
    labels = np.concatenate([found.train.targets, test.targets])
    classes = len(found.class_names)
    if config.learner in LINEAR:
        inputs = inputs.reshape(len(inputs), -1)
        targets = np.where(labels < classes / 2, -1.0, 1.0).astype(np.float32)
    else:
        targets = np.eye(classes, dtype=np.float32)[labels]
    return Data(ExamplePool(inputs, targets), len(found.train.targets))


def data_key(config: Config) -> str:
    """Returns a text that differs between data sets."""
    return json.dumps([config.data.to_dict(), config.learner in LINEAR], sort_keys=True)


def load(points: list[Point], data_dir: Path | None) -> dict[str, Data]:
    """Reads every data set that the points need once."""
    data: dict[str, Data] = {}
    for point in points:
        key = data_key(point.config)
        if key not in data:
            data[key] = make_data(point.config, data_dir)
        _check_size(point.config.m, data[key].num_train)
    return data


def _check_size(m: int, num_train: int) -> None:
    if m > num_train:
        raise InputError(f"config.m is {m}; accepted: at most the training pool's {num_train}")


class Pair(NamedTuple):
    """S and S', which share all positions but one."""

    sample: Int[Array, " m"]  # rows of S
    position: Int[Array, ""]  # i, where S' differs
    rows: Int[Array, "2"]  # the example at i, of S and of S'
    weights: Float[Array, "2"]  # its weight in either: 1, or 0 where it is removed


def start_key(seed: int) -> Key[Array, ""]:
    """Returns the key of the start that all models of a seed share."""
    return jax.random.fold_in(jax.random.key(seed), _START)


def draw_pair(
    seed: int, m: int, pair: int, *, num_train: int, num_test: int, perturbation: str
) -> Pair:
    """Draws one pair of samples of a trial; pairs of removal and swapping share S and i.

    With "removal" in place of "swap" S' is S without its i-th example.

    Raises:
        InputError: the pool is smaller than m.
    """
    _check_size(m, num_train)
    key = jax.random.fold_in(jax.random.key(seed), _SAMPLES)
    key = jax.random.fold_in(jax.random.fold_in(key, m), pair)
    of_sample, of_test, of_position = jax.random.split(key, 3)
    sample = jax.random.permutation(of_sample, num_train)[:m]
    position = jax.random.randint(of_position, (), 0, m)
    z = num_train + jax.random.randint(of_test, (), 0, num_test)
    rows = jnp.stack([sample[position], z])
    return Pair(sample, position, rows, jnp.array([1.0, float(perturbation == "swap")]))


def fetch_member(
    pair: Pair, which: int | Int[Array, ""], positions: Int[Array, " b"] | None = None
) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
    """Returns the rows of S (0) or S' (1), at all positions or some, and their weights."""
    positions = jnp.arange(len(pair.sample)) if positions is None else positions
    hit: Bool[Array, " b"] = positions == pair.position
    rows = jnp.where(hit, pair.rows[which], pair.sample[positions])
    return rows, jnp.where(hit, pair.weights[which], 1.0)


def draw_order(
    seed: int, m: int, batch_size: int, first_step: Int[Array, ""], num_steps: int
) -> Int[Array, "steps batch"]:
    """Returns the positions of some updates' examples.

    Each epoch is a new permutation of the m positions; the concatenated epochs are cut into
    batches. So all batches are full, and every epoch meets every position once. The first step may
    be traced.
    """
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), _ORDER), m)
    start, length = first_step * batch_size, num_steps * batch_size
    epoch = start // m
    epochs = epoch + jnp.arange(-(-length // m) + 1)
    orders = jax.vmap(lambda e: jax.random.permutation(jax.random.fold_in(key, e), m))(epochs)
    block = lax.dynamic_slice(orders.reshape(-1), (start - epoch * m,), (length,))
    return block.reshape(num_steps, batch_size)


def pack(inputs: Float[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "n ..."]:
    """Returns images as bytes where they are exactly bytes over 255; else as they are.

    A gather of bytes moves a quarter of the memory, and memory limits an update's speed on a CPU.
    """
    packed = np.rint(inputs * 255).astype(np.uint8)
    return packed if np.array_equal(packed.astype(np.float32) / 255, inputs) else inputs


def unpacked_scale(inputs: Shaped[Array | np.ndarray, "n ..."]) -> float:
    """Returns the factor that turns numbers of `pack` into pixels."""
    return 1 / 255 if inputs.dtype == jnp.uint8 else 1.0


def _squares(tree: Any) -> Float[Array, "2"]:
    """Returns the squared norm of each of two models, whose arrays are [2, ...]."""
    parts = [jnp.sum(jnp.square(a.reshape(2, -1)), axis=1) for a in jax.tree.leaves(tree)]
    return jnp.sum(jnp.stack(parts), axis=0)


def summarize(
    params: Any,
    test: tuple[Float[Array, "2 n"], Bool[Array, "2 n"]],
    train: tuple[Float[Array, " m"], Bool[Array, " m"]],
) -> dict[str, Float[Array, ""]]:
    """Returns the quantities of one pair of models with parameters [2, ...], by name.

    `test` and `train` have losses and wrong answers: of the test examples under A(S) and A(S'), of
    S under A(S). Gaps are test minus training, of A(S); `stability` is the largest difference of a
    test example's loss under both; `normalized_distance` is over the mean of both norms.

    Source: Karp (thesis, 2024), sections 2.1 and 2.3 and appendix A.3.
    """
    losses, wrong = test
    errors = jnp.mean(wrong[0], dtype=jnp.float32), jnp.mean(train[1], dtype=jnp.float32)
    test_loss, train_loss = jnp.mean(losses[0]), jnp.mean(train[0])
    norms = jnp.sqrt(_squares(params))
    difference = jax.tree.map(lambda a: (a[:1] - a[1:]).repeat(2, axis=0), params)
    distance = jnp.sqrt(_squares(difference)[0])
    return {
        "loss_gap": test_loss - train_loss,
        "error_gap": errors[0] - errors[1],
        "stability": jnp.max(jnp.abs(losses[0] - losses[1])),
        "distance": distance,
        "norm": norms[0],
        "normalized_distance": distance / jnp.mean(norms),
        "train_loss": train_loss,
        "test_loss": test_loss,
        "train_error": errors[1],
        "test_error": errors[0],
    }
