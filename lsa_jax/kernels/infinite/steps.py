"""The steps that describe a network to its infinite-width kernel.

A layer of `models` is a few of these. Each knows what the recursion needs of it, and the same layer
of neural-tangents, so that the two evaluations of a kernel read one description.
"""

import abc
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax._neural_tangents import stax
from lsa_jax.kernels.infinite import dual_activations
from lsa_jax.kernels.infinite.windows import Windows


class Scale(NamedTuple):
    """What the dual of a nonlinearity needs of one example.

    Attributes:
        std: standard deviation before it, at each position.
        inverse: one over it; 0 where it is 0.
    """

    std: Float[Array, "..."]
    inverse: Float[Array, "..."]


class Step(abc.ABC):
    """One step of a network, as its kernel sees it. Equal steps share a compiled program."""

    @abc.abstractmethod
    def stax(self) -> Any:
        """Returns the same layer of neural-tangents: (init, apply, kernel)."""


@dataclass(frozen=True)
class Affine(Step):
    """A dense layer or a convolution.

    Attributes:
        features: number of outputs, which counts in the "standard" parameterisation alone.
        w_std: scale of the weights.
        b_std: scale of the biases; None for no biases.
        parameterization: "ntk" or "standard".
        windows: where a convolution's filters lie; None for a dense layer.
    """

    features: int
    w_std: float
    b_std: float | None
    parameterization: Literal["ntk", "standard"]
    windows: Windows | None = None

    @property
    def bias_variance(self) -> float:
        """What the biases add to every covariance."""
        return 0.0 if self.b_std is None else self.b_std**2

    def stax(self) -> Any:
        """Returns a dense layer or a convolution."""
        scales = {"W_std": self.w_std, "b_std": self.b_std}
        if self.windows is None:
            return stax.Dense(self.features, **scales, parameterization=self.parameterization)
        return stax.Conv(
            self.features,
            *dataclasses.astuple(self.windows),
            **scales,
            parameterization=self.parameterization,
        )


class Pointwise(Step):
    """A step that acts on each position alone, by standard deviations of both examples there."""

    def scale(self, variance: Float[Array, "..."]) -> Scale:
        """Returns what `duals` needs of an example with this variance."""
        positive = variance > 0
        std = jnp.where(positive, jnp.sqrt(jnp.where(positive, variance, 1)), 0)
        return Scale(std, jnp.where(positive, 1 / jnp.where(positive, std, 1), 0))

    @abc.abstractmethod
    def variance(self, variance: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns the variance after the step from that before it."""

    @abc.abstractmethod
    def duals(
        self, nngp: Float[Array, "..."], scale1: Scale, scale2: Scale, tolerance: float
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns E[phi phi'], and the factor E[dphi dphi'] of the tangent kernel.

        Args:
            nngp: covariances before the step.
            scale1: of the first example; broadcasts against the covariances.
            scale2: of the second.
            tolerance: cosines this near to 1 or -1 are taken as such.
        """


class Nonlinearity(Pointwise):
    """A nonlinearity, from the correlation of its two inputs."""

    def duals(
        self, nngp: Float[Array, "..."], scale1: Scale, scale2: Scale, tolerance: float
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns E[phi phi'] and E[dphi dphi']."""
        cosine = dual_activations.cosine(nngp, scale1.inverse, scale2.inverse, tolerance)
        return self.duals_at(nngp, cosine, scale1.std, scale2.std)

    @abc.abstractmethod
    def duals_at(
        self, nngp: Array, cosine: dual_activations.Cosine, std1: Array, std2: Array
    ) -> tuple[Array, Array]:
        """Returns E[phi phi'] and E[dphi dphi'] at this correlation."""


@dataclass(frozen=True)
class Relu(Nonlinearity):
    """positive_slope x where x > 0, negative_slope x elsewhere."""

    negative_slope: float = 0.0
    positive_slope: float = 1.0

    def variance(self, variance: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns the mean over both halves."""
        return (self.positive_slope**2 + self.negative_slope**2) / 2 * variance

    def duals_at(
        self, nngp: Array, cosine: dual_activations.Cosine, std1: Array, std2: Array
    ) -> tuple[Array, Array]:
        """Returns the arc-cosine kernels of orders 1 and 0."""
        values, derivatives = dual_activations.relu(
            cosine, self.negative_slope, self.positive_slope
        )
        return values * (std1 * std2), derivatives

    def stax(self) -> Any:
        """Returns the ReLU of both slopes."""
        return stax.ABRelu(self.negative_slope, self.positive_slope)


@dataclass(frozen=True)
class Erf(Nonlinearity):
    """The error function."""

    def variance(self, variance: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns E[erf(z)^2]."""
        return dual_activations.erf_variance(variance)

    def duals_at(
        self, nngp: Array, cosine: dual_activations.Cosine, std1: Array, std2: Array
    ) -> tuple[Array, Array]:
        """Returns the arc-sine kernel and its derivative."""
        return dual_activations.erf(cosine, std1, std2)

    def stax(self) -> Any:
        """Returns erf."""
        return stax.Erf()


@dataclass(frozen=True)
class Gelu(Nonlinearity):
    """x times the probability that a standard normal number is below x."""

    def variance(self, variance: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns E[gelu(z)^2]."""
        return dual_activations.gelu_variance(variance)

    def duals_at(
        self, nngp: Array, cosine: dual_activations.Cosine, std1: Array, std2: Array
    ) -> tuple[Array, Array]:
        """Returns the kernel of Tsuchida et al. (2021) and its derivative."""
        return dual_activations.gelu(cosine, std1, std2)

    def stax(self) -> Any:
        """Returns GeLU."""
        return stax.Gelu()


@dataclass(frozen=True)
class Elementwise(Nonlinearity):
    """Any other nonlinearity, by duals of its own.

    Attributes:
        nonlinearity: with the methods `phi` and `duals` of `models.Elementwise`; compares by value.
    """

    nonlinearity: Any

    def variance(self, variance: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns the dual of a number with itself."""
        return self.nonlinearity.duals(variance, variance, variance)[0]

    def duals_at(
        self, nngp: Array, cosine: dual_activations.Cosine, std1: Array, std2: Array
    ) -> tuple[Array, Array]:
        """Returns its own duals."""
        covariance = dual_activations.snapped(nngp, cosine, std1, std2)
        return self.nonlinearity.duals(covariance, std1**2, std2**2)

    def stax(self) -> Any:
        """Returns the kernel that the duals make."""
        return stax.Elementwise(
            self.nonlinearity.phi,
            lambda *moments: self.nonlinearity.duals(*moments)[0],
            lambda *moments: self.nonlinearity.duals(*moments)[1],
        )


@dataclass(frozen=True)
class LayerNorm(Pointwise):
    """Division by the standard deviation over features; the mean is 0 at infinite width."""

    epsilon: float

    def scale(self, variance: Float[Array, "..."]) -> Scale:
        """Returns what examples are divided by."""
        return super().scale(variance + self.epsilon)

    def variance(self, variance: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns about 1."""
        return variance / (variance + self.epsilon)

    def duals(
        self, nngp: Float[Array, "..."], scale1: Scale, scale2: Scale, tolerance: float
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns the divided covariances, and what they were multiplied by."""
        factor = scale1.inverse * scale2.inverse
        return nngp * factor, factor

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

    def variance(self, variance: Float[Array, "..."]) -> Float[Array, "..."]:
        """Returns the variance over masks too."""
        return variance / self.keep

    def duals(
        self, nngp: Float[Array, "..."], scale1: Scale, scale2: Scale, tolerance: float
    ) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
        """Returns both as they are."""
        return nngp, jnp.ones_like(nngp)

    def stax(self) -> Any:
        """Returns dropout as in training."""
        return stax.Dropout(self.keep)


@dataclass(frozen=True)
class Flatten(Step):
    """All features of an example in a row."""

    def stax(self) -> Any:
        """Returns the mean of the kernels over positions."""
        return stax.Flatten()


@dataclass(frozen=True)
class Pool(Step):
    """Averages, or adds if `total`, over windows, or over all positions where there are none."""

    windows: Windows | None = None
    total: bool = False

    def stax(self) -> Any:
        """Returns the mean or the sum of the kernels over pairs of positions."""
        if self.windows is None:
            return stax.GlobalSumPool() if self.total else stax.GlobalAvgPool()
        pool = stax.SumPool if self.total else stax.AvgPool
        return pool(*dataclasses.astuple(self.windows))


@dataclass(frozen=True)
class Sum(Step):
    """The sum of two paths whose outputs are uncorrelated over initialisations."""

    branch: tuple[Step, ...]
    shortcut: tuple[Step, ...]

    @property
    def paths(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """Both paths."""
        return self.branch, self.shortcut

    def stax(self) -> Any:
        """Returns the sum of the kernels."""
        paths = stax.parallel(*map(serial, self.paths))
        return stax.serial(stax.FanOut(2), paths, stax.FanInSum())


@dataclass(frozen=True)
class Concat(Step):
    """The features of several paths, side by side.

    Attributes:
        paths: the steps of each.
    """

    paths: tuple[tuple[Step, ...], ...]

    def stax(self) -> Any:
        """Returns the mean of the kernels, weighted by their numbers of features."""
        paths = stax.parallel(*map(serial, self.paths))
        return stax.serial(stax.FanOut(len(self.paths)), paths, stax.FanInConcat(-1))


@dataclass(frozen=True)
class NeuralTangents(Step):
    """A layer that neural-tangents alone evaluates.

    Attributes:
        layer: its (init, apply, kernel).
    """

    layer: Any

    def stax(self) -> Any:
        """Returns the layer."""
        return self.layer


def serial(steps: Sequence[Step]) -> Any:
    """Returns the network of neural-tangents that the steps describe: (init, apply, kernel)."""
    return stax.serial(*(step.stax() for step in steps)) if steps else stax.Identity()
