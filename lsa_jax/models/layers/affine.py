"""Dense and convolutional layers."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax._convolution import Padding, convolve
from lsa_jax.checks import integer, number, optional, require
from lsa_jax.kernels.infinite import steps
from lsa_jax.kernels.infinite.steps import Windows
from lsa_jax.models.layers.base import Layer, LayerModule, check_fits, check_windows


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

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one affine step."""
        return (steps.Affine(self.features, self.w_std, self.b_std, parameterization),)


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
        check_windows("Conv", self.window, self.strides, self.padding)

    def finite(self, x: Float[Array, "n h w c"], module: LayerModule) -> Float[Array, "n p q f"]:
        """Returns one output a window and channel.

        Raises:
            InputError: inputs are not images, or no window fits into them.
        """
        check_fits("Conv", x, self.window, self.padding)
        weight = module.weight((*self.window, x.shape[-1], self.features), self.w_std)
        return module.add_bias(convolve(x, weight, self.strides, self.padding), self.b_std)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one affine step over windows."""
        windows = Windows(self.window, self.strides, self.padding)
        return (steps.Affine(self.features, self.w_std, self.b_std, parameterization, windows),)


def _check_affine(layer: Dense | Conv) -> None:
    kind = type(layer).__name__
    require(f"{kind}.features", layer.features, integer(1))
    require(f"{kind}.w_std", layer.w_std, number(0))
    require(f"{kind}.b_std", layer.b_std, optional(number(0)))
