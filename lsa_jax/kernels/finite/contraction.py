"""The finite NTK of any function, without a look at its layers.

Source: Novak, Sohl-Dickstein and Schoenholz, Fast finite width neural tangent kernel, 2022,
sections 3.2 (Jacobian contraction) and 3.3 (NTK-vector products).
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped


def by_jacobians(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    full: bool = False,
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"]:
    """Computes the NTK from both Jacobians; see `empirical_ntk` for the arguments."""

    def jacobian(x: Array) -> list[Array]:
        """Returns df/dtheta of every example, [n, c, numbers of a parameter] each."""
        of_one = jax.jacrev(lambda theta, one: apply(theta, one[None])[0])
        leaves = jax.tree.leaves(jax.vmap(of_one, (None, 0))(params, x))
        return [leaf.reshape(*leaf.shape[:2], math.prod(leaf.shape[2:])) for leaf in leaves]

    x1 = jnp.asarray(x1)
    first = jacobian(x1)
    second = first if x2 is None else jacobian(jnp.asarray(x2))
    product = "nap,mbp->nmab" if full else "nap,map->nm"
    kernel = sum(jnp.einsum(product, a, b) for a, b in zip(first, second, strict=True))
    return kernel if full else kernel / first[0].shape[1]


def by_vector_products(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    full: bool = False,
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"]:
    """Computes the NTK column by column; see `empirical_ntk` for the arguments.

    Column j of a pair's kernel is the derivative of f(x) along the gradient of f_j(x').
    """

    def of_pair(one: Array, other: Array) -> Array:
        def at(x: Array) -> Callable[[Any], Array]:
            return lambda theta: apply(theta, x[None])[0]

        outputs, pullback = jax.vjp(at(other), params)

        def column(cotangent: Array) -> Array:
            return jax.jvp(at(one), (params,), pullback(cotangent))[1]

        return jax.vmap(column, out_axes=1)(jnp.eye(len(outputs), dtype=outputs.dtype))

    x1 = jnp.asarray(x1)
    x2 = x1 if x2 is None else jnp.asarray(x2)
    kernel = jax.vmap(jax.vmap(of_pair, (None, 0)), (0, None))(x1, x2)
    return kernel if full else jnp.trace(kernel, axis1=2, axis2=3) / kernel.shape[-1]
