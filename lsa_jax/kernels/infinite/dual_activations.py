"""Covariances of nonlinearities of Gaussian numbers, by polynomials that vectorise.

The dual of a nonlinearity phi turns the covariance K of two centred Gaussian numbers z, z' with
standard deviations s, s' into E[phi(z) phi(z')] and E[phi'(z) phi'(z')] (Cho and Saul, 2009;
Williams, 1997). Written with inverse trigonometric functions these are most of the time that an
infinite-width kernel takes on a CPU. In float32 they are polynomials times square roots, exact to
about one rounding (3e-8 of the largest value), with derivatives of the same quality. In float64
they are the inverse functions themselves.
"""

from collections.abc import Sequence
from math import cos, pi, sin, sqrt
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


def relu(cosine: Cosine, negative_slope: float, positive_slope: float = 1.0) -> tuple[Array, Array]:
    """Computes the duals of positive_slope x for x > 0 and negative_slope x elsewhere.

    E[phi phi'] and E[dphi dphi'] are those of unit deviations; the first is to be multiplied by
    both standard deviations. At gap 0 the derivative of the second is infinite; 0 is used.

    Source: Cho and Saul (2009), Kernel methods for deep learning, orders 1 and 0; the
    general one is a x + (b - a) relu(x) with the slopes a and b, and E[x relu(x')] = E[x x'] / 2.
    """
    positive = cosine.value >= 0
    bent, angle = _arc_cosine(cosine)
    values = bent + jnp.where(positive, cosine.value / 2, 0)
    derivatives = jnp.where(positive, 1 / 2 - angle, angle)
    if (negative_slope, positive_slope) == (0, 1):
        return values, derivatives
    both, rest = negative_slope * positive_slope, (positive_slope - negative_slope) ** 2
    return both * cosine.value + rest * values, both + rest * derivatives


def relu_gap(cosine: Cosine, negative_slope: float, positive_slope: float) -> Array:
    """Computes the gap after the nonlinearity of `relu`, without cancellation of small ones."""
    both, rest = negative_slope * positive_slope, (positive_slope - negative_slope) ** 2
    variance = both + rest / 2
    bent = rest / variance * _arc_cosine(cosine)[0]
    # Of cosines below 0, from the gap to -1: the absolute value makes it the gap to 1.
    below = 1 + both / variance - both / variance * cosine.gap if both else 1.0
    return jnp.where(cosine.value >= 0, cosine.gap, below) - bent


def _arc_cosine(cosine: Cosine) -> tuple[Array, Array]:
    """Returns (sin(t) - t cos(t)) / (2 pi) and t / (2 pi) with the angle t = arccos(size)."""
    apart = cosine.gap > 0
    root = jnp.where(apart, jnp.sqrt(jnp.where(apart, cosine.gap, 1)), 0)
    if root.dtype == jnp.float64:
        angle = jnp.arcsin(root / sqrt(2)) / pi
        return root * jnp.sqrt(1 + cosine.size) / (2 * pi) - cosine.size * angle, angle
    angle = root * _polynomial(_ARCCOS, cosine.size)
    return root * cosine.gap * _polynomial(_ARC_COSINE, cosine.size), angle


def erf(cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
    """Computes the duals of erf.

    E[erf erf'] = 2/pi arcsin(y) and E[derf derf'] = 4/pi / sqrt(c), where y = 2 K / sqrt(c0),
    c0 = (1 + 2 s^2)(1 + 2 s'^2) and c = c0 - 4 K^2.

    Source: Williams (1997), Computing with infinite networks, eq. 11.
    """
    share1, share2 = 1 / (1 + 2 * std1**2), 1 / (1 + 2 * std2**2)
    most, complement, _ = _erf_sines(cosine, std1, std2)
    angle = _arcsin(most * cosine.size, complement)
    values = 2 / pi * jnp.where(cosine.value >= 0, angle, -angle)
    return values, 4 / pi * jnp.sqrt(share1 * share2) * lax.rsqrt(complement)


def erf_lost(cosine: Cosine, std1: Array, std2: Array) -> Array:
    """Computes E[erf erf'] at correlation 1 less that at this one, a difference of two angles."""
    return 2 / pi * _angle_lost(cosine, *_erf_sines(cosine, std1, std2))


def _angle_lost(cosine: Cosine, most: Array, complement: Array, least: Array) -> Array:
    """Returns arcsin(most) - arcsin(most * size); complement and least = 1 - sine^2 of the two."""
    other = most * cosine.size
    total = most * jnp.sqrt(complement) + other * jnp.sqrt(least)
    sine = most * cosine.gap * (most + other) / jnp.where(total > 0, total, 1)
    return _arcsin(sine, 1 - sine**2)


def _erf_sines(cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array, Array]:
    """Returns y at correlation 1, 1 - y^2 at this one, and that at correlation 1."""
    share1, share2 = 1 / (1 + 2 * std1**2), 1 / (1 + 2 * std2**2)
    root1, root2 = std1 * jnp.sqrt(share1), std2 * jnp.sqrt(share2)
    rest1, rest2 = root1**2, root2**2
    # 1 - y^2 = c / c0, from the gap: 1 - y^2 itself would cancel for large s.
    least = share1 * share2 + 2 * (rest1 * share2 + share1 * rest2)
    complement = least + 4 * rest1 * rest2 * cosine.gap * (1 + cosine.size)
    return 2 * (root1 * root2), complement, least


def erf_variance(variance: Array) -> Array:
    """Computes E[erf(z)^2] for z of this variance."""
    share = 1 / (1 + 2 * variance)
    return 2 / pi * _arcsin(2 * variance * share, (1 + 4 * variance) * share**2)


def sine(cosine: Cosine, std1: Array, std2: Array, phase: float) -> tuple[Array, Array]:
    """Computes the duals of sin(x + phase).

    E[sin sin'] = (D - S cos(2 phase)) / 2 and E[cos cos'] = (D + S cos(2 phase)) / 2, where D is
    exp(-Var(z - z') / 2) and S the same of z + z'. These follow from characteristic functions
    (Rahimi and Recht, 2007, theorem 1, for the first).
    """
    difference, total = _sine_parts(cosine, std1, std2)
    # D - S, whose terms are nearly equal for small deviations.
    most = jnp.where(cosine.value >= 0, difference, -total)
    less = -most * jnp.expm1(-2 * cosine.size * (std1 * std2))
    values = (less + 2 * sin(phase) ** 2 * total) / 2
    return values, (difference + cos(2 * phase) * total) / 2


def sine_lost(cosine: Cosine, std1: Array, std2: Array, phase: float) -> Array:
    """Computes E[sin sin'] at correlation 1 less that at this one, for correlations above 0."""
    one = jnp.ones_like(cosine.value)
    difference, _ = _sine_parts(Cosine(one, one, one - 1), std1, std2)
    _, total = _sine_parts(cosine, std1, std2)
    lost = jnp.expm1(-cosine.gap * (std1 * std2))
    return -lost * (difference + cos(2 * phase) * total) / 2


def _sine_parts(cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
    """Returns exp(-Var(z - z') / 2) and exp(-Var(z + z') / 2)."""
    positive, product = cosine.value >= 0, std1 * std2
    near = (std1 - std2) ** 2 / 2 + product * cosine.gap
    far = (std1 + std2) ** 2 / 2 - product * cosine.gap
    near, far = jnp.where(positive, near, far), jnp.where(positive, far, near)
    return jnp.exp(-near), jnp.exp(-far)


def gelu(cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
    """Computes the duals of GeLU, x P(z <= x) for a standard normal number z.

    With a = s^2 / (1 + s^2), d = 1 + s^2 + s'^2 + s^2 s'^2 - K^2 and t = P(both of two numbers
    correlated by K / sqrt((1 + s^2)(1 + s'^2)) are above 0), E[phi phi'] = K t + (a a' / (2 pi))
    (rho^2 / sqrt(d) + sqrt(d)).

    Source: Tsuchida et al. (2021), Avoiding kernel fixed points, for the first; the second is its
    derivative by K, arranged so that nothing cancels for large s.
    """
    rest1, rest2, share, roots, least = _gelu_parts(std1, std2)
    complement = least + share * cosine.gap * (1 + cosine.size)
    angle = _arcsin(cosine.size * roots, complement)
    both = 1 / 4 + jnp.where(cosine.value >= 0, angle, -angle) / (2 * pi)
    inverse = lax.rsqrt(complement)  # of sqrt(d / ((1 + s^2) (1 + s'^2)))
    scale = jnp.sqrt(rest1 * rest2)
    spread = cosine.value**2 * scale * inverse + complement * inverse / scale
    values = cosine.value * (std1 * std2) * both + share * spread / (2 * pi)
    density = cosine.value * roots * inverse / (2 * pi)
    return values, both + density * (rest1 * rest2 * inverse**2 + rest1 + rest2)


def gelu_lost(cosine: Cosine, std1: Array, std2: Array) -> Array:
    """Computes E[gelu gelu'] at correlation 1 less that at this one, for correlations above 0.

    Term by term the difference of `gelu`, each without cancellation.
    """
    rest1, rest2, share, roots, least = _gelu_parts(std1, std2)
    square = cosine.gap * (1 + cosine.size)  # 1 - rho^2
    complement = least + share * square
    angle = _angle_lost(cosine, roots, complement, least)
    both = 1 / 4 + _arcsin(roots, least) / (2 * pi)
    lost = std1 * std2 * (both * cosine.gap + cosine.size * angle / (2 * pi))
    root, less = jnp.sqrt(complement), jnp.sqrt(least)
    more, scale = share * square / (root + less), jnp.sqrt(rest1 * rest2)
    spread = scale * (more + less * square) / (root * less) - more / scale
    return lost + share * spread / (2 * pi)


def _gelu_parts(std1: Array, std2: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Returns 1 / (1 + s^2) and s', a a', and at correlation 1 the sine and 1 less its square."""
    variance1, variance2 = std1**2, std2**2
    rest1, rest2 = 1 / (1 + variance1), 1 / (1 + variance2)
    share1, share2 = variance1 * rest1, variance2 * rest2
    roots = std1 * jnp.sqrt(rest1) * (std2 * jnp.sqrt(rest2))
    least = rest1 * rest2 + share1 * rest2 + rest1 * share2
    return rest1, rest2, share1 * share2, roots, least


def gelu_variance(variance: Array) -> Array:
    """Computes E[gelu(z)^2] for z of this variance."""
    positive = variance > 0
    std = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1)), 0)
    one = jnp.ones_like(std)
    return gelu(Cosine(one, one, jnp.zeros_like(std)), std, std)[0]


def _arcsin(sine: Array, complement: Array) -> Array:
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


def _polynomial(coefficients: Sequence[float], x: Array) -> Array:
    """Evaluates by Horner's rule."""
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = value * x + coefficient
    return value
