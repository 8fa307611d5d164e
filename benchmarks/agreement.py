"""Kernels against those of other libraries in float64: differences and rates.

Infinite width: neural-tangents, layer by layer and for whole networks. Finite networks: the full
tangent kernel [n, n, c, c], against neural-tangents, nngeometry and torch.func, from the same
parameters. A library that is not installed is left out, with the reason.
"""

import importlib.util
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import pi, sqrt
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from benchmarks import torch_peers
from benchmarks.measure import Contest, Skipped
from benchmarks.works import FINITE_PEERS, LAYERS, NETWORKS
from lsa_jax import kernels, models
from lsa_jax._neural_tangents import empirical_ntk_fn, stax

_SEED, _CLASSES = 0, 10
_RELU_STD = sqrt(2)
Parameters = dict[str, Float[np.ndarray, "..."]]


class Description(NamedTuple):
    """A network in both libraries' descriptions."""

    ours: Sequence[models.Layer]
    theirs: Any  # the same network of neural-tangents


def contests(*, quick: bool) -> Iterator[Contest | Skipped]:
    """Yields contests, or the reasons for their absence; on few and tiny examples if `quick`."""
    rng = np.random.default_rng(_SEED)
    n, side = (3, 8) if quick else (64, 12)
    images, others = rng.standard_normal((2, n, side, side, 3))
    described = {f"layer {name}": _layer for name in LAYERS} | dict.fromkeys(NETWORKS, _network)
    for name, describe in described.items():
        for get in ("ntk", "nngp"):
            work = f"infinite {get.upper()}, {name}"
            if importlib.util.find_spec("neural_tangents") is None:
                yield Skipped(work, "neural-tangents is not installed; see docs/migrate.md")
            else:
                yield _infinite(work, describe(name.removeprefix("layer ")), (images, others), get)
    for network, peer in itertools.product(_FINITE, FINITE_PEERS):
        yield _finite(network, peer, images[:16], rng)


def _in_float64(function: Callable[..., Array], *arguments: Any) -> Callable[[], np.ndarray]:
    """Returns a call of a compiled function on arguments that keep their 64 bits."""
    compiled = jax.jit(function)

    def run() -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(compiled(*arguments))

    return run


def _infinite(
    work: str, described: Description, x: tuple[np.ndarray, np.ndarray], get: str
) -> Contest:
    """Between different examples; one with itself has two dropout masks here, and one there."""
    kernel = models.network(described.ours).kernel
    _, _, kernel_fn = described.theirs

    def theirs(x1: Array, x2: Array) -> Array:
        with warnings.catch_warnings():  # of branches that would not be independent
            warnings.simplefilter("ignore", UserWarning)
            return kernel_fn(x1, x2, get)

    return Contest(
        work,
        f"{len(x[0])} x {len(x[1])}, images {x[0].shape[1]} x {x[0].shape[2]}",
        len(x[0]) * len(x[1]),
        _in_float64(partial(kernel, get=get), *x),
        "neural-tangents",
        {"stax": _in_float64(theirs, *x)},
    )


def _layer(name: str) -> Description:
    """Returns a convolution, the layer of this name, and a readout."""
    conv, stax_conv = models.Conv(16, b_std=0.1), stax.Conv(16, (3, 3), padding="SAME", b_std=0.1)
    inner = (models.Relu(), models.Conv(16))
    stax_inner = stax.serial(stax.Relu(), stax.Conv(16, (3, 3), padding="SAME"))
    branches = stax.serial(stax.FanOut(2), stax.parallel(stax_inner, stax.Identity()))
    layers = {
        "Dense": ((), stax.Identity()),
        "Relu": ((models.Relu(),), stax.Relu()),
        "LeakyRelu": ((models.LeakyRelu(0.1),), stax.LeakyRelu(0.1)),
        "ABRelu": ((models.ABRelu(-1, 2),), stax.ABRelu(-1, 2)),
        "Abs": ((models.Abs(),), stax.Abs()),
        "Erf": ((models.Erf(),), stax.Erf()),
        "Gelu": ((models.Gelu(),), stax.Gelu()),
        "Sin": ((models.Sin(1, 2, 0.5),), stax.Sin(1, 2, 0.5)),
        "Cos": ((models.Sin(c=pi / 2),), stax.Cos()),
        "LayerNorm": ((models.LayerNorm(),), stax.LayerNorm()),
        "AvgPool": ((models.AvgPool(),), stax.AvgPool((2, 2), (2, 2))),
        "SumPool": ((models.SumPool(),), stax.SumPool((2, 2), (2, 2))),
        "Dropout": (
            (models.Relu(), models.Dropout(0.9)),
            stax.serial(stax.Relu(), stax.Dropout(0.9)),
        ),
        "Concat": ((models.Concat((inner, ())),), stax.serial(branches, stax.FanInConcat(-1))),
        "Residual": ((models.Residual(inner),), stax.serial(branches, stax.FanInSum())),
    }
    ours, theirs = layers[name]
    readout = [stax.Flatten(), stax.Dense(_CLASSES)]
    body = [models.Flatten(), models.Dense(_CLASSES)]
    return Description([conv, *ours, *body], stax.serial(stax_conv, theirs, *readout))


def _network(name: str) -> Description:
    """Returns one of the networks of `works.NETWORKS`."""
    conv = models.Conv(16, w_std=_RELU_STD)
    dense = models.Dense(16, w_std=_RELU_STD)
    stax_conv = stax.Conv(16, (3, 3), padding="SAME", W_std=_RELU_STD)
    strided = stax.Conv(16, (3, 3), (2, 2), "VALID", W_std=_RELU_STD)
    stax_dense = stax.Dense(16, W_std=_RELU_STD)
    ends, stax_ends = [models.Dense(_CLASSES)], [stax.Dense(_CLASSES)]
    two = [models.Conv(16, (3, 3), (2, 2), "VALID", _RELU_STD), models.Relu()] * 2
    networks = {
        "3-layer FC": (
            [models.Flatten(), *[dense, models.Relu()] * 3, *ends],
            [stax.Flatten(), *[stax_dense, stax.Relu()] * 3, *stax_ends],
        ),
        "CNN": (
            [*two, models.Flatten(), *ends],
            [*[strided, stax.Relu()] * 2, stax.Flatten(), *stax_ends],
        ),
        "CNN with global average pooling": (
            [*[conv, models.Relu()] * 2, models.GlobalAvgPool(), *ends],
            [*[stax_conv, stax.Relu()] * 2, stax.GlobalAvgPool(), *stax_ends],
        ),
    }
    ours, theirs = networks[name]
    return Description(ours, stax.serial(*theirs))


def _fully_connected(params: dict[str, Array], x: Array) -> Array:
    hidden = jax.nn.relu(x.reshape(len(x), -1) @ params["dense0"] + params["bias0"][None])
    return hidden @ params["dense1"] + params["bias1"][None]


def _convolutional(params: dict[str, Array], x: Array) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    for layer in ("conv0", "conv1"):
        x = lax.conv_general_dilated(x, params[layer], (2, 2), "VALID", dimension_numbers=layout)
        x = jax.nn.relu(x)
    return x.reshape(len(x), -1) @ params["dense0"] + params["bias0"][None]


def _draw(rng: np.random.Generator, shapes: dict[str, tuple[int, ...]]) -> Parameters:
    """Draws weights of variance 2 / (inputs of a unit), and biases of variance 0.01."""
    return {
        name: rng.standard_normal(shape) * (sqrt(2 / np.prod(shape[:-1])) if shape[1:] else 0.1)
        for name, shape in shapes.items()
    }


def _fully_connected_shapes(side: int) -> dict[str, tuple[int, ...]]:
    return {
        **{"dense0": (3 * side**2, 64), "bias0": (64,)},
        **{"dense1": (64, _CLASSES), "bias1": (_CLASSES,)},
    }


def _convolutional_shapes(side: int) -> dict[str, tuple[int, ...]]:
    left = ((side - 1) // 2 - 1) // 2  # positions on a side after both convolutions
    return {
        **{"conv0": (3, 3, 3, 16), "conv1": (3, 3, 16, 32)},
        **{"dense0": (32 * left**2, _CLASSES), "bias0": (_CLASSES,)},
    }


_FINITE = {
    "FC": (_fully_connected, _fully_connected_shapes),
    "CNN": (_convolutional, _convolutional_shapes),
}


def _finite(network: str, peer: str, x: np.ndarray, rng: np.random.Generator) -> Contest | Skipped:
    work = f"finite NTK, {network}, {peer}"
    modules = torch_peers.NEEDED.get(peer, ("neural_tangents",))
    lacking = [module for module in modules if importlib.util.find_spec(module) is None]
    if lacking:
        return Skipped(work, f"{' and '.join(lacking)} not installed")
    apply, shapes = _FINITE[network]
    params = _draw(rng, shapes(x.shape[1]))
    theirs = (
        _in_float64(empirical_ntk_fn(apply, trace_axes=(), vmap_axes=0), x, None, params)
        if peer == "neural-tangents"
        else torch_peers.full_ntk(peer, params, x)
    )
    ours = partial(kernels.empirical_ntk, apply, full=True)
    return Contest(
        work,
        f"{len(x)} x {len(x)}, {_CLASSES} x {_CLASSES} outputs",
        len(x) ** 2,
        _in_float64(ours, params, x),
        peer,
        {"full kernel": theirs},
    )
