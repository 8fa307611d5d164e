"""Image classifiers: fully connected, convolutional and wide residual networks."""

from collections.abc import Callable
from math import sqrt
from typing import Literal

from lsa_jax.checks import Kind, integer, one_of, optional, require, tuple_of
from lsa_jax.errors import InputError
from lsa_jax.models.layers import elementwise
from lsa_jax.models.layers.affine import Conv, Dense
from lsa_jax.models.layers.base import Layer
from lsa_jax.models.layers.composition import Residual
from lsa_jax.models.layers.elementwise import Relu
from lsa_jax.models.layers.normalization import BatchNorm
from lsa_jax.models.layers.pooling import AvgPool, Flatten, GlobalAvgPool
from lsa_jax.models.model import Model
from lsa_jax.models.network import network

_ACTIVATIONS: dict[str, Layer] = {
    name: getattr(elementwise, name.capitalize())()
    for name in ("relu", "erf", "gelu", "tanh", "sigmoid", "silu", "softplus", "elu")
}
_STEM_CHANNELS = 16
_GROUPS = ((16, 1), (32, 2), (64, 2))  # channels at width factor 1, stride of the first block

_DEPTH = Kind(
    lambda depth: integer(10).accepts(depth) and depth % 6 == 4,
    "6 n + 4 with n = 1, 2, ... blocks in each of the three groups, such as 10, 16 or 28",
    int,
)


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

    Inputs are [n, height, width, c]. `width_factor` multiplies all channels (in the paper it goes
    from 1 to 100); windows and strides are square. `w_std` is the scale of the convolutions'
    weights (sqrt(2) keeps the variance through ReLUs; the readout's is 1), `b_std` that of all
    biases; None for no biases. Other arguments are as in `network`; the base of "mup" is the width
    factor 1.

    Raises:
        InputError: an argument is not accepted.

    Source: Karp et al. (2021), section 6 and appendix C: MNIST, with the default windows.
    """
    require("channels", channels, tuple_of(integer(1)))
    require("window", window, integer(1))
    require("stride", stride, integer(1))

    def layers(factor: int) -> list[Layer]:
        hidden: list[Layer] = []
        for features in channels:
            size, steps = (window, window), (stride, stride)
            hidden += [Conv(features * factor, size, steps, "VALID", w_std, b_std), Relu()]
        return [*hidden, Flatten(), Dense(num_classes, b_std=b_std)]

    return _classifier(layers, width_factor, num_classes, parameterization, dtype)


def mlp(
    width_factor: int = 1,
    num_classes: int = 10,
    *,
    widths: tuple[int, ...] = (512,),
    activation: str = "relu",
    parameterization: Literal["ntk", "standard", "mup"] = "ntk",
    dtype: Literal["float32", "bfloat16"] = "float32",
    w_std: float = sqrt(2),
    b_std: float | None = None,
) -> Model:
    """Dense hidden layers, each followed by the activation, then a dense readout.

    Inputs [n, ...] are flattened first. `width_factor` multiplies the widths of the hidden layers;
    without any the model is linear. Activations are "relu", "erf", "gelu", "tanh", "sigmoid",
    "silu", "softplus" and "elu". Other arguments are as in `cnn`.

    Raises:
        InputError: an argument is not accepted.
    """
    require("widths", widths, tuple_of(integer(1)))
    require("activation", activation, one_of(*_ACTIVATIONS))

    def layers(factor: int) -> list[Layer]:
        hidden: list[Layer] = [Flatten()]
        for features in widths:
            hidden += [Dense(features * factor, w_std, b_std), _ACTIVATIONS[activation]]
        return [*hidden, Dense(num_classes, b_std=b_std)]

    return _classifier(layers, width_factor, num_classes, parameterization, dtype)


def wide_resnet(
    width_factor: int = 10,
    num_classes: int = 10,
    *,
    depth: int = 10,
    norm: Literal["batch", "none"] = "batch",
    pool_window: int | None = None,
    batch_axis: str | None = None,
    parameterization: Literal["ntk", "standard", "mup"] = "ntk",
    dtype: Literal["float32", "bfloat16"] = "float32",
    w_std: float = sqrt(2),
    b_std: float | None = None,
) -> Model:
    """A WRN-depth-width_factor: pre-activation residual blocks in three groups.

    Of inputs [n, height, width, c]. Stem: convolution 3 x 3 to 16 channels. Then (depth - 4) / 6
    blocks a group, with 16, 32 and 64 times `width_factor` channels; the first of the second and of
    the third group has stride 2. A block adds norm-ReLU-conv-norm-ReLU-conv (3 x 3) to its input;
    in the first of each group a 1 x 1 convolution brings the input to the same shape. Last come
    norm, ReLU, an average over all positions, or over windows of side `pool_window` at each pixel,
    and a dense readout. Other arguments are as in `cnn`.

    Batch normalisation uses the statistics of the current batch, in evaluation too, as the authors
    did, split over the `pmap` axis `batch_axis`, if it is; `kernel` then refuses: see `BatchNorm`.
    With norm "none" `kernel` is the limit of all widths; the finite NTK does not reach it at any
    `width_factor`, because the stem has 16 channels.

    Raises:
        InputError: an argument is not accepted.

    Source: Zagoruyko and Komodakis (2016); Karp et al. (2021), section 6 and appendix C: WRN-10-10.
    """
    require("depth", depth, _DEPTH)
    require("norm", norm, one_of("batch", "none"))
    require("pool_window", pool_window, optional(integer(1)))
    if norm == "none" and batch_axis:
        raise InputError(f"batch_axis is {batch_axis!r}; accepted with norm='none': None")
    activation = (BatchNorm(batch_axis), Relu()) if norm == "batch" else (Relu(),)
    pool = (GlobalAvgPool(),)
    if pool_window is not None:
        pool = (AvgPool((pool_window, pool_window), (1, 1)), Flatten())

    def conv(features: int, window: int = 3, stride: int = 1) -> Conv:
        return Conv(features, (window, window), (stride, stride), "SAME", w_std, b_std)

    def block(features: int, stride: int, *, first: bool) -> Residual:
        branch = (*activation, conv(features, 3, stride), *activation, conv(features))
        return Residual(branch, (conv(features, 1, stride),) if first else ())

    def layers(factor: int) -> list[Layer]:
        body: list[Layer] = [conv(_STEM_CHANNELS)]
        for channels, stride in _GROUPS:
            body.append(block(channels * factor, stride, first=True))
            more = (depth - 4) // 6 - 1
            body += [block(channels * factor, 1, first=False) for _ in range(more)]
        return [*body, *activation, *pool, Dense(num_classes, b_std=b_std)]

    return _classifier(layers, width_factor, num_classes, parameterization, dtype)


def _classifier(
    layers: Callable[[int], list[Layer]],
    width_factor: int,
    num_classes: int,
    parameterization: Literal["ntk", "standard", "mup"],
    dtype: Literal["float32", "bfloat16"],
) -> Model:
    """Returns a network of layers at a width factor; its base has the width factor 1."""
    require("width_factor", width_factor, integer(1))
    require("num_classes", num_classes, integer(1))
    return network(
        layers(width_factor), parameterization=parameterization, dtype=dtype, base=layers(1)
    )


MODELS = {"cnn": cnn, "wide_resnet": wide_resnet, "mlp": mlp}
