"""A finite network's expansion in its parameters, to be trained like any network.

On examples that are known beforehand, derivatives are kept so that a step along them takes little
time. The derivative in a direction is linear in it. Its factors depend on the examples alone: the
Jacobian, or, for a dense layer y = a W where that is fewer numbers, its inputs a and its cotangents
df/dy. A step of training gathers its examples' numbers, which takes longer than the products, so
they are in as few arrays as possible.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from lsa_jax import arrays, costs
from lsa_jax.checks import integer, one_of, require
from lsa_jax.kernels.finite import arguments
from lsa_jax.kernels.finite.arguments import Apply, Examples, Params
from lsa_jax.kernels.finite.dense_layers import DenseLayer, acting_weights, dense_layers, trace
from lsa_jax.kernels.finite.layerwise import (
    examples_at_once,
    factors_of_one,
    is_smaller_in_two,
    joined,
    others,
)
from lsa_jax.kernels.matrices import memory

# Examples that a CPU puts through the network at a time; an accelerator as many as it then
# differentiates.
_AT_A_TIME = 16

# How many times fewer numbers a dense layer must take in two than by its Jacobian. At equal numbers
# its products take up to twice the time on a CPU.
_FEWER = 2


def linearize(
    apply: Apply, params: Params, *, precision: Literal["highest", "default"] = "highest"
) -> Apply:
    """Returns the first-order Taylor expansion of a network in its parameters.

    f_lin(theta, x) = f(theta_0, x) + df(theta_0, x)/dtheta (theta - theta_0), affine in theta,
    where theta_0 is `params`; all leaves are floating point. Costs about three times `apply` in
    time and twice in memory. Works under jit, vmap, scan and grad, and with `params` that are being
    traced.

    The precision of products "highest" is float32 everywhere, as in the kernels; "default" is the
    device's own for networks (TF32 on GPUs, bfloat16 on TPUs), several times faster there, and
    right where a linearisation is compared with such a network.

    Raises:
        InputError: precision is not accepted.

    Source: Lee et al., Wide neural networks of any depth evolve as linear models, 2019, eq. 5.
    """
    require("precision", precision, one_of("highest", "default"))
    expanded = _taylor(apply, params, 1)
    return jax.default_matmul_precision("highest")(expanded) if precision == "highest" else expanded


def taylor_expand(apply: Apply, params: Params, degree: int) -> Apply:
    """Returns the Taylor expansion of a network in its parameters, a polynomial in them.

    f_d(theta, x) = sum_k of the k-th derivative of f(theta_0 + t (theta - theta_0), x) in t at 0,
    over k!, for k = 0 ... d, the degree. Costs about 3^d times `apply`; products are in full
    precision. Of degree 1 it is `linearize`. A ReLU network is taken for the polynomial that it is
    around theta_0, which are `params`; all leaves are floating point.

    Raises:
        InputError: degree is not accepted.

    Source: Bai and Lee, Beyond linearization, 2020, section 2, for the second degree.
    """
    require("degree", degree, integer(0))
    return jax.default_matmul_precision("highest")(_taylor(apply, params, degree))


def _taylor(apply: Apply, params: Params, degree: int) -> Apply:
    """Returns the Taylor expansion of a network in its parameters, up to a degree."""
    arguments.floating(params)  # refused before the first call

    def expanded(new_params: Params, x: Examples) -> Array:
        start, x = arguments.floating(params), arrays.inputs("x", x)
        (x,) = arrays.floats_if_taken(functools.partial(apply, start), x)
        step = arguments.step_between(start, new_params)

        def derivatives(theta: PyTree, left: int) -> tuple[Array, ...]:
            """Returns derivatives 0 ... left along the step, at theta."""
            if left == 0:
                return (apply(theta, x),)
            values, changes = jax.jvp(lambda t: derivatives(t, left - 1), (theta,), (step,))
            return (*values, changes[-1])

        with arrays.call_errors("apply(params, x)", x):
            terms = derivatives(start, degree)
        return sum(term / math.factorial(order) for order, term in enumerate(terms))

    return expanded


class Derivatives(NamedTuple):
    """Derivatives of some examples, as factors.

    Attributes:
        inputs: [n, positions, fan_in] of each dense layer that is kept as inputs and cotangents.
        cotangents: [n, c, positions * fan_out of these layers, one after the other].
        jacobian: [n, c, all other parameters].

    Either of the last two is None where there is nothing to keep in it.
    """

    inputs: tuple[Float[Array, "n _ _"], ...]
    cotangents: Float[Array, "n c _"] | None
    jacobian: Float[Array, "n c _"] | None


class Expansion(NamedTuple):
    """First-order expansions, one an example: outputs at the parameters, and derivatives."""

    outputs: Float[Array, "n c"]
    derivatives: Derivatives


@jax.default_matmul_precision("highest")
def linearize_on(
    apply: Apply, params: Params, x: Examples
) -> tuple[Expansion, Callable[[Any, Expansion], Array]]:
    """Linearises a network on examples that are known beforehand.

        examples, apply_lin = linearize_on(apply, params, inputs)
        batch = jax.tree.map(lambda a: a[index], examples)
        outputs = apply_lin(new_params, batch)

    The linearisation is affine in its parameters, with derivatives that never change. They are
    computed once here, layer by layer as in `empirical_ntk`, so that a step of training is a few
    small products: on a small convolutional network a tenth of the operations of `linearize`. The
    outputs equal those of `linearize` to rounding, and may be trained by any optimiser.

    Each example goes through `apply` by itself, and takes c numbers of memory for each parameter; a
    dense layer or a convolution takes inputs + c outputs at each position, where that is less than
    half as many. Products are in full precision, also on accelerators whose default is less (TF32).
    All leaves of params are floating point.

    Returns:
        The examples' expansions, a tree of arrays [n, ...], and `(params, expansions) -> outputs
        [n, c]`.

    Raises:
        InputError: there are no examples, or their expansions take more memory than there is.
    """
    params, x, count = arguments.checked(apply, params, x, empty=False)
    kept = jax.eval_shape(functools.partial(_derivatives, apply), params, x)
    memory.check_fits_device(
        f"x is {x.shape}: keeping the derivatives of its {len(x)} examples",
        math.inf,
        lambda: costs.size_in_bytes(kept),
        "fewer examples, or `linearize`, which keeps none",
    )
    example = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)

    def apply_lin(new_params: Params, examples: Expansion) -> Array:
        step = arguments.step_between(params, new_params)
        change = _directional_derivative(apply, step, examples.derivatives, example)
        return examples.outputs + change

    # A few at a time as in the factors, so that little memory is needed next to the result.
    at_once = examples_at_once(apply, params, x, count, on_cpu=_AT_A_TIME)
    outputs = lax.map(lambda one: apply(params, one[None])[0], x, batch_size=at_once)
    return Expansion(outputs, _derivatives(apply, params, x)), apply_lin


@jax.default_matmul_precision("highest")
def _derivatives(apply: Apply, params: Params, x: Array | np.ndarray) -> Derivatives:
    """Computes the derivatives of some examples."""
    example = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
    layers, kept = _layers(apply, params, example)
    factors_of = factors_of_one(apply, params, layers, kept, x, by_output=True)

    def of_one(example: Array) -> Derivatives:
        pairs, jacobians = factors_of(example)
        # Outputs before positions, so that one product sums over positions and features.
        cotangents = [jnp.moveaxis(some, 1, 0).reshape(some.shape[1], -1) for _, some in pairs]
        inputs = tuple(inputs for inputs, _ in pairs)
        return Derivatives(inputs, _side_by_side(cotangents), _side_by_side(jacobians))

    _, outputs = trace(apply, params, example)
    at_once = examples_at_once(apply, params, x, outputs)
    return lax.map(of_one, x, batch_size=at_once)


@jax.default_matmul_precision("highest")
def _directional_derivative(
    apply: Apply, step: Params, known: Derivatives, example: jax.ShapeDtypeStruct
) -> Array:
    """Computes df/dparams . step for examples whose derivatives are known.

    The step has the parameters' structure; it is linear, so any function of it may be
    differentiated. `known` has the derivatives, or some rows of each array.
    """
    layers, kept = _layers(apply, step, example)
    weights = acting_weights(apply, step, example)
    steps = [weights[layer.leaf].reshape(-1) for layer in layers if layer not in kept]
    steps += joined(others(jax.tree.leaves(step), layers), 0)
    moved = []
    for layer, inputs in zip(kept, known.inputs, strict=True):
        # Transposed, so that the derivative in the weight is a product with few rows: on a CPU a
        # third less time in all than with few columns.
        weight = lax.optimization_barrier(weights[layer.leaf].T)
        moved.append(jnp.einsum("npk,fk->npf", inputs, weight).reshape(len(inputs), -1))
    parts = []
    if moved:
        parts.append(jnp.einsum("noq,nq->no", known.cotangents, _side_by_side(moved)))
    if steps:
        parts.append(jnp.einsum("nop,p->no", known.jacobian, _side_by_side(steps)))
    return sum(parts)


def _side_by_side(arrays: Sequence[Array]) -> Array | None:
    """Joins arrays along the last axis; None where there are none."""
    return jnp.concatenate(arrays, axis=-1) if arrays else None


def _layers(
    apply: Apply, params: PyTree[Any], example: jax.ShapeDtypeStruct
) -> tuple[list[DenseLayer], list[DenseLayer]]:
    """Returns the dense layers, and which of them to keep as inputs and cotangents.

    They are without their scales, which `acting_weights` have.
    """
    layers, c = dense_layers(apply, params, example)
    layers = [layer._replace(scale=1.0) for layer in layers]
    return layers, [layer for layer in layers if is_smaller_in_two(layer, c, _FEWER)]
