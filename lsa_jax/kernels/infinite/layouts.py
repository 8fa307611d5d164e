"""Layouts of a tile's covariances, and the steps' action on them.

Without pooling the kernel of two images depends only on the covariances of equal positions. Where
pools average over positions, covariances of all pairs of positions are needed before them.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from lsa_jax import backend
from lsa_jax.kernels.infinite.steps import Affine, Pool, shifted


class Layout:
    """Covariances of equal positions only, [*positions, rows, columns]: pairs of examples last."""

    # Features up to which distances are summed in one expression, which compiles slowly. On a CPU a
    # sum over an axis takes 6 to 10 times as long: its loop is not in whole vectors.
    unrolled = {"cpu": 32, "gpu": 16, "tpu": 16}
    # Of the products of features [*positions, k, n].
    product = "...ka,...kb->...ab"
    # Of gradients with respect to these products, back to the first features.
    pullback = "...ab,...bkc->...akc"

    def positions(self, x: Array) -> int:
        """Returns the number of positions of one example."""
        return math.prod(x.shape[:-2])

    def axes(self, x: Array) -> int:
        """Returns the number of axes that one example's positions have."""
        return x.ndim - 2

    def equal_positions(self, x: Array) -> Float[Array, "*positions rows columns"]:
        """Returns the covariances of equal positions."""
        return x

    def pairs(self, one: Array, other: Array) -> tuple[Array, Array]:
        """Returns numbers of both sides, [*positions, n], so that numpy's rules pair them off.

        The first may have one for each pair, [*positions, rows, columns].
        """
        return one if one.ndim > other.ndim else one[..., None], other[..., None, :]

    def window_mean(self, x: Array, step: Affine) -> Array:
        """Averages over the windows of a convolution, zeros around the image."""
        return _window_mean(x, step, ([0], [1]))

    def outside(self, one: Array, other: Array, step: Affine) -> Array | float:
        """Returns the part of both squares missing in a window's mean of half squared distances.

        Around an image are zeros: at positions outside of one example's image and inside of the
        other's, the distance is half the other's square.
        """
        return 0.0

    def over_positions(
        self, function: Callable, x: tuple, scale1: PyTree[Array], scale2: PyTree[Array]
    ) -> tuple:
        """Applies `function(x, scale1, scale2)`, which acts on each position alone.

        XLA's CPU compiler would fuse it into the sum over windows that follows, and evaluate it
        again for each window that a position lies in (6 times slower in all). There a loop keeps it
        apart, and its rows stay in the nearest cache.

        Scales, in trees, are those of each batch's examples; the first may have one for each pair.
        """
        scale1 = jax.tree.map(lambda a: a if a.ndim == x[0].ndim else a[..., None], scale1)
        scale2 = jax.tree.map(lambda a: a[..., None, :], scale2)
        if x[0].ndim == 2 or not backend.is_cpu():
            return function(x, scale1, scale2)
        return lax.map(lambda args: function(*args), (x, scale1, scale2))

    def products(self, features1: Array, features2: Array) -> Array:
        """Returns the products of both examples' features, summed over k."""
        # Precision beyond that of a GPU's fast mode.
        highest = lax.Precision.HIGHEST
        return jnp.einsum(self.product, features1, features2, precision=highest)

    def half_distances(self, features1: Array, features2: Array) -> Array:
        """Returns half the squared distances of both examples' features, number by number."""
        if features1.shape[-2] <= self.unrolled[backend.platform()]:
            parts = (jnp.moveaxis(features, -2, 0) for features in (features1, features2))
            each = (self.pairs(*part) for part in zip(*parts, strict=True))
            return sum((one - other) ** 2 for one, other in each) / 2
        one, other = jax.vmap(self.pairs, in_axes=-2, out_axes=-3)(features1, features2)
        return jnp.sum((one - other) ** 2, axis=-3) / 2

    def weigh(self, by_product: Array, features2: Array) -> Array:
        """Returns [*positions, rows, k, c]: products with [*positions, columns, k, c], summed."""
        return jnp.einsum(self.pullback, by_product, features2, precision=lax.Precision.HIGHEST)


class _PairsOfPositions(Layout):
    """[height, width, height, width, rows, columns]: covariances of all pairs of positions."""

    product = "hwka,xykb->hwxyab"
    pullback = "hwxyab,xybkc->hwakc"

    def positions(self, x: Array) -> int:
        return math.prod(x.shape[:2])

    def axes(self, x: Array) -> int:
        return 2

    def equal_positions(self, x: Array) -> Array:
        h, w = x.shape[:2]
        top, left = np.ogrid[:h, :w]
        return x[top, left, top, left]

    def pairs(self, one: Array, other: Array) -> tuple[Array, Array]:
        one = one if one.ndim > other.ndim else one[..., None]
        return one[:, :, None, None], other[None, None, :, :, None, :]

    def window_mean(self, x: Array, step: Affine) -> Array:
        return _window_mean(x, step, ([0, 2], [1, 3]))

    def outside(self, one: Array, other: Array, step: Affine) -> Array | float:
        if step.windows is None or step.windows.padding == "VALID":
            return 0.0
        inside = jnp.ones(one.shape[:2], one.dtype)
        axes = ([0], [1])
        there, own, others = (
            jnp.stack(shifted(x, step.windows, axes)) for x in (inside, one, other)
        )
        lacks = 1 - there
        own = jnp.einsum("oxy,ohw...->hwxy...", lacks, own)
        others = jnp.einsum("ohw,oxyb->hwxyb", lacks, others)[..., None, :]
        own = own if one.ndim > other.ndim else own[..., None]
        return (own + others) / (2 * step.windows.size)

    def over_positions(
        self, function: Callable, x: tuple, scale1: PyTree[Array], scale2: PyTree[Array]
    ) -> tuple:
        scale1 = jax.tree.map(lambda a: a if a.ndim == 4 else a[..., None], scale1)
        scale1 = jax.tree.map(lambda a: a[:, :, None, None], scale1)
        scale2 = jax.tree.map(lambda a: a[None, None, :, :, None, :], scale2)
        if not backend.is_cpu():
            return function(x, scale1, scale2)
        scale2 = jax.tree.map(lambda a: a[0], scale2)
        return lax.map(lambda args: function(*args, scale2), (x, scale1))


EQUAL_POSITIONS = Layout()
PAIRS_OF_POSITIONS = _PairsOfPositions()


def pool(x: Float[Array, "h w h w rows columns"], step: Pool) -> Array:
    """Averages over both examples' positions, all of them or those in a window."""
    if step.windows is None:
        return mean_over_positions(x, x.ndim - 2)
    for axes in ([[0], [1]], [[2], [3]]):
        x = sum(shifted(x, step.windows, axes)) / step.windows.size
    return x


def mean_over_positions(x: Array, axes: int) -> Array:
    """Averages over so many first axes."""
    return jnp.mean(x, axis=tuple(range(axes)))


def _window_mean(x: Array, step: Affine, axes: tuple[list[int], list[int]]) -> Array:
    if step.windows is None:
        return x
    return sum(shifted(x, step.windows, axes)) / step.windows.size
