"""ResNet-18 for small images, of any width, and the quadratic network of one hidden layer."""

from dataclasses import dataclass
from math import sqrt

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax.checks import integer, require
from lsa_jax.models.layers import (
    BatchNorm,
    Conv,
    Dense,
    Elementwise,
    Flatten,
    GlobalAvgPool,
    Layer,
    Relu,
    Residual,
)
from lsa_jax.models.model import Model
from lsa_jax.models.network import network

NUM_STAGES, BLOCKS_PER_STAGE = 4, 2


@dataclass(frozen=True)
class Square(Elementwise):
    """x^2."""

    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns the square of every number."""
        return jnp.square(x)

    def duals(
        self,
        covariance: Float[Array, "..."],
        variance1: Float[Array, "..."],
        variance2: Float[Array, "..."],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns E[z^2 z'^2] = v v' + 2 c^2 and E[2z 2z'] = 4 c."""
        return variance1 * variance2 + 2 * covariance**2, 4 * covariance


def resnet18(filters: int = 64, num_classes: int = 10, *, scale: float = 1.0) -> Model:
    """ResNet(m): the ResNet-18 for images of 32 x 32 with m filters in its first stage.

    Stem: convolution 3 x 3 to m channels, norm, ReLU. Then four stages of two blocks with m, 2m, 4m
    and 8m channels; the first block of the later stages has stride 2. A block is
    conv-norm-ReLU-conv-norm (3 x 3) plus its input, which a 1 x 1 convolution and a norm bring to
    the block's shape where that changes, then ReLU. Last come the average over all positions and a
    dense readout. m = 64 is the standard network.

    Batch normalisation uses the statistics of the batch at hand, in evaluation too (`BatchNorm`).

    Args:
        filters: m.
        num_classes: outputs.
        scale: multiplies the convolutions' initial weights. Batch normalisation makes the outputs
            the same for any, but small weights turn further with a step.

    Raises:
        InputError: an argument is not accepted.

    Source: He et al. (2016); Shi, Wei and Liang (2022), appendices E.4.1 and E.5.2: ResNet(m).
    """
    require("filters", filters, integer(1))
    require("num_classes", num_classes, integer(1))

    def conv(features: int, window: int = 3, stride: int = 1) -> Conv:
        return Conv(features, (window, window), (stride, stride), "SAME", scale * sqrt(2))

    layers: list[Layer] = [conv(filters), BatchNorm(), Relu()]
    for stage in range(NUM_STAGES):
        channels = filters * 2**stage
        for block in range(BLOCKS_PER_STAGE):
            stride = 2 if stage > 0 and block == 0 else 1
            branch = [conv(channels, 3, stride), BatchNorm(), Relu(), conv(channels), BatchNorm()]
            shortcut = (conv(channels, 1, stride), BatchNorm()) if stride > 1 else ()
            layers += [Residual(tuple(branch), shortcut), Relu()]
    layers += [GlobalAvgPool(), Dense(num_classes, b_std=0.0)]
    return network(layers, parameterization="standard")


def last_filters(
    params: dict, stage: int
) -> Float[Array | np.ndarray | jax.ShapeDtypeStruct, "h w c f"]:
    """Returns the last convolution of a stage of `resnet18`, counted from 0, or its gradient."""
    block = params[f"Residual_{BLOCKS_PER_STAGE * (stage + 1) - 1}"]
    return block["branch"]["Conv_1"]["weight"]


def quadratic_network(units: int, num_classes: int = 10) -> Model:
    """FC(m): one hidden layer of m squares, biases in both layers.

    Raises:
        InputError: an argument is not accepted.

    Source: Shi, Wei and Liang (2022), appendix E.5.2: FC(m).
    """
    require("units", units, integer(1))
    require("num_classes", num_classes, integer(1))
    layers = [Flatten(), Dense(units, b_std=0.0), Square(), Dense(num_classes, b_std=0.0)]
    return network(layers, parameterization="standard")
