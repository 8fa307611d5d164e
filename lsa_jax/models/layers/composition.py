"""Layers made of layers."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import steps
from lsa_jax.models.layers.base import Layer, LayerModule, shape_of


@dataclass(frozen=True)
class Serial(Layer):
    """Layers one after another; without layers the identity."""

    layers: Sequence[Layer] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.layers, Iterable):
            raise InputError(
                f"layers is {self.layers!r}; accepted: a tuple of layers, ({self.layers!r},)"
            )
        object.__setattr__(self, "layers", tuple(self.layers))
        for layer in self.layers:
            if not isinstance(layer, Layer):
                raise InputError(f"layers hold {layer!r}; accepted: instances of models.Layer")

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns the last layer's outputs; parameters are named Conv_0, Conv_1, Dense_0, ..."""
        for name, layer in self._named():
            x = module.run(layer, x, name)
        return x

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...] | None:
        """Returns all layers' steps; None if a layer has no limit."""
        parts = [layer.infinite(parameterization) for layer in self.layers]
        for layer, part in zip(self.layers, parts, strict=True):
            if not (part is None or isinstance(part, list | tuple)):
                raise InputError(
                    f"infinite of {layer!r} is {part!r}; accepted: a tuple of steps of "
                    "kernels.infinite.steps, or None"
                )
        return None if None in parts else tuple(itertools.chain.from_iterable(parts))

    def _named(self) -> Iterator[tuple[str, Layer]]:
        seen: Counter[str] = Counter()
        for layer in self.layers:
            kind = type(layer).__name__
            yield f"{kind}_{seen[kind]}", layer
            seen[kind] += 1


@dataclass(frozen=True)
class Identity(Layer):
    """Inputs as they are."""

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns x."""
        return x

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns no step."""
        return ()


@dataclass(frozen=True)
class Concat(Layer):
    """Concatenates the features of several paths; weights must follow.

    Its kernel is the mean of the paths' kernels, weighted by their numbers of features, which go to
    infinity in proportion.

    Attributes:
        paths: layers of each; none for the identity.
    """

    paths: tuple[tuple[Layer, ...], ...]

    def __post_init__(self) -> None:
        if not (isinstance(self.paths, tuple) and self.paths):
            raise InputError(
                f"Concat.paths is {self.paths!r}; accepted: a tuple of tuples of layers, one or "
                "more"
            )

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns all paths' outputs along the last axis.

        Raises:
            InputError: they differ in another axis.
        """
        ends = [
            module.run(Serial(path), x, f"path_{number}") for number, path in enumerate(self.paths)
        ]
        if len({end.shape[:-1] for end in ends}) > 1:
            raise InputError(
                f"Concat.paths give {', '.join(map(shape_of, ends))}; accepted: shapes that are "
                "equal but for the last axis"
            )
        return jnp.concatenate(ends, axis=-1)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...] | None:
        """Returns one step with the steps of all paths; None if a layer has no limit."""
        paths = tuple(Serial(path).infinite(parameterization) for path in self.paths)
        return None if None in paths else (steps.Concat(paths),)


@dataclass(frozen=True)
class Residual(Layer):
    """The sum of two paths through the network.

    The kernel of a sum is the sum of the kernels because the paths' outputs are uncorrelated over
    initialisations: on every way through one of the paths there are weights. For a sum of more
    paths put a second residual into the `shortcut` of the first.

    Attributes:
        branch: layers of one path.
        shortcut: layers of the other path; none for the identity.
    """

    branch: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] = ()

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns branch(x) + shortcut(x).

        Raises:
            InputError: the two differ in shape.
        """
        branch = module.run(Serial(self.branch), x, "branch")
        shortcut = module.run(Serial(self.shortcut), x, "shortcut")
        if branch.shape != shortcut.shape:
            raise InputError(
                f"Residual.branch gives {shape_of(branch)} and Residual.shortcut "
                f"{shape_of(shortcut)}; accepted: equal shapes"
            )
        return branch + shortcut

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...] | None:
        """Returns one step with the steps of both paths; None if a layer has no limit.

        Raises:
            InputError: both can be passed without weights.
        """
        branch = Serial(self.branch).infinite(parameterization)
        shortcut = Serial(self.shortcut).infinite(parameterization)
        if branch is None or shortcut is None:
            return None
        if not (_weighted(branch) or _weighted(shortcut)):
            raise InputError(
                f"Residual.branch is {self.branch} and Residual.shortcut is {self.shortcut}, both "
                "with a way through them without weights; accepted: weights, such as Conv or "
                "Dense, on every way through one of the two"
            )
        return (steps.Sum(branch, shortcut),)


def _weighted(path: Sequence[steps.Step]) -> bool:
    """Whether there are weights on every way through a path."""
    return any(
        isinstance(step, steps.Affine | steps.NeuralTangents)
        or (isinstance(step, steps.Sum | steps.Concat) and all(map(_weighted, step.paths)))
        for step in path
    )
