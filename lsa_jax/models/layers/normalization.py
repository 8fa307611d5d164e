"""Layers that standardise."""

from dataclasses import dataclass

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.checks import number, require
from lsa_jax.kernels.infinite import steps
from lsa_jax.models.layers.base import Layer, LayerModule


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Standardises the features at each position, without parameters.

    Its kernel is that of features with mean 0: it must follow weights.

    Attributes:
        epsilon: added to the variance.
    """

    epsilon: float = 1e-12

    def __post_init__(self) -> None:
        require("LayerNorm.epsilon", self.epsilon, number(0, above=True))

    def finite(self, x: Float[Array, "... c"], module: LayerModule) -> Float[Array, "... c"]:
        """Returns (x - mean) / sqrt(variance + epsilon), statistics in float32."""
        return jax.nn.standardize(x.astype(jnp.float32), epsilon=self.epsilon).astype(x.dtype)

    def infinite(self, parameterization: str) -> tuple[steps.Step, ...]:
        """Returns one step."""
        return (steps.LayerNorm(self.epsilon),)


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Standardises each feature over the batch, then scales and shifts it by parameters.

    The statistics are those of the batch at hand, in training and in evaluation; there are no
    running averages. So the outputs of an example depend on the others in its batch, and there is
    no kernel of pairs of examples to converge to: `infinite` is None.

    Attributes:
        batch_axis: name of the `pmap` axis over which a batch is split evenly; statistics are then
            those of the whole batch. None where each device has whole batches.
        epsilon: added to the variance.
    """

    batch_axis: str | None = None
    epsilon: float = 1e-5

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns (x - mean) / sqrt(variance + epsilon) * scale + shift, statistics in float32."""
        features = x.shape[-1:]
        scale = module.param("scale", nn.initializers.ones, features, jnp.float32)
        shift = module.param("shift", nn.initializers.zeros, features, jnp.float32)
        # Shapes are all that counts while parameters are made, and no device axis exists then.
        over_devices = self.batch_axis is not None and not module.is_initializing()

        def batch_mean(values: Array) -> Array:
            mean = jnp.mean(values, axis=tuple(range(x.ndim - 1)), keepdims=True)
            return lax.pmean(mean, self.batch_axis) if over_devices else mean

        centred = x.astype(jnp.float32)
        centred = centred - batch_mean(centred)
        normed = centred * lax.rsqrt(batch_mean(jnp.square(centred)) + self.epsilon)
        return (normed * _like(scale, x) + _like(shift, x)).astype(x.dtype)

    def infinite(self, parameterization: str) -> None:
        """Returns None: batch statistics have no infinite-width kernel here."""


def _like(per_feature: Array | np.ndarray, x: Array) -> Array:
    return jnp.broadcast_to(per_feature, x.shape)
