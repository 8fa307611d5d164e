"""Infinite-width kernels of networks without pooling, by our own evaluation of the recursion.

Without pooling the kernel of two images depends on the covariances of equal positions alone. So K
and Theta are [positions, n1, n2]: every operation runs along contiguous pairs of examples, the
first layer is one batched matrix product, a convolution is a sum of strided slices, and whatever
depends on one example only (patches, standard deviations) is computed once. The pairs are worked
off in tiles that stay in a CPU's cache, by a loop inside one compiled program; of a symmetric
matrix only the tiles on and above the diagonal.

Source of the recursion: Jacot et al. (2018), theorem 1; Arora et al. (2019), On exact computation
with an infinitely wide neural net, section 4; Sohl-Dickstein et al. (2020) for the "standard"
parameterisation.
"""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.kernels import dual_activations, tiles

# Covariances in a tile: positions times pairs. On a CPU the few arrays of a tile then stay in the
# cache of one core (2 MB each, measured on the CNN: 16 x 64 pairs are best, 32 x 128 half as fast).
_NUMBERS_A_TILE = {"cpu": 4.5e5}
_NUMBERS_A_TILE_ELSEWHERE = 3e7

# Columns of a tile while numbers are few, and its largest side.
_COLUMNS = 64
_LARGEST_SIDE = {"cpu": 256}
_LARGEST_SIDE_ELSEWHERE = 1024


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


class Flatten(NamedTuple):
    """All features of an example in a row."""

    kind: str = "flatten"


Step = Affine | Rectifier | ErrorFunction | Flatten


class Examples(NamedTuple):
    """What the kernels need of one side's examples, examples last.

    Attributes:
        features: [*positions, k, n], inputs to the first affine step, scaled so that their
            products over k are the covariances without biases.
        stds: [*positions, n] before each nonlinearity.
        inverses: one over them; 0 where they are 0.
    """

    features: Float[Array, "*positions k n"]
    stds: tuple[Array, ...]
    inverses: tuple[Array, ...]


def is_supported(steps: Sequence[Step], input_shape: tuple[int, ...]) -> bool:
    """Whether `kernel` computes these steps: weights first, and outputs without positions."""
    kinds = [type(step) for step in steps]
    if Affine not in kinds or any(k is not Flatten for k in kinds[: kinds.index(Affine)]):
        return False
    positions = len(input_shape) - 1
    for step in steps:
        if isinstance(step, Flatten):
            positions = 0
        elif isinstance(step, Affine) and step.window is not None and positions != 2:
            return False
    return positions == 0


@partial(jax.jit, static_argnames=("steps", "get"))
def kernel(
    steps: tuple[Step, ...],
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
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
    symmetric = x2 is None
    numbers = max(_position_counts(steps, x1.shape[1:]))
    n1, n2 = len(x1), len(x1 if symmetric else x2)
    rows, columns = _tile_sides(numbers, n1, n2)
    side1 = examples(steps, _filled(x1, rows))
    side2 = examples(steps, _filled(x1 if symmetric else x2, columns))
    return tiles.all_pairs(
        partial(_tile_kernel, steps, get),
        _in_tiles(side1, rows),
        _in_tiles(side2, columns),
        (n1, n2),
        symmetric=symmetric,
    )


def _tile_sides(numbers: int, n1: int, n2: int) -> tuple[int, int]:
    """Chooses rows and columns of a tile whose pairs have this many positions."""
    on_cpu = jax.default_backend() == "cpu"
    pairs = (_NUMBERS_A_TILE["cpu"] if on_cpu else _NUMBERS_A_TILE_ELSEWHERE) / numbers
    largest = _LARGEST_SIDE["cpu"] if on_cpu else _LARGEST_SIDE_ELSEWHERE
    columns = min(largest, max(_COLUMNS, int(math.sqrt(pairs))))
    rows = min(largest, max(1, int(pairs / columns)))
    return tiles.even_share(n1, rows), tiles.even_share(n2, columns)


def _filled(x: Float[Array, "n ..."], side: int) -> Float[Array, "m ..."]:
    """Adds examples of zeros up to a multiple of `side`."""
    return jnp.pad(x, [(0, -len(x) % side)] + [(0, 0)] * (x.ndim - 1))


def _in_tiles(side: Examples, size: int) -> Examples:
    """Splits the last axis into tiles, and puts them first."""

    def split(array: Array) -> Array:
        *before, n = array.shape
        return jnp.moveaxis(array.reshape(*before, n // size, size), -2, 0)

    return jax.tree.map(split, side)


def examples(steps: Sequence[Step], x: Float[Array, "n ..."]) -> Examples:
    """Computes what depends on one example only."""
    features, rest = _first_features(steps, x)
    first, *others = rest
    variance = jnp.sum(features**2, axis=-2) + _bias(first)
    stds, inverses = [], []
    for step in others:
        if isinstance(step, Affine):
            variance = step.w_std**2 * _window_mean(variance, step) + _bias(step)
        elif isinstance(step, Flatten):
            variance = _mean_over_positions(variance, 1)
        else:
            positive = variance > 0
            std = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1)), 0)
            stds.append(std)
            inverses.append(jnp.where(positive, 1 / jnp.where(positive, std, 1), 0))
            variance = _variance_after(step, variance)
    return Examples(features, tuple(stds), tuple(inverses))


def _variance_after(step: Rectifier | ErrorFunction, variance: Array) -> Array:
    if isinstance(step, Rectifier):
        return (1 + step.slope**2) / 2 * variance
    return dual_activations.error_function_variance(variance)


def _first_features(steps: Sequence[Step], x: Array) -> tuple[Array, Sequence[Step]]:
    """Returns the scaled inputs to the first affine step, and the steps from there on."""
    start = next(i for i, step in enumerate(steps) if isinstance(step, Affine))
    first = steps[start]
    if start > 0:  # flattened
        x = x.reshape(len(x), math.prod(x.shape[1:]))
    features = jnp.moveaxis(x, 0, -1)
    if first.window is not None:
        features = jnp.concatenate(_shifted(features, first), axis=-2)
    return first.w_std / math.sqrt(features.shape[-2]) * features, steps[start:]


def _tile_kernel(
    steps: Sequence[Step],
    get: str,
    side1: Examples,
    side2: Examples,
) -> Float[Array, "rows columns"]:
    """Runs the recursion for one tile."""
    first, *others = itertools.dropwhile(lambda step: not isinstance(step, Affine), steps)
    # Precision beyond that of a GPU's fast mode: errors here are amplified.
    product = jnp.einsum(
        "...ka,...kb->...ab", side1.features, side2.features, precision=lax.Precision.HIGHEST
    )
    fan_in = terms = side1.features.shape[-2]
    nngp = product + _bias(first) if first.b_std is not None else product
    ntk = None
    if get == "ntk":
        ntk = nngp
        if first.parameterization == "standard":
            ntk = fan_in / first.w_std**2 * product + (first.b_std is not None)
    channels, stage = first.features, 0
    for step in others:
        if isinstance(step, Affine):
            window = math.prod(step.window or (1,))
            nngp, ntk = _affine(step, nngp, ntk, window * channels)
            channels, terms = step.features, terms * window
        elif isinstance(step, Flatten):
            positions = math.prod(nngp.shape[:-2])
            nngp, ntk = (_mean_over_positions(a, 2) for a in (nngp, ntk))
            channels, terms = channels * positions, terms * positions
        else:
            tolerance = _tolerance(nngp.dtype, terms)
            scales = [(side.stds[stage], side.inverses[stage]) for side in (side1, side2)]
            nngp, ntk = _activate(step, nngp, ntk, *scales, tolerance)
            stage, terms = stage + 1, 1
    return nngp if get == "nngp" else ntk


def _tolerance(dtype: np.dtype, terms: int) -> float:
    """Returns how far rounding takes a cosine from 1 after a sum of so many terms."""
    return float(jnp.finfo(dtype).eps) * (4 + math.sqrt(terms) / 4)


def _bias(step: Affine) -> float:
    return 0.0 if step.b_std is None else step.b_std**2


def _affine(
    step: Affine, nngp: Array, ntk: Array | None, fan_in: int
) -> tuple[Array, Array | None]:
    mean = _window_mean(nngp, step)
    after = step.w_std**2 * mean + _bias(step)
    if ntk is None:
        return after, None
    own = after
    if step.parameterization == "standard":
        own = fan_in * mean + (step.b_std is not None)
    return after, own + step.w_std**2 * _window_mean(ntk, step)


def _activate(
    step: Rectifier | ErrorFunction,
    nngp: Float[Array, "*positions rows columns"],
    ntk: Float[Array, "*positions rows columns"] | None,
    scales1: tuple[Array, Array],
    scales2: tuple[Array, Array],
    tolerance: float,
) -> tuple[Array, Array | None]:
    """Applies the dual of a nonlinearity at every position."""

    def at(args: tuple) -> tuple[Array, Array | None]:
        nngp, ntk, (std1, inverse1), (std2, inverse2) = args
        std1, inverse1 = std1[..., :, None], inverse1[..., :, None]
        std2, inverse2 = std2[..., None, :], inverse2[..., None, :]
        cosine = dual_activations.cosine(nngp, inverse1, inverse2, tolerance)
        if isinstance(step, Rectifier):
            values, slopes = dual_activations.rectifier(cosine, step.slope)
            values = values * (std1 * std2)
        else:
            values, slopes = dual_activations.error_function(cosine, std1, std2)
        return values, None if ntk is None else slopes * ntk

    args = (nngp, ntk, scales1, scales2)
    # XLA's CPU compiler would fuse this into the sum over windows, and evaluate it again for each
    # window that a position lies in (6 times slower in all). A loop keeps it apart, and its rows
    # stay in the nearest cache.
    if nngp.ndim > 2 and jax.default_backend() == "cpu":
        return lax.map(at, args)
    return at(args)


def _window_mean(x: Array, step: Affine) -> Array:
    """Averages over the windows of a convolution, zeros around the image."""
    if step.window is None:
        return x
    return sum(_shifted(x, step)) / math.prod(step.window)


def _shifted(x: Float[Array, "h w ..."], step: Affine) -> list[Float[Array, "p q ..."]]:
    """Returns, for each offset in a window, what the windows have there."""
    pads = lax.padtype_to_pads(x.shape[:2], step.window, step.strides, step.padding)
    if any(map(any, pads)):
        x = jnp.pad(x, [*pads] + [(0, 0)] * (x.ndim - 2))
    ends = [
        step.strides[axis] * ((x.shape[axis] - step.window[axis]) // step.strides[axis]) + 1
        for axis in (0, 1)
    ]
    return [
        x[top : top + ends[0] : step.strides[0], left : left + ends[1] : step.strides[1]]
        for top, left in itertools.product(*map(range, step.window))
    ]


def _mean_over_positions(x: Array | None, examples: int) -> Array | None:
    """Averages over all but the last `examples` axes."""
    return None if x is None else jnp.mean(x, axis=tuple(range(x.ndim - examples)))


def _position_counts(steps: Sequence[Step], input_shape: tuple[int, ...]) -> list[int]:
    """Returns the number of positions after each affine step."""
    positions, counts = input_shape[:-1], []
    for step in steps:
        if isinstance(step, Flatten):
            positions = ()
        elif isinstance(step, Affine):
            if step.window is not None:
                positions = jax.eval_shape(
                    lambda x, s=step: _shifted(x, s)[0], jax.ShapeDtypeStruct(positions, np.float32)
                ).shape
            counts.append(math.prod(positions))
    return counts
