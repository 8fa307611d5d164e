"""The steps that act on each position alone: nonlinearities, normalisations, dropout."""

import abc
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsa_jax._neural_tangents import stax
from lsa_jax.kernels.infinite import dual_activations, quadrature
from lsa_jax.kernels.infinite.dual_activations import Cosine
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

    Attributes:
        slope: square root of E[phi'(z)^2].
        turn: the angle by which phi turns, as a function of a standard normal number, where the
            logarithm of the deviation grows by 1.
    """

    slope: Float[Array, "..."]
    turn: Float[Array, "..."]


class Pointwise(Step):
    """A step that acts on each position alone, by standard deviations of both examples there."""

    def scale(self, variance: Array) -> Scale:
        """Returns the step's quantities of an example with this variance."""
        std = root(variance)
        return Scale(std, inverse_of(std), root(self.variance(variance)))

    @abc.abstractmethod
    def variance(self, variance: Array) -> Array:
        """Returns the variance after the step from that before it."""


def root(x: Array) -> Array:
    """Returns the square root; 0, with a derivative of 0, of numbers not above 0."""
    return jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1)), 0)


def inverse_of(x: Array) -> Array:
    """Returns one over numbers above 0, and 0 of others."""
    return jnp.where(x > 0, 1 / jnp.where(x > 0, x, 1), 0)


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
        exact = jnp.where(is_near, near, dual_activations.exact_above(found, few))
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
    """positive_slope x where x > 0, negative_slope x elsewhere."""

    negative_slope: float = 0.0
    positive_slope: float = 1.0

    def variance(self, variance: Array) -> Array:
        """Returns the mean over both halves."""
        return (self.positive_slope**2 + self.negative_slope**2) / 2 * variance

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns the arc-cosine kernels of orders 1 and 0."""
        values, derivatives = dual_activations.relu(
            cosine, self.negative_slope, self.positive_slope
        )
        return values * (std1 * std2), derivatives

    def scale(self, variance: Array) -> Scale:
        """Returns the deviations."""
        return Pointwise.scale(self, variance)

    def gap(self, cosine: Cosine, scale1: Scale, scale2: Scale) -> Array:
        """Returns it by a formula for small gaps and large ones."""
        return dual_activations.relu_gap(cosine, self.negative_slope, self.positive_slope)

    def stax(self) -> Any:
        """Returns the ReLU of both slopes."""
        return stax.ABRelu(self.negative_slope, self.positive_slope)


@dataclass(frozen=True)
class Erf(Nonlinearity):
    """The error function."""

    _FEW_LOST = 1 / 2

    def variance(self, variance: Array) -> Array:
        """Returns E[erf(z)^2]."""
        return dual_activations.erf_variance(variance)

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns the arc-sine kernel and its derivative."""
        return dual_activations.erf(cosine, std1, std2)

    def lost(self, cosine: Cosine, scale1: Scale, scale2: Scale, slopes: Array) -> Array:
        """Returns a difference of angles as one angle."""
        return dual_activations.erf_lost(cosine, scale1.std, scale2.std)

    def stax(self) -> Any:
        """Returns erf."""
        return stax.Erf()


@dataclass(frozen=True)
class Gelu(Nonlinearity):
    """x times the probability that a standard normal number is below x."""

    _FEW_LOST = 1 / 2

    def variance(self, variance: Array) -> Array:
        """Returns E[gelu(z)^2]."""
        return dual_activations.gelu_variance(variance)

    def duals(self, cosine: Cosine, std1: Array, std2: Array) -> tuple[Array, Array]:
        """Returns the kernel of Tsuchida et al. (2021) and its derivative."""
        return dual_activations.gelu(cosine, std1, std2)

    def lost(self, cosine: Cosine, scale1: Scale, scale2: Scale, slopes: Array) -> Array:
        """Returns its difference term by term."""
        return dual_activations.gelu_lost(cosine, scale1.std, scale2.std)

    def stax(self) -> Any:
        """Returns GeLU."""
        return stax.Gelu()


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
        """Returns the duals of random features and their derivatives."""
        size = abs(self.b)
        values, slopes = dual_activations.sine(cosine, size * std1, size * std2, self.c)
        return self.a**2 * values, (self.a * self.b) ** 2 * slopes

    def lost(self, cosine: Cosine, scale1: Scale, scale2: Scale, slopes: Array) -> Array:
        """Returns a difference of exponential functions as a product."""
        stds = abs(self.b) * scale1.std, abs(self.b) * scale2.std
        return self.a**2 * dual_activations.sine_lost(cosine, *stds, self.c)

    def stax(self) -> Any:
        """Returns the sine."""
        return stax.Sin(self.a, self.b, self.c)


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

    def stax(self) -> Any:
        """Returns the kernel that the duals make."""
        return stax.Elementwise(
            self.nonlinearity.phi,
            lambda *moments: self.nonlinearity.duals(*moments)[0],
            lambda *moments: self.nonlinearity.duals(*moments)[1],
        )


@dataclass(frozen=True)
class Series(Elementwise):
    """Any other nonlinearity, by the Hermite series of its function.

    Attributes:
        nonlinearity: with the method `phi`; compares by value.
        degree: number of terms.
    """

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

    def stax(self) -> Any:
        """Returns the kernel over the standard deviations."""
        return stax.LayerNorm(eps=self.epsilon)


@dataclass(frozen=True)
class Dropout(Pointwise):
    """Features that are 0, but for a share that is divided by it.

    Two examples, or one example twice, have masks of their own, so that only variances grow.

    Attributes:
        keep: the share.
    """

    keep: float

    def variance(self, variance: Array) -> Array:
        """Returns the variance over masks too."""
        return variance / self.keep

    def stax(self) -> Any:
        """Returns dropout as in training."""
        return stax.Dropout(self.keep)
