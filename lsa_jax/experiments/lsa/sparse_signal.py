"""The sparse-signal distribution: one row of an example carries the label, all others are noise."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import ArrayLike

from lsa_jax.data.dataset import Dataset


class Sample:
    """Random streams of a sample's key: noise, the signal's row, number and order of signs."""

    NOISE, ROW, COUNT, ORDER = range(4)


class SparseSignal(NamedTuple):
    """The distribution D(k, d, sigma, w*); an example has k noise rows and one signal row.

    Attributes:
        k: number of noise rows.
        sigma: standard deviation of the noise rows' entries.
        features: [m, d], orthonormal rows w*_1, ..., w*_m.
    """

    k: int
    sigma: float | Float[Array, ""]
    features: np.ndarray


def noise_std(k: int, noise_scale: float | Float[Array, ""]) -> float | Float[Array, ""]:
    """Returns sigma = noise_scale * log(k) / sqrt(k) (natural logarithm); the paper's scale is 1.

    Source: Karp et al. (2021), section 3. The sigma = 1 in the caption of figure 3 is this scale.
    """
    return noise_scale * (math.log(k) / math.sqrt(k))


def sparse_signal(
    k: int, d: int, sigma: float | Float[Array, ""], *, features: ArrayLike | None = None
) -> SparseSignal:
    """Describes the distribution D(k, d, sigma, w*).

    Args:
        k: number of noise rows.
        d: length of a row.
        sigma: standard deviation of the noise (see `noise_std`); may be traced by jax.
        features: w* as [d], or m <= d orthonormal features as [m, d]. The default, the first basis
            vector, is no restriction: the noise is rotation invariant.
    """
    rows = np.eye(1, d) if features is None else np.atleast_2d(features)
    return SparseSignal(k, sigma, np.asarray(rows, np.float32))


def _coefficients(key: Key[Array, ""], num_examples: int, m: int) -> Float[Array, "n m"]:
    """Draws alpha: m independent signs, given that they do not cancel, times 1 / sqrt(m)."""
    # The number of positive signs is binomial, m/2 left out; given it, every order is as likely.
    logits = jnp.asarray(
        [-math.inf if 2 * p == m else math.log(math.comb(m, p)) for p in range(m + 1)]
    )
    positive = jax.random.categorical(
        jax.random.fold_in(key, Sample.COUNT), logits, shape=(num_examples,)
    )
    order = jax.random.uniform(jax.random.fold_in(key, Sample.ORDER), (num_examples, m))
    place = jnp.argsort(order, axis=1)
    return jnp.where(place < positive[:, None], 1.0, -1.0) / math.sqrt(m)


def sample(key: Key[Array, ""], num_examples: int, distribution: SparseSignal) -> Dataset:
    """Draws independent examples.

    The k noise rows are N(0, sigma^2 I), and the signal row is uniformly one of the k + 1. With one
    feature it is y w*, y a fair sign. With m features it is sum_i alpha_i w*_i, and y is the sign
    of sum_i alpha_i. Our law of alpha: independent fair signs over sqrt(m), given that their sum is
    not zero.

    Returns:
        Inputs [n, k + 1, d] and targets [n], -1.0 or 1.0, a function of the arguments alone.

    Source: Karp et al. (2021), section 3, and the remark there for several features.
    """
    k, sigma, features = distribution
    m, d = features.shape
    alpha = _coefficients(key, num_examples, m)
    row = jax.random.randint(jax.random.fold_in(key, Sample.ROW), (num_examples,), 0, k + 1)
    noise = sigma * jax.random.normal(
        jax.random.fold_in(key, Sample.NOISE), (num_examples, k + 1, d)
    )
    signal = jnp.einsum("nm,md->nd", alpha, features, precision="highest")
    is_signal = jnp.arange(k + 1)[None] == row[:, None]
    inputs = jnp.where(is_signal[:, :, None], signal[:, None, :], noise)
    return Dataset(inputs, jnp.sign(jnp.sum(alpha, axis=1)))


def sample_unaligned(
    key: Key[Array, ""], num_examples: int, distribution: SparseSignal, stride: int
) -> Dataset:
    """Draws examples whose signal is not aligned with the rows that a filter sees.

    An example is a vector of (k + 1) d entries N(0, sigma^2), d neighbouring ones replaced by the
    signal y w*, w* the one feature, from an entry on that is uniform over all places where it fits.
    The rows are the vector's windows of d entries, one every `stride` entries, 1 to d; with a
    stride of d and the signal at a multiple of d it would be `sample`.

    Returns:
        Inputs [n, p, d] with p = floor(k d / stride) + 1, and targets [n], -1.0 or 1.0.

    Source: Karp et al. (2021), section 7, names the question; the distribution is ours.
    """
    k, sigma, features = distribution
    d = features.shape[1]
    length = (k + 1) * d
    start = jax.random.randint(jax.random.fold_in(key, Sample.ROW), (num_examples,), 0, k * d + 1)
    targets = jax.random.rademacher(
        jax.random.fold_in(key, Sample.COUNT), (num_examples,), dtype=jnp.float32
    )
    noise = sigma * jax.random.normal(jax.random.fold_in(key, Sample.NOISE), (num_examples, length))
    place = jnp.arange(length)[None] - start[:, None]
    signal = targets[:, None] * jnp.asarray(features[0])[jnp.clip(place, 0, d - 1)]
    vector = jnp.where((place >= 0) & (place < d), signal, noise)
    first = jnp.arange(0, k * d + 1, stride)
    return Dataset(vector[:, first[:, None] + jnp.arange(d)[None]], targets)
