"""Convolution and its derivatives on a CPU, each as the one form that XLA is fast at in loops.

XLA brings a convolution to the form that its CPU library computes (images and outputs with channels
last, filters with the outputs last) in a program's entry alone; within a loop any other form takes
10 to 60 times as long.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from lsa_jax._convolution.gathered import gather_and_multiply
from lsa_jax._convolution.trilinear import Forms, Windows, convolution, to_images

# Up to how many features two neighbouring pixels are computed at once.
_NARROW = 16


def _outputs(x: Array, weight: Array, windows: Windows) -> Array:
    """Returns the outputs [n, p, q, f] of images [n, h, w, c] and filters [i, j, c, f]."""
    if windows.strides == (1, 1):
        return _step_by_one(x, weight, windows.pads)
    return _canonical(x, weight, windows.strides, windows.pads)


def _to_images(weight: Array, y: Array, windows: Windows) -> Array:
    return to_images(weight, y, windows, _step_by_one)


def _to_filters(x: Array, y: Array, windows: Windows) -> Array:
    """Returns the derivative by the filters of outputs whose cotangent is y.

    The outputs are the filters of a convolution over the images, whose channels are the examples.
    """
    (height, width), _, strides, pads = windows.met
    images = x[:, :height, :width].transpose(3, 1, 2, 0)
    weight = _canonical(images, y.transpose(1, 2, 0, 3), (1, 1), pads, strides)
    return weight.transpose(1, 2, 0, 3)


def _step_by_one(x: Array, weight: Array, pads: Sequence[tuple[int, int]]) -> Array:
    """Convolves with stride 1, two neighbours at once where there are few features.

    Pixels two by two have twice the channels and features, which fill vectors. With 3 x 3 windows
    that is a third more products, of zeros, in 0.3 (3 channels) to 0.8 (16) of the time.
    """
    width, (*window, channels, features) = x.shape[2], weight.shape
    out = width + sum(pads[1]) - window[1] + 1
    if features > _NARROW or out % 2:
        return _canonical(x, weight, (1, 1), pads)
    taps = (window[1] + 2) // 2  # of pairs, that two neighbours' windows lie in
    (left, right), spare = pads[1], 2 * taps - window[1] - 1
    x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0)] * 2 + [(left, right + spare, 0), (0, 0, 0)])
    shifted = [
        jnp.pad(weight, [(0, 0), (place, spare + 1 - place), (0, 0), (0, 0)]) for place in (0, 1)
    ]
    pairs = jnp.stack(shifted, axis=3).reshape(window[0], taps, 2 * channels, 2 * features)
    x = x.reshape(*x.shape[:2], x.shape[2] // 2, 2 * channels)
    y = _canonical(x, pairs, (1, 1), (pads[0], (0, 0)))
    return y.reshape(*y.shape[:2], out, features)


def _canonical(
    x: Array,
    weight: Array,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    dilation: Sequence[int] = (1, 1),
) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, weight, strides, pads, rhs_dilation=dilation, dimension_numbers=layout
    )


def _of_own_filters(x: Array, weight: Array, windows: Windows) -> Array:
    return gather_and_multiply(x, weight, windows.strides, windows.pads)


def _to_own_images(weight: Array, y: Array, windows: Windows) -> Array:
    form = jax.ShapeDtypeStruct((len(y), *windows.size, weight.shape[2]), y.dtype)
    back = jax.linear_transpose(lambda x: _of_own_filters(x, weight, windows), form)
    return back(y)[0]


def _to_own_filters(x: Array, y: Array, windows: Windows) -> Array:
    form = jax.ShapeDtypeStruct((*windows.window, x.shape[-1], y.shape[-1]), y.dtype)
    back = jax.linear_transpose(lambda weight: _of_own_filters(x, weight, windows), form)
    return back(y)[0]


convolve = convolution(
    "canonical",
    Forms(_outputs, _to_images, _to_filters),
    # Operands of one's own are groups to XLA's convolutions, which are slow on a CPU.
    each=Forms(_of_own_filters, _to_own_images, _to_own_filters),
)
