"""Layers that standardise features."""

import math
from dataclasses import dataclass
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.checks import number, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite import pointwise, steps
from lsa_jax.models.layers.base import Layer, LayerModule

# The flax collection of the means and variances that `BatchNorm` standardises with.
STATISTICS = "statistics"


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
        return (pointwise.LayerNorm(self.epsilon),)


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Standardises each feature over the batch, then scales and shifts it by parameters.

    The statistics are of the current batch, in training and in evaluation; there are no running
    averages. Examples that only fill up a partial batch do not count. The outputs of an example
    depend on the others in its batch, so no kernel of pairs of examples exists: `infinite` is None.
    With fixed statistics (`Model.statistics`) each example is by itself, and the network has a
    finite NTK.

    Attributes:
        batch_axis: name of the `pmap` axis over which a batch is split evenly; statistics are then
            those of the whole batch. None where each device has whole batches.
        epsilon: added to the variance.
    """

    batch_axis: str | None = None
    epsilon: float = 1e-5

    def finite(self, x: Float[Array, "n ..."], module: LayerModule) -> Float[Array, "n ..."]:
        """Returns (x - mean) / sqrt(variance + epsilon) * scale + shift, statistics in float32.

        Raises:
            InputError: the statistics given are not this layer's.
        """
        features = x.shape[-1:]
        scale = module.param("scale", nn.initializers.ones, features, jnp.float32)
        shift = module.param("shift", nn.initializers.zeros, features, jnp.float32)
        # There is no axis of devices while parameters are drawn, or statistics of one batch.
        collects = module.is_mutable_collection(STATISTICS)
        axis = None if collects or module.is_initializing() else self.batch_axis
        wide = x.astype(jnp.float32)
        if module.fixed:
            mean, variance = (module.get_variable(STATISTICS, n) for n in ("mean", "variance"))
            if not np.shape(mean) == np.shape(variance) == features:
                raise InputError(
                    f"statistics have no mean and variance {features} of "
                    f"{'/'.join(module.path)}; accepted: those of model.statistics(params, inputs)"
                )
            factor = scale * lax.rsqrt(variance + self.epsilon)
            normed = (wide - _like(mean, x)) * _like(factor, x) + _like(shift, x)
            return normed.astype(x.dtype)
        if collects and not module.is_initializing():
            over = tuple(range(x.ndim - 1))
            module.put_variable(STATISTICS, "mean", jnp.mean(wide, axis=over))
            module.put_variable(STATISTICS, "variance", jnp.var(wide, axis=over))
        normed = normalise_batch(wide, scale, shift, self.epsilon, axis, module.counted)
        return normed.astype(x.dtype)

    def infinite(self, parameterization: str) -> None:
        """Returns None: batch statistics have no infinite-width kernel here."""


def _mean(
    values: Float[Array, "n ..."], counted: Float[Array, " n"] | None, axis: str | None
) -> Float[Array, " features"]:
    """Returns the mean of each feature over the batch, over all devices of `axis`."""
    over = tuple(range(values.ndim - 1))
    if counted is None:
        mean = jnp.mean(values, axis=over)
        return mean if axis is None else lax.pmean(mean, axis)
    weights = counted.reshape(-1, *(1 for _ in values.shape[1:]))
    total = jnp.sum(values * weights, axis=over), jnp.sum(counted)
    total, count = total if axis is None else lax.psum(total, axis)
    # All examples of a device may be uncounted.
    return total / (jnp.maximum(count, 1) * math.prod(values.shape[1:-1]))


@partial(jax.custom_jvp, nondiff_argnums=(3, 4))
def normalise_batch(
    x: Float[Array, "n ..."],
    scale: Float[Array, " features"],
    shift: Float[Array, " features"],
    epsilon: float,
    axis: str | None = None,
    counted: Float[Array, " n"] | None = None,
) -> Float[Array, "n ..."]:
    """Returns (x - mean) / sqrt(variance + epsilon) * scale + shift over the batch.

    Features are last. `axis` names the mapped axis over which the batch is split, if it is.
    `counted` is 1 for examples that count in the statistics, 0 for others; None counts all. It has
    no derivative.
    """
    centred, inverse = _standardise(x, counted, epsilon, axis)
    return centred * _like(scale * inverse, x) + _like(shift, x)


def _standardise(
    x: Array, counted: Array | None, epsilon: float, axis: str | None
) -> tuple[Array, Array]:
    """Returns x minus its mean, and one over its deviation."""
    centred = x - _like(_mean(x, counted, axis), x)
    return centred, lax.rsqrt(_mean(jnp.square(centred), counted, axis) + epsilon)


@normalise_batch.defjvp
def _(epsilon: float, axis: str | None, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    """Differentiates with two sums over the batch, which scale and shift need too.

    Automatic differentiation takes four sums and keeps one more array.
    """
    (x, scale, shift, counted), (x_dot, scale_dot, shift_dot, _) = primals, tangents
    centred, inverse = _standardise(x, counted, epsilon, axis)
    # Factors multiply the small arrays, so that backwards both sums serve scale and shift too.
    steep = x_dot * _like(scale * inverse, x)
    mean_slope = _mean(centred * steep, counted, axis)
    slope = scale_dot * inverse - jnp.square(inverse) * mean_slope
    lift = shift_dot - _mean(steep, counted, axis)
    value = centred * _like(scale * inverse, x) + _like(shift, x)
    return value, steep + centred * _like(slope, x) + _like(lift, x)


def _like(per_feature: Array | np.ndarray, x: Array) -> Array:
    return jnp.broadcast_to(per_feature, x.shape)
