"""Which examples S and S' hold, and in which order SGD meets them.

Karp (thesis, 2024), section 2.2. S is a uniform subset of the training pool, z a uniform test
example and i a uniform position; S' is S with z in place of its i-th example. All pairs of a size
are trained from one start and meet the positions 0 to m - 1 in one order.

Nothing is copied: a sample is the list of its examples' rows in one array that all pairs share.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int, Key, Shaped

from lsa_jax.errors import InputError
from lsa_jax.experiments.stability.streams import Stability


class ExamplePool(NamedTuple):
    """The one copy of the examples that all samples point into.

    Attributes:
        inputs: [n, ...], the training pool and after it the test examples; bytes or float32.
        targets: [n] signs or [n, classes] one-hot rows, in the same order.
    """

    inputs: Shaped[Array | np.ndarray, "n ..."]
    targets: Float[Array | np.ndarray, "n ..."]


class Pair(NamedTuple):
    """S and S', which share all positions but one.

    Attributes:
        sample: rows of S.
        position: i, where S' differs.
        rows: what is met at i, of S and of S'.
        weights: how much it counts in either: 1, or 0 where it is removed.
    """

    sample: Int[Array, " m"]
    position: Int[Array, ""]
    rows: Int[Array, "2"]
    weights: Float[Array, "2"]


def start_key(seed: int) -> Key[Array, ""]:
    """Returns the key of the start that all models of a seed share."""
    return jax.random.fold_in(jax.random.key(seed), Stability.START)


def draw_pair(
    seed: int, m: int, pair: int, *, num_train: int, num_test: int, perturbation: str
) -> Pair:
    """Draws one pair of samples; those of removal and swapping share S and i.

    Args:
        seed: of the trial.
        m: size of S.
        pair: number among the pairs of this size.
        num_train: rows 0 to num_train - 1 are the training pool.
        num_test: the next rows are the test examples.
        perturbation: "swap", or "removal": S' is S without its i-th example.

    Raises:
        InputError: the pool is smaller than m.
    """
    if m > num_train:
        raise InputError(f"config.m is {m}; accepted: at most the training pool's {num_train}")
    key = jax.random.fold_in(jax.random.key(seed), Stability.SAMPLES)
    key = jax.random.fold_in(jax.random.fold_in(key, m), pair)
    of_sample, of_test, of_position = jax.random.split(key, 3)
    sample = jax.random.permutation(of_sample, num_train)[:m]
    position = jax.random.randint(of_position, (), 0, m)
    z = num_train + jax.random.randint(of_test, (), 0, num_test)
    rows = jnp.stack([sample[position], z])
    return Pair(sample, position, rows, jnp.array([1.0, float(perturbation == "swap")]))


def member(pair: Pair, which: int | Int[Array, ""]) -> tuple[Int[Array, " m"], Float[Array, " m"]]:
    """Returns the rows of S (0) or S' (1) and their weights."""
    return fetch_member(pair, which, jnp.arange(len(pair.sample)))


def fetch_member(
    pair: Pair, which: int | Int[Array, ""], positions: Int[Array, " b"]
) -> tuple[Int[Array, " b"], Float[Array, " b"]]:
    """Returns the rows of S (0) or S' (1) at some positions, and their weights."""
    hit: Bool[Array, " b"] = positions == pair.position
    rows = jnp.where(hit, pair.rows[which], pair.sample[positions])
    return rows, jnp.where(hit, pair.weights[which], 1.0)


def draw_order(
    seed: int, m: int, batch_size: int, first_step: Int[Array, ""], num_steps: int
) -> Int[Array, "steps batch"]:
    """Returns the positions that some updates meet.

    A fresh permutation of the m positions an epoch; the epochs laid one after the other are cut
    into batches. So all batches are full, and every epoch meets every position once.

    Args:
        seed: of the trial.
        m: size of the samples.
        batch_size: positions an update.
        first_step: the first of the updates; may be traced.
        num_steps: how many.
    """
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), Stability.ORDER), m)
    start, length = first_step * batch_size, num_steps * batch_size
    epoch = start // m
    epochs = epoch + jnp.arange(-(-length // m) + 1)
    orders = jax.vmap(lambda e: jax.random.permutation(jax.random.fold_in(key, e), m))(epochs)
    block = lax.dynamic_slice(orders.reshape(-1), (start - epoch * m,), (length,))
    return block.reshape(num_steps, batch_size)


def pack(inputs: Float[np.ndarray, "n ..."]) -> Shaped[np.ndarray, "n ..."]:
    """Returns images as bytes where they are exactly bytes over 255; else as they are.

    A gather of bytes moves a quarter of the memory, which is what an update on a CPU waits for.
    """
    packed = np.rint(inputs * 255).astype(np.uint8)
    return packed if np.array_equal(packed.astype(np.float32) / 255, inputs) else inputs


def unpacked_scale(inputs: Shaped[Array | np.ndarray, "n ..."]) -> float:
    """Returns what numbers of `pack` are multiplied with."""
    return 1 / 255 if inputs.dtype == jnp.uint8 else 1.0
