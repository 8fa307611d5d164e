"""Layers that lay out or average positions."""

from dataclasses import dataclass
from math import prod

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax._convolution import Padding
from lsa_jax.kernels.infinite import steps
from lsa_jax.kernels.infinite.windows import Windows
from lsa_jax.models.layers.base import Layer, LayerModule
from lsa_jax.models.layers.windows import check_fits, check_images, check_windows


@dataclass(frozen=True)
class Flatten(Layer):
    """Lays all features of an example in a row."""

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n c"]:
        """Returns [n, features]."""
        return x.reshape(x.shape[0], prod(x.shape[1:]))

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.Flatten(),)


@dataclass(frozen=True)
class GlobalAvgPool(Layer):
    """Averages over all positions of an image."""

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n c"]:
        """Returns one mean a channel."""
        check_images("GlobalAvgPool", x)
        return jnp.mean(x, axis=(1, 2))

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.Pool(),)


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
        check_windows("AvgPool", self.window, self.strides, self.padding)

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n p q c"]:
        """Returns one mean a window and channel.

        Raises:
            InputError: inputs are not images, or no window fits into them.
        """
        check_fits("AvgPool", x, self.window, self.padding)
        return nn.avg_pool(x, self.window, self.strides, self.padding)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.Pool(Windows(self.window, self.strides, self.padding)),)
