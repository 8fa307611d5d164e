"""The recursion over a network's steps, for the covariances of one tile.

Between nonlinearities a covariance K of deviations s and s' is held as its gap, 1 - K / (s s'):
square roots of that follow, layer after layer, and the gap of nearly equal examples is far below
the rounding of K. Where features are put together (windows, paths, biases), half the squared
distances between them add up, as of vectors, so that small ones stay small.

Source: Jacot et al. (2018), theorem 1; Arora et al. (2019), On exact computation with an infinitely
wide neural net, section 4; Sohl-Dickstein et al. (2020) for the "standard" parameterisation.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import jax.numpy as jnp
from jaxtyping import Array

from lsa_jax.kernels.infinite import correlations
from lsa_jax.kernels.infinite.correlations import exact_above, inverse_of, root
from lsa_jax.kernels.infinite.directions import Directions, gaps
from lsa_jax.kernels.infinite.layouts import (
    EQUAL_POSITIONS,
    PAIRS_OF_POSITIONS,
    Layout,
    mean_over_positions,
    pool,
)
from lsa_jax.kernels.infinite.network_shape import flat, pools
from lsa_jax.kernels.infinite.pointwise import (
    LayerNorm,
    Nonlinearity,
    Pointwise,
    Scale,
)
from lsa_jax.kernels.infinite.steps import Affine, Concat, Flatten, Pool, Step, Sum

# A step's place: its number in its sequence, after those of the sums that it is in and their path.
Place = tuple[int, ...]

# Numbers of each example of both batches, [*positions, n]; the first batch may have one a pair.
Sides = tuple[Array, Array]


@dataclasses.dataclass(frozen=True)
class Covariances:
    """The state between two steps, for one tile.

    Attributes:
        layout: of the pairs.
        form: of `nngp`: covariances K, as after pools and where no square root follows; gaps; or
            half squared distances, s^2 / 2 + s'^2 / 2 - K in the examples' units, which are linear
            in the features of all positions.
        nngp: of the features.
        ntk: the tangent kernel without `own`; None where it is not computed, or is all `own`.
        own: the part of the last weights: a multiple of the covariance, and a constant; None for
            nothing. It is added in a nonlinearity's one pass over the pairs.
        stds: deviations at each position; None with covariances.
        units: of distances, one number an example, so that distances are of order 1 and 0 for
            parallel examples; None with other forms.
        channels: number of features at a position.
        terms: how many numbers were summed since the last nonlinearity, for rounding.
    """

    layout: Layout
    form: Literal["covariance", "gap", "distance"]
    nngp: Array
    ntk: Array | None
    own: tuple[float, float] | None
    stds: Sides | None
    units: Sides | None
    channels: int
    terms: int

    def map(self, function: Callable, **changes: object) -> "Covariances":
        """Applies a function to the numbers of pairs, and makes other changes."""
        ntk = None if self.ntk is None else function(self.ntk)
        return dataclasses.replace(self, nngp=function(self.nngp), ntk=ntk, **changes)

    def at_equal_positions(self) -> "Covariances":
        """Drops the pairs of different positions."""
        return self.map(self.layout.equal_positions, layout=EQUAL_POSITIONS)

    def tolerance(self) -> float:
        """Returns how far rounding takes the correlation of equal features from 1.

        Five eps by about ten roundings since the last nonlinearity, half an eps each at most, and
        those of the sums.
        """
        return float(jnp.finfo(self.nngp.dtype).eps) * (6 + math.sqrt(self.terms) / 4)

    def covariance(self) -> Array:
        """Returns the covariances."""
        if self.form == "covariance":
            return self.nngp
        one, other = self.layout.pairs(*self.stds)
        return one * other * (1 - self.as_gaps().nngp)

    def tangents(self) -> Array | None:
        """Returns the tangent kernel."""
        return self.ntk if self.own is None else _with_own(self.ntk, self.own, self.covariance())

    def as_covariances(self) -> "Covariances":
        """Converts gaps or distances into covariances."""
        return dataclasses.replace(
            self,
            form="covariance",
            nngp=self.covariance(),
            ntk=self.tangents(),
            own=None,
            stds=None,
            units=None,
        )

    def as_gaps(self) -> "Covariances":
        """Divides distances by the deviations, less the part of different deviations."""
        if self.form != "distance":
            return self
        quotients = self.layout.pairs(*self.quotients())
        gap = _gaps(self.nngp, *quotients, *map(inverse_of, quotients), self.tolerance())
        return dataclasses.replace(self, form="gap", nngp=gap, units=None)

    def quotients(self) -> Sides:
        """Returns the deviations in the examples' units."""
        return _quotients(self.stds, self.units)

    def as_distances(self) -> "Covariances":
        """Converts gaps into distances."""
        if self.form != "gap":
            return self
        units = units_of(self.stds, self.layout.axes(self.nngp))
        nngp = _distances(self.nngp, *self.layout.pairs(*_quotients(self.stds, units)))
        return dataclasses.replace(self, form="distance", nngp=nngp, units=units)


def units_of(stds: Sides, axes: int) -> Sides:
    """Returns each example's deviation, over so many axes of positions."""
    one, other = (root(jnp.mean(std**2, axis=tuple(range(axes)), keepdims=True)) for std in stds)
    return one, other


def _quotients(stds: Sides, units: Sides) -> Sides:
    one, other = (std * inverse_of(unit) for std, unit in zip(stds, units, strict=True))
    return one, other


def _with_own(ntk: Array | None, own: tuple[float, float], covariance: Array) -> Array:
    """Adds the last weights' part of the tangent kernel."""
    added = own[0] * covariance + own[1]
    return added if ntk is None else ntk + added


def _gaps(
    distance: Array, one: Array, other: Array, inverse1: Array, inverse2: Array, tolerance: float
) -> Array:
    """Divides distances by deviations in the same units, less the part of different deviations."""
    apart = distance - (one - other) ** 2 / 2
    # Parallel features with other units differ by rounding alone, which is no gap.
    apart = exact_above(apart, tolerance * distance)
    return apart * (inverse1 * inverse2)


def _distances(gap: Array, one: Array, other: Array) -> Array:
    """Returns half the squared distances of features with this gap and these deviations."""
    return (one - other) ** 2 / 2 + one * other * gap


def first_covariances(
    steps: Sequence[Step], get: str, directions: tuple[Directions, Directions], norms: Sides
) -> Covariances:
    """Returns the covariances after the first affine step."""
    layout = first_layout(steps, directions[0].vectors)
    fan_in = directions[0].vectors.shape[-2]
    return covariances_of_gaps(steps, get, layout, gaps(*directions, layout), norms, fan_in)


def first_layout(steps: Sequence[Step], features: Array) -> Layout:
    """Returns how the pairs of features [*positions, k, n] lie."""
    before_pools = pools(steps) and features.ndim == 4
    return PAIRS_OF_POSITIONS if before_pools else EQUAL_POSITIONS


def covariances_of_gaps(
    steps: Sequence[Step], get: str, layout: Layout, gap: Array, norms: Sides, fan_in: int
) -> Covariances:
    """Returns the covariances after the first affine step, from its inputs' gaps and norms."""
    first = next(step for step in steps if isinstance(step, Affine))
    weights = Covariances(layout, "gap", gap, None, None, norms, None, first.features, fan_in)
    state = _with_bias(first, weights)
    own = _own(first, fan_in) if get == "ntk" else None
    return dataclasses.replace(state, own=own)


def _own(step: Affine, fan_in: int) -> tuple[float, float]:
    """Returns its own parameters' part of the tangent kernel, as a multiple and a constant.

    Gradients of "standard" weights are larger by the root of the fan-in than those of "ntk"
    weights, whose products are the covariance after them; of biases they are 1.
    """
    if step.parameterization != "standard":
        return 1.0, 0.0
    multiple = fan_in / step.w_std**2
    return multiple, (step.b_std is not None) - multiple * step.bias_variance


def run(steps: Sequence[Step], state: Covariances, scales_at: Callable) -> Covariances:
    """Goes through the steps that follow the first affine one.

    `scales_at(place, step, state)` gives both batches' scales where a step needs them.
    """
    _, *others = itertools.dropwhile(lambda step: not isinstance(step, Affine), steps)
    return _through(others, state, (), scales_at, ())


def _through(
    steps: Sequence[Step],
    state: Covariances,
    above: Place,
    scales_at: Callable,
    after: Sequence[Step],
) -> Covariances:
    """Applies steps; `after` are the steps that follow them."""
    for number, step in enumerate(steps):
        rest = (*steps[number + 1 :], *after)
        if not above and not pools((step, *rest)):
            state = state.at_equal_positions()
        state = _apply(step, state, (*above, number), scales_at, rest)
    return state


def _apply(
    step: Step, state: Covariances, place: Place, scales_at: Callable, rest: Sequence[Step]
) -> Covariances:
    """Applies one step."""
    if isinstance(step, Affine):
        return _affine(step, state)
    if isinstance(step, Sum | Concat):
        return _joined(step, state, place, scales_at, rest)
    if isinstance(step, Flatten):
        return _flattened(state)
    if isinstance(step, Pool):
        return _pooled(step, state)
    if isinstance(step, Nonlinearity):
        return _nonlinear(step, state, *scales_at(place, step, state), rest)
    return _rescaled(step, state, place, scales_at)


def _averaged(
    state: Covariances,
    of_pairs: Callable,
    of_sides: Callable,
    outside: Callable = lambda *squares: 0.0,
    **changes: object,
) -> Covariances:
    """Averages over positions, by distances where there are gaps."""
    state = dataclasses.replace(state, ntk=state.tangents(), own=None)
    if state.form == "covariance":
        return state.map(of_pairs, **changes)
    state = state.as_distances()
    squares = [quotient**2 for quotient in state.quotients()]
    means = [root(of_sides(each)) for each in squares]
    # Without the axes of positions where these are gone.
    pairs = list(zip(state.units, means, strict=True))
    units = tuple(unit.reshape(unit.shape[unit.ndim - mean.ndim :]) for unit, mean in pairs)
    stds = tuple(unit * mean for unit, mean in zip(units, means, strict=True))
    state = state.map(of_pairs, **changes, stds=stds, units=units)
    return dataclasses.replace(state, nngp=state.nngp + outside(*squares))


def _flattened(state: Covariances) -> Covariances:
    """Averages over all positions."""
    state = state.at_equal_positions()
    positions = state.layout.positions(state.nngp)
    mean = partial(mean_over_positions, axes=state.layout.axes(state.nngp))
    counts = {"channels": state.channels * positions, "terms": state.terms * positions}
    return _averaged(state, mean, mean, **counts).as_gaps()


def _pooled(step: Pool, state: Covariances) -> Covariances:
    """Averages or adds covariances of pairs of positions."""
    every = step.windows is None
    window = state.layout.positions(state.nngp) if every else step.windows.size
    layout = EQUAL_POSITIONS if every else state.layout
    state = state.as_covariances()
    state = state.map(partial(pool, step=step), layout=layout, terms=state.terms * window**2)
    return state.map(lambda mean: window**2 * mean) if step.total else state


def _affine(step: Affine, state: Covariances) -> Covariances:
    """Averages over windows, scales and adds the biases' part."""
    window = 1 if step.windows is None else step.windows.size
    if step.windows is None:
        mean = dataclasses.replace(state.as_gaps(), ntk=state.tangents())
    else:
        mean = _averaged(
            state,
            partial(state.layout.window_mean, step=step),
            partial(EQUAL_POSITIONS.window_mean, step=step),
            partial(state.layout.outside, step=step),
            terms=state.terms * window,
        )
    ntk = None if mean.ntk is None else step.w_std**2 * mean.ntk
    own = None if ntk is None else _own(step, window * state.channels)
    weights = dataclasses.replace(mean, ntk=ntk, own=own, channels=step.features)
    if mean.form == "covariance":
        weights = dataclasses.replace(weights, nngp=step.w_std**2 * mean.nngp)
        return _with_bias(step, weights)
    scaled = _scaled(mean.stds, abs(step.w_std))
    units = None if mean.units is None else _scaled(mean.units, abs(step.w_std))
    return _with_bias(step, dataclasses.replace(weights, stds=scaled, units=units))


def _scaled(sides: Sides, factor: float) -> Sides:
    return factor * sides[0], factor * sides[1]


def _with_bias(step: Affine, weights: Covariances) -> Covariances:
    """Adds the biases to the weights' outputs."""
    if step.b_std is None:
        return weights
    if weights.form == "covariance":
        return dataclasses.replace(weights, nngp=weights.nngp + step.bias_variance)
    one, other = (jnp.full_like(std, abs(step.b_std)) for std in weights.stds)
    weights = weights.as_gaps()
    biases = dataclasses.replace(weights, nngp=jnp.zeros((), one.dtype), stds=(one, other))
    return _together([weights, biases], [1.0, 1.0])


def _joined(
    step: Sum | Concat, state: Covariances, place: Place, scales_at: Callable, rest: Sequence[Step]
) -> Covariances:
    """Adds paths together, or averages over the features of all."""
    ends = [
        _through(path, state, (*place, which), scales_at, rest)
        for which, path in enumerate(step.paths)
    ]
    if any(end.form == "covariance" for end in ends):
        ends = [end.as_covariances() for end in ends]
    concat = isinstance(step, Concat)
    channels = sum(end.channels for end in ends) if concat else ends[0].channels
    shares = [end.channels / channels if concat else 1.0 for end in ends]
    joined = _together([end.as_gaps() for end in ends], shares)
    ntks = [end.tangents() for end in ends]
    ntk = None
    if ntks[0] is not None:
        ntk = sum(share * end for share, end in zip(shares, ntks, strict=True))
    terms = sum(end.terms for end in ends)
    return dataclasses.replace(joined, ntk=ntk, own=None, channels=channels, terms=terms)


def _together(parts: Sequence[Covariances], shares: Sequence[float]) -> Covariances:
    """Adds up independent features with these weights."""
    each = list(zip(shares, parts, strict=True))
    first = parts[0]
    if first.form == "covariance":
        nngp = sum(share * part.nngp for share, part in each)
        return dataclasses.replace(first, nngp=nngp)
    one, other = (
        root(sum(share * part.stds[side] ** 2 for share, part in each)) for side in range(2)
    )
    gap = 0.0
    for share, part in each:
        quotients = _quotients(part.stds, (one, other))
        gap = gap + share * _distances(part.nngp, *first.layout.pairs(*quotients))
    return dataclasses.replace(first, nngp=gap, stds=(one, other))


def _rescaled(
    step: Pointwise, state: Covariances, place: Place, scales_at: Callable
) -> Covariances:
    """Applies a normalisation, or dropout."""
    scale1, scale2 = scales_at(place, step, state)
    state = dataclasses.replace(state.as_gaps(), ntk=state.tangents(), own=None)
    if isinstance(step, LayerNorm):
        inverse1, inverse2 = state.layout.pairs(scale1.inverse, scale2.inverse)
        factor = inverse1 * inverse2
        if state.form == "covariance":
            return state.map(lambda x: x * factor)
        stds = (state.stds[0] * scale1.inverse, state.stds[1] * scale2.inverse)
        ntk = None if state.ntk is None else state.ntk * factor
        return dataclasses.replace(state, stds=stds, ntk=ntk)
    if state.form == "covariance":
        return state
    # Masks differ: deviations grow, covariances do not.
    gap = 1 - step.keep + step.keep * state.nngp
    stds = _scaled(state.stds, 1 / math.sqrt(step.keep))
    return dataclasses.replace(state, nngp=gap, stds=stds)


def _nonlinear(
    step: Nonlinearity, state: Covariances, scale1: Scale, scale2: Scale, rest: Sequence[Step]
) -> Covariances:
    """Applies the dual of a nonlinearity at every position."""
    tolerance, layout, form, own = state.tolerance(), state.layout, state.form, state.own
    axes, keeps_gaps = layout.axes(state.nngp), _reaches_nonlinearity(rest)
    apart = keeps_gaps and axes > 0
    after = (scale1.after, scale2.after)
    units = units_of(after, axes) if apart else None
    nothing = (None, None)
    # With their inverses, which the pass over the pairs would compute for each pair.
    before = (
        [(one, inverse_of(one)) for one in state.quotients()] if form == "distance" else nothing
    )
    quotients = _quotients(after, units) if apart else nothing

    def at(pairs: tuple, side1: tuple, side2: tuple) -> tuple[Array, Array | None]:
        (nngp, ntk), (scale1, before1, quotient1), (scale2, before2, quotient2) = (
            pairs,
            side1,
            side2,
        )
        if form == "covariance":
            cosine = correlations.cosine(nngp, scale1.inverse, scale2.inverse, tolerance)
        else:
            if form == "distance":
                (one, inverse1), (other, inverse2) = before1, before2
                nngp = _gaps(nngp, one, other, inverse1, inverse2, tolerance)
            cosine = correlations.cosine_of_gap(nngp, tolerance)
        if own is not None:
            ntk = _with_own(ntk, own, cosine.value * (scale1.std * scale2.std))
        values, slopes = step.duals(cosine, scale1.std, scale2.std)
        if keeps_gaps:
            values = step.gap(cosine, scale1, scale2)
        if apart:
            values = _distances(values, quotient1, quotient2)
        return values, None if ntk is None else slopes * ntk

    sides = zip((scale1, scale2), before, quotients, strict=True)
    nngp, ntk = layout.over_positions(at, (state.nngp, state.ntk), *sides)
    if keeps_gaps:
        form = "distance" if apart else "gap"
        return Covariances(layout, form, nngp, ntk, None, after, units, state.channels, 1)
    return Covariances(layout, "covariance", nngp, ntk, None, None, None, state.channels, 1)


def _reaches_nonlinearity(rest: Sequence[Step]) -> bool:
    """Whether gaps matter after these steps: not before pools, which mix pairs of positions."""
    where = (step for step in flat(rest) if isinstance(step, Pool | Nonlinearity))
    return isinstance(next(where, None), Nonlinearity)
