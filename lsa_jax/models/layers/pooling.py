"""Layers that flatten, average or add positions."""

from dataclasses import dataclass
from math import prod

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax._convolution import Padding
from lsa_jax.kernels.infinite import steps
from lsa_jax.kernels.infinite.steps import Windows
from lsa_jax.models.layers.base import Layer, LayerModule, check_fits, check_images, check_windows


@dataclass(frozen=True)
class Flatten(Layer):
    """Flattens all features of an example."""

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
        """Returns one mean a channel, or one sum."""
        check_images(type(self).__name__, x)
        pool = jnp.sum if isinstance(self, GlobalSumPool) else jnp.mean
        return pool(x, axis=(1, 2))

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.Pool(total=isinstance(self, GlobalSumPool)),)


@dataclass(frozen=True)
class GlobalSumPool(GlobalAvgPool):
    """Adds over all positions of an image."""


@dataclass(frozen=True)
class _WindowPool(Layer):
    """Pooling over windows of an image.

    Attributes:
        window: height and width.
        strides: step between windows.
        padding: "VALID" or "SAME" (zeros around the image, which count in an average).
    """

    window: tuple[int, int] = (2, 2)
    strides: tuple[int, int] = (2, 2)
    padding: Padding = "VALID"

    def __post_init__(self) -> None:
        check_windows(type(self).__name__, self.window, self.strides, self.padding)

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n p q c"]:
        """Returns one number a window and channel.

        Raises:
            InputError: inputs are not images, or no window fits into them.
        """
        check_fits(type(self).__name__, x, self.window, self.padding)
        return self._pooled(x)

    def _pooled(self, x: Float[Array, "n h w c"]) -> Float[Array, "n p q c"]:
        return nn.avg_pool(x, self.window, self.strides, self.padding)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...] | None:
        """Returns one step."""
        windows = Windows(self.window, self.strides, self.padding)
        return (steps.Pool(windows, total=isinstance(self, SumPool)),)


@dataclass(frozen=True)
class AvgPool(_WindowPool):
    """Averages over windows of an image; see `Conv` for `window`, `strides`, `padding`."""


@dataclass(frozen=True)
class SumPool(_WindowPool):
    """Adds over windows of an image; see `Conv` for `window`, `strides`, `padding`."""

    def _pooled(self, x: Float[Array, "n h w c"]) -> Float[Array, "n p q c"]:
        return prod(self.window) * super()._pooled(x)


@dataclass(frozen=True)
class MaxPool(_WindowPool):
    """The largest number in each window of an image; see `Conv`. Padding does not count.

    Its kernel at infinite width has no formula: `models.sampled_kernel` estimates it.
    """

    def _pooled(self, x: Float[Array, "n h w c"]) -> Float[Array, "n p q c"]:
        return nn.max_pool(x, self.window, self.strides, self.padding)

    def infinite(self, parameterization: str) -> None:
        """Returns None."""
