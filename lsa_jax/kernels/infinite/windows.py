"""Windows that move over the positions of an image."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Windows:
    """Where windows lie.

    Attributes:
        shape: height and width of one.
        strides: step between them.
        padding: "VALID", or "SAME" for zeros around the image.
    """

    shape: tuple[int, int]
    strides: tuple[int, int]
    padding: Literal["VALID", "SAME"]

    @property
    def size(self) -> int:
        """Positions in one."""
        return math.prod(self.shape)


def positions_after(positions: tuple[int, ...], windows: Windows) -> tuple[int, ...]:
    """Returns how many windows fit along each axis; 0 or less where none does."""
    pads = lax.padtype_to_pads(positions, windows.shape, windows.strides, windows.padding)
    return tuple(
        (size + sum(pad) - window) // stride + 1
        for size, pad, window, stride in zip(
            positions, pads, windows.shape, windows.strides, strict=True
        )
    )


def shifted(
    x: Float[Array, "..."], windows: Windows, axes: Sequence[Sequence[int]]
) -> list[Float[Array, "..."]]:
    """Returns, for each offset in a window, what the windows have there; zeros around the image.

    Args:
        x: positions first.
        windows: where they lie.
        axes: axes of x that are vertical positions, then those that are horizontal ones; the
            window moves along all of the same kind together.
    """
    sizes = [x.shape[same[0]] for same in axes]
    pads = lax.padtype_to_pads(sizes, windows.shape, windows.strides, windows.padding)
    if any(map(any, pads)):
        spread = [(0, 0)] * x.ndim
        for pad, same in zip(pads, axes, strict=True):
            for axis in same:
                spread[axis] = pad
        x = jnp.pad(x, spread)
    outs = positions_after(tuple(sizes), windows)
    parts = []
    for offsets in itertools.product(*map(range, windows.shape)):
        index = [slice(None)] * x.ndim
        for same, offset, out, stride in zip(axes, offsets, outs, windows.strides, strict=True):
            for axis in same:
                index[axis] = slice(offset, offset + stride * (out - 1) + 1, stride)
        parts.append(x[tuple(index)])
    return parts
