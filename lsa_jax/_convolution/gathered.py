"""Convolution by one product of matrices over windows that are gathered first."""

import math
from collections.abc import Sequence

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

Spread = Sequence[tuple[int, int]]


def gather_and_multiply(x: Array, weight: Array, strides: Sequence[int], pads: Spread) -> Array:
    """Convolves by one matrix product over the windows of `x`, laid out along its channels."""
    windows = gather(x, weight.shape[:2], strides, pads)
    # As plain matrices: a product over the last of four axes takes twice as long on a CPU.
    rows = windows.reshape(math.prod(windows.shape[:-1]), windows.shape[-1])
    product = rows @ weight.reshape(windows.shape[-1], weight.shape[-1])
    return product.reshape(*windows.shape[:-1], weight.shape[-1])


def gather(
    x: Float[Array, "n height width channels"],
    window: Sequence[int],
    strides: Sequence[int],
    pads: Spread,
) -> Float[Array, "n out_height out_width window_times_channels"]:
    """Returns the windows of images, in the order in which a filter's weights are stored."""
    x = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    shifted = [
        part
        for rows in shifts(x, 1, window[0], strides[0])
        for part in shifts(rows, 2, window[1], strides[1])
    ]
    return jnp.concatenate(shifted, axis=-1)


def shifts(x: Array, axis: int, window: int, stride: int) -> list[Array]:
    """Returns, for each offset in a window, the entries of all windows along an axis there.

    Every `stride`-th entry is split off first, and slices are contiguous. A derivative then adds
    contiguous slices too: on a CPU the Jacobians of a small network took half to two thirds of the
    time that they take with strided ones.
    """
    out = (x.shape[axis] - window) // stride + 1
    groups = math.ceil(window / stride) - 1 + out
    length = groups * stride
    spread = [(0, max(0, length - x.shape[axis])) if i == axis else (0, 0) for i in range(x.ndim)]
    x = lax.slice_in_dim(jnp.pad(x, spread), 0, length, axis=axis)
    x = x.reshape(*x.shape[:axis], groups, stride, *x.shape[axis + 1 :])
    phases = [lax.squeeze(phase, [axis + 1]) for phase in lax.split(x, [1] * stride, axis + 1)]
    return [
        lax.slice_in_dim(
            phases[offset % stride], offset // stride, offset // stride + out, axis=axis
        )
        for offset in range(window)
    ]
