"""Networks and distributions of Algorithm 1: the paper's one filter, and extensions it names.

- `num_features`: the signal row is sum_i alpha_i w*_i, the label the sign of sum_i alpha_i. The
  w*_i are chosen so that sum_i w*_i / sqrt(r), which one filter can follow, is the first basis
  vector; the noise is rotation invariant, so this is no restriction.
- `separate_filters`: f(X) = sum_i a_1 ReLU(<w_1, X_i> + b_1) - a_2 ReLU(-<w_2, X_i> + b_2), where
  filters, thresholds and the final layer's weights a are all trained, a from 1.
- `stride`: the signal lies anywhere in a long vector, and the filter goes over it in small strides.
  There w* = (1, ..., 1) / sqrt(d): at b = 0 the network sees little but sums of entries, and a
  signal whose entries add up to zero would leave it no gradient to start with.

Source: Karp et al. (2021), section 3 (remark on several features) and section 7 (different filters,
a trained final layer, signal and filter that are not aligned). The details are ours.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lsa.patch_cnn import patch_cnn
from lsa_jax.experiments.lsa.signal.gradients import (
    Params,
    shortcut_gradient,
    shortcut_margins,
)
from lsa_jax.experiments.lsa.sparse_signal import sample, sample_unaligned, sparse_signal
from lsa_jax.training.losses import logistic


class TwoFilters(NamedTuple):
    """Parameters of the network with separate filters, or a gradient in them.

    Attributes:
        w: w_1 and w_2.
        b: b_1 and b_2.
        a: a_1 and a_2, weights of the final layer.
    """

    w: Float[Array, "2 d"]
    b: Float[Array, " 2"]
    a: Float[Array, " 2"]


class Sampler(NamedTuple):
    """Draws for training and testing.

    Attributes:
        gradient: `(key, params, sigma) -> (loss, gradient)` of a minibatch.
        margins: `(key, params, sigma) -> [n]`, y f(X) of fresh examples.
    """

    gradient: Callable
    margins: Callable


class Network(NamedTuple):
    """A network, with its learning rates and measures.

    Attributes:
        init: `(key, init_scale, d) -> params`.
        apply: `(params, inputs [n, p, d]) -> [n, 1]`.
        rates: `(eta_w, eta_b) -> tree like params`, the learning rate of every parameter.
        summary: `(params) -> Params`, the filter and threshold that are measured; linear, so that
            it applies to gradients too.
        details: `(params, signal) -> dict` of measures that only this network has.
    """

    init: Callable
    apply: Callable
    rates: Callable
    summary: Callable
    details: Callable


def _init_one(key: Key[Array, ""], init_scale: float, d: int) -> Params:
    params = patch_cnn(init_scale=init_scale).init(key, (1, d))
    return Params(params["w"][:, 0], params["b"][0])


def _init_two(key: Key[Array, ""], init_scale: float, d: int) -> TwoFilters:
    return TwoFilters(init_scale * jax.random.normal(key, (2, d)), jnp.zeros(2), jnp.ones(2))


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
    init=_init_two,
    apply=two_filters,
    rates=lambda eta_w, eta_b: TwoFilters(eta_w, eta_b, eta_w),
    summary=lambda params: Params(jnp.mean(params.w, axis=0), jnp.mean(params.b)),
    details=_details_of_two,
)


def make_network(config: ml_collections.ConfigDict) -> Network:
    """Returns the network that the settings describe."""
    return TWO_FILTERS if config.separate_filters else ONE_FILTER


def signal_vector(config: ml_collections.ConfigDict) -> Float[np.ndarray, " d"]:
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


def draw_examples(
    config: ml_collections.ConfigDict, key: Key[Array, ""], sigma: Float[Array, ""]
) -> Dataset:
    """Draws a minibatch of the distribution that the settings describe, every row of it."""
    if config.stride is not None:
        distribution = sparse_signal(config.k, config.d, sigma, features=signal_vector(config))
        return sample_unaligned(key, config.batch_size, distribution, config.stride)
    features = spread_features(config.num_features, config.d)
    distribution = sparse_signal(config.k, config.d, sigma, features=features)
    return sample(key, config.batch_size, distribution)


def make_sampler(config: ml_collections.ConfigDict) -> Sampler:
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
