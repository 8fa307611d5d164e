"""Residual networks for images of 32 x 32, as He et al. (2016) describe them for CIFAR-10."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.models import (
    BatchNorm,
    Conv,
    Dense,
    GlobalAvgPool,
    Layer,
    LayerModule,
    Relu,
    Residual,
    Serial,
)
from lsa_jax.models.layers.normalization import normalise_batch
from lsa_jax.models.model import Model
from lsa_jax.models.network import network

_GROUPS = ((1, 1), (2, 2), (4, 2))  # channels over the first group's, stride of the first block
_STATISTICS = "statistics"


@dataclass(frozen=True)
class GivenBatchNorm(BatchNorm):
    """Batch normalisation that uses given statistics, a flax collection, if there are any."""

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns (x - mean) / sqrt(variance + epsilon) * scale + shift, in float32."""
        features = x.shape[-1:]
        scale = module.param("scale", nn.initializers.ones, features, jnp.float32)
        shift = module.param("shift", nn.initializers.zeros, features, jnp.float32)
        wide, axes = x.astype(jnp.float32), tuple(range(x.ndim - 1))
        if module.has_variable(_STATISTICS, "mean"):
            mean = module.get_variable(_STATISTICS, "mean")
            variance = module.get_variable(_STATISTICS, "variance")
            factor = scale * lax.rsqrt(variance + self.epsilon)
            normed = (wide - _over(mean, x)) * _over(factor, x) + _over(shift, x)
            return normed.astype(x.dtype)
        if module.is_mutable_collection(_STATISTICS) and not module.is_initializing():
            module.put_variable(_STATISTICS, "mean", jnp.mean(wide, axis=axes))
            module.put_variable(_STATISTICS, "variance", jnp.var(wide, axis=axes))
        given = (self.epsilon, None, module.counted)
        return normalise_batch(wide, scale, shift, *given).astype(x.dtype)


@dataclass(frozen=True)
class PadChannels(Layer):
    """The shortcut without parameters: every `stride`-th pixel, channels filled up with zeros."""

    features: int  # channels of the output, no fewer than those of the input
    stride: int = 1  # step between pixels

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n p q f"]:
        """Returns the pixels with as many new channels before the old ones as after them."""
        more = self.features - x.shape[-1]
        pads = [(0, 0), (0, 0), (0, 0), (more // 2, more - more // 2)]
        return jnp.pad(x[:, :: self.stride, :: self.stride], pads)

    def infinite(self, parameterization: str) -> None:
        """Returns None: channels of zeros have no infinite-width limit."""


def cifar_resnet(depth: int = 20, num_classes: int = 10, *, channels: int = 16) -> Model:
    """Returns a ResNet-depth that uses the statistics of its batch; see `resnet_layers`."""
    layers = resnet_layers(depth, num_classes, channels=channels)
    return network(layers, parameterization="standard")


def resnet_layers(depth: int, num_classes: int, *, channels: int) -> tuple[Layer, ...]:
    """Returns a ResNet-depth: a convolution, and (depth - 2) / 6 blocks in each of three groups.

    A block adds conv-norm-ReLU-conv-norm (3 x 3) to its input and applies ReLU. Groups have 1, 2
    and 4 times `channels`; the first block of the second and of the third has stride 2, and a
    shortcut that fills up channels with zeros (option A). Last come the average over positions and
    a dense readout. Weights are drawn with variance 2 / fan-in.

    Source: He et al., Deep residual learning for image recognition (2016), section 4.2.
    """

    def conv(features: int, stride: int = 1) -> Conv:
        return Conv(features, (3, 3), (stride, stride), "SAME", sqrt(2))

    layers: list[Layer] = [conv(channels), GivenBatchNorm(), Relu()]
    width = channels
    for factor, group_stride in _GROUPS:
        for position in range((depth - 2) // 6):
            stride = group_stride if position == 0 else 1
            features = channels * factor
            branch = (conv(features, stride), GivenBatchNorm(), Relu())
            branch += (conv(features), GivenBatchNorm())
            shortcut = () if features == width and stride == 1 else (PadChannels(features, stride),)
            layers += [Residual(branch, shortcut), Relu()]
            width = features
    layers += [GlobalAvgPool(), Dense(num_classes, w_std=sqrt(2), b_std=0.0)]
    return tuple(layers)


def batch_statistics(layers: Sequence[Layer], params: Any, inputs: Float[Array, "n ..."]) -> Any:
    """Returns the means and variances of a batch in each `GivenBatchNorm`, a tree."""
    return _module(layers).apply({"params": params}, inputs, mutable=_STATISTICS)[1][_STATISTICS]


def apply_with(
    layers: Sequence[Layer], params: Any, statistics: Any, inputs: Float[Array, "n ..."]
) -> Float[Array, "n c"]:
    """Returns the outputs with these statistics in batch normalisation: each example by itself."""
    return _module(layers).apply({"params": params, _STATISTICS: statistics}, inputs)


def _module(layers: Sequence[Layer]) -> LayerModule:
    return LayerModule(Serial(tuple(layers)), "standard", "float32")


def _over(per_feature: Array | np.ndarray, x: Array) -> Array:
    return jnp.broadcast_to(per_feature, x.shape)
