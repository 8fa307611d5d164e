"""Infinite-width kernels by Monte Carlo, also of layers without a formula, such as max pooling.

At infinite width the outputs of weights are Gaussian, the same process in every channel. So a layer
of weights computes their covariances K and the tangent kernel Theta from samples of its inputs, and
draws samples z ~ N(0, K) and tangents t ~ N(0, Theta) of them. Layers without weights act on
samples as on channels, and on tangents by their derivative J: the products of J t have the mean
J Theta J^T, as in the kernel's recursion.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax import arrays, kernels
from lsa_jax.checks import integer, one_of, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite.steps import Windows, shifted
from lsa_jax.models.layers.affine import Conv, Dense
from lsa_jax.models.layers.base import Layer, LayerModule
from lsa_jax.models.layers.composition import Concat, Residual, Serial
from lsa_jax.models.layers.elementwise import Dropout
from lsa_jax.models.layers.pooling import MaxPool
from lsa_jax.models.network import network


class _Samples(NamedTuple):
    """Features and tangents [n, ..., c], whose products, averaged over c, are K and Theta."""

    values: Array
    tangents: Array


def sampled_kernel(
    key: Key[Array, ""],
    layers: Sequence[Layer],
    x1: Float[Array | np.ndarray, "n1 ..."],
    x2: Float[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    get: Literal["ntk", "nngp"] = "ntk",
    samples: int = 1000,
    **stop: Any,
) -> kernels.MonteCarlo:
    """Estimates a network's kernel at infinite width, in the NTK parameterisation.

    It is for the networks whose `kernel` has no formula, and computes all pairs at once: a few
    hundred positions of examples in all. Layers are as `network` takes them, the last one dense;
    any but BatchNorm, Concat and Dropout. Each draw, number i of them with `jax.random.fold_in(key,
    i)`, has so many samples of every feature, and takes (n positions)^2 (samples + n positions)
    operations a layer. `stop` are `tolerance`, `min_draws` and `max_draws` of
    `kernels.monte_carlo_kernel`.

    Apart from the standard errors returned the mean is off by O(1 / samples), as covariances of a
    layer are those of finitely many samples of the one before.

    Raises:
        InputError: an argument is not accepted, or the draws do not fit the memory.
    """
    require("samples", samples, integer(2))
    require("get", get, one_of("ntk", "nngp"))
    first, second = arrays.input_pair(x1, x2, whole=False, empty=False)
    x = first if second is None else jnp.concatenate([first, second])
    model = network(layers)
    jax.eval_shape(lambda one: model.init(one, x.shape[1:]), jax.random.key(0))  # do layers fit?
    *before, last = layers or (None,)
    if not isinstance(last, Dense):
        raise InputError(f"layers end in {type(last).__name__}; accepted: Dense as the last layer")

    def rows(key: Key[Array, ""], x: Float[Array | np.ndarray, "n ..."]) -> Float[Array, "n c"]:
        start = _Samples(jnp.asarray(x), jnp.zeros(x.shape, x.dtype))
        features, tangents = _rows(last, _through(key, Serial(tuple(before)), start, samples))
        found = features if get == "nngp" else jnp.concatenate([features, tangents], axis=-1)
        return math.sqrt(found.shape[-1]) * found  # products are divided by their number

    found = kernels.monte_carlo_kernel(key, lambda own: own, rows, x, get="nngp", **stop)
    part = slice(None, len(first)), slice(0 if second is None else len(first), None)
    return found._replace(mean=found.mean[part], error=found.error[part])


def _through(key: Key[Array, ""], layer: Layer, given: _Samples, samples: int) -> _Samples:
    """Applies a layer to samples."""
    if isinstance(layer, Dense | Conv):
        return _drawn(key, *_rows(layer, given), samples)
    if isinstance(layer, Serial):
        for place, own in enumerate(layer.layers):
            given = _through(jax.random.fold_in(key, place), own, given, samples)
        return given
    if isinstance(layer, Residual):
        paths = zip(jax.random.split(key), (layer.branch, layer.shortcut), strict=True)
        ends = [_through(own, Serial(path), given, samples) for own, path in paths]
        shapes = [end.values.shape for end in ends]
        if shapes[0] != shapes[1]:
            raise InputError(
                "a path of Residual has the inputs themselves; accepted: weights before"
            )
        return _Samples(*map(jnp.add, *ends))
    has_samples = isinstance(layer, MaxPool) or layer.infinite("ntk") is not None
    if isinstance(layer, Concat | Dropout) or not has_samples:
        raise InputError(
            f"layers hold {type(layer).__name__}; accepted: any but BatchNorm, Concat and Dropout"
        )
    act = functools.partial(layer.finite, module=LayerModule(layer, "ntk", "float32"))
    return _Samples(*jax.jvp(act, (given.values,), (given.tangents,)))


def _rows(layer: Dense | Conv, given: _Samples) -> _Samples:
    """Returns rows whose products are K of a layer's outputs, and others of Theta - K."""

    def patches(x: Array) -> Array:
        if isinstance(layer, Dense):
            return x
        windows = Windows(layer.window, layer.strides, layer.padding)
        return jnp.concatenate(shifted(x, windows, [[1], [2]]), axis=-1)

    values, tangents = (layer.w_std * patches(x) for x in given)
    scale = 1 / math.sqrt(values.shape[-1])
    bias = jnp.full((*values.shape[:-1], 1), layer.b_std or 0.0, values.dtype)
    return _Samples(jnp.concatenate([scale * values, bias], axis=-1), scale * tangents)


def _drawn(key: Key[Array, ""], features: Array, tangents: Array, samples: int) -> _Samples:
    """Returns samples with the covariances of rows of features, and tangents likewise."""
    shape = features.shape[:-1]
    flat = [jnp.reshape(rows, (math.prod(shape), -1)) for rows in (features, tangents)]
    nngp, rest = (jnp.matmul(rows, rows.T, precision="highest") for rows in flat)

    def draw(key: Key[Array, ""], covariance: Array) -> Array:
        values, vectors = jnp.linalg.eigh(covariance)
        root = vectors * jnp.sqrt(jnp.maximum(values, 0))[None]
        normal = jax.random.normal(key, (len(root), samples), root.dtype)
        return jnp.matmul(root, normal, precision="highest").reshape(*shape, samples)

    return _Samples(*map(draw, jax.random.split(key), (nngp, nngp + rest)))
