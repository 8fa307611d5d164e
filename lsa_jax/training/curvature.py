"""The largest eigenvalue of a loss's Hessian, by Lanczos on Hessian-vector products."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax.errors import NumericalError
from lsa_jax.training.losses import floats


@functools.partial(jax.jit, static_argnames="loss")
def _hessian_product(
    loss: Callable[[PyTree, Any], Array], params: PyTree, data: Any, direction: PyTree
) -> PyTree:
    gradient = jax.grad(loss)
    return jax.jvp(lambda p: gradient(p, data), (params,), (direction,))[1]


def largest_eigenvalue(
    loss: Callable[[PyTree, Any], Array], params: PyTree, data: Any, tolerance: float = 1e-8
) -> float:
    """Computes the Hessian's largest (most positive) eigenvalue by Lanczos, without the Hessian.

    Args:
        loss: of params and data; compiled once for their shapes.
        params: the point, whose type sets the accuracy.
        data: other arguments of the loss.
        tolerance: relative accuracy of Lanczos.

    Raises:
        NumericalError: a product is not finite, or Lanczos does not converge.
    """
    flat, unravel = ravel_pytree(params)

    def multiply(vector: np.ndarray) -> np.ndarray:
        direction = unravel(vector.reshape(-1).astype(flat.dtype))
        product = ravel_pytree(_hessian_product(loss, params, data, direction))[0]
        found = np.asarray(product, np.float64)
        if not np.isfinite(found).all():
            raise NumericalError("the Hessian is not finite; lower the learning rate")
        return found

    # A fixed start makes runs repeatable; it must only not be orthogonal to the eigenvector.
    start = np.random.default_rng(0).standard_normal(flat.size)
    product = multiply(start)
    if flat.size == 1 or not product.any():
        return float(product[0] / start[0])
    operator = scipy.sparse.linalg.LinearOperator((flat.size,) * 2, multiply, dtype=np.float64)
    options = {"v0": start, "tol": tolerance, "return_eigenvectors": False}
    try:
        return float(scipy.sparse.linalg.eigsh(operator, k=1, which="LA", **options)[0])
    except scipy.sparse.linalg.ArpackError as error:
        raise NumericalError(f"Lanczos on the Hessian: {error}") from None


# Products of float32 have seven digits; Lanczos loses some of them.
_TOLERANCE = 1e-4


def sharpness(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    inputs: Shaped[Array | np.ndarray, "n ..."],
    targets: Shaped[Array | np.ndarray, "n ..."],
    loss: Callable[[Array, Array], Array],
) -> float:
    """Returns the largest eigenvalue of the Hessian of the mean loss in the parameters.

    Gradient descent with a rate above 2 over it is not stable; trained at a fixed rate, networks
    often stay near that edge.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`.
        params: where to differentiate.
        inputs: the examples; the gradient is taken of all at once.
        targets: theirs, as the loss takes them.
        loss: `(outputs, targets) -> [n]`, such as `training.softmax_cross_entropy`.

    Raises:
        NumericalError: as in `largest_eigenvalue`.

    Source: Cohen et al., Gradient descent on neural networks typically occurs at the edge of
    stability, 2021 (arXiv 2103.00065), section 2.
    """
    data = jnp.asarray(inputs), jnp.asarray(targets)
    params = jax.tree.map(lambda leaf: jnp.asarray(floats(jnp.asarray(leaf))), params)
    return largest_eigenvalue(_mean_loss(apply, loss), params, data, _TOLERANCE)


@functools.lru_cache(maxsize=16)  # the same function for the same network, so compiled once
def _mean_loss(apply: Callable, loss: Callable) -> Callable[[PyTree, Any], Array]:
    def mean_loss(params: PyTree, data: tuple[Array, Array]) -> Array:
        inputs, targets = data
        return jnp.mean(loss(apply(params, inputs), targets))

    return mean_loss
