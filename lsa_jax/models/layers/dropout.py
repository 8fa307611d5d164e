"""Layers that draw anew whenever they are computed."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lsa_jax.checks import number, require
from lsa_jax.kernels.infinite import pointwise, steps
from lsa_jax.models.layers.base import Layer, LayerModule


@dataclass(frozen=True)
class Dropout(Layer):
    """Keeps a share of the numbers, divided by it, and sets the others to 0; weights must follow.

    A network with it draws masks where `Model.apply` is given a key, as `training.train` does in
    each step, and is evaluated without them where it is not; a function made of it, such as
    `models.scaled`, never has any. Its infinite-width kernel is that of two draws: each example,
    and also one example twice, under masks of its own. Where two inputs are the same example,
    neural-tangents has one mask for both.

    Attributes:
        keep: the share, above 0 and at most 1.

    Source: Srivastava et al., Dropout, 2014; Schoenholz et al., Deep information propagation, 2017,
    section 3.3, for the kernel.
    """

    keep: float

    def __post_init__(self) -> None:
        require("Dropout.keep", self.keep, number(0, 1, above=True))

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns x under a mask, or x itself where there is no key."""
        if not module.has_rng("dropout"):
            return x
        mask = jax.random.bernoulli(module.make_rng("dropout"), self.keep, x.shape)
        return jnp.where(mask, x / self.keep, 0).astype(x.dtype)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (pointwise.Dropout(self.keep),)
