"""Where the covariances of a tile lie, and how each step acts on them there.

Without pooling the kernel of two images depends on the covariances of equal positions alone. Where
pools average over positions, covariances of all pairs of positions are needed before them.
"""

import abc
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax import backend
from lsa_jax.kernels.infinite.steps import Affine, Pool, Scale
from lsa_jax.kernels.infinite.windows import shifted

# Features up to which products are summed number by number, and not by a product of matrices for
# each position. On a CPU such matrices are too small for it: with windows 3 x 3 of one channel the
# first layer took 1.7 times as long by matrices; with three channels sums are the slower ones. A
# GPU sums in the pass of the nonlinearity that follows, where a matrix would be written and read
# again: compiled for an H100, a pair of the CNN moves 3.1 kB and not 4.5. A TPU has a unit for
# matrices, and what follows a product is in one pass with it.
_FEW = {"cpu": 16, "gpu": 16, "tpu": 0}


class Layout(abc.ABC):
    """How covariances of the pairs of examples in a tile are laid out; the pairs come last."""

    # Of the products of features [*positions, k, n], on which errors later are amplified.
    product: str
    # Of what is with respect to these products, back to the first features.
    pullback: str

    @abc.abstractmethod
    def positions(self, x: Array) -> int:
        """Returns the number of positions of one example."""

    @abc.abstractmethod
    def equal_positions(self, x: Array) -> Float[Array, "*positions rows columns"]:
        """Returns the covariances of equal positions."""

    @abc.abstractmethod
    def side_by_side(self, one: Array, other: Array) -> tuple[Array, Array]:
        """Returns what both sides have, [*positions, n], so that numpy's rules pair it off."""

    @abc.abstractmethod
    def window_mean(self, x: Array, step: Affine) -> Array:
        """Averages over the windows of a convolution, zeros around the image."""

    @abc.abstractmethod
    def over_positions(self, function: Callable, x: tuple, scale1: Scale, scale2: Scale) -> tuple:
        """Applies `function(x, scale1, scale2)`, which acts on each position alone.

        XLA's CPU compiler would fuse it into the sum over windows that follows, and evaluate it
        again for each window that a position lies in (6 times slower in all). There a loop keeps it
        apart, and its rows stay in the nearest cache.

        Scales are those of each batch's examples; the first may hold a number for each pair.
        """

    def covariances(self, features1: Array, features2: Array) -> Array:
        """Returns the products of both examples' features, summed over k."""
        # Precision beyond that of a GPU's fast mode.
        highest = lax.Precision.HIGHEST
        return jnp.einsum(self.product, features1, features2, precision=highest)

    def weigh(self, by_product: Array, features2: Array) -> Array:
        """Returns [*positions, rows, k, c]: products with [*positions, columns, k, c], summed."""
        return jnp.einsum(self.pullback, by_product, features2, precision=lax.Precision.HIGHEST)


class _EqualPositions(Layout):
    """[*positions, rows, columns]: covariances of equal positions alone."""

    product = "...ka,...kb->...ab"
    pullback = "...ab,...bkc->...akc"

    def positions(self, x: Array) -> int:
        return math.prod(x.shape[:-2])

    def covariances(self, features1: Array, features2: Array) -> Array:
        size = features1.shape[-2]
        if size > _FEW[backend.platform()]:
            return super().covariances(features1, features2)
        if backend.is_cpu():
            return jnp.sum(features1[..., :, None] * features2[..., None, :], axis=-3)
        parts = (jnp.moveaxis(features, -2, 0) for features in (features1, features2))
        return sum(one[..., None] * other[..., None, :] for one, other in zip(*parts, strict=True))

    def equal_positions(self, x: Array) -> Array:
        return x

    def side_by_side(self, one: Array, other: Array) -> tuple[Array, Array]:
        return one[..., None], other[..., None, :]

    def window_mean(self, x: Array, step: Affine) -> Array:
        return _window_mean(x, step, ([0], [1]))

    def over_positions(self, function: Callable, x: tuple, scale1: Scale, scale2: Scale) -> tuple:
        scale1 = jax.tree.map(lambda a: a if a.ndim == x[0].ndim else a[..., None], scale1)
        scale2 = jax.tree.map(lambda a: a[..., None, :], scale2)
        if x[0].ndim == 2 or not backend.is_cpu():
            return function(x, scale1, scale2)
        return lax.map(lambda args: function(*args), (x, scale1, scale2))


class _PairsOfPositions(Layout):
    """[height, width, height, width, rows, columns]: covariances of all pairs of positions."""

    product = "hwka,xykb->hwxyab"
    pullback = "hwxyab,xybkc->hwakc"

    def positions(self, x: Array) -> int:
        return math.prod(x.shape[:2])

    def equal_positions(self, x: Array) -> Array:
        h, w = x.shape[:2]
        top, left = np.ogrid[:h, :w]
        return x[top, left, top, left]

    def side_by_side(self, one: Array, other: Array) -> tuple[Array, Array]:
        return one[:, :, None, None, :, None], other[None, None, :, :, None, :]

    def window_mean(self, x: Array, step: Affine) -> Array:
        return _window_mean(x, step, ([0, 2], [1, 3]))

    def over_positions(self, function: Callable, x: tuple, scale1: Scale, scale2: Scale) -> tuple:
        scale1 = jax.tree.map(lambda a: a if a.ndim == 4 else a[..., None], scale1)
        scale1 = jax.tree.map(lambda a: a[:, :, None, None], scale1)
        scale2 = jax.tree.map(lambda a: a[None, None, :, :, None, :], scale2)
        if not backend.is_cpu():
            return function(x, scale1, scale2)
        scale2 = jax.tree.map(lambda a: a[0], scale2)
        return lax.map(lambda args: function(*args, scale2), (x, scale1))


EQUAL_POSITIONS = _EqualPositions()
PAIRS_OF_POSITIONS = _PairsOfPositions()


def pool(x: Float[Array, "h w h w rows columns"], step: Pool) -> Array:
    """Averages over both examples' positions, all of them or those in a window."""
    if step.windows is None:
        return mean_over_positions(x, 2)
    for axes in ([[0], [1]], [[2], [3]]):
        x = sum(shifted(x, step.windows, axes)) / step.windows.size
    return x


def mean_over_positions(x: Array, examples: int) -> Array:
    """Averages over all but the last `examples` axes."""
    return jnp.mean(x, axis=tuple(range(x.ndim - examples)))


def _window_mean(x: Array, step: Affine, axes: tuple[list[int], list[int]]) -> Array:
    if step.windows is None:
        return x
    return sum(shifted(x, step.windows, axes)) / step.windows.size
