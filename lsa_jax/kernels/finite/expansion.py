"""A finite network's first-order expansion in its parameters, to be trained like any network."""

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import arrays, backend
from lsa_jax.checks import one_of, require
from lsa_jax.kernels.finite import arguments
from lsa_jax.kernels.finite import linearize as _derivatives
from lsa_jax.kernels.finite.layerwise import examples_at_once
from lsa_jax.kernels.matrices import memory

# Examples that a CPU puts through the network at a time; an accelerator as many as it then
# differentiates.
_AT_A_TIME = 16


class Expansion(NamedTuple):
    """First-order expansions of a network in its parameters, one an example.

    Attributes:
        outputs: [n, c] where it is expanded.
        derivatives: in the parameters.
    """

    outputs: Float[Array, "n c"]
    derivatives: _derivatives.Derivatives


def linearize(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    *,
    precision: Literal["highest", "default"] = "highest",
) -> Callable[[Any, Array], Array]:
    """Returns the first-order Taylor expansion of a network in its parameters.

    f_lin(theta, x) = f(theta_0, x) + df(theta_0, x)/dtheta (theta - theta_0), where theta_0 is
    `params`. Costs about three times `apply` in time and twice in memory. Works under jit, vmap,
    scan and grad, and with `params` that are being traced.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`.
        params: where to expand; all leaves are floating point.
        precision: of products. "highest" is float32 everywhere, as in the kernels; "default" is
            what the device takes for a network (TF32 on GPUs, bfloat16 on TPUs), several times
            faster there, and right where a linearisation is trained beside such a network.

    Returns:
        `apply_lin(params, x) -> outputs`, affine in its params.

    Raises:
        InputError: precision is not accepted.

    Source: Lee et al., Wide neural networks of any depth evolve as linear models, 2019, eq. 5.
    """
    require("precision", precision, one_of("highest", "default"))
    arguments.floating(params)  # refused before the first call
    in_full = precision == "highest"

    def apply_lin(
        new_params: PyTree[Float[Array | np.ndarray, "..."]], x: Shaped[Array | np.ndarray, "n ..."]
    ) -> Array:
        start, x = arguments.floating(params), arrays.inputs("x", x)
        (x,) = arrays.floats_if_taken(functools.partial(apply, start), x)
        step = arguments.step_between(start, new_params)
        with arrays.call_errors("apply(params, x)", x):
            outputs, change = jax.jvp(lambda theta: apply(theta, x), (start,), (step,))
        return outputs + change

    return jax.default_matmul_precision("highest")(apply_lin) if in_full else apply_lin


def _check_fits(apply: Callable, params: PyTree, x: Array | np.ndarray) -> None:
    """Raises InputError where what `linearize_on` keeps of the examples does not fit the memory."""
    derivatives = jax.eval_shape(functools.partial(_derivatives.derivatives, apply), params, x)
    memory.check_fits_device(
        f"x is {x.shape}: keeping the derivatives of its {len(x)} examples",
        math.inf,
        lambda: backend.size_in_bytes(derivatives),
        "fewer examples, or `linearize`, which keeps none",
    )


@jax.default_matmul_precision("highest")
def linearize_on(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x: Shaped[Array | np.ndarray, "n ..."],
) -> tuple[Expansion, Callable[[Any, Expansion], Array]]:
    """Linearises a network on examples that are known beforehand.

    The linearisation is linear in its parameters, with derivatives that never change. They are
    computed once here, layer by layer as in `empirical_ntk`, so that a step of training is a few
    small products: on a small convolutional network a tenth of the operations of `linearize`. Each
    example takes c numbers of memory for each parameter; a dense layer or a convolution takes
    inputs + c outputs at each position, where that is less than half as many. What it computes
    equals `linearize` to rounding, and may be trained by any optimiser. Products are in full
    precision, also on accelerators whose default is less (TF32).

        examples, apply_lin = linearize_on(apply, params, inputs)
        batch = jax.tree.map(lambda a: a[index], examples)
        outputs = apply_lin(new_params, batch)

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, each example by itself.
        params: where to expand; all leaves are floating point.
        x: the examples.

    Returns:
        The examples' expansions, a tree of arrays [n, ...], and `(params, expansions) -> outputs
        [n, c]`, affine in params.

    Raises:
        InputError: the expansions take more memory than there is.
    """
    params, x, count = arguments.checked(apply, params, x)
    _check_fits(apply, params, x)
    example = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)

    def apply_lin(
        new_params: PyTree[Float[Array | np.ndarray, "..."]], examples: Expansion
    ) -> Array:
        step = arguments.step_between(params, new_params)
        change = _derivatives.directional_derivative(apply, step, examples.derivatives, example)
        return examples.outputs + change

    # One at a time as in the factors, so that memory beside the result is that of a few examples.
    at_once = examples_at_once(apply, params, x, count, on_cpu=_AT_A_TIME)
    outputs = lax.map(lambda one: apply(params, one[None])[0], x, batch_size=at_once)
    return Expansion(outputs, _derivatives.derivatives(apply, params, x)), apply_lin
