"""Kernels of a finite network at given parameters: its linearisation and its tangent kernel."""

from collections.abc import Callable
from typing import Any, Literal

import jax
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax._neural_tangents import NtkImplementation, empirical_ntk_fn
from lsa_jax.errors import InputError

_METHODS = {
    "jacobian": NtkImplementation.JACOBIAN_CONTRACTION,
    "vector_products": NtkImplementation.NTK_VECTOR_PRODUCTS,
}


def linearize(
    apply: Callable[[Any, Array], Array], params: PyTree[Float[Array, "..."]]
) -> Callable[[Any, Array], Array]:
    """Returns the first-order Taylor expansion of a network in its parameters.

    f_lin(theta, x) = f(theta_0, x) + df(theta_0, x)/dtheta (theta - theta_0), where theta_0 is
    `params`. Costs about three times `apply` in time and twice in memory. Works under jit, vmap,
    scan and grad, and with `params` that are being traced.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`.
        params: where to expand; all leaves are floating point.

    Returns:
        `apply_lin(params, x) -> outputs`, affine in its params.

    Source: Lee et al., Wide neural networks of any depth evolve as linear models, 2019, eq. 5.
    """

    def apply_lin(new_params: PyTree[Float[Array, "..."]], x: Shaped[Array, "n ..."]) -> Array:
        step = jax.tree.map(lambda new, old: new - old, new_params, params)
        outputs, change = jax.jvp(lambda theta: apply(theta, x), (params,), (step,))
        return outputs + change

    return apply_lin


def finite_ntk(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array, "..."]],
    x1: Shaped[Array, "n1 ..."],
    x2: Shaped[Array, "n2 ..."] | None = None,
    *,
    full: bool = False,
    method: Literal["jacobian", "vector_products"] = "jacobian",
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"]:
    """Computes the neural tangent kernel of a finite network at its parameters.

    Theta(x, x')_ij = df_i(x)/dtheta . df_j(x')/dtheta, an [n1, n2, c, c] array. Its average over
    the c outputs, sum_i Theta_ii / c, is what converges to the infinite-width kernel [n1, n2].

    Each example is put through `apply` by itself, so an `apply` in which examples of a batch act on
    one another (batch normalisation) is not the function whose kernel this is.

    With P parameters and a forward pass of F operations, method "jacobian" takes O(n1 n2 c P) time,
    O(n1 n2 c^2 P) for the full kernel, and O((n1 + n2) c P) memory; "vector_products" takes
    O(n1 n2 c F) time for either. The former is faster unless c is large. To stay within a memory
    limit, go through `kernels.gram`.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, any pure function.
        params: where to differentiate: at initialisation, or after training.
        x1: first inputs.
        x2: second inputs; None means x1 against itself.
        full: return the whole kernel rather than its average over outputs.
        method: contract Jacobians, or apply the kernel to the unit vectors of the outputs.

    Returns:
        [n1, n2], or [n1, n2, c, c] if `full`.

    Raises:
        InputError: shapes or method are not accepted.

    Source: Novak, Sohl-Dickstein and Schoenholz, Fast finite width neural tangent kernel, 2022,
    sections 3.2 and 3.3.
    """
    if method not in _METHODS:
        raise InputError(f"method is {method!r}; accepted: {', '.join(_METHODS)}")
    if x2 is not None and x2.shape[1:] != x1.shape[1:]:
        raise InputError(
            f"x1 is {x1.shape} and x2 is {x2.shape}; accepted: equal shapes but for the first axis"
        )
    outputs = jax.eval_shape(apply, params, x1)
    if outputs.ndim != 2 or outputs.shape[0] != x1.shape[0]:
        raise InputError(
            f"apply turns x1 {x1.shape} into {outputs.shape}; accepted: outputs [n, c]"
        )
    ntk = empirical_ntk_fn(
        apply,
        trace_axes=() if full else (-1,),
        vmap_axes=0,
        implementation=_METHODS[method],
    )
    return ntk(x1, x2, params)
