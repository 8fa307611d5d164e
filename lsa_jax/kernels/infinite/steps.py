"""The steps that describe a network to its infinite-width kernel.

A layer of `models` is a few of these. Each knows what the recursion needs of it, and the same layer
of neural-tangents, so that the two evaluations of a kernel read one description.
"""

import abc
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from lsa_jax._neural_tangents import stax
from lsa_jax.kernels.infinite.windows import Windows


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
