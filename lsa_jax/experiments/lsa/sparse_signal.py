"""The sparse-signal distribution, whose rows are noise but for one, and the theory's network."""

import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import ArrayLike

from lsa_jax.data.dataset import Dataset
from lsa_jax.models.model import Model


class Sample:
    """Random streams of a sample's key: noise, the signal's row, number and order of signs."""

    NOISE, ROW, COUNT, ORDER = range(4)


class SparseSignal(NamedTuple):
    """The distribution D(k, d, sigma, w*): k noise rows of deviation sigma, and one signal row.

    `features` are orthonormal rows w*_1, ..., w*_m.
    """

    k: int
    sigma: float | Float[Array, ""]
    features: Float[np.ndarray, "m d"]


def noise_std(k: int, noise_scale: float | Float[Array, ""]) -> float | Float[Array, ""]:
    """Returns sigma = noise_scale * log(k) / sqrt(k) (natural logarithm); the paper's scale is 1.

    Source: Karp et al. (2021), section 3. The sigma = 1 in the caption of figure 3 is this scale.
    """
    return noise_scale * (math.log(k) / math.sqrt(k))


def sparse_signal(
    k: int, d: int, sigma: float | Float[Array, ""], *, features: ArrayLike | None = None
) -> SparseSignal:
    """Describes the distribution of k noise rows of length d; sigma may be traced by jax.

    `features` are w* as [d], or m <= d orthonormal features as [m, d]. The default, the first basis
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


def soft_threshold(z: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """Returns phi_b(z) = ReLU(z + b) - ReLU(-z + b): z at b = 0; for b < 0 zero in [b, -b]."""
    return jax.nn.relu(z + b) - jax.nn.relu(b - z)


def patch_cnn(filters: int = 1, *, init_scale: float = 1.0) -> Model:
    """The network f(X) = m^(-1/2) sum_j sum_i phi_{b_j}(<w_j, X_i>) of m filters.

    At initialisation b = 0 and w_j ~ N(0, init_scale^2 I). With one filter it is the network that
    the paper's Algorithm 1 trains, with d + 1 parameters.

    Kernels, with S = sum_i X_i. At b = 0 the network is linear, f(X) = m^(-1/2) sum_j <w_j, S>, so
    NNGP(X, X') = init_scale^2 <S, S'>. Its gradients are S / sqrt(m) in w_j and
    sum_i sign(<w_j, X_i>) / sqrt(m) in b_j. The mean product of the signs of two jointly Gaussian
    numbers of correlation rho is (2 / pi) arcsin(rho), so, whatever init_scale,
    NTK(X, X') = <S, S'> + (2 / pi) sum_{i, i'} arcsin(<X_i, X'_i'> / (|X_i| |X'_i'|)).
    That is the mean over initialisations at every m, and the limit as m grows.

    Returns the network of inputs [n, patches, d], with outputs [n, 1] and params {"w": [d, m],
    "b": [m]}. `kernel` takes O(n1 n2 patches^2) time and memory.

    Source: Karp et al. (2021), section 3 (network, Algorithm 1); the kernels are ours.
    """

    def init(key: Key[Array, ""], input_shape: tuple[int, int]) -> dict[str, Any]:
        w = init_scale * jax.random.normal(key, (input_shape[1], filters), jnp.float32)
        return {"w": w, "b": jnp.zeros(filters, jnp.float32)}

    def apply(
        params: dict[str, Any], inputs: Float[Array | np.ndarray, "n p d"]
    ) -> Float[Array, "n 1"]:
        z = jnp.tensordot(inputs, params["w"], axes=1)
        thresholded = soft_threshold(z, jnp.broadcast_to(params["b"], z.shape))
        return jnp.sum(thresholded, axis=(1, 2))[:, None] / math.sqrt(filters)

    @jax.default_matmul_precision("highest")
    def kernel(
        x1: Float[Array | np.ndarray, "n1 p1 d"],
        x2: Float[Array | np.ndarray, "n2 p2 d"] | None = None,
        get: Literal["ntk", "nngp"] = "ntk",
    ) -> Float[Array, "n1 n2"]:
        x2 = x1 if x2 is None else x2
        linear = jnp.sum(x1, axis=1) @ jnp.sum(x2, axis=1).T
        if get == "nngp":
            return init_scale**2 * linear
        rho = jnp.einsum("apd,bqd->abpq", _unit(x1), _unit(x2))
        return linear + 2 / jnp.pi * jnp.sum(jnp.arcsin(jnp.clip(rho, -1, 1)), axis=(2, 3))

    return Model(init, apply, kernel)


def _unit(x: Float[Array | np.ndarray, "n p d"]) -> Float[Array, "n p d"]:
    """Scales patches to length 1; a patch of zeros stays and adds nothing to the kernel."""
    norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return x / jnp.where(norm > 0, norm, 1)
