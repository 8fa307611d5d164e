"""Residual networks for images of 32 x 32, as He et al. (2016) describe them for CIFAR-10."""

from dataclasses import dataclass
from math import sqrt

import jax.numpy as jnp
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
)
from lsa_jax.models.model import Model
from lsa_jax.models.network import network

_GROUPS = ((1, 1), (2, 2), (4, 2))  # channels over the first group's, stride of the first block


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
    """Returns a ResNet-depth: a convolution, and (depth - 2) / 6 blocks in each of three groups.

    A block adds conv-norm-ReLU-conv-norm (3 x 3) to its input and applies ReLU. Groups have 1, 2
    and 4 times `channels`; the first block of the second and of the third has stride 2, and a
    shortcut that fills up channels with zeros (option A). Last come the average over positions and
    a dense readout. Weights are drawn with variance 2 / fan-in. Batch normalisation uses the
    batch's statistics, or the argument `statistics` of `apply`.

    Source: He et al., Deep residual learning for image recognition (2016), section 4.2.
    """

    def conv(features: int, stride: int = 1) -> Conv:
        return Conv(features, (3, 3), (stride, stride), "SAME", sqrt(2))

    layers: list[Layer] = [conv(channels), BatchNorm(), Relu()]
    width = channels
    for factor, group_stride in _GROUPS:
        for position in range((depth - 2) // 6):
            stride = group_stride if position == 0 else 1
            features = channels * factor
            branch = (conv(features, stride), BatchNorm(), Relu())
            branch += (conv(features), BatchNorm())
            shortcut = () if features == width and stride == 1 else (PadChannels(features, stride),)
            layers += [Residual(branch, shortcut), Relu()]
            width = features
    layers += [GlobalAvgPool(), Dense(num_classes, w_std=sqrt(2), b_std=0.0)]
    return network(layers, parameterization="standard")
