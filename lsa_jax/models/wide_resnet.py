"""Wide residual networks."""

from math import sqrt
from typing import Literal

from lsa_jax.checks import Kind, integer, one_of, optional, require
from lsa_jax.errors import InputError
from lsa_jax.models.layers import (
    AvgPool,
    BatchNorm,
    Conv,
    Dense,
    Flatten,
    GlobalAvgPool,
    Layer,
    Relu,
    Residual,
)
from lsa_jax.models.model import Model
from lsa_jax.models.network import network

_STEM_CHANNELS = 16
_GROUPS = ((16, 1), (32, 2), (64, 2))  # channels at width factor 1, stride of the first block

_DEPTH = Kind(
    lambda depth: integer(10).accepts(depth) and depth % 6 == 4,
    "6 n + 4 with n = 1, 2, ... blocks in each of the three groups, such as 10, 16 or 28",
    int,
)


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

    Stem: convolution 3 x 3 to 16 channels. Then (depth - 4) / 6 blocks a group, with 16, 32 and 64
    times `width_factor` channels; the first of the second and of the third group has stride 2. A
    block adds norm-ReLU-conv-norm-ReLU-conv (3 x 3) to its input, which a 1 x 1 convolution brings
    to its shape in the first of each group. Last come norm, ReLU, an average and a dense readout.

    Batch normalisation uses the statistics of the batch at hand, in evaluation too, as the authors
    did; `kernel` then refuses: see `BatchNorm`. Without it, `kernel` is the limit of all widths,
    from which 16 channels of the stem keep the finite NTK at any `width_factor`.

    Args:
        width_factor: multiplies the channels of the groups.
        num_classes: outputs.
        depth: number of convolutions: the stem, three in shortcuts, two in each of 3 n blocks.
        norm: "batch", or "none" for a network with an infinite-width kernel.
        pool_window: side of windows, one at each pixel, to average over, not all positions.
        batch_axis: with "batch": name of the `pmap` axis over which batches are split, if they are.
        parameterization: see `network`; the base of "mup" is the width factor 1.
        dtype: see `network`.
        w_std: scale of the convolutions' weights. The readout's is 1.
        b_std: scale of all biases; None for no biases.

    Returns:
        The network, of inputs [n, height, width, c].

    Raises:
        InputError: an argument is not accepted.

    Source: Zagoruyko and Komodakis (2016); Karp et al. (2021), section 6 and appendix C: WRN-10-10.
    """
    require("width_factor", width_factor, integer(1))
    require("num_classes", num_classes, integer(1))
    require("depth", depth, _DEPTH)
    require("norm", norm, one_of("batch", "none"))
    require("pool_window", pool_window, optional(integer(1)))
    if norm == "none" and batch_axis:
        raise InputError(f"batch_axis is {batch_axis!r}; accepted with norm='none': None")
    activation = (BatchNorm(batch_axis), Relu()) if norm == "batch" else (Relu(),)

    def layers(factor: int) -> list[Layer]:
        scales = {"w_std": w_std, "b_std": b_std}
        body = _body(factor, (depth - 4) // 6, activation, scales)
        return [*body, *activation, *_pool(pool_window), Dense(num_classes, b_std=b_std)]

    settings = {"parameterization": parameterization, "dtype": dtype}
    return network(layers(width_factor), base=layers(1), **settings)


def _pool(window: int | None) -> tuple[Layer, ...]:
    if window is None:
        return (GlobalAvgPool(),)
    return (AvgPool((window, window), (1, 1)), Flatten())


def _body(
    width_factor: int, blocks: int, activation: tuple[Layer, ...], scales: dict[str, float | None]
) -> list[Layer]:
    """Returns the stem and the three groups of so many blocks."""

    def conv(features: int, window: int = 3, stride: int = 1) -> Conv:
        return Conv(features, (window, window), (stride, stride), "SAME", **scales)

    def block(features: int, stride: int, *, first: bool) -> Residual:
        branch = (*activation, conv(features, 3, stride), *activation, conv(features))
        return Residual(branch, (conv(features, 1, stride),) if first else ())

    layers: list[Layer] = [conv(_STEM_CHANNELS)]
    for channels, stride in _GROUPS:
        for position in range(blocks):
            first = position == 0
            layers.append(block(channels * width_factor, stride if first else 1, first=first))
    return layers
