"""Gaps between the directions of inputs to the first layer, exact where inputs are nearly equal.

A gap is 1 - <a, a'> for unit vectors a and a'. In every nonlinearity its square root follows, so
that it has to be small where inputs are nearly the same: it is half a squared distance. A float32
product of matrices may be off by 25 eps where most of the terms are one number, as of standardised
digits, most of whose 784 pixels are background; the root of that is 2e-3.
"""

import math
import operator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt

from lsa_jax import backend
from lsa_jax.kernels.infinite.correlations import root
from lsa_jax.kernels.infinite.layouts import Layout

# Features up to which distances are summed number by number. Products of matrices for each
# position are too small for a CPU: with windows 3 x 3 of one channel the first layer took 7 times
# as long by them, of three channels 3 times. A GPU sums in the pass of the nonlinearity that
# follows, where a matrix would be written and read again: compiled for an H100, a pair of the CNN
# moves 3.1 kB and not 4.5. A TPU has a unit for matrices, and operations after a product are in one
# pass with it.
_FEW = {"cpu": 32, "gpu": 16, "tpu": 0}

# Relative to the eps and the squared sizes of the factors, gaps below which the rounding of
# a product counts too much: it is a few eps times the sizes, and the root's error has to stay 1e-6.
_NEAR = 2.0**15


class Directions(NamedTuple):
    """Unit vectors of one batch, in two parts where they are long.

    Attributes:
        vectors: without the mean over k where k is large: so a constant background drops out of
            products; 0 for an input of zeros.
        along: square root of k times that mean; None where k is small.
        across: the length of the other part; None where k is small.
        marks: the same whole number for the same bits, however a processor orders its sums; None
            where k is small.
    """

    vectors: Float[Array, "*positions k n"]
    along: Float[Array, "*positions n"] | None
    across: Float[Array, "*positions n"] | None
    marks: UInt[Array, "*positions n"] | None

    def whole(self) -> Float[Array, "*positions k n"]:
        """Returns the unit vectors."""
        if self.along is None:
            return self.vectors
        return self.vectors + self.along[..., None, :] / math.sqrt(self.vectors.shape[-2])


def directions(
    features: Float[Array, "*positions k n"],
) -> tuple[Directions, Float[Array, "*positions n"]]:
    """Returns unit vectors and norms of features."""
    # By the largest number, so that squares neither overflow nor vanish.
    largest = lax.stop_gradient(jnp.max(jnp.abs(features), axis=-2, keepdims=True))
    largest = jnp.where(largest > 0, largest, 1)
    squares = jnp.sum((features / largest) ** 2, axis=-2, keepdims=True)
    norms = largest * root(squares)
    vectors = features / jnp.where(squares > 0, norms, 1)
    size = features.shape[-2]
    if size <= _FEW[backend.platform()]:
        return Directions(vectors, None, None, None), norms[..., 0, :]
    along = jnp.sum(vectors, axis=-2, keepdims=True) / math.sqrt(size)
    vectors = vectors - along / math.sqrt(size)
    across = root(jnp.sum(vectors**2, axis=-2))
    return Directions(vectors, along[..., 0, :], across, _marks(features)), norms[..., 0, :]


def _marks(features: Array) -> Array:
    """Returns sums of the features' bits."""
    size = features.shape[-2]
    unsigned = jnp.uint64 if features.dtype == jnp.float64 else jnp.uint32
    bits = lax.bitcast_convert_type(lax.stop_gradient(features), unsigned)
    # Fixed numbers without a pattern, which changes of two features could cancel in; all is modulo
    # a power of two, in which odd ones lose nothing.
    factors = np.random.default_rng(0).integers(2**63, size=size, dtype=np.uint64) | np.uint64(1)
    factors = factors.astype(bits.dtype).reshape(*[1] * (bits.ndim - 2), size, 1)
    return jnp.sum(bits * factors, axis=-2, dtype=bits.dtype)


def gaps(
    rows: Directions, columns: Directions, layout: Layout
) -> Float[Array, "*positions rows columns"]:
    """Returns the gaps of all pairs; of opposite inputs they are 2."""
    if rows.along is None:
        return layout.half_distances(rows.vectors, columns.vectors)
    pairs = layout.pairs
    along1, along2 = pairs(rows.along, columns.along)
    across1, across2 = pairs(rows.across, columns.across)
    sizes = across1 * across2
    lengths = ((along1 - along2) ** 2 + (across1 - across2) ** 2) / 2
    found = lengths + (sizes - layout.products(rows.vectors, columns.vectors))
    equal = operator.eq(*pairs(rows.marks, columns.marks))
    limit = _NEAR * float(jnp.finfo(found.dtype).eps) * sizes**2
    # One pair in 2^32 that differs has the same marks; hardly one that is near, too.
    equal = equal & (found <= 1e-3)
    near = (jnp.minimum(found, 2 - found) < limit) & ~equal
    exact = jnp.where(equal, 0, lax.stop_gradient(found))
    exact = _recomputed_near(exact, near, rows.whole(), columns.whole(), layout)
    # Derivatives are those of the products.
    return found + lax.stop_gradient(exact - found)


def _recomputed_near(
    found: Array, near: Array, rows: Array, columns: Array, layout: Layout
) -> Array:
    """Computes gaps of near pairs by distances, for each row that has one: most data has none."""
    rows, columns, near = (lax.stop_gradient(a) for a in (rows, columns, near))
    some = jnp.any(near, axis=(*range(near.ndim - 2), near.ndim - 1))
    order = jnp.argsort(~some, stable=True)

    def of_row(at: Array, found: Array) -> Array:
        which = order[at]
        one = lax.dynamic_slice_in_dim(rows, which, 1, -1)
        before, here = (lax.dynamic_slice_in_dim(a, which, 1, -2) for a in (found, near))
        apart, opposed = (layout.half_distances(sign * one, columns) for sign in (1, -1))
        exact = jnp.where(before < 1, apart, 2 - opposed)
        after = jnp.where(here, exact, before)
        return lax.dynamic_update_slice_in_dim(found, after, which, -2)

    count = jnp.sum(some)
    # Within a condition, or XLA does parts of it in advance, at the cost of all of it.
    return lax.cond(count > 0, lambda a: lax.fori_loop(0, count, of_row, a), lambda a: a, found)
