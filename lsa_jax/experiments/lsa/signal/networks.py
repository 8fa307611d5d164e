"""Networks and samplers of Algorithm 1: the paper's one filter, and extensions it names.

The network is f(X) = sum_i phi_b(<w, X_i>) with phi_b(z) = ReLU(z + b) - ReLU(-z + b), and w* is
the first basis vector. Gradients of exactly the law of sampled rows (to the rounding of float32)
are drawn from far fewer numbers, one for each row that passes instead of d for each row:

1. As phi_b is odd, the margin y f(X) and the gradient have the law that they have at y = 1.
2. A noise row enters the margin, and the gradient along w and in b, only by z = <w, X_i>, which is
   N(0, sigma^2 |w|^2). Orthogonal to w the rows are independent of all z, so given the z the sum
   over rows and examples of r phi_b'(z) X_i, with r the derivative of an example's loss in its
   margin, is there N(0, sigma^2 sum r^2 phi_b'(z)^2): one vector for the whole batch.
3. For b < 0 a row with |z| <= -b has phi_b = 0 and no gradient. So only how many rows pass is
   drawn, Binomial(k, P(|z| > -b)), and then those rows' z from the normal law beyond the threshold.

Extensions, whose sampler draws every row and differentiates:

- `num_features`: the signal row is sum_i alpha_i w*_i, the label the sign of sum_i alpha_i. The
  w*_i are chosen so that sum_i w*_i / sqrt(r), which one filter can follow, is the first basis
  vector; the noise is rotation invariant, so this is no restriction.
- `separate_filters`: f(X) = sum_i a_1 ReLU(<w_1, X_i> + b_1) - a_2 ReLU(-<w_2, X_i> + b_2), where
  filters, thresholds and the final layer's weights a are all trained, a from 1.
- `stride`: the signal lies anywhere in a long vector, and the filter goes over it in small strides.
  There w* = (1, ..., 1) / sqrt(d): at b = 0 the network sees little but sums of entries, and a
  signal whose entries add up to zero would leave it no gradient to start with.

Source: Karp et al. (2021), section 3 (network, distribution; remark on several features) and
section 7 (different filters, a trained final layer, signal and filter that are not aligned). The
shortcut and the details are ours.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lsa.sparse_signal import (
    patch_cnn,
    sample,
    sample_unaligned,
    soft_threshold,
    sparse_signal,
)
from lsa_jax.sweep.fields import Config
from lsa_jax.training.losses import logistic

# Random streams of a batch's key: active rows, their noise, and noise across the filters' plane.
_COUNT, _ROWS, _ACROSS = range(3)

# Rows of every example drawn at once: few enough for the cache, enough to keep loops short.
_ROWS_AT_ONCE = 64

# The largest float32 below 1. Its quantile is where jax.random.normal ends too.
_BELOW_ONE = 1 - 2.0**-24


class Params(NamedTuple):
    """The d + 1 parameters, a filter and a threshold, or a gradient in them."""

    w: Float[Array, " d"]
    b: Float[Array, ""]


class _RowSums(NamedTuple):
    """Sums over an example's noise rows; u = z / (sigma |w|) is standard normal."""

    slope_u: Float[Array, " n"]  # of phi_b'(z) u
    slope_squared: Float[Array, " n"]  # of phi_b'(z)^2
    bias_slope: Float[Array, " n"]  # of the derivatives of phi_b(z) in b


def soft_threshold_slopes(
    z: Float[Array, "..."], b: Float[Array, ""]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Returns the derivatives of phi_b(z) in z and in b; ReLU'(0) = 0, as in `jax.nn.relu`."""
    rising = (z + b > 0).astype(jnp.float32)
    falling = (b - z > 0).astype(jnp.float32)
    return rising + falling, rising - falling


def _passing_normals(
    key: Key[Array, ""], probability: Float[Array, ""], shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """Draws standard normals u given |u| > t, where P(|u| > t) is the probability given."""
    v = jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
    # P(|u| <= x) = erf(x / sqrt(2)); given |u| > t it is uniform between 1 - probability and 1.
    quantile = jnp.minimum(1 - probability * jnp.abs(v), _BELOW_ONE)
    return jnp.where(v < 0, -math.sqrt(2), math.sqrt(2)) * lax.erf_inv(quantile)


def _sum_noise_rows(
    key: Key[Array, ""], scale: Float[Array, ""], b: Float[Array, ""], k: int, num_examples: int
) -> _RowSums:
    """Draws the sums over k rows with z ~ N(0, scale^2), for each example."""
    # At scale 0 the quotient is infinite and no row passes, as it should be.
    passes = jax.scipy.special.erfc(-b / (scale * math.sqrt(2)))
    probability = jnp.where(b < 0, passes, 1.0)
    count = jax.random.binomial(
        jax.random.fold_in(key, _COUNT), k, probability, shape=(num_examples,)
    )
    most = jnp.max(count)
    rows_key = jax.random.fold_in(key, _ROWS)
    block = jnp.arange(_ROWS_AT_ONCE)[:, None]

    def add_rows(carry: tuple[Array, _RowSums]) -> tuple[Array, _RowSums]:
        first, sums = carry
        u = _passing_normals(
            jax.random.fold_in(rows_key, first), probability, (_ROWS_AT_ONCE, num_examples)
        )
        z = scale * u
        slope, bias_slope = soft_threshold_slopes(z, b)
        rows = _RowSums(slope * u, jnp.square(slope), bias_slope)
        drawn = first + block < count[None]
        sums = jax.tree.map(
            lambda total, term: total + jnp.sum(jnp.where(drawn, term, 0.0), axis=0), sums, rows
        )
        return first + _ROWS_AT_ONCE, sums

    zeros = jnp.zeros(num_examples)
    start = (jnp.int32(0), _RowSums(zeros, zeros, zeros))
    return lax.while_loop(lambda carry: carry[0] < most, add_rows, start)[1]


def _margins(
    w: Float[Array, " d"], b: Float[Array, ""], scale: Float[Array, ""], noise: _RowSums
) -> Float[Array, " n"]:
    """Returns phi_b(w.w*) + sum of phi_b(z), as phi_b(z) = phi_b'(z) z + b (d/db) phi_b(z)."""
    return soft_threshold(w[0], b) + scale * noise.slope_u + b * noise.bias_slope


def shortcut_margins(
    key: Key[Array, ""], params: Params, sigma: Float[Array, ""], *, k: int, num_examples: int
) -> Float[Array, " n"]:
    """Draws the margins y f(X) of fresh examples, exactly in distribution."""
    w, b = params
    scale = sigma * jnp.linalg.norm(w)
    return _margins(w, b, scale, _sum_noise_rows(key, scale, b, k, num_examples))


def shortcut_gradient(
    key: Key[Array, ""], params: Params, sigma: Float[Array, ""], *, k: int, num_examples: int
) -> tuple[Float[Array, ""], Params]:
    """Draws the mean logistic loss of a minibatch and its gradient, exactly in distribution.

    The key is of this minibatch alone; sigma is of the k noise rows' entries. Takes
    O(n k P(|z| > -b)) time and O(n) memory for n examples.
    """
    w, b = params
    norm = jnp.linalg.norm(w)
    signal = jnp.zeros_like(w).at[0].set(1.0)
    # At w = 0 any direction has the same law: it only selects the coordinate drawn row by row.
    direction = jnp.where(norm > 0, w / jnp.where(norm > 0, norm, 1.0), signal)
    noise = _sum_noise_rows(key, sigma * norm, b, k, num_examples)
    margin = _margins(w, b, sigma * norm, noise)
    residual = -jax.nn.sigmoid(-margin)  # derivative of log(1 + exp(-margin))

    signal_slope, signal_bias_slope = soft_threshold_slopes(w[0], b)
    along = jnp.mean(residual * noise.slope_u)
    spread = jnp.sqrt(jnp.sum(jnp.square(residual) * noise.slope_squared)) / num_examples
    across = spread * jax.random.normal(jax.random.fold_in(key, _ACROSS), w.shape)
    across -= jnp.sum(across * direction) * direction
    gradient_w = jnp.mean(residual) * signal_slope * signal + sigma * (along * direction + across)
    gradient_b = jnp.mean(residual * (signal_bias_slope + noise.bias_slope))
    loss = jnp.mean(logistic(margin[:, None], jnp.ones_like(margin)))
    return loss, Params(gradient_w, gradient_b)


class TwoFilters(NamedTuple):
    """Parameters of the network with separate filters, or a gradient in them; a: last layer."""

    w: Float[Array, "2 d"]
    b: Float[Array, " 2"]
    a: Float[Array, " 2"]


class Sampler(NamedTuple):
    """`(key, params, sigma) -> (loss, gradient)` of a minibatch, and margins y f(X) of another."""

    gradient: Callable
    margins: Callable


class Network(NamedTuple):
    """A network, with its learning rates and measures.

    `summary` is of the filter and threshold that are measured; it is linear, so that it applies to
    gradients too. `details` are measures that only this network has.
    """

    init: Callable  # (key, init_scale, d) -> params
    apply: Callable  # (params, inputs [n, p, d]) -> [n, 1]
    rates: Callable  # (eta_w, eta_b) -> tree like params, the rate of every parameter
    summary: Callable  # (params) -> Params
    details: Callable  # (params, signal) -> dict


def _init_one(key: Key[Array, ""], init_scale: float, d: int) -> Params:
    params = patch_cnn(init_scale=init_scale).init(key, (1, d))
    return Params(params["w"][:, 0], params["b"][0])


def one_filter(params: Params, inputs: Float[Array, "n p d"]) -> Float[Array, "n 1"]:
    """Returns f(X) = sum_i phi_b(<w, X_i>)."""
    return patch_cnn().apply({"w": params.w[:, None], "b": params.b[None]}, inputs)


def two_filters(params: TwoFilters, inputs: Float[Array, "n p d"]) -> Float[Array, "n 1"]:
    """Returns f(X) = sum_i a_1 ReLU(<w_1, X_i> + b_1) - a_2 ReLU(-<w_2, X_i> + b_2)."""
    z_1, z_2 = (jnp.tensordot(inputs, w, axes=1) for w in params.w)
    rising = jnp.sum(jax.nn.relu(z_1 + params.b[0]), axis=1)
    falling = jnp.sum(jax.nn.relu(params.b[1] - z_2), axis=1)
    return (params.a[0] * rising - params.a[1] * falling)[:, None]


def _details_of_two(
    params: TwoFilters, signal: Float[Array | np.ndarray, " d"]
) -> dict[str, Array]:
    along = params.w @ signal
    pairs = {"w{}_dot_wstar": along, "b{}": params.b, "a{}": params.a}
    return {name.format(i + 1): pair[i] for name, pair in pairs.items() for i in (0, 1)}


ONE_FILTER = Network(
    init=_init_one,
    apply=one_filter,
    rates=Params,
    summary=lambda params: params,
    details=lambda params, signal: {},
)

TWO_FILTERS = Network(
    init=lambda key, init_scale, d: TwoFilters(
        init_scale * jax.random.normal(key, (2, d)), jnp.zeros(2), jnp.ones(2)
    ),
    apply=two_filters,
    rates=lambda eta_w, eta_b: TwoFilters(eta_w, eta_b, eta_w),
    summary=lambda params: Params(jnp.mean(params.w, axis=0), jnp.mean(params.b)),
    details=_details_of_two,
)


def make_network(config: Config) -> Network:
    """Returns the network that the settings describe."""
    return TWO_FILTERS if config.separate_filters else ONE_FILTER


def signal_vector(config: Config) -> Float[np.ndarray, " d"]:
    """Returns w*, or with several features their sum over its length."""
    if config.stride is None:
        return np.eye(1, config.d, dtype=np.float32)[0]
    return np.full(config.d, config.d**-0.5, np.float32)


def spread_features(num_features: int, d: int) -> Float[np.ndarray, "r d"]:
    """Returns orthonormal features whose sum over sqrt(r) is the first basis vector."""
    basis = np.eye(num_features)
    basis[:, 0] = 1
    features = np.linalg.qr(basis)[0]
    features *= np.sign(features[0, 0])
    return np.pad(features, ((0, 0), (0, d - num_features)))


def draw_examples(config: Config, key: Key[Array, ""], sigma: Float[Array, ""]) -> Dataset:
    """Draws a minibatch of the distribution that the settings describe, every row of it."""
    if config.stride is not None:
        distribution = sparse_signal(config.k, config.d, sigma, features=signal_vector(config))
        return sample_unaligned(key, config.batch_size, distribution, config.stride)
    features = spread_features(config.num_features, config.d)
    distribution = sparse_signal(config.k, config.d, sigma, features=features)
    return sample(key, config.batch_size, distribution)


def make_sampler(config: Config) -> Sampler:
    """Returns the sampler of the settings, of minibatches of their size."""
    if config.sampler == "shortcut":
        sizes = {"k": config.k, "num_examples": config.batch_size}
        draws = (shortcut_gradient, shortcut_margins)
        return Sampler(*(functools.partial(draw, **sizes) for draw in draws))
    network = make_network(config)

    def mean_loss(params: tuple, examples: Dataset) -> Float[Array, ""]:
        return jnp.mean(logistic(network.apply(params, examples.inputs), examples.targets))

    def gradient(key: Key[Array, ""], params: tuple, sigma: Float[Array, ""]) -> tuple:
        return jax.value_and_grad(mean_loss)(params, draw_examples(config, key, sigma))

    def margins(key: Key[Array, ""], params: tuple, sigma: Float[Array, ""]) -> Array:
        examples = draw_examples(config, key, sigma)
        return examples.targets * network.apply(params, examples.inputs)[:, 0]

    return Sampler(gradient, margins)
