"""The interface of layers, the module of their parameters, and checks of their windows."""

import abc
from math import prod, sqrt

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax._convolution import Padding
from lsa_jax.checks import Kind, integer, one_of, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import steps

PARAMETERIZATIONS = one_of("ntk", "standard", "mup")
DTYPES = one_of("float32", "bfloat16")
_PAIR = Kind(
    lambda pair: isinstance(pair, tuple) and len(pair) == 2 and all(map(integer(1).accepts, pair)),
    "a pair of whole numbers, each 1 or more",
    tuple,
)


class Layer(abc.ABC):
    """One step of a network, described apart from its parameters."""

    @abc.abstractmethod
    def finite(self, x: Float[Array, "n ..."], module: "LayerModule") -> Float[Array, "n ..."]:
        """Returns the outputs; parameters come from `module`."""

    @abc.abstractmethod
    def infinite(self, parameterization: str) -> tuple[steps.Step, ...] | None:
        """Returns the steps of this layer's infinite-width kernel; None without a limit."""


class LayerModule(nn.Module):
    """Holds the parameters of one layer, in its parameterisation and dtype.

    With fan_in the number of inputs to one output, a weight acts as w_std / sqrt(fan_in) * N(0, 1)
    and a bias as b_std * N(0, 1). In the "ntk" parameterisation the parameter is the N(0, 1) and
    the factor is part of the computation; in the "standard" one the parameter is the product.
    Jacot, Gabriel and Hongler (2018); Sohl-Dickstein et al. (2020).

    Attributes:
        layer: the description.
        parameterization: "ntk" or "standard".
        dtype: of the computation; parameters are float32.
        counted: [n], 1 for examples that count in statistics of the batch, 0 for examples that only
            fill it up; None counts all.
        fixed: whether `BatchNorm` takes the statistics that it is given.
    """

    layer: Layer
    parameterization: str
    dtype: str
    counted: Float[Array, " n"] | None = None
    fixed: bool = False

    @nn.compact
    def __call__(self, x: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Computes the layer's outputs."""
        return self.layer.finite(x, self)

    def run(self, layer: Layer, x: Float[Array, "n ..."], name: str) -> Float[Array, "n ..."]:
        """Computes a layer inside this one, with parameters of its own under `name`."""
        settings = self.parameterization, self.dtype, self.counted, self.fixed
        return LayerModule(layer, *settings, name=name)(x)

    def weight(self, shape: tuple[int, ...], std: float) -> Float[Array, "..."]:
        """Returns the weight [..., features] with its factor."""
        return self._gaussian("weight", shape, std / sqrt(prod(shape[:-1])))

    def add_bias(self, x: Float[Array, "... c"], std: float | None) -> Float[Array, "... c"]:
        """Adds one parameter a feature; none where `std` is None."""
        if std is None:
            return x
        return x + jnp.broadcast_to(self._gaussian("bias", x.shape[-1:], std), x.shape)

    def _gaussian(self, name: str, shape: tuple[int, ...], std: float) -> Array:
        drawn_std, factor = (1.0, std) if self.parameterization == "ntk" else (std, 1.0)
        parameter = self.param(name, nn.initializers.normal(drawn_std, jnp.float32), shape)
        return jnp.asarray(factor * parameter, self.dtype)


def shape_of(x: Array) -> str:
    """Returns an array's shape in words, with n for the number of examples."""
    return f"[{', '.join(['n', *map(str, x.shape[1:])])}]"


def check_windows(
    kind: str, window: tuple[int, int], strides: tuple[int, int], padding: Padding
) -> None:
    """Raises InputError unless windows, strides and padding are accepted."""
    require(f"{kind}.window", window, _PAIR)
    require(f"{kind}.strides", strides, _PAIR)
    require(f"{kind}.padding", padding, one_of("VALID", "SAME"))


def check_images(kind: str, x: Array) -> None:
    """Raises InputError unless inputs are images."""
    if x.ndim != 4:
        raise InputError(
            f"{kind} meets inputs {shape_of(x)}; accepted: [n, height, width, channels]"
        )


def check_fits(kind: str, x: Array, window: tuple[int, int], padding: Padding) -> None:
    """Raises InputError unless a window fits into the images."""
    check_images(kind, x)
    if padding == "VALID" and (x.shape[1] < window[0] or x.shape[2] < window[1]):
        raise InputError(
            f"images are {x.shape[1]} x {x.shape[2]} where {kind} has windows of "
            f"{window[0]} x {window[1]}; accepted: larger inputs, or padding='SAME'"
        )
