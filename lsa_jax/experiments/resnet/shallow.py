"""Two- and three-layer networks on vectors, with or without a skip and a bottleneck.

With s the ReLU, h = s(Wx + b1) and m the width:

| net | output | hidden matrices |
|---|---|---|
| "2layer" | A h | |
| "3layer" | A s(U h + b2) | U of m x m |
| "3layer_bottleneck" | A s(V R h + b2) | V of m x k, R of k x m |
| "3resnet" | A h + A s(V A h + b2) | V of m x k; A is also the output's |
| "3resnet_full" | A h + A s(U h + b2) | U of m x m |

Parameters are a flat dictionary; matrices multiply rows from the right. Entries, biases too, start
as N(0, std^2), std = 1/sqrt(m) for "width", 1/sqrt(fan_in) for "fan_in" and 1/(sqrt(fan_in) +
sqrt(fan_out)) for "fans", where a bias counts as a weight of its layer. "mixed" is "width" for U
and its biases, and "fans" for all others.

`kernel` is the limit of the gradients' products as m grows ("ntk"), or of the products of
last-layer features ("nngp"); there is none for "fan_in". Except for "width" limits are reached
slowly, with an error of order sqrt(d/m). The signal behind a bottleneck of k << m vanishes in the
limit: "3resnet" is then a two-layer network plus constants, and "3layer_bottleneck" is constant, so
that its kernel is None.
"""

from math import sqrt
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from lsa_jax.kernels.infinite import correlations, pointwise
from lsa_jax.models.model import Model

Params = dict[str, Float[Array, "..."]]


def shallow(
    net: str,
    width: int,
    num_outputs: int,
    *,
    init: Literal["width", "fan_in", "fans", "mixed"] = "width",
) -> Model:
    """Returns a network of m = `width` units on inputs [n, d]; `num_outputs` is k.

    Source: Allen-Zhu and Li (2019), eq. 2.1 and sections 6 (U = VA) and 8.1 with its footnote
    (initialisations); kernels by the usual recursion (Jacot et al., 2018).
    """

    def initialise(key: Key[Array, ""], input_shape: tuple[int, ...]) -> Params:
        params = {}
        shapes = _shapes(net, input_shape[0], width, num_outputs)
        for place, (name, (shape, fan_in)) in enumerate(sorted(shapes.items())):
            # By name: other matrices are square too where d or k is m.
            of_u = name == "u" or (name == "b2" and "u" in shapes)
            law = ("width" if of_u else "fans") if init == "mixed" else init
            fans = 1 / (sqrt(fan_in) + sqrt(shape[-1]))
            std = {"width": 1 / sqrt(width), "fan_in": 1 / sqrt(fan_in), "fans": fans}[law]
            params[name] = std * jax.random.normal(jax.random.fold_in(key, place), shape)
        return params

    def apply(params: Params, inputs: Float[Array, "n d"]) -> Float[Array, "n k"]:
        return last_features(net, params, inputs) @ params["a"]

    def kernel(
        x1: Float[Array, "n1 d"],
        x2: Float[Array, "n2 d"] | None = None,
        get: Literal["ntk", "nngp"] = "ntk",
    ) -> Float[Array, "n1 n2"]:
        # Of the m x m matrix and its biases, times m.
        variance = 1 / 4 if init == "fans" else 1.0
        return _limit(net, x1, x1 if x2 is None else x2, get, variance)

    has_limit = init != "fan_in" and net != "3layer_bottleneck"
    return Model(initialise, apply, kernel if has_limit else None)


def first_features(params: Params, inputs: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """Returns s(Wx + b1)."""
    return jax.nn.relu(_affine(inputs, params["w"], params["b1"]))


def last_features(net: str, params: Params, inputs: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """Returns the inputs of the output layer A; of "3resnet" they depend on A itself."""
    h = first_features(params, inputs)
    if net == "2layer":
        return h
    if net == "3layer":
        return jax.nn.relu(_affine(h, params["u"], params["b2"]))
    if net == "3layer_bottleneck":
        return jax.nn.relu(_affine(h @ params["r"], params["v"], params["b2"]))
    if net == "3resnet":
        return h + jax.nn.relu(_affine(h @ params["a"], params["v"], params["b2"]))
    return h + jax.nn.relu(_affine(h, params["u"], params["b2"]))


def _shapes(
    net: str, d: int, width: int, num_outputs: int
) -> dict[str, tuple[tuple[int, ...], int]]:
    """Returns shape and fan-in of each parameter."""
    shapes = {"w": ((d, width), d), "b1": ((width,), d), "a": ((width, num_outputs), width)}
    if net in ("3layer", "3resnet_full"):
        shapes |= {"u": ((width, width), width), "b2": ((width,), width)}
    if net in ("3resnet", "3layer_bottleneck"):
        shapes |= {"v": ((num_outputs, width), num_outputs), "b2": ((width,), num_outputs)}
    if net == "3layer_bottleneck":
        shapes |= {"r": ((width, num_outputs), width)}
    return shapes


def _affine(
    x: Float[Array, "n c"], weight: Float[Array, "c f"], bias: Float[Array, " f"]
) -> Float[Array, "n f"]:
    return x @ weight + bias[None]


def _limit(
    net: str, x1: Float[Array, "n1 d"], x2: Float[Array, "n2 d"], get: str, variance: float
) -> Float[Array, "n1 n2"]:
    """Returns the limit of the kernel as the width grows, where entries have variance 1/m.

    `variance` is m times that of the entries of U and b2, where there is a U.
    """
    k0, v1, v2 = x1 @ x2.T + 1, jnp.sum(x1**2, axis=1) + 1, jnp.sum(x2**2, axis=1) + 1
    s1, d1 = relu_duals(k0, v1, v2)
    if net == "2layer":
        return s1 if get == "nngp" else s1 + d1 * k0
    if net == "3resnet":
        # V A h vanishes; the ReLU of b2 has mean 1 / sqrt(2 pi) and second moment 1 / 2.
        features = s1 + 1 / 2 + _means(v1, v2, jnp.ones_like(v1), jnp.ones_like(v2))
        return features if get == "nngp" else features + 1 / 2 + d1 * k0
    k1, u1, u2 = s1 + 1, v1 / 2 + 1, v2 / 2 + 1
    s2, d2 = relu_duals(variance * k1, variance * u1, variance * u2)
    passed = variance * d2 * d1 * k0
    if net == "3layer":
        return s2 if get == "nngp" else s2 + d2 * k1 + passed
    features = s1 + s2 + _means(v1, v2, variance * u1, variance * u2)
    return features if get == "nngp" else features + d2 * k1 + d1 * k0 + passed


def _means(v1: Array, v2: Array, u1: Array, u2: Array) -> Float[Array, "n1 n2"]:
    """Returns E[h] E[r'] + E[r] E[h'] for ReLUs h, r of Gaussians of variances v and u."""
    h1, h2, r1, r2 = map(jnp.sqrt, (v1, v2, u1, u2))
    return (h1[:, None] * r2[None] + r1[:, None] * h2[None]) / (2 * jnp.pi)


def relu_duals(
    covariance: Float[Array, "n1 n2"],
    variance1: Float[Array, " n1"],
    variance2: Float[Array, " n2"],
) -> tuple[Float[Array, "n1 n2"], Float[Array, "n1 n2"]]:
    """Returns E[s(z) s(z')] and E[s'(z) s'(z')] for Gaussian z, s the ReLU.

    Source: Cho and Saul (2009), orders 1 and 0.
    """
    std1, std2 = jnp.sqrt(variance1)[:, None], jnp.sqrt(variance2)[None]
    tolerance = 8 * float(jnp.finfo(covariance.dtype).eps)
    cosine = correlations.cosine(covariance, 1 / std1, 1 / std2, tolerance)
    return pointwise.Relu().duals(cosine, std1, std2)
