"""Kernels in two stages, so that work on one example is not repeated for every pair."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jaxtyping import Array, Float, PyTree


class Stages(NamedTuple):
    """A kernel k(x1, x2) = between(prepare(x1), prepare(x2)).

    Attributes:
        prepare: `x [n, ...] -> tree of arrays`, of any form.
        between: `(tree of n1 examples, tree of n2 examples) -> [n1, n2]`.
        given: arrays that both functions take first, such as a network's parameters. The same
            functions, given others of the same shapes, are not compiled again.
    """

    prepare: Callable[..., PyTree]
    between: Callable[..., Float[Array, "n1 n2"]]
    given: tuple[PyTree, ...] = ()


class StagedKernel:
    """A kernel to be called like any other, which `gram` computes in its two stages.

    For a kernel that does much work on each example before it compares two:

        kernel = StagedKernel(
            lambda x1, x2: features(x1) @ features(x2).T,
            lambda example: Stages(features, lambda f1, f2: f1 @ f2.T),
        )
    """

    def __init__(self, kernel: Callable[..., Array], stages: Callable[..., Stages | None]) -> None:
        """Takes `(x1, x2, **settings) -> [n1, n2]`, and `(example, **settings) -> Stages`.

        Stages are None where these settings have none.
        """
        functools.update_wrapper(self, kernel)
        self._kernel = kernel
        # The same functions for equal examples: each is compiled once.
        self.stages = functools.cache(stages)

    def __call__(self, *inputs: Any, **settings: Any) -> Array:
        """Computes the kernel."""
        return self._kernel(*inputs, **settings)


def _unchanged(x: Array) -> Array:
    return x


def unwrapped(kernel: Callable) -> tuple[Callable, dict[str, Any]]:
    """Returns the kernel inside of a `functools.partial` of settings, and these settings."""
    inner, settings = kernel, {}
    while isinstance(inner, functools.partial) and not inner.args:
        inner, settings = inner.func, inner.keywords | settings
    return inner, settings


def stages_of(kernel: Callable, example: jax.ShapeDtypeStruct) -> Stages:
    """Returns a kernel's stages; of one without, the inputs unchanged and the kernel."""
    inner, settings = unwrapped(kernel)
    stages = inner.stages(example, **settings) if isinstance(inner, StagedKernel) else None
    return stages or Stages(_unchanged, kernel)
