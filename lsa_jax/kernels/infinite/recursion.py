"""Infinite-width kernels by our own evaluation of the recursion.

Without pooling the kernel of two images depends on the covariances of equal positions alone. So K
and Theta are [positions, n1, n2]: every operation runs along contiguous pairs of examples, the
first layer is one batched matrix product, a convolution is a sum of strided slices, and whatever
depends on one example only (patches, standard deviations) is computed once. The pairs are worked
off in tiles that stay in a CPU's cache, by a loop inside one compiled program; of a symmetric
matrix only the tiles on and above the diagonal.

Where pools average over positions, covariances of all pairs of positions are needed before them: K
and Theta are then [height, width, height, width, n1, n2], in tiles of few pairs.

Source of the recursion: Jacot et al. (2018), theorem 1; Arora et al. (2019), On exact computation
with an infinitely wide neural net, section 4; Sohl-Dickstein et al. (2020) for the "standard"
parameterisation.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from lsa_jax.kernels.infinite import dual_activations, tiles
from lsa_jax.kernels.infinite.steps import (
    Affine,
    Elementwise,
    ErrorFunction,
    Flatten,
    GaussianError,
    LayerNorm,
    Nonlinearity,
    Pool,
    Rectifier,
    Step,
    Sum,
    is_supported,
    pools,
    position_counts,
    shifted,
    uses_variances_of_pools,
)
from lsa_jax.kernels.matrices.staged import Stages

__all__ = [
    "Affine",
    "Elementwise",
    "ErrorFunction",
    "Flatten",
    "GaussianError",
    "LayerNorm",
    "Pool",
    "Rectifier",
    "Step",
    "Sum",
    "examples",
    "is_supported",
    "kernel",
    "stages",
]

# Covariances in a tile: positions (pairs of them before pools) times pairs of examples. On a CPU
# the few arrays of a tile then stay in the cache of one core (2 MB each, measured on the CNN: 32 x
# 32 pairs are best, 16 x 64 take a tenth longer, 32 x 128 twice as long).
_NUMBERS_A_TILE = {"cpu": 4.5e5}
_NUMBERS_A_TILE_ELSEWHERE = 3e7

# Columns of a tile while numbers are few, and its largest side. Before pools a pair has so many
# numbers that the columns are just those that fill a processor's vectors.
_COLUMNS = 32
_COLUMNS_BEFORE_POOLS = 16
_LARGEST_SIDE = {"cpu": 256}
_LARGEST_SIDE_ELSEWHERE = 1024

# Numbers in a vector of a CPU. What columns leave of one XLA computes number by number: with 63
# columns the CNN took half as long again as with 64.
_VECTOR = 8


class Examples(NamedTuple):
    """What the kernels need of one side's examples, examples last.

    Attributes:
        features: [*positions, k, n], inputs to the first affine step, scaled so that their
            products over k are the covariances without biases.
        stds: [*positions, n] before each nonlinearity or normalisation.
        inverses: one over them; 0 where they are 0.
    """

    features: Float[Array, "*positions k n"]
    stds: tuple[Array, ...]
    inverses: tuple[Array, ...]


class _State(NamedTuple):
    """Between two steps, for one tile.

    Attributes:
        nngp: [*positions, rows, columns], or [h, w, h, w, rows, columns] before pools.
        ntk: the same; None where it is not asked for.
        channels: number of features at a position.
        terms: how many products were summed since the last nonlinearity, for rounding.
    """

    nngp: Array
    ntk: Array | None
    channels: int
    terms: int

    def each(self, function: Callable) -> "_State":
        """Applies a function to both covariances."""
        return self._replace(
            nngp=function(self.nngp), ntk=None if self.ntk is None else function(self.ntk)
        )


@partial(jax.jit, static_argnames=("steps", "get"))
def kernel(
    steps: tuple[Step, ...],
    x1: Float[Array | np.ndarray, "n1 ..."],
    x2: Float[Array | np.ndarray, "n2 ..."] | None = None,
    get: Literal["ntk", "nngp"] = "ntk",
) -> Float[Array, "n1 n2"]:
    """Computes the kernel of the network that the steps describe, in float32.

    Relative to sqrt(K(x, x) K(x', x')) it differs from exact arithmetic by a few float32 roundings.
    Two examples, or patches of them, that are parallel but for a relative difference of about
    1e-3 count as parallel: float32 inner products cannot tell.

    Memory for the patches of both sides, one tile's covariances and the matrix (twice, without
    `x2`). Derivatives with respect to the inputs recompute each tile.

    Args:
        steps: the network; `is_supported` must hold.
        x1: first inputs.
        x2: second inputs; None means x1 against itself, for about half the time.
        get: "ntk" or "nngp".
    """
    side1 = examples(steps, x1)
    side2 = side1 if x2 is None else examples(steps, x2)
    return _all_pairs(steps, x1.shape[1:], get, side1, side2, symmetric=x2 is None)


def stages(
    steps: tuple[Step, ...], example: jax.ShapeDtypeStruct, get: Literal["ntk", "nngp"] = "ntk"
) -> Stages:
    """Returns the two stages of `kernel`: what depends on one example, and the recursion.

    The second takes less time where both sides are the same examples; derivatives do not go through
    it.
    """

    def between(side1: Examples, side2: Examples) -> Array:
        # So one program serves the tiles on the diagonal of a symmetric matrix and the others.
        same = _same(side1.features, side2.features)
        return _all_pairs(steps, example.shape, get, side1, side2, symmetric=same)

    return Stages(partial(examples, steps), between)


def _same(
    features1: Float[Array, "... n1"], features2: Float[Array, "... n2"]
) -> bool | Bool[Array, ""]:
    """Tells whether these are the same examples, mostly by the first one alone."""
    if features1.shape != features2.shape:
        return False
    return lax.cond(
        jnp.array_equal(features1[..., 0], features2[..., 0]),
        jnp.array_equal,
        lambda *_: jnp.array(False),
        features1,
        features2,
    )


def _all_pairs(
    steps: tuple[Step, ...],
    shape: tuple[int, ...],
    get: str,
    side1: Examples,
    side2: Examples,
    *,
    symmetric: bool | Bool[Array, ""],
) -> Float[Array, "n1 n2"]:
    """Runs the recursion for all pairs of examples of this shape, tile by tile."""
    numbers = max(position_counts(steps, shape)) ** (2 if pools(steps) else 1)
    n1, n2 = (side.features.shape[-1] for side in (side1, side2))
    rows, columns = _tile_sides(numbers, n1, n2, before_pools=pools(steps))
    return tiles.all_pairs(
        partial(_tile_kernel, steps, get),
        _in_tiles(side1, rows),
        _in_tiles(side2, columns),
        (n1, n2),
        symmetric=symmetric,
    )


def _tile_sides(numbers: int, n1: int, n2: int, *, before_pools: bool) -> tuple[int, int]:
    """Chooses rows and columns of a tile whose pairs have so many numbers."""
    on_cpu = jax.default_backend() == "cpu"
    pairs = (_NUMBERS_A_TILE["cpu"] if on_cpu else _NUMBERS_A_TILE_ELSEWHERE) / numbers
    largest = _LARGEST_SIDE["cpu"] if on_cpu else _LARGEST_SIDE_ELSEWHERE
    # Beyond the cache, full vectors are worth more than it, up to some ten times its size.
    least = min(_COLUMNS_BEFORE_POOLS, max(1, int(10 * pairs))) if before_pools else _COLUMNS
    columns = _columns_near(max(least, int(math.sqrt(pairs))), n2, largest)
    rows = min(largest, max(1, int(pairs / columns)))
    return tiles.even_share(n1, rows), columns


def _columns_near(about: int, n: int, largest: int) -> int:
    """Returns a tile's columns, whole vectors of them, that leave little of n to fill up."""
    if about < _VECTOR:
        return tiles.even_share(n, about)
    smallest = min(math.ceil(n / _VECTOR), math.ceil(0.75 * min(about, largest) / _VECTOR))
    sides = range(smallest * _VECTOR, min(int(1.5 * about), largest) + 1, _VECTOR)
    # Twice or half as many columns take about a tenth longer.
    return min(sides, key=lambda side: math.ceil(n / side) * side * (1 + abs(side / about - 1) / 4))


def _in_tiles(side: Examples, size: int) -> Examples:
    """Splits the last axis into tiles, filled up with zeros, and puts them first."""

    def split(array: Array) -> Array:
        *before, n = array.shape
        array = jnp.pad(array, [(0, 0)] * len(before) + [(0, -n % size)])
        return jnp.moveaxis(array.reshape(*before, array.shape[-1] // size, size), -2, 0)

    return jax.tree.map(split, side)


def examples(steps: Sequence[Step], x: Float[Array, "n ..."]) -> Examples:
    """Computes what depends on one example only."""
    features, (first, *others) = _first_features(steps, x)
    if uses_variances_of_pools(steps):
        return Examples(features, *_scales_from_pairs(steps, features))
    variance = jnp.sum(features**2, axis=-2) + _bias(first)
    scales: list[tuple[Array, Array]] = []
    _variance_after(others, variance, scales)
    stds, inverses = zip(*scales, strict=True) if scales else ((), ())
    return Examples(features, stds, inverses)


def _scale(step: Nonlinearity | LayerNorm, variance: Array) -> tuple[Array, Array]:
    """Returns the standard deviation and one over it, 0 where it is 0."""
    if isinstance(step, LayerNorm):
        variance = variance + step.epsilon
    positive = variance > 0
    std = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1)), 0)
    return std, jnp.where(positive, 1 / jnp.where(positive, std, 1), 0)


def _variance_after(
    steps: Sequence[Step], variance: Array | None, scales: list[tuple[Array, Array]]
) -> Array | None:
    """Follows the variances at each position through the steps; None after a pool."""
    for step in steps:
        if isinstance(step, Sum):
            branch, shortcut = (_variance_after(path, variance, scales) for path in step)
            variance = None if branch is None else branch + shortcut
        elif isinstance(step, Pool) or variance is None:
            variance = None
        elif isinstance(step, Affine):
            variance = step.w_std**2 * _window_mean(variance, step, before_pools=False)
            variance = variance + _bias(step)
        elif isinstance(step, Flatten):
            variance = _mean_over_positions(variance, 1)
        else:
            scales.append(_scale(step, variance))
            variance = _dual_variance(step, variance)
    return variance


def _dual_variance(step: Nonlinearity | LayerNorm, variance: Array) -> Array:
    if isinstance(step, Rectifier):
        return (1 + step.slope**2) / 2 * variance
    if isinstance(step, LayerNorm):
        return variance / (variance + step.epsilon)
    if isinstance(step, GaussianError):
        return dual_activations.gaussian_error_variance(variance)
    if isinstance(step, Elementwise):
        return step.nonlinearity.duals(variance, variance, variance)[0]
    return dual_activations.error_function_variance(variance)


def _scales_from_pairs(
    steps: Sequence[Step], features: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Computes the same as `_variance_after`, by the recursion of each example with itself."""

    def of_one(features: Array) -> list[tuple[Array, Array]]:
        found: list[tuple[Array, Array]] = []

        def measured(step: Nonlinearity | LayerNorm, nngp: Array) -> tuple[Any, Any]:
            variance = _equal_positions(nngp)[..., 0] if nngp.ndim == 6 else nngp[..., 0]
            found.append(_scale(step, variance))
            return found[-1], found[-1]

        one = features[..., None]
        _run(steps, _first_state(steps, "nngp", one, one), measured)
        return [(std[..., 0], inverse[..., 0]) for std, inverse in found]

    scales = lax.map(of_one, jnp.moveaxis(features, -1, 0))
    stds, inverses = zip(*scales, strict=True)
    return tuple(jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), side) for side in (stds, inverses))


def _first_features(steps: Sequence[Step], x: Array) -> tuple[Array, Sequence[Step]]:
    """Returns the scaled inputs to the first affine step, and the steps from there on."""
    start = next(i for i, step in enumerate(steps) if isinstance(step, Affine))
    first = steps[start]
    if start > 0:  # flattened
        x = x.reshape(len(x), math.prod(x.shape[1:]))
    features = jnp.moveaxis(x, 0, -1)
    if first.window is not None:
        features = jnp.concatenate(shifted(features, first, [[0], [1]]), axis=-2)
    return first.w_std / math.sqrt(features.shape[-2]) * features, steps[start:]


def _tile_kernel(
    steps: Sequence[Step],
    get: str,
    side1: Examples,
    side2: Examples,
) -> Float[Array, "rows columns"]:
    """Runs the recursion for one tile."""
    scales = iter(
        zip(
            zip(side1.stds, side1.inverses, strict=True),
            zip(side2.stds, side2.inverses, strict=True),
            strict=True,
        )
    )
    state = _first_state(steps, get, side1.features, side2.features)
    state = _run(steps, state, lambda _step, _nngp: next(scales))
    return state.nngp if get == "nngp" else state.ntk


def _first_state(steps: Sequence[Step], get: str, features1: Array, features2: Array) -> _State:
    """Returns the covariances after the first affine step."""
    first = next(step for step in steps if isinstance(step, Affine))
    before_pools = pools(steps) and features1.ndim == 4
    # Precision beyond that of a GPU's fast mode: errors here are amplified.
    product = jnp.einsum(
        "hwka,xykb->hwxyab" if before_pools else "...ka,...kb->...ab",
        features1,
        features2,
        precision=lax.Precision.HIGHEST,
    )
    fan_in = features1.shape[-2]
    nngp = product + _bias(first) if first.b_std is not None else product
    ntk = None
    if get == "ntk":
        ntk = nngp
        if first.parameterization == "standard":
            ntk = fan_in / first.w_std**2 * product + (first.b_std is not None)
    return _State(nngp, ntk, first.features, fan_in)


def _run(steps: Sequence[Step], state: _State, scales_at: Callable) -> _State:
    """Goes through the steps that follow the first affine one, at top level."""
    _, *others = itertools.dropwhile(lambda step: not isinstance(step, Affine), steps)
    for place, step in enumerate(others):
        if state.nngp.ndim == 6 and not pools(others[place:]):
            state = state.each(_equal_positions)
        state = _apply(step, state, scales_at)
    return state


def _apply(step: Step, state: _State, scales_at: Callable) -> _State:
    """Applies one step; `scales_at` gives the standard deviations where they are needed."""
    positions = math.prod(state.nngp.shape[: 2 if state.nngp.ndim == 6 else -2])
    if isinstance(step, Affine):
        return _affine(step, state)
    if isinstance(step, Sum):
        ends = []
        for path in step:
            end = state
            for inner in path:
                end = _apply(inner, end, scales_at)
            ends.append(end)
        branch, shortcut = ends
        ntk = None if state.ntk is None else branch.ntk + shortcut.ntk
        terms = branch.terms + shortcut.terms
        return _State(branch.nngp + shortcut.nngp, ntk, branch.channels, terms)
    if isinstance(step, Flatten):
        if state.nngp.ndim == 6:
            state = state.each(_equal_positions)
        state = state.each(partial(_mean_over_positions, examples=2))
        return state._replace(channels=state.channels * positions, terms=state.terms * positions)
    if isinstance(step, Pool):
        window = math.prod(step.window) if step.window is not None else positions
        return state.each(partial(_pool, step))._replace(terms=state.terms * window**2)
    return _activate(step, state, *scales_at(step, state.nngp))


def _pool(step: Pool, x: Float[Array, "h w x y rows columns"]) -> Array:
    """Averages over both examples' positions."""
    if step.window is None:
        return _mean_over_positions(x, 2)
    for axes in ([[0], [1]], [[2], [3]]):
        x = sum(shifted(x, step, axes)) / math.prod(step.window)
    return x


def _equal_positions(x: Float[Array, "h w h w ..."]) -> Float[Array, "h w ..."]:
    """Takes the covariances of equal positions."""
    h, w = x.shape[:2]
    top, left = np.ogrid[:h, :w]
    return x[top, left, top, left]


def _tolerance(dtype: np.dtype, terms: int) -> float:
    """Returns how far rounding takes a cosine from 1 after a sum of so many terms."""
    return float(jnp.finfo(dtype).eps) * (4 + math.sqrt(terms) / 4)


def _bias(step: Affine) -> float:
    return 0.0 if step.b_std is None else step.b_std**2


def _affine(step: Affine, state: _State) -> _State:
    before_pools = state.nngp.ndim == 6
    window = math.prod(step.window or (1,))
    mean = _window_mean(state.nngp, step, before_pools=before_pools)
    after = step.w_std**2 * mean + _bias(step)
    ntk = None
    if state.ntk is not None:
        own = after
        if step.parameterization == "standard":
            own = window * state.channels * mean + (step.b_std is not None)
        ntk = own + step.w_std**2 * _window_mean(state.ntk, step, before_pools=before_pools)
    return _State(after, ntk, step.features, state.terms * window)


def _activate(
    step: Nonlinearity | LayerNorm,
    state: _State,
    scales1: tuple[Array, Array],
    scales2: tuple[Array, Array],
) -> _State:
    """Applies the dual of a nonlinearity, or a normalisation, at every position."""
    nngp, ntk = state.nngp, state.ntk
    tolerance = _tolerance(nngp.dtype, state.terms)
    before_pools = nngp.ndim == 6

    def at(args: tuple) -> tuple[Array, Array | None]:
        nngp, ntk, scales1, scales2 = args
        (std1, inverse1), (std2, inverse2) = scales1, scales2
        if isinstance(step, LayerNorm):
            scale = inverse1 * inverse2
            return nngp * scale, None if ntk is None else ntk * scale
        cosine = dual_activations.cosine(nngp, inverse1, inverse2, tolerance)
        if isinstance(step, Elementwise):
            covariance = dual_activations.snapped(nngp, cosine, std1, std2)
            values, slopes = step.nonlinearity.duals(covariance, std1**2, std2**2)
        elif isinstance(step, Rectifier):
            values, slopes = dual_activations.rectifier(cosine, step.slope)
            values = values * (std1 * std2)
        elif isinstance(step, GaussianError):
            values, slopes = dual_activations.gaussian_error(cosine, std1, std2)
        else:
            values, slopes = dual_activations.error_function(cosine, std1, std2)
        return values, None if ntk is None else slopes * ntk

    scales1 = [_spread(a, [2, 3, 5] if before_pools else [a.ndim]) for a in scales1]
    scales2 = [_spread(a, [0, 1, 4] if before_pools else [a.ndim - 1]) for a in scales2]
    # XLA's CPU compiler would fuse this into the sum over windows, and evaluate it again for each
    # window that a position lies in (6 times slower in all). A loop keeps it apart, and its rows
    # stay in the nearest cache.
    if nngp.ndim == 2 or jax.default_backend() != "cpu":
        nngp, ntk = at((nngp, ntk, scales1, scales2))
    elif before_pools:
        same = [a[0] for a in scales2]
        nngp, ntk = lax.map(lambda args: at((*args, same)), (nngp, ntk, scales1))
    else:
        nngp, ntk = lax.map(at, (nngp, ntk, scales1, scales2))
    terms = state.terms if isinstance(step, LayerNorm) else 1
    return state._replace(nngp=nngp, ntk=ntk, terms=terms)


def _spread(scale: Float[Array, "*positions n"], axes: Sequence[int]) -> Array:
    """Adds axes of length one, for the other example."""
    return jnp.expand_dims(scale, tuple(axes))


def _window_mean(x: Array, step: Affine, *, before_pools: bool) -> Array:
    """Averages over the windows of a convolution, zeros around the image."""
    if step.window is None:
        return x
    axes = [[0, 2], [1, 3]] if before_pools else [[0], [1]]
    return sum(shifted(x, step, axes)) / math.prod(step.window)


def _mean_over_positions(x: Array, examples: int) -> Array:
    """Averages over all but the last `examples` axes."""
    return jnp.mean(x, axis=tuple(range(x.ndim - examples)))
