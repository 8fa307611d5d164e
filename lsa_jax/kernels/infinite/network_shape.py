"""Positions after a network's steps, and whether the recursion applies to them."""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from lsa_jax.kernels.infinite.pointwise import Dropout, LayerNorm, Pointwise
from lsa_jax.kernels.infinite.steps import (
    Affine,
    Concat,
    Flatten,
    NeuralTangents,
    Pool,
    Step,
    Sum,
    positions_after,
)


class _Outputs(NamedTuple):
    """The outputs of a step: positions, and whether features are Gaussian."""

    positions: tuple[int, ...]
    gaussian: bool


def is_supported(steps: Sequence[Step], input_shape: tuple[int, ...]) -> bool:
    """Whether the recursion applies: weights first, and outputs without positions.

    A nonlinearity, a normalisation or a sum needs Gaussian features, as weights give. Weights of
    size 0 give none.
    """
    first = next((step for step in steps if not isinstance(step, Flatten)), None)
    if not isinstance(first, Affine):
        return False
    if uses_variances_of_pools(steps) and any(isinstance(s, Dropout) for s in flat(steps)):
        return False  # these variances come from an example with itself, under one mask
    end = _after(steps, _Outputs(tuple(input_shape[:-1]), gaussian=False), [])
    return end is not None and end.positions == ()


def position_counts(steps: Sequence[Step], input_shape: tuple[int, ...]) -> list[int]:
    """Returns the number of positions after each affine step."""
    counts: list[int] = []
    _after(steps, _Outputs(tuple(input_shape[:-1]), gaussian=False), counts)
    return counts


def _after(steps: Sequence[Step], state: _Outputs, counts: list[int]) -> _Outputs | None:
    """Returns the last step's outputs, None where a step does not apply; records positions."""
    for step in steps:
        positions, gaussian = state
        if isinstance(step, Sum):
            branch, shortcut = (_after(path, state, counts) for path in step.paths)
            if branch is None or branch != shortcut or not branch.gaussian:
                return None
            state = branch
        elif isinstance(step, Concat):
            ends = [_after(path, state, counts) for path in step.paths]
            if None in ends or len({end.positions for end in ends}) > 1:
                return None
            # Features of different paths differ in variance.
            state = _Outputs(ends[0].positions, gaussian=False)
        elif isinstance(step, Dropout):
            state = _Outputs(positions, gaussian=False)
        elif isinstance(step, Flatten):
            # Positions differ in variance: together their features are not Gaussian.
            state = _Outputs((), gaussian and positions == ())
        elif isinstance(step, NeuralTangents) or (isinstance(step, Affine) and step.w_std == 0):
            return None
        elif isinstance(step, Pool) or (isinstance(step, Affine) and step.windows is not None):
            if len(positions) != 2:
                return None
            after = () if step.windows is None else positions_after(positions, step.windows)
            state = _Outputs(after, gaussian or isinstance(step, Affine))
        elif isinstance(step, Affine):
            state = _Outputs(positions, gaussian=True)
        elif not gaussian:
            return None
        else:
            state = _Outputs(positions, isinstance(step, LayerNorm))
        if isinstance(step, Affine):
            counts.append(math.prod(state.positions))
    return state


def covered(steps: Sequence[Step], positions: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the height and width of the part that the windows of the first steps cover.

    Of an image of 42 x 42 two convolutions 3 x 3 with strides of 2 cover 39 x 39.
    """
    step, *rest = steps or (None,)
    if isinstance(step, Pointwise):
        return covered(rest, positions)
    windows = getattr(step, "windows", None)
    if windows is None or windows.padding != "VALID":
        return positions
    outputs = covered(rest, positions_after(positions, windows))
    triples = zip(outputs, windows.strides, windows.shape, strict=True)
    return tuple((count - 1) * stride + size for count, stride, size in triples)


def pools(steps: Sequence[Step]) -> bool:
    """Whether the kernel depends on covariances of different positions."""
    return any(isinstance(step, Pool) for step in flat(steps))


def uses_variances_of_pools(steps: Sequence[Step]) -> bool:
    """Whether a nonlinearity or a normalisation follows a pool."""
    after = itertools.dropwhile(lambda step: not isinstance(step, Pool), flat(steps))
    return any(isinstance(step, Pointwise) for step in after)


def flat(steps: Sequence[Step]) -> list[Step]:
    """Returns the steps of all paths in one sequence."""
    nested = (
        flat([inner for path in step.paths for inner in path])
        if isinstance(step, Sum | Concat)
        else [step]
        for step in steps
    )
    return list(itertools.chain.from_iterable(nested))
