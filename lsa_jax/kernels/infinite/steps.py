"""The steps that describe a network to its infinite-width kernel.

A layer of `models` is a few of these. The recursion and neural-tangents' evaluation
(`neural_tangents`) read this one description.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Windows:
    """Height and width of windows, strides between them, and padding: "VALID" or "SAME"."""

    shape: tuple[int, int]
    strides: tuple[int, int]
    padding: Literal["VALID", "SAME"]

    @property
    def size(self) -> int:
        """Positions in one."""
        return math.prod(self.shape)


class Step:
    """One step of a network at infinite width. Equal steps share a compiled program."""


@dataclass(frozen=True)
class Affine(Step):
    """A dense layer or a convolution.

    Attributes:
        features: number of outputs; only the "standard" parameterisation depends on it.
        w_std: scale of the weights.
        b_std: scale of the biases; None for no biases.
        parameterization: "ntk" or "standard".
        windows: where a convolution's filters lie; None for a dense layer.
    """

    features: int
    w_std: float
    b_std: float | None
    parameterization: Literal["ntk", "standard"]
    windows: Windows | None = None

    @property
    def bias_variance(self) -> float:
        """Variance of the biases, a part of every covariance."""
        return 0.0 if self.b_std is None else self.b_std**2


@dataclass(frozen=True)
class Flatten(Step):
    """All features of an example in a row."""


@dataclass(frozen=True)
class Pool(Step):
    """Averages, or adds if `total`, over windows, or over all positions where there are none."""

    windows: Windows | None = None
    total: bool = False


@dataclass(frozen=True)
class Sum(Step):
    """The sum of two paths whose outputs are uncorrelated over initialisations."""

    branch: tuple[Step, ...]
    shortcut: tuple[Step, ...]

    @property
    def paths(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Both paths."""
        return self.branch, self.shortcut


@dataclass(frozen=True)
class Concat(Step):
    """The features of several paths, side by side.

    Attributes:
        paths: the steps of each.
    """

    paths: tuple[tuple[Step, ...], ...]


@dataclass(frozen=True)
class NeuralTangents(Step):
    """A layer that neural-tangents alone evaluates.

    Attributes:
        layer: its (init, apply, kernel).
    """

    layer: Any


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
    """Returns, for each offset in a window, the entries of all windows there; zeros around x.

    Positions come first in x. `axes` are the vertical axes of x, then the horizontal ones; the
    window moves along all of one kind together.
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
