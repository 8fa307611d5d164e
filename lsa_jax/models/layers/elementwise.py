"""Nonlinearities of single numbers."""

import abc
from dataclasses import dataclass

import jax
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.checks import number, require
from lsa_jax.kernels.infinite import steps
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
        return (steps.Elementwise(self),)


@dataclass(frozen=True)
class Relu(Layer):
    """max(x, 0)."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns the positive part."""
        return jax.nn.relu(x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.Relu(),)


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
        return (steps.Relu(self.slope),)


@dataclass(frozen=True)
class Erf(Layer):
    """The error function, a sigmoid."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns erf(x)."""
        return lax.erf(x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.Erf(),)


@dataclass(frozen=True)
class Gelu(Layer):
    """x times the probability that a standard normal number is below x."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Returns x (1 + erf(x / sqrt(2))) / 2."""
        return jax.nn.gelu(x, approximate=False)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.Gelu(),)
