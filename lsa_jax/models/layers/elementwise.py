"""Nonlinearities of single numbers."""

import abc
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.checks import number, require
from lsa_jax.kernels.infinite import pointwise, steps
from lsa_jax.models.layers.base import Layer, LayerModule


class Elementwise(Layer):
    """A nonlinearity phi of single numbers, given with its duals: what a new one derives from.

    A subclass is a frozen dataclass, so that equal ones share a compiled program.
    """

    @abc.abstractmethod
    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Applies phi to every number."""

    @abc.abstractmethod
    def duals(
        self,
        covariance: Float[Array, "..."],
        variance1: Float[Array, "..."],
        variance2: Float[Array, "..."],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns E[phi(z) phi(z')] and E[phi'(z) phi'(z')].

        Args:
            covariance: of the centred Gaussian numbers z and z'.
            variance1: of z; broadcasts against the covariance.
            variance2: of z'.
        """

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Applies phi to every number."""
        return self.phi(x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Elementwise(self),)


@dataclass(frozen=True)
class Relu(Layer):
    """max(x, 0)."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns the positive part."""
        return jax.nn.relu(x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Relu(),)


@dataclass(frozen=True)
class LeakyRelu(Layer):
    """x where x > 0, slope x elsewhere.

    Attributes:
        slope: below zero.
    """

    slope: float = 0.01

    def __post_init__(self) -> None:
        require("LeakyRelu.slope", self.slope, number(0))

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns max(x, 0) + slope min(x, 0)."""
        return jax.nn.leaky_relu(x, self.slope)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Relu(self.slope),)


@dataclass(frozen=True)
class ABRelu(Layer):
    """b x where x > 0, a x elsewhere: with (-1, 1) the absolute value.

    Attributes:
        a: slope below zero.
        b: slope above zero.
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        require("ABRelu.a", self.a, number(-math.inf))
        require("ABRelu.b", self.b, number(-math.inf))

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns a min(x, 0) + b max(x, 0)."""
        return jnp.where(x > 0, self.b * x, self.a * x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Relu(self.a, self.b),)


@dataclass(frozen=True)
class Abs(Layer):
    """|x|."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns the absolute value."""
        return jnp.abs(x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Relu(-1.0, 1.0),)


@dataclass(frozen=True)
class Sin(Layer):
    """a sin(b x + c): with c = pi/2 the cosine, with c = pi/4 and a = sqrt(2) random features.

    Attributes:
        a: amplitude.
        b: frequency.
        c: phase.
    """

    a: float = 1.0
    b: float = 1.0
    c: float = 0.0

    def __post_init__(self) -> None:
        for name in ("a", "b", "c"):
            require(f"Sin.{name}", getattr(self, name), number(-math.inf))

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns a sin(b x + c)."""
        return self.a * jnp.sin(self.b * x + self.c)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Sine(self.a, self.b, self.c),)


@dataclass(frozen=True)
class Erf(Layer):
    """The error function, a sigmoid."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns erf(x)."""
        return lax.erf(x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Erf(),)


@dataclass(frozen=True)
class Gelu(Layer):
    """x times the probability that a standard normal number is below x."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns x (1 + erf(x / sqrt(2))) / 2."""
        return jax.nn.gelu(x, approximate=False)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Gelu(),)
