"""The recursion over a network's steps, for the covariances of one tile.

Source: Jacot et al. (2018), theorem 1; Arora et al. (2019), On exact computation with an infinitely
wide neural net, section 4; Sohl-Dickstein et al. (2020) for the "standard" parameterisation.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import jax.numpy as jnp
from jaxtyping import Array

from lsa_jax.kernels.infinite.equal_inputs import Identity, exact_where_equal
from lsa_jax.kernels.infinite.layouts import (
    EQUAL_POSITIONS,
    PAIRS_OF_POSITIONS,
    Layout,
    mean_over_positions,
    pool,
)
from lsa_jax.kernels.infinite.network_shape import pools
from lsa_jax.kernels.infinite.steps import (
    Affine,
    Concat,
    Dropout,
    Flatten,
    LayerNorm,
    Pointwise,
    Pool,
    Scale,
    Step,
    Sum,
)

# A step's place: its number in its sequence, after those of the sums that it is in and their path.
Place = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Covariances:
    """Between two steps, for one tile.

    Attributes:
        layout: how both covariances lie.
        nngp: of the features.
        ntk: the tangent kernel; None where it is not asked for.
        channels: number of features at a position.
        terms: how many products were summed since the last nonlinearity, for rounding.
    """

    layout: Layout
    nngp: Array
    ntk: Array | None
    channels: int
    terms: int

    def map(self, function: Callable, **changes: object) -> "Covariances":
        """Applies a function to both covariances, and makes other changes."""
        ntk = None if self.ntk is None else function(self.ntk)
        return dataclasses.replace(self, nngp=function(self.nngp), ntk=ntk, **changes)

    def at_equal_positions(self) -> "Covariances":
        """Leaves the covariances of different positions out."""
        return self.map(self.layout.equal_positions, layout=EQUAL_POSITIONS)


def first_covariances(
    steps: Sequence[Step],
    get: str,
    features1: Array,
    features2: Array,
    identities: tuple[Identity | None, Identity | None] = (None, None),
) -> Covariances:
    """Returns the covariances after the first affine step, exact where features are equal."""
    layout = first_layout(steps, features1)
    product = exact_where_equal(layout.covariances(features1, features2), *identities, layout)
    return covariances_of_product(steps, get, layout, product, features1.shape[-2])


def first_layout(steps: Sequence[Step], features: Array) -> Layout:
    """Returns how the products of features [*positions, k, n] lie."""
    before_pools = pools(steps) and features.ndim == 4
    return PAIRS_OF_POSITIONS if before_pools else EQUAL_POSITIONS


def covariances_of_product(
    steps: Sequence[Step], get: str, layout: Layout, product: Array, fan_in: int
) -> Covariances:
    """Returns the covariances after the first affine step, from the products of its inputs."""
    first = next(step for step in steps if isinstance(step, Affine))
    nngp = product + first.bias_variance if first.b_std is not None else product
    ntk = None
    if get == "ntk":
        ntk = nngp
        if first.parameterization == "standard":
            ntk = fan_in / first.w_std**2 * product + (first.b_std is not None)
    return Covariances(layout, nngp, ntk, first.features, fan_in)


def run(steps: Sequence[Step], state: Covariances, scales_at: Callable) -> Covariances:
    """Goes through the steps that follow the first affine one.

    `scales_at(place, step, state)` gives both batches' scales where a step needs them.
    """
    _, *others = itertools.dropwhile(lambda step: not isinstance(step, Affine), steps)
    for number, step in enumerate(others):
        if not pools(others[number:]):
            state = state.at_equal_positions()
        state = _apply(step, state, (number,), scales_at)
    return state


def _apply(step: Step, state: Covariances, place: Place, scales_at: Callable) -> Covariances:
    """Applies one step."""
    if isinstance(step, Affine):
        return _affine(step, state)
    if isinstance(step, Sum | Concat):
        return _joined(step, state, place, scales_at)
    if isinstance(step, Flatten):
        state = state.at_equal_positions()
        positions = state.layout.positions(state.nngp)
        channels, terms = state.channels * positions, state.terms * positions
        return state.map(partial(mean_over_positions, examples=2), channels=channels, terms=terms)
    if isinstance(step, Pool):
        every = step.windows is None
        window = state.layout.positions(state.nngp) if every else step.windows.size
        layout = EQUAL_POSITIONS if every else state.layout
        state = state.map(partial(pool, step=step), layout=layout, terms=state.terms * window**2)
        return state.map(lambda mean: window**2 * mean) if step.total else state
    return _pointwise(step, state, *scales_at(place, step, state))


def _joined(
    step: Sum | Concat, state: Covariances, place: Place, scales_at: Callable
) -> Covariances:
    """Adds what paths make of the covariances, or averages it over their features."""
    ends = []
    for which, path in enumerate(step.paths):
        end = state
        for number, inner in enumerate(path):
            end = _apply(inner, end, (*place, which, number), scales_at)
        ends.append(end)
    channels = sum(end.channels for end in ends) if isinstance(step, Concat) else ends[0].channels
    shares = [end.channels / channels if isinstance(step, Concat) else 1.0 for end in ends]

    def total(covariances: list[Array]) -> Array:
        return sum(share * array for share, array in zip(shares, covariances, strict=True))

    return dataclasses.replace(
        ends[0],
        nngp=total([end.nngp for end in ends]),
        ntk=None if state.ntk is None else total([end.ntk for end in ends]),
        channels=channels,
        terms=sum(end.terms for end in ends),
    )


def _affine(step: Affine, state: Covariances) -> Covariances:
    """Averages over windows, scales and adds the biases' part."""
    window = 1 if step.windows is None else step.windows.size
    mean = state.layout.window_mean(state.nngp, step)
    after = step.w_std**2 * mean + step.bias_variance
    ntk = None
    if state.ntk is not None:
        own = after
        if step.parameterization == "standard":
            own = window * state.channels * mean + (step.b_std is not None)
        ntk = own + step.w_std**2 * state.layout.window_mean(state.ntk, step)
    return Covariances(state.layout, after, ntk, step.features, state.terms * window)


def _pointwise(step: Pointwise, state: Covariances, scale1: Scale, scale2: Scale) -> Covariances:
    """Applies the dual of a nonlinearity, or a normalisation, at every position."""
    # How far rounding takes the cosine of equal inputs from 1: five eps by its about ten roundings
    # since the last nonlinearity, half an eps each at most, and those of a sum of so many terms.
    tolerance = float(jnp.finfo(state.nngp.dtype).eps) * (6 + math.sqrt(state.terms) / 4)

    def at(covariances: tuple, scale1: Scale, scale2: Scale) -> tuple[Array, Array | None]:
        nngp, ntk = covariances
        values, factor = step.duals(nngp, scale1, scale2, tolerance)
        return values, None if ntk is None else factor * ntk

    nngp, ntk = state.layout.over_positions(at, (state.nngp, state.ntk), scale1, scale2)
    terms = state.terms if isinstance(step, LayerNorm | Dropout) else 1
    return dataclasses.replace(state, nngp=nngp, ntk=ntk, terms=terms)
