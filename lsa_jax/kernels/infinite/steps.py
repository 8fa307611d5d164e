"""Steps of which `_recursion.kernel` computes the kernel, and what shapes they make."""

import itertools
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float


class Affine(NamedTuple):
    """A dense layer or a convolution.

    Attributes:
        features: number of outputs, which counts in the "standard" parameterisation alone.
        w_std: scale of the weights, above 0.
        b_std: scale of the biases; None for no biases.
        parameterization: "ntk" or "standard".
        window: height and width of a convolution's filters; None for a dense layer.
        strides: step between windows.
        padding: "VALID" or "SAME".
    """

    features: int
    w_std: float
    b_std: float | None
    parameterization: Literal["ntk", "standard"]
    window: tuple[int, int] | None = None
    strides: tuple[int, int] = (1, 1)
    padding: Literal["VALID", "SAME"] = "VALID"


class Rectifier(NamedTuple):
    """x where x > 0, slope x elsewhere."""

    slope: float = 0.0


class ErrorFunction(NamedTuple):
    """erf."""

    kind: str = "erf"  # so that it does not equal another empty tuple


class GaussianError(NamedTuple):
    """x times the probability that a standard normal number is below x."""

    kind: str = "gelu"


class HasDuals(Protocol):
    """A nonlinearity that knows its own duals, and compares by value."""

    def duals(self, covariance: Array, variance1: Array, variance2: Array) -> tuple[Array, Array]:
        """Returns E[phi phi'] and E[dphi dphi']; see `models.Elementwise`."""


class Elementwise(NamedTuple):
    """Any other nonlinearity, by duals of its own."""

    nonlinearity: HasDuals


class LayerNorm(NamedTuple):
    """Division by the standard deviation over features; the mean is 0 at infinite width."""

    epsilon: float
    kind: str = "layer_norm"  # so that it does not equal a Rectifier of that slope


class Flatten(NamedTuple):
    """All features of an example in a row."""

    kind: str = "flatten"


class Pool(NamedTuple):
    """Averages over windows, zeros around the image; over all positions where window is None."""

    window: tuple[int, int] | None
    strides: tuple[int, int] = (1, 1)
    padding: Literal["VALID", "SAME"] = "VALID"


class Sum(NamedTuple):
    """The sum of two paths whose outputs are uncorrelated over initialisations."""

    branch: tuple["Step", ...]
    shortcut: tuple["Step", ...]


Nonlinearity = Rectifier | ErrorFunction | GaussianError | Elementwise
Step = Affine | Nonlinearity | LayerNorm | Flatten | Pool | Sum


class _Outputs(NamedTuple):
    """What goes from one step to the next: its positions, and whether features are Gaussian."""

    positions: tuple[int, ...]
    gaussian: bool


def is_supported(steps: Sequence[Step], input_shape: tuple[int, ...]) -> bool:
    """Whether the recursion applies: weights first, and outputs without positions.

    A nonlinearity, a normalisation or a sum needs Gaussian features, as weights give.
    """
    kinds = [type(step) for step in steps]
    if Affine not in kinds or any(kind is not Flatten for kind in kinds[: kinds.index(Affine)]):
        return False
    end = _after(steps, _Outputs(tuple(input_shape[:-1]), gaussian=False), [])
    return end is not None and end.positions == ()


def position_counts(steps: Sequence[Step], input_shape: tuple[int, ...]) -> list[int]:
    """Returns the number of positions after each affine step."""
    counts: list[int] = []
    _after(steps, _Outputs(tuple(input_shape[:-1]), gaussian=False), counts)
    return counts


def _after(steps: Sequence[Step], state: _Outputs, counts: list[int]) -> _Outputs | None:
    """Returns what the last step gives, None where a step does not apply; notes positions."""
    for step in steps:
        positions, gaussian = state
        if isinstance(step, Sum):
            ends = [_after(path, state, counts) for path in step]
            if None in ends or ends[0] != ends[1] or not ends[0].gaussian:
                return None
            state = ends[0]
        elif isinstance(step, Flatten):
            # Positions differ in variance: together their features are not Gaussian.
            state = _Outputs((), gaussian and positions == ())
        elif isinstance(step, Pool) or (isinstance(step, Affine) and step.window is not None):
            if len(positions) != 2:
                return None
            state = _Outputs(_pooled(positions, step), gaussian or isinstance(step, Affine))
        elif isinstance(step, Affine):
            state = _Outputs(positions, gaussian=True)
        elif not gaussian:
            return None
        else:
            state = _Outputs(positions, isinstance(step, LayerNorm))
        if isinstance(step, Affine):
            counts.append(math.prod(state.positions))
    return state


def _pooled(positions: tuple[int, ...], step: Affine | Pool) -> tuple[int, ...]:
    if step.window is None:
        return ()
    pads = lax.padtype_to_pads(positions, step.window, step.strides, step.padding)
    return tuple(
        (size + sum(pad) - window) // stride + 1
        for size, pad, window, stride in zip(
            positions, pads, step.window, step.strides, strict=True
        )
    )


def pools(steps: Sequence[Step]) -> bool:
    """Whether the kernel depends on covariances of different positions."""
    return any(
        isinstance(step, Pool) or (isinstance(step, Sum) and any(map(pools, step)))
        for step in steps
    )


def uses_variances_of_pools(steps: Sequence[Step]) -> bool:
    """Whether a nonlinearity or a normalisation follows a pool."""
    flat = list(_flat(steps))
    after = itertools.dropwhile(lambda step: not isinstance(step, Pool), flat)
    return any(isinstance(step, Nonlinearity | LayerNorm) for step in after)


def _flat(steps: Sequence[Step]) -> list[Step]:
    nested = (
        _flat((*step.branch, *step.shortcut)) if isinstance(step, Sum) else [step] for step in steps
    )
    return list(itertools.chain.from_iterable(nested))


def shifted(
    x: Float[Array, "..."], step: Affine | Pool, axes: Sequence[Sequence[int]]
) -> list[Float[Array, "..."]]:
    """Returns, for each offset in a window, what the windows have there.

    Args:
        x: positions first.
        step: with a window.
        axes: axes of x that are vertical positions, then those that are horizontal ones; the
            window moves along all of the same kind together.
    """
    sizes = [x.shape[same[0]] for same in axes]
    pads = lax.padtype_to_pads(sizes, step.window, step.strides, step.padding)
    if any(map(any, pads)):
        spread = [(0, 0)] * x.ndim
        for pad, same in zip(pads, axes, strict=True):
            for axis in same:
                spread[axis] = pad
        x = jnp.pad(x, spread)
    outs = _pooled(tuple(sizes), step)
    parts = []
    for offsets in itertools.product(*map(range, step.window)):
        index = [slice(None)] * x.ndim
        for same, offset, out, stride in zip(axes, offsets, outs, step.strides, strict=True):
            for axis in same:
                index[axis] = slice(offset, offset + stride * (out - 1) + 1, stride)
        parts.append(x[tuple(index)])
    return parts
