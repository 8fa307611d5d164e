"""Correlations of two Gaussian numbers, and inverse trigonometric functions of them.

The dual of a nonlinearity phi turns the covariance K of two centred Gaussian numbers z, z' with
standard deviations s, s' into E[phi(z) phi(z')] and E[phi'(z) phi'(z')] (Cho and Saul, 2009;
Williams, 1997). Written with inverse trigonometric functions these are most of the time that an
infinite-width kernel takes on a CPU. In float32 they are polynomials times square roots, exact to
about one rounding (3e-8 of the largest value), with derivatives of the same quality. In float64
they are the inverse functions themselves.
"""

from collections.abc import Sequence
from math import pi, sqrt
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

# Minimax fits on [0, 1], constant term first.
# arccos(u) / (2 pi sqrt(1 - u)), to 1.4e-8 of arccos(u) / (2 pi):
_ARCCOS = (
    0.249999986,
    -0.03415323242,
    0.01413866922,
    -0.007830009749,
    0.004418592847,
    -0.001910387677,
    0.0004156638293,
)
# (sqrt(1 - u^2) - u arccos(u)) / (2 pi (1 - u)^(3/2)), to 6.4e-9 of the product:
_ARC_COSINE = (
    0.1591549368,
    -0.01126692989,
    0.002982269601,
    -0.001168243679,
    0.0004538288745,
    -0.0001035115285,
)
# (arcsin(v) - v) / v^3 as a polynomial in v^2 on [0, 1/4], to 5e-9 after multiplication by v^2:
_ARCSIN = (0.1666675393, 0.07495241784, 0.04547709644, 0.02414761476, 0.04221854172)


class Cosine(NamedTuple):
    """Correlation of two Gaussian numbers, exact where it is 1 or -1.

    Attributes:
        value: in [-1, 1].
        size: its absolute value.
        gap: 1 - size.
    """

    value: Array
    size: Array
    gap: Array


def cosine(covariance: Array, inverse1: Array, inverse2: Array, tolerance: float) -> Cosine:
    """Multiplies a covariance by the inverse deviations of both numbers, 0 where these are 0.

    Gaps below the tolerance are taken as 0. Square roots of the gap follow, so without this a
    rounding error of 1e-7 would become one of 3e-4.
    """
    return cosine_of_gap(exact_above(1 - covariance * (inverse1 * inverse2), tolerance), tolerance)


def cosine_of_gap(gap: Array, tolerance: float) -> Cosine:
    """Returns the correlation 1 - gap, where gaps nearer to 2 than the tolerance are taken as 2."""
    positive = gap <= 1
    gap = jnp.where(positive, gap, exact_above(2 - gap, tolerance))
    size = 1 - gap
    return Cosine(jnp.where(positive, size, -size), size, gap)


def exact_above(x: Array, limit: Array | float) -> Array:
    """Returns 0 in place of numbers that rounding alone can make; derivatives stay as they are."""
    return jnp.where(x > limit, x, x - lax.stop_gradient(x))


def root(x: Array) -> Array:
    """Returns the square root; 0, with a derivative of 0, of numbers not above 0."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1)), 0)


def inverse_of(x: Array) -> Array:
    """Returns one over numbers above 0, and 0 of others."""
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)


def arc_cosine(cosine: Cosine) -> tuple[Array, Array]:
    """Returns (sin(t) - t cos(t)) / (2 pi) and t / (2 pi) with the angle t = arccos(size)."""
    side = root(cosine.gap)
    if side.dtype == jnp.float64:
        angle = jnp.arcsin(side / sqrt(2)) / pi
        return side * jnp.sqrt(1 + cosine.size) / (2 * pi) - cosine.size * angle, angle
    angle = side * _polynomial(_ARCCOS, cosine.size)
    return side * cosine.gap * _polynomial(_ARC_COSINE, cosine.size), angle


def arcsin(sine: Array, complement: Array) -> Array:
    """Computes arcsin of 0 <= sine <= 1 to the dtype's precision; complement = 1 - sine^2."""
    if sine.dtype == jnp.float64:
        return jnp.arctan2(sine, root(complement))
    small = sine < 1 / 2
    # arcsin(y) = pi/2 - 2 arcsin(sqrt((1 - y) / 2))
    square = jnp.where(small, sine**2, complement / (2 * (1 + sine)))
    side = jnp.where(small, sine, root(square))
    angle = side + side * square * _polynomial(_ARCSIN, square)
    return jnp.where(small, angle, pi / 2 - 2 * angle)


def angle_lost(cosine: Cosine, most: Array, complement: Array, least: Array) -> Array:
    """Returns arcsin(most) - arcsin(most * size); complement and least = 1 - sine^2 of the two."""
    other = most * cosine.size
    total = most * jnp.sqrt(complement) + other * jnp.sqrt(least)
    sine = most * cosine.gap * (most + other) / jnp.where(total > 0, total, 1)
    return arcsin(sine, 1 - sine**2)


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Evaluates by Horner's rule."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
