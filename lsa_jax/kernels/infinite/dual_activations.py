"""Covariances that a nonlinearity makes of Gaussian inputs, by polynomials that vectorise.

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
from jaxtyping import Array, Float

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
# (sqrt(1 - u^2) - u arccos(u)) / (2 pi (1 - u)^(3/2)), to 6.4e-9 of what is multiplied out:
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
        gap: 1 - size, exactly 0 where rounding alone keeps the size from 1.
    """

    value: Float[Array, "..."]
    size: Float[Array, "..."]
    gap: Float[Array, "..."]


def cosine(
    covariance: Float[Array, "..."],
    inverse1: Float[Array, "..."],
    inverse2: Float[Array, "..."],
    tolerance: float,
) -> Cosine:
    """Divides a covariance by two standard deviations.

    Args:
        covariance: of the two numbers.
        inverse1: one over the first standard deviation; 0 where that is 0.
        inverse2: the same for the second.
        tolerance: gaps below it are taken as 0. Square roots of the gap follow, so without this a
            rounding error of 1e-7 would become one of 3e-4.
    """
    value = jnp.clip(covariance * (inverse1 * inverse2), -1, 1)
    size = jnp.where(value >= 0, value, -value)  # jnp.abs has no derivative at 0
    gap = 1 - size
    # The values are those of a gap of 0, the derivatives are those of the gap itself. Were the
    # size left as it is, layer after layer would take it further from 1, and out of the tolerance.
    rounding = lax.stop_gradient(jnp.where(gap < tolerance, gap, 0))
    return Cosine(value + jnp.sign(value) * rounding, size + rounding, gap - rounding)


def snapped(
    covariance: Float[Array, "..."],
    cosine: Cosine,
    std1: Float[Array, "..."],
    std2: Float[Array, "..."],
) -> Float[Array, "..."]:
    """Returns the covariance, exact where the correlation is 1 or -1.

    Duals may depend on its difference from the variances, which rounding alone would fill where
    these are large.
    """
    exact = jnp.where(cosine.gap > 0, covariance, jnp.sign(cosine.value) * (std1 * std2))
    # The derivative is that of the covariance.
    return covariance + lax.stop_gradient(exact - covariance)


def relu(cosine: Cosine, negative_slope: float, positive_slope: float = 1.0) -> tuple[Array, Array]:
    """Computes the duals of positive_slope x for x > 0 and negative_slope x elsewhere.

    Returns:
        E[phi phi'] and E[dphi dphi'] at this correlation, for unit deviations. The first is to be
        multiplied by both standard deviations. At gap 0 the derivative of the second is infinite; 0
        is used.

    Source: Cho and Saul (2009), Kernel methods for deep learning, orders 1 and 0; the
    general one is a x + (b - a) relu(x) with the slopes a and b, and E[x relu(x')] = E[x x'] / 2.
    """
    apart = cosine.gap > 0
    root = jnp.where(apart, jnp.sqrt(jnp.where(apart, cosine.gap, 1)), 0)
    positive = cosine.value >= 0
    if root.dtype == jnp.float64:
        angle = jnp.arcsin(root / sqrt(2)) / pi
        values = root * jnp.sqrt(1 + cosine.size) / (2 * pi) - cosine.size * angle
    else:
        angle = root * _polynomial(_ARCCOS, cosine.size)
        values = root * cosine.gap * _polynomial(_ARC_COSINE, cosine.size)
    values = values + jnp.where(positive, cosine.value / 2, 0)
    derivatives = jnp.where(positive, 1 / 2 - angle, angle)
    if (negative_slope, positive_slope) == (0, 1):
        return values, derivatives
    both, rest = negative_slope * positive_slope, (positive_slope - negative_slope) ** 2
    return both * cosine.value + rest * values, both + rest * derivatives


def erf(
    cosine: Cosine, std1: Float[Array, "..."], std2: Float[Array, "..."]
) -> tuple[Array, Array]:
    """Computes the duals of erf.

    E[erf erf'] = 2/pi arcsin(y) and E[derf derf'] = 4/pi / sqrt(c), where y = 2 K / sqrt(c0),
    c0 = (1 + 2 s^2)(1 + 2 s'^2) and c = c0 - 4 K^2.

    Source: Williams (1997), Computing with infinite networks, eq. 11.
    """
    share1, share2 = 1 / (1 + 2 * std1**2), 1 / (1 + 2 * std2**2)
    root1, root2 = std1 * jnp.sqrt(share1), std2 * jnp.sqrt(share2)
    rest1, rest2 = root1**2, root2**2
    # 1 - y^2 = c / c0, from the gap: 1 - y^2 itself would cancel for large s.
    complement = share1 * share2 + 2 * (rest1 * share2 + share1 * rest2)
    complement = complement + 4 * rest1 * rest2 * cosine.gap * (1 + cosine.size)
    size = 2 * cosine.size * (root1 * root2)
    angle = _arcsin(size, complement)
    values = 2 / pi * jnp.where(cosine.value >= 0, angle, -angle)
    return values, 4 / pi * jnp.sqrt(share1 * share2) * lax.rsqrt(complement)


def erf_variance(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """Computes E[erf(z)^2] for z of this variance."""
    share = 1 / (1 + 2 * variance)
    return 2 / pi * _arcsin(2 * variance * share, (1 + 4 * variance) * share**2)


def gelu(
    cosine: Cosine, std1: Float[Array, "..."], std2: Float[Array, "..."]
) -> tuple[Array, Array]:
    """Computes the duals of GeLU, x P(z <= x) for a standard normal number z.

    With a = s^2 / (1 + s^2), d = 1 + s^2 + s'^2 + s^2 s'^2 - K^2 and t = P(both of two numbers
    correlated by K / sqrt((1 + s^2)(1 + s'^2)) are above 0), E[phi phi'] = K t + (a a' / (2 pi))
    (rho^2 / sqrt(d) + sqrt(d)).

    Source: Tsuchida et al. (2021), Avoiding kernel fixed points, for the first; the second is its
    derivative by K, arranged so that nothing cancels for large s.
    """
    variance1, variance2 = std1**2, std2**2
    rest1, rest2 = 1 / (1 + variance1), 1 / (1 + variance2)
    share1, share2 = variance1 * rest1, variance2 * rest2
    complement = rest1 * rest2 + share1 * rest2 + rest1 * share2
    complement = complement + share1 * share2 * cosine.gap * (1 + cosine.size)
    roots = std1 * jnp.sqrt(rest1) * (std2 * jnp.sqrt(rest2))
    angle = _arcsin(cosine.size * roots, complement)
    both = 1 / 4 + jnp.where(cosine.value >= 0, angle, -angle) / (2 * pi)
    inverse = lax.rsqrt(complement)  # of sqrt(d / ((1 + s^2) (1 + s'^2)))
    scale = jnp.sqrt(rest1 * rest2)
    spread = cosine.value**2 * scale * inverse + complement * inverse / scale
    values = cosine.value * (std1 * std2) * both + share1 * share2 * spread / (2 * pi)
    density = cosine.value * roots * inverse / (2 * pi)
    return values, both + density * (rest1 * rest2 * inverse**2 + rest1 + rest2)


def gelu_variance(variance: Float[Array, "..."]) -> Float[Array, "..."]:
    """Computes E[gelu(z)^2] for z of this variance."""
    positive = variance > 0
    std = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1)), 0)
    one = jnp.ones_like(std)
    return gelu(Cosine(one, one, jnp.zeros_like(std)), std, std)[0]


def _arcsin(sine: Float[Array, "..."], complement: Float[Array, "..."]) -> Float[Array, "..."]:
    """Computes arcsin of 0 <= sine <= 1 to the dtype's precision; complement = 1 - sine^2."""
    if sine.dtype == jnp.float64:
        positive = complement > 0
        cosine = jnp.where(positive, jnp.sqrt(jnp.where(positive, complement, 1)), 0)
        return jnp.arctan2(sine, cosine)
    small = sine < 1 / 2
    # arcsin(y) = pi/2 - 2 arcsin(sqrt((1 - y) / 2))
    square = jnp.where(small, sine**2, complement / (2 * (1 + sine)))
    positive = square > 0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, square, 1)), 0)
    root = jnp.where(small, sine, root)
    angle = root + root * square * _polynomial(_ARCSIN, square)
    return jnp.where(small, angle, pi / 2 - 2 * angle)


def _polynomial(coefficients: Sequence[float], x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Evaluates by Horner's rule."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
