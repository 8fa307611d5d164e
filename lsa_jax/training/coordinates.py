"""Activations of any network, and a few steps of training, for the coordinate check."""

from collections.abc import Callable

import jax
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import kernels
from lsa_jax.models.model import Model
from lsa_jax.training.optimizers import descend


def activations_of(model: Model) -> Callable:
    """Returns `(params, inputs) -> (outputs, {name: activations [n, ...]})` of any network.

    Of a network of this package's layers, the outputs of its nonlinearities. Of another library's,
    the inputs of its dense layers and convolutions ("before Dense_1/kernel"), which are found in
    the program that jax traces it to: see `kernels.layer_inputs`.
    """
    if model.activations is not None:
        return model.activations

    def activations(
        params: PyTree, inputs: Shaped[Array | np.ndarray, "n ..."]
    ) -> tuple[Array, dict[str, Array]]:
        found = kernels.layer_inputs(model.apply, params, inputs)
        return model.apply(params, inputs), {f"before {name}": v for name, v in found.items()}

    return activations


def take_steps(
    params: PyTree,
    state: PyTree,
    loss: Callable[[PyTree, Array], Array],
    optimizer: optax.GradientTransformation,
    numbers: Array,
) -> tuple[PyTree, PyTree, Float[Array, " steps"]]:
    """Takes steps of these numbers, for which `(params, number) -> loss` has the examples.

    Returns parameters, the optimiser's state, and the loss before each step.
    """

    def step(carry: tuple, number: Array) -> tuple[tuple, Array]:
        value, *after = descend(optimizer, lambda p: jax.value_and_grad(loss)(p, number), *carry)
        return tuple(after), value

    (params, state), losses = jax.lax.scan(step, (params, state), numbers)
    return params, state, losses
