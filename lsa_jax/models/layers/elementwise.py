"""Nonlinearities of single numbers, and dropout."""

import abc
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.checks import Kind, integer, number, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import correlations, pointwise, quadrature, steps
from lsa_jax.models.layers.base import Layer, LayerModule


class Nonlinearity(Layer):
    """A nonlinearity phi of single numbers, with its duals: two expectations at infinite width."""

    @abc.abstractmethod
    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Applies phi to every number."""

    def duals(
        self,
        covariance: Float[Array, "..."],
        variance1: Float[Array, "..."],
        variance2: Float[Array, "..."],
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns E[phi(z) phi(z')] and E[phi'(z) phi'(z')] of centred Gaussian numbers z, z'.

        Variances broadcast against the covariance.
        """
        stds = correlations.root(variance1), correlations.root(variance2)
        cosine = correlations.cosine(covariance, *map(correlations.inverse_of, stds), 0.0)
        return self._step().duals(cosine, *stds)

    @abc.abstractmethod
    def _step(self) -> pointwise.Nonlinearity:
        """Returns the step of the kernel."""

    def finite(self, x: Float[Array, "..."], module: LayerModule) -> Float[Array, "..."]:
        """Applies phi to every number."""
        return self.phi(x)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (self._step(),)


class Elementwise(Nonlinearity):
    """Base class of new nonlinearities phi of single numbers.

    A subclass is a frozen dataclass, so that equal ones share a compiled program. It gives `phi`.
    Its duals are then Hermite series of `degree` terms, see `kernels.infinite.quadrature`; a
    subclass with closed forms gives `duals` too. Where a network is made, `kernels.check_duals`
    refuses those that are off by more than 3 %.
    """

    degree = 64

    def _step(self) -> pointwise.Nonlinearity:
        if type(self).duals is Nonlinearity.duals:
            return pointwise.Series(self, self.degree)
        return pointwise.Elementwise(self)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step.

        Raises:
            InputError: it cannot be hashed, or `kernels.check_duals` refuses it.
        """
        try:
            hash(self)
        except TypeError as error:
            raise InputError(
                f"{type(self).__name__} cannot be hashed ({error}); accepted: a class with "
                "@dataclass(frozen=True), whose fields are numbers, texts, tuples or functions"
            ) from error
        _check(self)
        return super().infinite(parameterization)


# Once for each: a network's kernel is made several times.
_check = functools.lru_cache(maxsize=64)(quadrature.check_duals)


@dataclass(frozen=True)
class ElementwiseNumerical(Elementwise):
    """Any function of single numbers, with its kernel by quadrature.

    Attributes:
        function: phi, in jax; give the same object each time, so that its program is compiled once.
        degree: terms of the series. More are needed for large variances and functions that are not
            smooth: `kernels.check_duals` measures the error.

    Source: Novak et al., Neural tangents: fast and easy infinite neural networks in Python, 2020,
    for a nonlinearity of any function.
    """

    function: Callable[[Array], Array]
    degree: int = 64

    def __post_init__(self) -> None:
        a_function = Kind(callable, "a function of an array, such as jnp.tanh", Callable)
        require("ElementwiseNumerical.function", self.function, a_function)
        require("ElementwiseNumerical.degree", self.degree, integer(1))

    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Applies the function."""
        return self.function(x)


@dataclass(frozen=True)
class Tanh(Elementwise):
    """The hyperbolic tangent."""

    phi = staticmethod(jnp.tanh)


@dataclass(frozen=True)
class Sigmoid(Elementwise):
    """The logistic function."""

    phi = staticmethod(jax.nn.sigmoid)


@dataclass(frozen=True)
class Silu(Elementwise):
    """x times the logistic function, also called swish."""

    phi = staticmethod(jax.nn.silu)


@dataclass(frozen=True)
class Softplus(Elementwise):
    """A smooth positive part."""

    phi = staticmethod(jax.nn.softplus)


@dataclass(frozen=True)
class Elu(Elementwise):
    """x where x > 0, exp(x) - 1 elsewhere."""

    degree = 128  # the kink of its derivative makes the series converge slowly

    phi = staticmethod(jax.nn.elu)


@dataclass(frozen=True)
class Relu(Nonlinearity):
    """max(x, 0)."""

    phi = staticmethod(jax.nn.relu)

    def _step(self) -> pointwise.Nonlinearity:
        return pointwise.Relu()


@dataclass(frozen=True)
class LeakyRelu(Nonlinearity):
    """x where x > 0, slope x elsewhere.

    Attributes:
        slope: below zero.
    """

    slope: float = 0.01

    def __post_init__(self) -> None:
        require("LeakyRelu.slope", self.slope, number(0))

    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns max(x, 0) + slope min(x, 0)."""
        return jax.nn.leaky_relu(x, self.slope)

    def _step(self) -> pointwise.Nonlinearity:
        return pointwise.Relu(self.slope)


@dataclass(frozen=True)
class ABRelu(Nonlinearity):
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

    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns a min(x, 0) + b max(x, 0)."""
        return jnp.where(x > 0, self.b * x, self.a * x)

    def _step(self) -> pointwise.Nonlinearity:
        return pointwise.Relu(self.a, self.b)


@dataclass(frozen=True)
class Abs(Nonlinearity):
    """|x|."""

    phi = staticmethod(jnp.abs)

    def _step(self) -> pointwise.Nonlinearity:
        return pointwise.Relu(-1.0, 1.0)


@dataclass(frozen=True)
class Sin(Nonlinearity):
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

    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns a sin(b x + c)."""
        return self.a * jnp.sin(self.b * x + self.c)

    def _step(self) -> pointwise.Nonlinearity:
        return pointwise.Sine(self.a, self.b, self.c)


@dataclass(frozen=True)
class Erf(Nonlinearity):
    """The error function, a sigmoid."""

    phi = staticmethod(lax.erf)

    def _step(self) -> pointwise.Nonlinearity:
        return pointwise.Erf()


@dataclass(frozen=True)
class Gelu(Nonlinearity):
    """x times the probability that a standard normal number is below x."""

    def phi(self, x: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns x (1 + erf(x / sqrt(2))) / 2."""
        return jax.nn.gelu(x, approximate=False)

    def _step(self) -> pointwise.Nonlinearity:
        return pointwise.Gelu()


@dataclass(frozen=True)
class Dropout(Layer):
    """Keeps a share of the numbers, divided by it, and sets the others to 0; weights must follow.

    Masks are drawn where `Model.apply` gets a key, as in each step of `training.train`, and not
    otherwise; `models.scaled` never draws any. The infinite-width kernel is that of two draws: each
    example, and also one example twice, under masks of its own. neural-tangents uses one mask where
    two inputs are the same example.

    Attributes:
        keep: the share, above 0 and at most 1.

    Source: Srivastava et al., Dropout, 2014; Schoenholz et al., Deep information propagation, 2017,
    section 3.3, for the kernel.
    """

    keep: float

    def __post_init__(self) -> None:
        require("Dropout.keep", self.keep, number(0, 1, above=True))

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns x under a mask; x itself without a key."""
        if not module.has_rng("dropout"):
            return x
        mask = jax.random.bernoulli(module.make_rng("dropout"), self.keep, x.shape)
        return jnp.where(mask, x / self.keep, 0).astype(x.dtype)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Dropout(self.keep),)
