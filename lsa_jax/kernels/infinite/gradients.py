"""Gradients of a kernel predictor with respect to its first layer's patches.

The kernel of two examples depends on their patches p and p' through the products <u, u'> of unit
vectors u = p / |p| at each position, and on each side through norms and standard deviations before
the nonlinearities. So one backward pass through a tile, with the scales of its rows held for every
pair, gives the derivatives of each pair's kernel; the predictor's gradients are their products with
unit vectors and weights, for all outputs together:

    grad f_c(u_i) = sum_j a_jc dK_ij / d<u_i, u_j> u_j, and sum_j a_jc dK_ij / dscales_i.

No more is held than for one tile, and of its rows the gradients themselves.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.kernels.infinite import recursion
from lsa_jax.kernels.infinite.covariances import Place, covariances_of_gaps, first_layout, run
from lsa_jax.kernels.infinite.directions import gaps
from lsa_jax.kernels.infinite.pointwise import Scale
from lsa_jax.kernels.infinite.recursion import Examples
from lsa_jax.kernels.infinite.steps import Step

_HIGHEST = lax.Precision.HIGHEST


class Gradients(NamedTuple):
    """Sums over training examples, for the rows of a tile and every output.

    Attributes:
        vectors: [*positions, rows, k, c], with respect to unit vectors.
        norms: [*positions, rows, c], with respect to norms.
        scales: [*positions, rows, c], with respect to standard deviations, by their place.
    """

    vectors: Float[Array, "*positions rows k c"]
    norms: Float[Array, "*positions rows c"]
    scales: dict[Place, Scale]


def zeros(
    steps: tuple[Step, ...], points: Float[np.ndarray, "rows ..."], outputs: int
) -> Gradients:
    """Returns the gradients before the first block."""
    form = jax.eval_shape(partial(recursion.examples, steps), points)
    *positions, size, rows = form.directions.vectors.shape
    return Gradients(
        np.zeros((*positions, rows, size, outputs), np.float32),
        *jax.tree.map(
            lambda a: np.zeros((*a.shape, outputs), np.float32), (form.norms, form.scales)
        ),
    )


@partial(jax.jit, static_argnames=("steps", "get", "columns"))
def add_block(
    steps: tuple[Step, ...],
    get: str,
    columns: int,
    transform: Float[Array, "k k"] | None,
    points: Float[Array, "rows ..."],
    x: Float[Array, "n ..."],
    weights: Float[Array, "n c"],
    before: Gradients,
) -> Gradients:
    """Adds the part of one block of training examples to the gradients at a tile's points.

    The examples x, of these weights for each output, are processed `columns` at a time, of which n
    is a multiple. Patches are multiplied by the transform, if any. `before` is of earlier blocks;
    `zeros` for the first.
    """
    rows = recursion.examples(steps, points, transform)
    others = recursion.examples(steps, x, transform)

    def split(array: Array) -> Array:
        array = array.reshape(*array.shape[:-1], -1, columns)
        return jnp.moveaxis(array, -2, 0)

    def add(total: Gradients, part: tuple) -> tuple[Gradients, None]:
        own = _of_tile(steps, get, rows, *part)
        return jax.tree.map(jnp.add, total, own), None

    parts = jax.tree.map(split, others), weights.reshape(-1, columns, weights.shape[1])
    return lax.scan(add, before, parts)[0]


def _of_tile(
    steps: Sequence[Step], get: str, rows: Examples, columns: Examples, weights: Array
) -> Gradients:
    """Returns the gradients of one tile."""
    layout = first_layout(steps, rows.directions.vectors)
    gap = gaps(rows.directions, columns.directions, layout)
    size, width = columns.directions.vectors.shape[-2:]

    def kernel(gap: Array, norms: Array, scales: dict[Place, Scale]) -> Array:
        state = covariances_of_gaps(steps, get, layout, gap, (norms, columns.norms), size)
        state = run(steps, state, lambda place, *_: (scales[place], columns.scales[place]))
        return state.covariance() if get == "nngp" else state.tangents()

    def for_each_pair(scale: Array) -> Array:
        return jnp.broadcast_to(scale[..., None], (*scale.shape, width))

    values, pull = jax.vjp(kernel, gap, *jax.tree.map(for_each_pair, (rows.norms, rows.scales)))
    by_gap, *by_scales = pull(jnp.ones_like(values))
    vectors = columns.directions.whole()
    weighted = jnp.einsum("...kb,bc->...bkc", vectors, weights, precision=_HIGHEST)
    return Gradients(
        layout.weigh(-by_gap, weighted),
        *jax.tree.map(
            lambda a: jnp.einsum("...ab,bc->...ac", a, weights, precision=_HIGHEST), by_scales
        ),
    )


@partial(jax.jit, static_argnames="steps")
def outer_product(
    steps: tuple[Step, ...],
    transform: Float[Array, "k k"] | None,
    points: Float[Array, "rows ..."],
    count: Any,
    gradients: Gradients,
) -> Float[Array, "k k"]:
    """Sums the outer products of gradients over points, positions and outputs.

    They are with respect to patches as the network scales them, after their transform. The first
    `count` points count; the others only fill the tile.
    """
    features = recursion.scaled_patches(steps, points, transform)

    def of(features: Array) -> tuple:
        examples = recursion.examples_of(steps, features)
        return examples.directions.whole(), examples.norms, examples.scales

    _, pull = jax.vjp(of, features)
    vectors = jnp.swapaxes(gradients.vectors, -3, -2)
    by_each = (vectors, gradients.norms, gradients.scales)
    total = jax.vmap(lambda parts: pull(parts)[0], -1, -1)(by_each)
    total = jnp.swapaxes(total, -3, -2)
    total = jnp.moveaxis(total, -2, 0)  # [k, *positions, rows, c]
    total = jnp.where(lax.broadcasted_iota(int, total.shape, total.ndim - 2) < count, total, 0)
    total = total.reshape(len(total), -1)
    return jnp.matmul(total, total.T, precision=_HIGHEST)
