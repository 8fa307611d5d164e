"""The small convolutional network of the MNIST experiments."""

from math import sqrt
from typing import Literal

from lsa_jax.checks import integer, require, tuple_of
from lsa_jax.models.layers import Conv, Dense, Flatten, Layer, Relu
from lsa_jax.models.model import Model
from lsa_jax.models.network import network


def cnn(
    width_factor: int = 1,
    num_classes: int = 10,
    *,
    channels: tuple[int, ...] = (8, 16),
    window: int = 3,
    stride: int = 2,
    parameterization: Literal["ntk", "standard", "mup"] = "ntk",
    dtype: Literal["float32", "bfloat16"] = "float32",
    w_std: float = sqrt(2),
    b_std: float | None = None,
) -> Model:
    """Convolutions, each followed by ReLU, then a dense readout; no padding.

    Args:
        width_factor: multiplies all channels; the paper goes from 1 to 100.
        num_classes: outputs.
        channels: channels of each convolution at width factor 1.
        window: side of the windows.
        stride: step between windows.
        parameterization: see `network`; the base of "mup" is the width factor 1.
        dtype: see `network`.
        w_std: scale of the convolutions' weights; sqrt(2) keeps the variance through ReLUs. The
            readout's is 1.
        b_std: scale of all biases; None for no biases.

    Returns:
        The network, of inputs [n, height, width, c].

    Raises:
        InputError: an argument is not accepted.

    Source: Karp et al. (2021), section 6 and appendix C: MNIST, with the default windows.
    """
    require("width_factor", width_factor, integer(1))
    require("num_classes", num_classes, integer(1))
    require("channels", channels, tuple_of(integer(1)))
    require("window", window, integer(1))
    require("stride", stride, integer(1))

    def layers(factor: int) -> list[Layer]:
        hidden: list[Layer] = []
        for features in channels:
            size, steps = (window, window), (stride, stride)
            conv = Conv(features * factor, size, steps, "VALID", w_std, b_std)
            hidden += [conv, Relu()]
        return [*hidden, Flatten(), Dense(num_classes, b_std=b_std)]

    return network(
        layers(width_factor), parameterization=parameterization, dtype=dtype, base=layers(1)
    )
