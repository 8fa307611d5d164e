"""Two-dimensional convolution, computed the way that is fast where it runs."""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsa_jax._convolution import canonical, onednn
from lsa_jax._convolution.gathered import Spread, gather, gather_and_multiply
from lsa_jax._convolution.trilinear import Windows

__all__ = ["Padding", "convolve", "convolve_directly", "gather", "gather_and_multiply"]

Padding = Literal["VALID", "SAME"]

# On a CPU, windows of more bytes are not gathered: from here on convolutions by oneDNN take an
# eighth to a half of the processor time.
_LARGE = 2**21

# Where there is no oneDNN, windows of more bytes and of so many channels: with fewer XLA's own
# convolution is slow, with more the product with all filters keeps every core at work, which XLA's
# own does not (WRN-10-4 on two cores: 303 ms a step gathered, 347 by its own).
_LARGE_TO_XLA = 2**23
_CHANNELS_TO_XLA = range(3, 64)


# Traced once for equal shapes: a network has many equal convolutions, and is traced many times.
@partial(jax.jit, static_argnames=("strides", "padding"), inline=True)
def convolve(
    x: Float[Array, "n height width channels"],
    weight: Float[Array, "window_height window_width channels features"],
    strides: tuple[int, int],
    padding: Padding,
) -> Float[Array, "n out_height out_width features"]:
    """Correlates images with filters: y[p] = sum over offsets u of x[p * strides + u] weight[u].

    GPUs and TPUs convolve directly. On a CPU there are three ways: the windows are gathered and
    multiplied as one matrix, which takes memory for window_height * window_width copies of the
    input; oneDNN, which jaxlib brings for some machines (see `onednn`); or, on others, XLA's
    convolutions in the one form that they are fast in (see `canonical`). Where windows are few,
    gathering is the fastest, and many problems at once are one product of matrices (`vmap`). All
    ways give the same numbers to rounding, and derivatives of any order go through.

    Args:
        x: images.
        weight: filters.
        strides: step between windows, vertically and horizontally.
        padding: "VALID" (windows that lie within the image) or "SAME" (as many outputs as the
            image has strides, zeros around it, the odd one at the bottom and right).

    Returns:
        One value a window and filter.
    """
    pads = lax.padtype_to_pads(x.shape[1:3], weight.shape[:2], strides, padding)
    on_cpu = _way_on_cpus(x, weight, strides, pads)

    def chosen(x: Array, weight: Array) -> Array:
        return on_cpu(x, weight, strides, pads)

    def direct(x: Array, weight: Array) -> Array:
        return convolve_directly(x, weight, strides, pads)

    return lax.platform_dependent(x, weight, cpu=chosen, default=direct)


def _way_on_cpus(x: Array, weight: Array, strides: tuple[int, int], pads: Spread) -> Callable:
    """Returns the fastest way on a CPU.

    Windows of one pixel are the input itself, and there is one way for other types than float32.
    """
    window, channels = weight.shape[:2], weight.shape[2]
    if window == (1, 1) or x.dtype != jnp.float32 or weight.dtype != x.dtype:
        return gather_and_multiply
    out = Windows(x.shape[1:3], window, strides, pads).out
    gathered = x.dtype.itemsize * len(x) * math.prod(out) * math.prod(weight.shape[:3])
    if onednn.usable():
        return onednn.convolve if gathered > _LARGE else gather_and_multiply
    if gathered > _LARGE_TO_XLA and channels in _CHANNELS_TO_XLA:
        return canonical.convolve
    return gather_and_multiply


def convolve_directly(x: Array, weight: Array, strides: tuple[int, int], pads: Spread) -> Array:
    """Convolves by XLA's own operation."""
    return lax.conv_general_dilated(
        x, weight, strides, pads, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
