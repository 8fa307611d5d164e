"""The steps that act on each position alone: nonlinearities, normalisations, dropout."""

import abc
import math
from dataclasses import dataclass
from math import pi
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.kernels.infinite import quadrature
from lsa_jax.kernels.infinite.correlations import (
    Cosine,
    angle_lost,
    arc_cosine,
    arcsin,
    exact_above,
    inverse_of,
    root,
)
from lsa_jax.kernels.infinite.steps import Step


class Scale(NamedTuple):
    """The quantities of one example for a nonlinearity or a normalisation, at each position.

    Attributes:
        std: standard deviation before it.
        inverse: one over the deviation, or a normalisation's factor; 0 where that is 0.
        after: standard deviation after it.
        nearby: for nearly equal numbers; None where there is a formula for them.
    """

    std: Float[Array, "..."]
    inverse: Float[Array, "..."]
    after: Float[Array, "..."]
    nearby: "Nearby | None" = None


class Nearby(NamedTuple):
    """How a nonlinearity maps nearly equal numbers.

    `slope` is the square root of E[phi'(z)^2]; `turn` the angle by which phi turns, as a function
    of a standard normal number, where the logarithm of the deviation grows by 1.
    """

    slope: Float[Array, "..."]
    turn: Float[Array, "..."]


class Pointwise(Step, abc.ABC):
    """A step that acts on each position alone, by standard deviations of both examples there."""

    def scale(self, variance: Array) -> Scale:
        """Returns the step's quantities of an example with this variance."""
        std = root(variance)
        return Scale(std, inverse_of(std), root(self.variance(variance)))

    @abc.abstractmethod
    def variance(self, variance: Array) -> Array:
        """Returns the variance after the step from that before it."""


class Nonlinearity(Pointwise):
    """A nonlinearity, from the correlation of its two inputs.

    The gap after it is 1 - E[phi phi'] / sqrt(E[phi^2] E[phi'^2]). Rounding would dominate that for
    nearly equal numbers, for which it is a sum of two small ones: the covariance at correlation 1
    less that at this one, and the part of different deviations, half the square of a small angle.
    """

    # Gaps after it up to which the loss is accurate; all where it has a formula.
    _FEW_LOST = 4e-4
    # Squared relative differences of deviations up to which the angle is accurate.
    _FEW_APART = 1e-3
    # For the angle, by differences: relative to the deviation.
    _STEPS = (0.1, 0.05)

    def scale(self, variance: Array) -> Scale:
        """Returns the quantities of an example with this variance."""
        plain = super().scale(variance)
        fixed = lax.stop_gradient(plain.std)
        one = jnp.ones_like(fixed)
        same = Cosine(one, one, jnp.zeros_like(one))
        squares = []
        for step in self._STEPS:
            moved = fixed * math.exp(-step), fixed * math.exp(step)
            before, behind = (inverse_of(root(self.variance(std**2))) for std in moved)
            cosine = self.duals(same, *moved)[0] * (before * behind)
            squares.append(2 * (1 - cosine) / (2 * step) ** 2)
        # Their errors are in the ratio of the steps' squares (Richardson's extrapolation).
        turn = root((4 * squares[1] - squares[0]) / 3)
        slope = root(self.duals(same, fixed, fixed)[1])
        return plain._replace(nearby=Nearby(*map(lax.stop_gradient, (slope, turn))))

    @abc.abstractmethod
    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns E[phi phi'] and E[dphi dphi'], the factor of the tangent kernel.

        Standard deviations broadcast against the correlation.
        """

    def gap(self, cosine: Cosine, scale1: Scale, scale2: Scale) -> Array:
        """Returns 1 - E[phi phi'] / sqrt(E[phi^2] E[phi'^2])."""
        values, slopes = self.duals(cosine, scale1.std, scale2.std)
        inverse = inverse_of(scale1.after) * inverse_of(scale2.after)
        found = 1 - values * inverse
        apart = (scale1.std - scale2.std) ** 2 * (scale1.inverse * scale2.inverse)
        turned = ((scale1.nearby.turn + scale2.nearby.turn) / 2) ** 2 * apart / 2
        near = self.lost(cosine, scale1, scale2, slopes) * inverse + turned
        is_near = (found < self._FEW_LOST) & (apart < self._FEW_APART) & (cosine.value >= 0)
        few = 6 * float(jnp.finfo(found.dtype).eps)
        exact = jnp.where(is_near, near, exact_above(found, few))
        # The derivative is that of the duals.
        return found + lax.stop_gradient(exact - found)

    def lost(self, cosine: Cosine, scale1: Scale, scale2: Scale, slopes: Array) -> Array:
        """Returns E[phi phi'] at correlation 1 less that at this one, for correlations above 0.

        It is the integral of E[dphi dphi'] over the covariance (Price, 1958). The weights are exact
        for a root of the gap, as jumps of the derivative make.
        """
        mean = (scale1.nearby.slope * scale2.nearby.slope + 2 * slopes) / 3
        return mean * (scale1.std * scale2.std) * cosine.gap


@dataclass(frozen=True)
class Relu(Nonlinearity):
    """positive_slope x where x > 0, negative_slope x elsewhere.

    With the slopes a and b it is a x + (b - a) relu(x), where E[x relu(x')] = E[x x'] / 2.
    """

    negative_slope: float = 0.0
    positive_slope: float = 1.0

    @property
    def _shares(self) -> tuple[float, float]:
        """The products of the slopes, and of their difference with itself."""
        a, b = self.negative_slope, self.positive_slope
        return a * b, (b - a) ** 2

    def variance(self, variance: Array) -> Array:
        """Returns the mean over both halves."""
        return (self.positive_slope**2 + self.negative_slope**2) / 2 * variance

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns the arc-cosine kernels of orders 1 and 0.

        At gap 0 the derivative of the second is infinite; 0 is used.

        Source: Cho and Saul (2009), Kernel methods for deep learning.
        """
        positive = cosine.value >= 0
        bent, angle = arc_cosine(cosine)
        values = bent + jnp.where(positive, cosine.value / 2, 0)
        slopes = jnp.where(positive, 1 / 2 - angle, angle)
        if (self.negative_slope, self.positive_slope) != (0, 1):
            both, rest = self._shares
            values, slopes = both * cosine.value + rest * values, both + rest * slopes
        return values * (std1 * std2), slopes

    def scale(self, variance: Array) -> Scale:
        """Returns the deviations."""
        return Pointwise.scale(self, variance)

    def gap(self, cosine: Cosine, scale1: Scale, scale2: Scale) -> Array:
        """Returns it without cancellation of small ones."""
        both, rest = self._shares
        variance = both + rest / 2 or 1.0  # with both slopes 0 any gap will do
        bent = rest / variance * arc_cosine(cosine)[0]
        # Of cosines below 0, from the gap to -1: the absolute value makes it the gap to 1.
        below = 1 + both / variance - both / variance * cosine.gap if both else 1.0
        return jnp.where(cosine.value >= 0, cosine.gap, below) - bent


@dataclass(frozen=True)
class Erf(Nonlinearity):
    """The error function."""

    _FEW_LOST = 1 / 2

    def variance(self, variance: Array) -> Array:
        """Returns E[erf(z)^2]."""
        share = 1 / (1 + 2 * variance)
        return 2 / pi * arcsin(2 * variance * share, (1 + 4 * variance) * share**2)

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns 2/pi arcsin(y) and 4/pi / sqrt(c).

        With y = 2 K / sqrt(c0), c0 = (1 + 2 s^2)(1 + 2 s'^2) and c = c0 - 4 K^2.

        Source: Williams (1997), Computing with infinite networks, eq. 11.
        """
        share1, share2 = 1 / (1 + 2 * std1**2), 1 / (1 + 2 * std2**2)
        most, complement, _ = self._sines(cosine, std1, std2)
        angle = arcsin(most * cosine.size, complement)
        values = 2 / pi * jnp.where(cosine.value >= 0, angle, -angle)
        return values, 4 / pi * jnp.sqrt(share1 * share2) * lax.rsqrt(complement)

    def lost(self, cosine: Cosine, scale1: Scale, scale2: Scale, slopes: Array) -> Array:
        """Returns a difference of angles as one angle."""
        return 2 / pi * angle_lost(cosine, *self._sines(cosine, scale1.std, scale2.std))

    @staticmethod
    def _sines(cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array, Array]:
        """Returns y at correlation 1, 1 - y^2 at this one, and that at correlation 1."""
        share1, share2 = 1 / (1 + 2 * std1**2), 1 / (1 + 2 * std2**2)
        root1, root2 = std1 * jnp.sqrt(share1), std2 * jnp.sqrt(share2)
        rest1, rest2 = root1**2, root2**2
        # 1 - y^2 = c / c0, from the gap: 1 - y^2 itself would cancel for large s.
        least = share1 * share2 + 2 * (rest1 * share2 + share1 * rest2)
        complement = least + 4 * rest1 * rest2 * cosine.gap * (1 + cosine.size)
        return 2 * (root1 * root2), complement, least


@dataclass(frozen=True)
class Gelu(Nonlinearity):
    """x times the probability that a standard normal number is below x."""

    _FEW_LOST = 1 / 2

    def variance(self, variance: Array) -> Array:
        """Returns E[gelu(z)^2]."""
        std = root(variance)
        one = jnp.ones_like(std)
        return self.duals(Cosine(one, one, jnp.zeros_like(std)), std, std)[0]

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns K t + (a a' / (2 pi)) (rho^2 / sqrt(d) + sqrt(d)), and its derivative by K.

        With a = s^2 / (1 + s^2), d = 1 + s^2 + s'^2 + s^2 s'^2 - K^2 and t = P(both of two numbers
        correlated by K / sqrt((1 + s^2)(1 + s'^2)) are above 0); arranged so that nothing cancels
        for large s.

        Source: Tsuchida et al. (2021), Avoiding kernel fixed points, for the first.
        """
        rest1, rest2, share, roots, least = self._parts(std1, std2)
        complement = least + share * cosine.gap * (1 + cosine.size)
        angle = arcsin(cosine.size * roots, complement)
        both = 1 / 4 + jnp.where(cosine.value >= 0, angle, -angle) / (2 * pi)
        inverse = lax.rsqrt(complement)  # of sqrt(d / ((1 + s^2) (1 + s'^2)))
        scale = jnp.sqrt(rest1 * rest2)
        spread = cosine.value**2 * scale * inverse + complement * inverse / scale
        values = cosine.value * (std1 * std2) * both + share * spread / (2 * pi)
        density = cosine.value * roots * inverse / (2 * pi)
        return values, both + density * (rest1 * rest2 * inverse**2 + rest1 + rest2)

    def lost(self, cosine: Cosine, scale1: Scale, scale2: Scale, slopes: Array) -> Array:
        """Returns the difference of `duals` term by term, each without cancellation."""
        std1, std2 = scale1.std, scale2.std
        rest1, rest2, share, roots, least = self._parts(std1, std2)
        square = cosine.gap * (1 + cosine.size)  # 1 - rho^2
        complement = least + share * square
        angle = angle_lost(cosine, roots, complement, least)
        both = 1 / 4 + arcsin(roots, least) / (2 * pi)
        lost = std1 * std2 * (both * cosine.gap + cosine.size * angle / (2 * pi))
        side, less = jnp.sqrt(complement), jnp.sqrt(least)
        more, scale = share * square / (side + less), jnp.sqrt(rest1 * rest2)
        spread = scale * (more + less * square) / (side * less) - more / scale
        return lost + share * spread / (2 * pi)

    @staticmethod
    def _parts(std1: Array, std2: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Returns 1 / (1 + s^2) and s', a a', and at correlation 1 the sine and 1 - its square."""
        variance1, variance2 = std1**2, std2**2
        rest1, rest2 = 1 / (1 + variance1), 1 / (1 + variance2)
        share1, share2 = variance1 * rest1, variance2 * rest2
        roots = std1 * jnp.sqrt(rest1) * (std2 * jnp.sqrt(rest2))
        least = rest1 * rest2 + share1 * rest2 + rest1 * share2
        return rest1, rest2, share1 * share2, roots, least


@dataclass(frozen=True)
class Sine(Nonlinearity):
    """a sin(b x + c)."""

    a: float
    b: float
    c: float

    _FEW_LOST = 1 / 2

    def variance(self, variance: Array) -> Array:
        """Returns a^2 (1 - exp(-2 b^2 v) cos 2c) / 2."""
        even, odd = math.sin(self.c) ** 2, math.cos(2 * self.c) / 2
        return self.a**2 * (even - odd * jnp.expm1(-2 * self.b**2 * variance))

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns a^2 (D - S cos(2 c)) / 2 and (a b)^2 (D + S cos(2 c)) / 2.

        D is exp(-b^2 Var(z - z') / 2), and S the same of z + z': characteristic functions (Rahimi
        and Recht, 2007, theorem 1, for the first).
        """
        std1, std2 = abs(self.b) * std1, abs(self.b) * std2
        difference, total = self._parts(cosine, std1, std2)
        # D - S, whose terms are nearly equal for small deviations.
        most = jnp.where(cosine.value >= 0, difference, -total)
        less = -most * jnp.expm1(-2 * cosine.size * (std1 * std2))
        values = (less + 2 * math.sin(self.c) ** 2 * total) / 2
        slopes = (difference + math.cos(2 * self.c) * total) / 2
        return self.a**2 * values, (self.a * self.b) ** 2 * slopes

    def lost(self, cosine: Cosine, scale1: Scale, scale2: Scale, slopes: Array) -> Array:
        """Returns a difference of exponential functions as a product."""
        std1, std2 = abs(self.b) * scale1.std, abs(self.b) * scale2.std
        one = jnp.ones_like(cosine.value)
        difference, _ = self._parts(Cosine(one, one, one - 1), std1, std2)
        _, total = self._parts(cosine, std1, std2)
        lost = jnp.expm1(-cosine.gap * (std1 * std2))
        return self.a**2 * (-lost * (difference + math.cos(2 * self.c) * total) / 2)

    @staticmethod
    def _parts(cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns exp(-Var(z - z') / 2) and exp(-Var(z + z') / 2)."""
        positive, product = cosine.value >= 0, std1 * std2
        near = (std1 - std2) ** 2 / 2 + product * cosine.gap
        far = (std1 + std2) ** 2 / 2 - product * cosine.gap
        near, far = jnp.where(positive, near, far), jnp.where(positive, far, near)
        return jnp.exp(-near), jnp.exp(-far)


@dataclass(frozen=True)
class Elementwise(Nonlinearity):
    """Any other nonlinearity, by duals of its own.

    Attributes:
        nonlinearity: with the methods `phi` and `duals` of `models.Elementwise`; compares by value.
    """

    nonlinearity: Any

    def variance(self, variance: Array) -> Array:
        """Returns the dual of a number with itself."""
        return self.nonlinearity.duals(variance, variance, variance)[0]

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns its own duals."""
        return self.nonlinearity.duals(cosine.value * (std1 * std2), std1**2, std2**2)


@dataclass(frozen=True)
class Series(Elementwise):
    """Any other nonlinearity, by so many terms of the Hermite series of its function `phi`."""

    degree: int

    def _coefficients(self, std: Array) -> tuple[Array, Array]:
        return quadrature.coefficients(self.nonlinearity.phi, self.degree, std)

    def variance(self, variance: Array) -> Array:
        """Returns the sum of the squared coefficients."""
        return jnp.sum(self._coefficients(root(variance))[0] ** 2, axis=0)

    def scale(self, variance: Array) -> Scale:
        """Returns the deviations."""
        return Pointwise.scale(self, variance)

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns the series of the function and of its derivative."""
        sides = zip(*map(self._coefficients, (std1, std2)), strict=True)
        return tuple(quadrature.series(*each, cosine) for each in sides)

    def gap(self, cosine: Cosine, scale1: Scale, scale2: Scale) -> Array:
        """Returns it as a sum of terms that are not negative for correlations above 0."""
        sides = scale1, scale2
        units = (self._coefficients(one.std)[0] * inverse_of(one.after)[None] for one in sides)
        return quadrature.series_gap(*units, cosine)


@dataclass(frozen=True)
class LayerNorm(Pointwise):
    """Division by the standard deviation over features; the mean is 0 at infinite width."""

    epsilon: float

    def scale(self, variance: Array) -> Scale:
        """Returns the factor of examples."""
        std = root(variance + self.epsilon)
        return Scale(std, inverse_of(std), root(self.variance(variance)))

    def variance(self, variance: Array) -> Array:
        """Returns about 1."""
        return variance / (variance + self.epsilon)


@dataclass(frozen=True)
class Dropout(Pointwise):
    """Features that are 0, but for a share (`keep`) that is divided by it.

    Two examples, or one example twice, have masks of their own, so that only variances grow.
    """

    keep: float

    def variance(self, variance: Array) -> Array:
        """Returns the variance over masks too."""
        return variance / self.keep
