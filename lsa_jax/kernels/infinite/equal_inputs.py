"""Products of equal inputs, exact in spite of the rounding of long sums.

In float32 a product of matrices may be off by 25 eps where most of the terms are one number, as of
standardised digits, most of whose 784 pixels are background. The square root of what a cosine lacks
to 1 follows in every nonlinearity: of such a product it would make errors of up to 9e-4, on the
diagonal above all. No tolerance tells that from inputs that differ a little; equal bits do.
"""

import math
import operator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt

from lsa_jax.kernels.infinite.layouts import EQUAL_POSITIONS, Layout

# Sums of up to so many terms stay within the tolerance that every nonlinearity has.
_FEW = 16


class Identity(NamedTuple):
    """What tells equal features from others.

    Attributes:
        norms: square roots of the sums of squares over k.
        marks: the same whole number for the same bits, however a processor orders its sums.
    """

    norms: Float[Array, "*positions n"]
    marks: UInt[Array, "*positions n"]


def identify(features: Float[Array, "*positions k n"]) -> Identity | None:
    """Returns what tells equal features; None where sums are too short to need it."""
    size = features.shape[-2]
    if size <= _FEW:
        return None
    features = lax.stop_gradient(features)
    unsigned = jnp.uint64 if features.dtype == jnp.float64 else jnp.uint32
    bits = lax.bitcast_convert_type(features, unsigned)
    # Fixed numbers without a pattern, which changes of two features could cancel in; all is modulo
    # a power of two, in which odd ones lose nothing.
    factors = np.random.default_rng(0).integers(2**63, size=size, dtype=np.uint64) | np.uint64(1)
    factors = factors.astype(bits.dtype).reshape(*[1] * (bits.ndim - 2), size, 1)
    return Identity(
        jnp.sqrt(jnp.sum(features**2, axis=-2)),
        jnp.sum(bits * factors, axis=-2, dtype=bits.dtype),
    )


def exact_where_equal(
    products: Float[Array, "*positions rows columns"],
    rows: Identity | None,
    columns: Identity | None,
    layout: Layout = EQUAL_POSITIONS,
) -> Float[Array, "*positions rows columns"]:
    """Puts the product of the norms where both inputs are equal; derivatives stay the products'.

    Args:
        products: of both sides' features, summed over k.
        rows: of the first side; None changes nothing.
        columns: of the second.
        layout: how the products lie.
    """
    if rows is None or columns is None:
        return products
    exact = math.prod(layout.side_by_side(rows.norms, columns.norms))
    equal = operator.eq(*layout.side_by_side(rows.marks, columns.marks))
    # Of one pair in 2^32 that differs the marks are the same, but hardly of one that is near, too.
    near = jnp.abs(products - exact) <= 1e-3 * exact
    return products + lax.stop_gradient(jnp.where(equal & near, exact - products, 0))
