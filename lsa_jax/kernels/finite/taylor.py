"""Taylor expansions of a network in its parameters, of any degree."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import arrays
from lsa_jax.checks import integer, require
from lsa_jax.kernels.finite import arguments


def taylor_expand(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    degree: int,
) -> Callable[[Any, Array], Array]:
    """Returns the Taylor expansion of a network in its parameters.

    f_d(theta, x) = sum_k of the k-th derivative of f(theta_0 + t (theta - theta_0), x) in t at 0,
    over k!, for k = 0 ... d. Costs about 3^d times `apply`; products are in full precision. Of
    degree 1 it is `linearize`.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, d times differentiable; a ReLU network is
            taken for the polynomial that it is around theta_0.
        params: theta_0, where to expand; all leaves are floating point.
        degree: d, 0 or more.

    Returns:
        `apply_taylor(params, x) -> outputs`, a polynomial in its params.

    Raises:
        InputError: degree is not accepted.

    Source: Bai and Lee, Beyond linearization, 2020, section 2, for the second degree.
    """
    require("degree", degree, integer(0))
    arguments.floating(params)  # refused before the first call

    def apply_taylor(
        new_params: PyTree[Float[Array | np.ndarray, "..."]], x: Shaped[Array | np.ndarray, "n ..."]
    ) -> Array:
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

    return jax.default_matmul_precision("highest")(apply_taylor)
