"""Derivatives of a network on known examples, kept so that a step along them takes little time.

The derivative in a direction is linear in it. What it is multiplied by depends on the examples
alone: the Jacobian, or, for a dense layer y = a W where that is fewer numbers, its inputs a and its
cotangents df/dy. A step of training gathers its examples' numbers, which takes longer than the
products, so they are in as few arrays as possible.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from lsa_jax.kernels.finite.dense_layers import DenseLayer, acting_weights, dense_layers, trace
from lsa_jax.kernels.finite.layerwise import (
    examples_at_once,
    factors_of_one,
    is_smaller_in_two,
    joined,
    others,
)

# How many times fewer numbers a dense layer must take in two than by its Jacobian. At equal numbers
# its products take up to twice the time on a CPU.
_FEWER = 2


class Derivatives(NamedTuple):
    """Those of some examples.

    Attributes:
        inputs: [n, positions, fan_in] of each dense layer that is kept in two.
        cotangents: [n, c, positions * fan_out of these layers, one after the other].
        jacobian: [n, c, all other parameters].

    Either of the last two is None where there is nothing to keep in it.
    """

    inputs: tuple[Float[Array, "n _ _"], ...]
    cotangents: Float[Array, "n c _"] | None
    jacobian: Float[Array, "n c _"] | None


@jax.default_matmul_precision("highest")
def derivatives(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x: Array | np.ndarray,
) -> Derivatives:
    """Computes what `directional_derivative` needs of some examples."""
    example = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
    layers, kept = _layers(apply, params, example)
    factors_of = factors_of_one(apply, params, layers, kept, x, by_output=True)

    def of_one(example: Array) -> Derivatives:
        pairs, jacobians = factors_of(example)
        # Outputs before positions, so that one product sums over positions and features.
        cotangents = [jnp.moveaxis(some, 1, 0).reshape(some.shape[1], -1) for _, some in pairs]
        inputs = tuple(inputs for inputs, _ in pairs)
        return Derivatives(inputs, _side_by_side(cotangents), _side_by_side(jacobians))

    _, outputs = trace(apply, params, example.shape, example.dtype)
    at_once = examples_at_once(apply, params, x, outputs)
    return lax.map(of_one, x, batch_size=at_once)


@jax.default_matmul_precision("highest")
def directional_derivative(
    apply: Callable[[Any, Array], Array],
    step: PyTree[Float[Array | np.ndarray, "..."]],
    known: Derivatives,
    example: jax.ShapeDtypeStruct,
) -> Float[Array, "n c"]:
    """Computes df/dparams . step for examples whose derivatives are known.

    Args:
        apply: of which they were computed.
        step: in the parameters' structure; linear, so any function of it may be differentiated.
        known: from `derivatives`, or some rows of each array.
        example: shape and dtype of one example.
    """
    layers, kept = _layers(apply, step, example)
    weights = acting_weights(apply, step, example.shape, example.dtype)
    steps = [weights[layer.leaf].reshape(-1) for layer in layers if layer not in kept]
    steps += joined(others(jax.tree.leaves(step), layers), 0)
    moved = []
    for layer, inputs in zip(kept, known.inputs, strict=True):
        # Turned, so that the derivative in the weight is a product with few rows: on a CPU a third
        # less time in all than with few columns.
        weight = lax.optimization_barrier(weights[layer.leaf].T)
        moved.append(jnp.einsum("npk,fk->npf", inputs, weight).reshape(len(inputs), -1))
    parts = []
    if moved:
        parts.append(jnp.einsum("noq,nq->no", known.cotangents, _side_by_side(moved)))
    if steps:
        parts.append(jnp.einsum("nop,p->no", known.jacobian, _side_by_side(steps)))
    return sum(parts)


def _side_by_side(arrays: Sequence[Float[Array, "... _"]]) -> Float[Array, "... _"] | None:
    """Joins arrays along the last axis; None where there are none."""
    return jnp.concatenate(arrays, axis=-1) if arrays else None


def _layers(
    apply: Callable, params: PyTree[Any], example: jax.ShapeDtypeStruct
) -> tuple[list[DenseLayer], list[DenseLayer]]:
    """Returns the dense layers, and those to be kept in two.

    They are without their scales, which `acting_weights` have.
    """
    layers, c = dense_layers(apply, params, example.shape, example.dtype)
    layers = [layer._replace(scale=1.0) for layer in layers]
    return layers, [layer for layer in layers if is_smaller_in_two(layer, c, _FEWER)]
