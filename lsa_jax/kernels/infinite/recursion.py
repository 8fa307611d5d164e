"""Infinite-width kernels by our own evaluation of the recursion.

Without pooling K and Theta are [positions, n1, n2]: every operation runs along contiguous pairs of
examples, the first layer is one batched matrix product, a convolution is a sum of strided slices,
and quantities of one example (patches, standard deviations) are computed once. The pairs are
processed in tiles that stay in a CPU's cache, by a loop inside one compiled program; of a symmetric
matrix only the tiles on and above the diagonal. Before pools K and Theta are [height, width,
height, width, n1, n2], in tiles of few pairs. `covariances` has the recursion and its sources.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.kernels.infinite import tiles
from lsa_jax.kernels.infinite.covariances import Covariances, Place, first_covariances, run
from lsa_jax.kernels.infinite.directions import Directions, directions
from lsa_jax.kernels.infinite.layouts import EQUAL_POSITIONS, mean_over_positions
from lsa_jax.kernels.infinite.network_shape import (
    covered,
    pools,
    position_counts,
    uses_variances_of_pools,
)
from lsa_jax.kernels.infinite.pointwise import Pointwise, Scale
from lsa_jax.kernels.infinite.steps import Affine, Concat, Flatten, Pool, Step, Sum, shifted
from lsa_jax.kernels.matrices.staged import Stages


class Examples(NamedTuple):
    """The kernels' quantities of one batch of examples, examples last.

    Attributes:
        directions: unit vectors of the inputs to the first affine step.
        norms: deviations that the first weights make of them.
        scales: [*positions, n] before each nonlinearity or normalisation, by its place.
    """

    directions: Directions
    norms: Float[Array, "*positions n"]
    scales: dict[Place, Scale]


@partial(jax.jit, static_argnames=("steps", "get"))
def kernel(
    steps: tuple[Step, ...],
    x1: Float[Array | np.ndarray, "n1 ..."],
    x2: Float[Array | np.ndarray, "n2 ..."] | None = None,
    get: Literal["ntk", "nngp"] = "ntk",
    transform: Float[Array | np.ndarray, "k k"] | None = None,
) -> Float[Array, "n1 n2"]:
    """Computes the kernel of the network that the steps describe, see `kernel_of_steps`.

    `network_shape.is_supported` must hold. Without `x2` it takes about half the time. A transform
    multiplies the patches of the first layer.

    Memory for the patches of both batches, one tile's covariances and the matrix (twice, without
    `x2`). Derivatives with respect to the inputs recompute each tile.
    """
    examples1 = examples(steps, x1, transform)
    examples2 = examples1 if x2 is None else examples(steps, x2, transform)
    return _all_pairs(steps, x1.shape[1:], get, examples1, examples2, symmetric=x2 is None)


def stages(
    steps: tuple[Step, ...], example: jax.ShapeDtypeStruct, get: Literal["ntk", "nngp"] = "ntk"
) -> Stages:
    """Returns the two stages of `kernel`: quantities of one example, and the recursion.

    Both are given the transform, None for none; transposed, as XLA takes it for the product with
    the patches. The second takes less time where both batches are the same examples; derivatives do
    not go through it.
    """

    def prepare(transposed: Array | None, x: Array) -> Examples:
        return examples(steps, x, None if transposed is None else transposed.T)

    def between(_: Array | None, examples1: Examples, examples2: Examples) -> Array:
        # So one program serves the tiles on the diagonal of a symmetric matrix and the others.
        same = _same(examples1, examples2)
        return _all_pairs(steps, example.shape, get, examples1, examples2, symmetric=same)

    return Stages(prepare, between, (None,))


def _same(examples1: Examples, examples2: Examples) -> bool | Array:
    """Returns whether these are the same examples, mostly by the first one alone."""
    one, other = ((side.directions.vectors, side.norms) for side in (examples1, examples2))
    if one[0].shape != other[0].shape:
        return False

    def equal(one: tuple[Array, Array], other: tuple[Array, Array]) -> Array:
        return jnp.array_equal(one[0], other[0]) & jnp.array_equal(one[1], other[1])

    first = (jax.tree.map(lambda a: a[..., 0], side) for side in (one, other))
    return lax.cond(equal(*first), equal, lambda *_: jnp.array(False), one, other)


def _all_pairs(
    steps: tuple[Step, ...],
    shape: tuple[int, ...],
    get: str,
    examples1: Examples,
    examples2: Examples,
    *,
    symmetric: bool | Array,
) -> Array:
    """Runs the recursion for all pairs of examples of this shape, tile by tile."""
    n1, n2 = (side.norms.shape[-1] for side in (examples1, examples2))
    rows, columns = tile_sides(steps, shape, n1, n2)
    return tiles.all_pairs(
        partial(_tile_kernel, steps, get),
        tiles.in_tiles(examples1, rows, axis=-1),
        tiles.in_tiles(examples2, columns, axis=-1),
        (n1, n2),
        symmetric=symmetric,
    )


def tile_sides(
    steps: tuple[Step, ...], shape: tuple[int, ...], n1: int, n2: int
) -> tuple[int, int]:
    """Chooses rows and columns of a tile for examples of this shape."""
    numbers = max(position_counts(steps, shape)) ** (2 if pools(steps) else 1)
    return tiles.tile_size(numbers, n1, n2, before_pools=pools(steps))


def _tile_kernel(
    steps: Sequence[Step], get: str, examples1: Examples, examples2: Examples
) -> Array:
    """Runs the recursion for one tile."""
    sides = (examples1, examples2)
    both = tuple(side.directions for side in sides), tuple(side.norms for side in sides)
    state = run(
        steps,
        first_covariances(steps, get, *both),
        lambda place, _step, _state: (examples1.scales[place], examples2.scales[place]),
    )
    return state.covariance() if get == "nngp" else state.tangents()


def examples(
    steps: Sequence[Step],
    x: Float[Array, "n ..."],
    transform: Float[Array | np.ndarray, "k k"] | None = None,
) -> Examples:
    """Computes the quantities of each example."""
    return examples_of(steps, scaled_patches(steps, x, transform))


def scaled_patches(
    steps: Sequence[Step],
    x: Float[Array, "n ..."],
    transform: Float[Array | np.ndarray, "k k"] | None = None,
) -> Float[Array, "*positions k n"]:
    """Returns the inputs of the first affine step, scaled so that products are covariances."""
    features = patches(steps, x)
    if transform is not None:
        highest = lax.Precision.HIGHEST
        features = jnp.einsum("...kn,kl->...ln", features, transform, precision=highest)
    return patch_scale(steps, features.shape[-2]) * features


def examples_of(steps: Sequence[Step], features: Float[Array, "*positions k n"]) -> Examples:
    """Computes the same from the inputs of the first affine step."""
    vectors, norms = directions(features)
    return Examples(vectors, norms, _scales_of(steps, vectors, norms))


def patches(steps: Sequence[Step], x: Float[Array, "n ..."]) -> Float[Array, "*positions k n"]:
    """Returns the first affine step's patch at each position: of a dense one, the inputs.

    A patch lists its offsets, and the channels at each. Positions that no later window covers are
    left out.
    """
    start, first = _first_affine(steps)
    if start > 0:  # flattened
        x = x.reshape(len(x), math.prod(x.shape[1:]))
    features = jnp.moveaxis(x, 0, -1)
    if first.windows is None:
        return features
    height, width = covered(steps[start:], features.shape[:2])
    return jnp.concatenate(shifted(features[:height, :width], first.windows, [[0], [1]]), axis=-2)


def patch_scale(steps: Sequence[Step], size: int) -> float:
    """Returns the factor of patches of this size."""
    return _first_affine(steps)[1].w_std / math.sqrt(size)


def _scales_of(steps: Sequence[Step], directions: Directions, norms: Array) -> dict[Place, Scale]:
    """Computes standard deviations before each nonlinearity, at each position of each example."""
    if uses_variances_of_pools(steps):
        return _scales_from_pairs(steps, directions, norms)
    start, first = _first_affine(steps)
    variance = norms**2 + first.bias_variance
    scales: dict[Place, Scale] = {}
    _variance_after(steps[start + 1 :], (variance, first.features), (), scales)
    return scales


def _first_affine(steps: Sequence[Step]) -> tuple[int, Affine]:
    return next((i, step) for i, step in enumerate(steps) if isinstance(step, Affine))


def _variance_after(
    steps: Sequence[Step], state: tuple[Array | None, int], above: Place, scales: dict[Place, Scale]
) -> tuple[Array | None, int]:
    """Follows the variances at each position, and the number of features, through the steps.

    There are no variances after a pool.
    """
    variance, channels = state
    for number, step in enumerate(steps):
        place = (*above, number)
        if isinstance(step, Sum | Concat):
            ends = [
                _variance_after(path, (variance, channels), (*place, which), scales)
                for which, path in enumerate(step.paths)
            ]
            variance, channels = _joined(step, ends)
        elif isinstance(step, Affine):
            channels = step.features
            if variance is not None:
                variance = step.w_std**2 * EQUAL_POSITIONS.window_mean(variance, step)
                variance = variance + step.bias_variance
        elif isinstance(step, Pool) or variance is None:
            variance = None
        elif isinstance(step, Flatten):
            channels *= EQUAL_POSITIONS.positions(variance[..., None])
            variance = mean_over_positions(variance, variance.ndim - 1)
        else:
            scales[place] = step.scale(variance)
            variance = step.variance(variance)
    return variance, channels


def _joined(
    step: Sum | Concat, ends: Sequence[tuple[Array | None, int]]
) -> tuple[Array | None, int]:
    """Returns the variances of joined paths: a sum, or a mean over the features of all."""
    variances, counts = zip(*ends, strict=True)
    added = isinstance(step, Sum)
    channels = counts[0] if added else sum(counts)
    if any(variance is None for variance in variances):
        return None, channels
    shares = [1.0 if added else count / channels for count in counts]
    return sum(s * variance for s, variance in zip(shares, variances, strict=True)), channels


def _scales_from_pairs(
    steps: Sequence[Step], directions: Directions, norms: Array
) -> dict[Place, Scale]:
    """Computes the same as `_variance_after`, by the recursion of each example with itself."""

    def of_one(one: tuple[Directions, Array]) -> dict[Place, Scale]:
        scales: dict[Place, Scale] = {}

        def measured(place: Place, step: Pointwise, state: Covariances) -> tuple[Scale, Scale]:
            if state.form == "covariance":
                variance = state.layout.equal_positions(state.nngp)[..., 0]
            else:
                variance = state.stds[0] ** 2
            scales[place] = step.scale(variance)
            return scales[place], scales[place]

        vectors, norms = jax.tree.map(lambda a: a[..., None], one)
        first = first_covariances(steps, "nngp", (vectors, vectors), (norms, norms))
        run(steps, first, measured)
        return jax.tree.map(lambda a: a[..., 0], scales)

    each = jax.tree.map(lambda a: jnp.moveaxis(a, -1, 0), (directions, norms))
    scales = lax.map(of_one, each)
    return jax.tree.map(lambda a: jnp.moveaxis(a, 0, -1), scales)
