"""The layers a network is described with, and the two ways in which a description is read.

A layer is a frozen dataclass with two short methods, and a third where it pays:

* `finite(x, module)` computes its outputs at finite width, as part of a flax module that holds its
  parameters;
* `infinite(parameterization)` returns the same layer of neural-tangents, whose kernel is exact at
  infinite width, or None where there is no such limit;
* `steps(parameterization)` returns the layer's steps for `kernels.recursion`, our own faster
  evaluation of that kernel. Without it, neural-tangents evaluates the networks that hold the layer.

A new layer is one such class; nothing else changes. A new nonlinearity derives from `Elementwise`,
which makes all three from the function and its duals. Images are [n, height, width, channels].
"""

import abc
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsa_jax._neural_tangents import stax
from lsa_jax.errors import InputError
from lsa_jax.kernels import recursion
from lsa_jax.models.arguments import require
from lsa_jax.models.convolution import Padding, convolve
from lsa_jax.settings.fields import Kind, integer, number, one_of, optional

PARAMETERIZATIONS = one_of("ntk", "standard")
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
    def infinite(self, parameterization: str) -> Any | None:
        """Returns neural-tangents' (init, apply, kernel) of this layer; None without a limit."""

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...] | None:
        """Returns the steps of this layer's kernel; None where neural-tangents is to compute it."""
        return None


class LayerModule(nn.Module):
    """Holds the parameters of one layer; the one place that knows parameterisation and dtype.

    With fan_in the number of inputs to one output, a weight acts as w_std / sqrt(fan_in) * N(0, 1)
    and a bias as b_std * N(0, 1). In the "ntk" parameterisation the parameter is the N(0, 1) and
    the factor is part of the computation; in the "standard" one the parameter is the product.
    Jacot, Gabriel and Hongler (2018); Sohl-Dickstein et al. (2020).

    Attributes:
        layer: what to compute.
        parameterization: "ntk" or "standard".
        dtype: what to compute in; parameters are float32.
    """

    layer: Layer
    parameterization: str
    dtype: str

    @nn.compact
    def __call__(self, x: Float[Array, "n ..."]) -> Float[Array, "n ..."]:
        """Computes the layer's outputs."""
        return self.layer.finite(x, self)

    def run(self, layer: Layer, x: Float[Array, "n ..."], name: str) -> Float[Array, "n ..."]:
        """Computes a layer inside this one, with parameters of its own under `name`."""
        return LayerModule(layer, self.parameterization, self.dtype, name=name)(x)

    def weight(self, shape: tuple[int, ...], std: float) -> Float[Array, "..."]:
        """Returns the weight [..., features] that the layer computes with."""
        return self._gaussian("weight", shape, std / sqrt(prod(shape[:-1])))

    def add_bias(self, x: Float[Array, "... c"], std: float | None) -> Float[Array, "... c"]:
        """Adds one parameter a feature; none where `std` is None."""
        if std is None:
            return x
        return x + jnp.broadcast_to(self._gaussian("bias", x.shape[-1:], std), x.shape)

    def _gaussian(self, name: str, shape: tuple[int, ...], std: float) -> Array:
        drawn_std, factor = (1.0, std) if self.parameterization == "ntk" else (std, 1.0)
        parameter = self.param(name, nn.initializers.normal(drawn_std, jnp.float32), shape)
        return (factor * parameter).astype(self.dtype)


@dataclass(frozen=True)
class Dense(Layer):
    """Fully connected along the last axis.

    Attributes:
        features: number of outputs.
        w_std: scale of the weights.
        b_std: scale of the biases; None for no biases.
    """

    features: int
    w_std: float = 1.0
    b_std: float | None = None

    def __post_init__(self) -> None:
        _check_affine(self)

    def finite(self, x: Float[Array, "... c"], module: LayerModule) -> Float[Array, "... f"]:
        """Returns x W + b."""
        weight = module.weight((x.shape[-1], self.features), self.w_std)
        return module.add_bias(jnp.tensordot(x, weight, axes=1), self.b_std)

    def infinite(self, parameterization: str) -> Any:
        """Returns the affine map of the kernels."""
        return stax.Dense(self.features, self.w_std, self.b_std, parameterization=parameterization)

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...] | None:
        """Returns one affine step; None for weights of size 0."""
        if self.w_std == 0:
            return None
        return (recursion.Affine(self.features, self.w_std, self.b_std, parameterization),)


@dataclass(frozen=True)
class Conv(Layer):
    """Convolution of images.

    Attributes:
        features: number of output channels.
        window: height and width of the filters.
        strides: step between windows.
        padding: "VALID" or "SAME".
        w_std: scale of the weights.
        b_std: scale of the biases; None for no biases.
    """

    features: int
    window: tuple[int, int] = (3, 3)
    strides: tuple[int, int] = (1, 1)
    padding: Padding = "SAME"
    w_std: float = 1.0
    b_std: float | None = None

    def __post_init__(self) -> None:
        _check_affine(self)
        _check_windows(self)

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n p q f"]:
        """Returns one output a window and channel.

        Raises:
            InputError: no window fits into the images.
        """
        _check_images("Conv", x)
        _check_fits(self, x)
        weight = module.weight((*self.window, x.shape[-1], self.features), self.w_std)
        return module.add_bias(convolve(x, weight, self.strides, self.padding), self.b_std)

    def infinite(self, parameterization: str) -> Any:
        """Returns the sum over windows of the kernels."""
        return stax.Conv(
            self.features,
            self.window,
            self.strides,
            self.padding,
            self.w_std,
            self.b_std,
            parameterization=parameterization,
        )

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...] | None:
        """Returns one affine step over windows; None for weights of size 0."""
        if self.w_std == 0:
            return None
        affine = recursion.Affine(self.features, self.w_std, self.b_std, parameterization)
        return (affine._replace(window=self.window, strides=self.strides, padding=self.padding),)


class Elementwise(Layer):
    """A nonlinearity phi of single numbers, given with its duals: what a new one derives from.

    A subclass is a frozen dataclass, so that equal ones share a compiled program.
    """

    @abc.abstractmethod
    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Applies phi to every number."""

    @abc.abstractmethod
    def duals(
        self,
        covariance: Float[Array, "..."],
        variance1: Float[Array, "..."],
        variance2: Float[Array, "..."],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns E[phi(z) phi(z')] and E[phi'(z) phi'(z')].

        Args:
            covariance: of the centred Gaussian numbers z and z'.
            variance1: of z; broadcasts against the covariance.
            variance2: of z'.
        """

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Applies phi to every number."""
        return self.phi(x)

    def infinite(self, parameterization: str) -> Any:
        """Returns the kernel that the duals make."""
        return stax.Elementwise(
            self.phi,
            lambda *moments: self.duals(*moments)[0],
            lambda *moments: self.duals(*moments)[1],
        )

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.Elementwise(self),)


@dataclass(frozen=True)
class Relu(Layer):
    """max(x, 0)."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns the positive part."""
        return jax.nn.relu(x)

    def infinite(self, parameterization: str) -> Any:
        """Returns the arc-cosine kernel."""
        return stax.Relu()

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.Rectifier(),)


@dataclass(frozen=True)
class LeakyRelu(Layer):
    """x where x > 0, slope x elsewhere.

    Attributes:
        slope: below zero.
    """

    slope: float = 0.01

    def __post_init__(self) -> None:
        require("LeakyRelu.slope", self.slope, number(0))

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns max(x, 0) + slope min(x, 0)."""
        return jax.nn.leaky_relu(x, self.slope)

    def infinite(self, parameterization: str) -> Any:
        """Returns the arc-cosine kernel of both halves."""
        return stax.LeakyRelu(self.slope)

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.Rectifier(self.slope),)


@dataclass(frozen=True)
class Erf(Layer):
    """The error function, a sigmoid."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns erf(x)."""
        return lax.erf(x)

    def infinite(self, parameterization: str) -> Any:
        """Returns the arc-sine kernel."""
        return stax.Erf()

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.ErrorFunction(),)


@dataclass(frozen=True)
class Gelu(Layer):
    """x times the probability that a standard normal number is below x."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns x (1 + erf(x / sqrt(2))) / 2."""
        return jax.nn.gelu(x, approximate=False)

    def infinite(self, parameterization: str) -> Any:
        """Returns the kernel of Tsuchida et al. (2021)."""
        return stax.Gelu()

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.GaussianError(),)


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Standardises the features at each position, without parameters.

    Its kernel is that of features with mean 0: it must follow weights.

    Attributes:
        epsilon: added to the variance.
    """

    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        require("LayerNorm.epsilon", self.epsilon, number(0, above=True))

    def finite(self, x: Float[Array, "... c"], module: LayerModule) -> Float[Array, "... c"]:
        """Returns (x - mean) / sqrt(variance + epsilon), statistics in float32."""
        return jax.nn.standardize(x.astype(jnp.float32), epsilon=self.epsilon).astype(x.dtype)

    def infinite(self, parameterization: str) -> Any:
        """Returns the kernel over the standard deviations."""
        return stax.LayerNorm(eps=self.epsilon)

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.LayerNorm(self.epsilon),)


@dataclass(frozen=True)
class Flatten(Layer):
    """Lays all features of an example in a row."""

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n c"]:
        """Returns [n, features]."""
        return x.reshape(x.shape[0], prod(x.shape[1:]))

    def infinite(self, parameterization: str) -> Any:
        """Returns the mean of the kernels over positions."""
        return stax.Flatten()

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.Flatten(),)


@dataclass(frozen=True)
class GlobalAvgPool(Layer):
    """Averages over all positions of an image."""

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n c"]:
        """Returns one mean a channel."""
        _check_images("GlobalAvgPool", x)
        return jnp.mean(x, axis=(1, 2))

    def infinite(self, parameterization: str) -> Any:
        """Returns the mean of the kernels over pairs of positions."""
        return stax.GlobalAvgPool()

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.Pool(None),)


@dataclass(frozen=True)
class AvgPool(Layer):
    """Averages over windows of an image.

    Attributes:
        window: height and width.
        strides: step between windows.
        padding: "VALID" or "SAME" (zeros around the image, which count in the average).
    """

    window: tuple[int, int] = (2, 2)
    strides: tuple[int, int] = (2, 2)
    padding: Padding = "VALID"

    def __post_init__(self) -> None:
        _check_windows(self)

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n p q c"]:
        """Returns one mean a window and channel.

        Raises:
            InputError: no window fits into the images.
        """
        _check_images("AvgPool", x)
        _check_fits(self, x)
        return nn.avg_pool(x, self.window, self.strides, self.padding)

    def infinite(self, parameterization: str) -> Any:
        """Returns the mean of the kernels over pairs of positions in two windows."""
        return stax.AvgPool(self.window, self.strides, self.padding)

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...]:
        """Returns one step."""
        return (recursion.Pool(self.window, self.strides, self.padding),)


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Standardises each feature over the batch, then scales and shifts it by parameters.

    The statistics are those of the batch at hand, in training and in evaluation; there are no
    running averages. So the outputs of an example depend on the others in its batch, and there is
    no kernel of pairs of examples to converge to: `infinite` is None.

    Attributes:
        batch_axis: name of the `pmap` axis over which a batch is split evenly; statistics are then
            those of the whole batch. None where each device has whole batches.
        epsilon: added to the variance.
    """

    batch_axis: str | None = None
    epsilon: float = 1e-5

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns (x - mean) / sqrt(variance + epsilon) * scale + shift, statistics in float32."""
        features = x.shape[-1:]
        scale = module.param("scale", nn.initializers.ones, features, jnp.float32)
        shift = module.param("shift", nn.initializers.zeros, features, jnp.float32)
        # Shapes are all that counts while parameters are made, and no device axis exists then.
        over_devices = self.batch_axis is not None and not module.is_initializing()

        def batch_mean(values: Array) -> Array:
            mean = jnp.mean(values, axis=tuple(range(x.ndim - 1)), keepdims=True)
            return lax.pmean(mean, self.batch_axis) if over_devices else mean

        centred = x.astype(jnp.float32)
        centred = centred - batch_mean(centred)
        normed = centred * lax.rsqrt(batch_mean(jnp.square(centred)) + self.epsilon)
        return (normed * _like(scale, x) + _like(shift, x)).astype(x.dtype)

    def infinite(self, parameterization: str) -> None:
        """Returns None: batch statistics have no infinite-width kernel here."""


@dataclass(frozen=True)
class Serial(Layer):
    """Layers one after another; none at all is the identity."""

    layers: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        for layer in self.layers:
            if not isinstance(layer, Layer):
                raise InputError(f"layers hold {layer!r}; accepted: instances of models.Layer")

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns the last layer's outputs; parameters are named Conv_0, Conv_1, Dense_0, ..."""
        for name, layer in self._named():
            x = module.run(layer, x, name)
        return x

    def infinite(self, parameterization: str) -> Any | None:
        """Returns the kernels' composition; None if a layer has no limit."""
        parts = [layer.infinite(parameterization) for layer in self.layers]
        if None in parts:
            return None
        return stax.serial(*parts) if parts else stax.Identity()

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...] | None:
        """Returns all steps; None if a layer has none."""
        parts = [layer.steps(parameterization) for layer in self.layers]
        return None if None in parts else tuple(itertools.chain.from_iterable(parts))

    def _named(self) -> Iterator[tuple[str, Layer]]:
        seen: Counter[str] = Counter()
        for layer in self.layers:
            kind = type(layer).__name__
            yield f"{kind}_{seen[kind]}", layer
            seen[kind] += 1


@dataclass(frozen=True)
class Residual(Layer):
    """The sum of two paths through the network.

    The kernel of a sum is the sum of the kernels because the paths' outputs are uncorrelated over
    initialisations. The weights of `branch` make them so; without any it would not hold.

    Attributes:
        branch: layers of the one path, with weights among them.
        shortcut: layers of the other path; none for the identity.
    """

    branch: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns branch(x) + shortcut(x).

        Raises:
            InputError: the two differ in shape, or the branch has no parameters.
        """
        branch = module.run(Serial(self.branch), x, "branch")
        if not module.has_variable("params", "branch"):
            raise InputError(
                f"Residual.branch is {self.branch}, without parameters; accepted: layers with "
                "weights, such as Conv or Dense, among them"
            )
        shortcut = module.run(Serial(self.shortcut), x, "shortcut")
        if branch.shape != shortcut.shape:
            raise InputError(
                f"Residual.branch gives {shape_of(branch)} and Residual.shortcut "
                f"{shape_of(shortcut)}; accepted: equal shapes"
            )
        return branch + shortcut

    def infinite(self, parameterization: str) -> Any | None:
        """Returns the sum of the kernels; None if a layer has no limit."""
        branch = Serial(self.branch).infinite(parameterization)
        shortcut = Serial(self.shortcut).infinite(parameterization)
        if branch is None or shortcut is None:
            return None
        return stax.serial(stax.FanOut(2), stax.parallel(branch, shortcut), stax.FanInSum())

    def steps(self, parameterization: str) -> tuple[recursion.Step, ...] | None:
        """Returns one step that holds those of both paths; None if a layer has none."""
        branch = Serial(self.branch).steps(parameterization)
        shortcut = Serial(self.shortcut).steps(parameterization)
        return None if branch is None or shortcut is None else (recursion.Sum(branch, shortcut),)


def _check_affine(layer: Dense | Conv) -> None:
    kind = type(layer).__name__
    require(f"{kind}.features", layer.features, integer(1))
    require(f"{kind}.w_std", layer.w_std, number(0))
    require(f"{kind}.b_std", layer.b_std, optional(number(0)))


def _check_windows(layer: "Conv | AvgPool") -> None:
    kind = type(layer).__name__
    require(f"{kind}.window", layer.window, _PAIR)
    require(f"{kind}.strides", layer.strides, _PAIR)
    require(f"{kind}.padding", layer.padding, one_of("VALID", "SAME"))


def _check_fits(layer: "Conv | AvgPool", x: Array) -> None:
    if layer.padding == "VALID" and any(
        size < window for size, window in zip(x.shape[1:3], layer.window, strict=True)
    ):
        kind = {Conv: "convolution", AvgPool: "pool"}[type(layer)]
        raise InputError(
            f"images are {x.shape[1]} x {x.shape[2]} where a {kind} has windows of "
            f"{layer.window[0]} x {layer.window[1]}; accepted: larger inputs, or padding='SAME'"
        )


def _check_images(kind: str, x: Array) -> None:
    if x.ndim != 4:
        raise InputError(
            f"{kind} meets inputs {shape_of(x)}; accepted: [n, height, width, channels]"
        )


def shape_of(x: Array) -> str:
    """Returns an array's shape in words, whatever its number of examples."""
    return f"[{', '.join(['n', *map(str, x.shape[1:])])}]"


def _like(per_feature: Array, x: Array) -> Array:
    return jnp.broadcast_to(per_feature, x.shape)
