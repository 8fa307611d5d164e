"""The largest eigenvalue of a loss's Hessian, from products with vectors."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse.linalg
from jax.flatten_util import ravel_pytree

from lsa_jax.errors import NumericalError

Tree = Any

# Relative accuracy that is asked of Lanczos.
_TOLERANCE = 1e-8


@functools.partial(jax.jit, static_argnames="loss")
def hessian_product(
    loss: Callable[[Tree, Tree], jax.Array], params: Tree, data: Tree, direction: Tree
) -> Tree:
    """Computes the Hessian of loss(params, data) in params times a direction shaped like them."""
    gradient = jax.grad(loss)
    return jax.jvp(lambda p: gradient(p, data), (params,), (direction,))[1]


def largest_eigenvalue(loss: Callable[[Tree, Tree], jax.Array], params: Tree, data: Tree) -> float:
    """Computes the Hessian's largest (most positive) eigenvalue by Lanczos, without the Hessian.

    Args:
        loss: of params and data; compiled once for their shapes.
        params: where; more than one number. Accuracy is that of their type.
        data: what else the loss depends on.

    Raises:
        NumericalError: a product is not finite, or Lanczos does not converge.
    """
    flat, unravel = ravel_pytree(params)

    def multiply(vector: np.ndarray) -> np.ndarray:
        direction = unravel(vector.reshape(-1).astype(flat.dtype))
        found = np.asarray(
            ravel_pytree(hessian_product(loss, params, data, direction))[0], np.float64
        )
        if not np.isfinite(found).all():
            raise NumericalError("the Hessian is not finite; lower the learning rate")
        return found

    # Any start that is not orthogonal to the eigenvector does; a fixed one makes runs repeatable.
    start = np.random.default_rng(0).standard_normal(flat.size)
    if not multiply(start).any():
        return 0.0
    operator = scipy.sparse.linalg.LinearOperator((flat.size,) * 2, multiply, dtype=np.float64)
    try:
        values = scipy.sparse.linalg.eigsh(
            operator, k=1, which="LA", v0=start, tol=_TOLERANCE, return_eigenvectors=False
        )
    except scipy.sparse.linalg.ArpackError as error:
        raise NumericalError(f"Lanczos on the Hessian: {error}") from None
    return float(values[0])
