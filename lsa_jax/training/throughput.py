"""The pace of training, and its share of the devices' peak."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsa_jax.costs import count_flops, peak_flops
from lsa_jax.data.dataset import Dataset
from lsa_jax.parallel import BATCH_AXIS
from lsa_jax.training.programs import Recipe, ReplicaState, Source, join, split


class Throughput(NamedTuple):
    """The pace of a training run, all replicas and devices together.

    Attributes:
        examples_per_second: examples trained on, by the median epoch of this process (without the
            first, which compiles, where there are others); evaluation is not counted.
        flops_per_second: operations of the losses and their gradients at that pace, as XLA counts
            them before it optimises; None where no peak is known.
        peaks: of the devices together, operations a second, by type; None where one of them is
            not in the table, as no CPU is.
    """

    examples_per_second: float
    flops_per_second: float | None
    peaks: dict[str, float] | None

    def peak_fraction(self, dtype: str) -> float | None:
        """Returns the share of the peak that is used; None where the peak is not known."""
        if self.peaks is None or self.flops_per_second is None:
            return None
        return self.flops_per_second / self.peaks[dtype]


def gradient_flops(recipe: Recipe, params: Any, batch: Dataset) -> float | None:
    """Returns the operations of one batch's mean loss and its gradient, as XLA counts them.

    Args:
        recipe: model, loss and frozen parameters.
        params: one replica's parameters; like the batch, arrays or their shapes.
        batch: inputs and targets.

    Returns:
        The count before optimisation; None where JAX_PLATFORMS leaves the CPU out, which counts.
    """

    def gradient(params: Any, batch: Dataset) -> tuple[Array, Any]:
        trained, fixed = split(params, recipe.frozen)

        def mean_loss(trained: Any) -> Array:
            outputs = recipe.model.apply(join(trained, fixed), batch.inputs)
            return jnp.mean(recipe.loss(outputs, batch.targets))

        return jax.value_and_grad(mean_loss)(trained)

    # A model of split batches averages over their axis, which must exist; here it has one part.
    one_part = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *a.shape), a.dtype), (params, batch))
    return count_flops(jax.vmap(gradient, axis_name=BATCH_AXIS), *one_part)


def measure_throughput(
    recipe: Recipe, source: Source, state: ReplicaState, replicas: Any, seconds: list[float]
) -> Throughput | None:
    """Returns the pace of a run; None where this process trained no epoch of it.

    Args:
        recipe: how a replica is trained.
        source: the training examples.
        state: of all replicas, arrays [replicas, ...].
        replicas: values that vary between replicas, arrays [replicas, ...].
        seconds: of each epoch of this process.
    """
    if not seconds:
        return None
    num_replicas = len(state.step)
    pace = num_replicas * source.num_examples / float(np.median(seconds[1:] or seconds))
    of_devices = [peak_flops(kind) for kind in recipe.layout.device_kinds]
    if None in of_devices:
        return Throughput(pace, None, None)
    params, replica = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape[1:], a.dtype), (state.params, replicas)
    )
    index = jax.ShapeDtypeStruct((recipe.batch_size,), jnp.int32)
    epoch = jax.ShapeDtypeStruct((), jnp.int32)
    batch = jax.eval_shape(source.fetch, source.arrays, replica, index, epoch)
    flops = gradient_flops(recipe, params, batch)
    peaks = {dtype: sum(p[dtype] for p in of_devices) for dtype in of_devices[0]}
    return Throughput(pace, None if flops is None else flops * pace / recipe.batch_size, peaks)
