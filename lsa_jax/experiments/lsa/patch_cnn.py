"""The soft-threshold network of the theory: one patch at a time, a filter and a threshold."""

from math import sqrt
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from lsa_jax.models.model import Model


def soft_threshold(z: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """Returns phi_b(z) = ReLU(z + b) - ReLU(-z + b)."""
    return jax.nn.relu(z + b) - jax.nn.relu(b - z)


def patch_cnn(filters: int = 1, *, init_scale: float = 1.0) -> Model:
    """The network f(X) = m^(-1/2) sum_j sum_i phi_{b_j}(<w_j, X_i>) of m filters.

    phi_b(z) = ReLU(z + b) - ReLU(-z + b) is the identity at b = 0 and, for b < 0, zero within
    [b, -b]. At initialisation b = 0 and w_j ~ N(0, init_scale^2 I). With one filter it is the
    network that the paper's Algorithm 1 trains, with d + 1 parameters.

    Kernels, with S = sum_i X_i. At b = 0 the network is linear, f(X) = m^(-1/2) sum_j <w_j, S>, so
    NNGP(X, X') = init_scale^2 <S, S'>. Its gradients are S / sqrt(m) in w_j and
    sum_i sign(<w_j, X_i>) / sqrt(m) in b_j. The mean product of the signs of two jointly Gaussian
    numbers of correlation rho is (2 / pi) arcsin(rho), so, whatever init_scale,
    NTK(X, X') = <S, S'> + (2 / pi) sum_{i, i'} arcsin(<X_i, X'_i'> / (|X_i| |X'_i'|)).
    That is the mean over initialisations at every m, and the limit as m grows.

    Args:
        filters: m.
        init_scale: standard deviation of the weights at initialisation.

    Returns:
        The network, of inputs [n, patches, d], outputs [n, 1], params {"w": [d, m], "b": [m]}.
        `kernel` takes O(n1 n2 patches^2) time and memory.

    Source: Karp et al. (2021), section 3 (network, Algorithm 1); the kernels are ours.
    """

    def init(key: Key[Array, ""], input_shape: tuple[int, int]) -> dict[str, Any]:
        w = init_scale * jax.random.normal(key, (input_shape[1], filters), jnp.float32)
        return {"w": w, "b": jnp.zeros(filters, jnp.float32)}

    def apply(
        params: dict[str, Any], inputs: Float[Array | np.ndarray, "n p d"]
    ) -> Float[Array, "n 1"]:
        z = jnp.tensordot(inputs, params["w"], axes=1)
        thresholded = soft_threshold(z, jnp.broadcast_to(params["b"], z.shape))
        return jnp.sum(thresholded, axis=(1, 2))[:, None] / sqrt(filters)

    @jax.default_matmul_precision("highest")
    def kernel(
        x1: Float[Array | np.ndarray, "n1 p1 d"],
        x2: Float[Array | np.ndarray, "n2 p2 d"] | None = None,
        get: Literal["ntk", "nngp"] = "ntk",
    ) -> Float[Array, "n1 n2"]:
        x2 = x1 if x2 is None else x2
        linear = jnp.sum(x1, axis=1) @ jnp.sum(x2, axis=1).T
        if get == "nngp":
            return init_scale**2 * linear
        rho = jnp.einsum("apd,bqd->abpq", _unit(x1), _unit(x2))
        return linear + 2 / jnp.pi * jnp.sum(jnp.arcsin(jnp.clip(rho, -1, 1)), axis=(2, 3))

    return Model(init, apply, kernel)


def _unit(x: Float[Array | np.ndarray, "n p d"]) -> Float[Array, "n p d"]:
    """Scales patches to length 1; a patch of zeros stays and adds nothing to the kernel."""
    norm = jnp.linalg.norm(x, axis=-1, keepdims=True)
    return x / jnp.where(norm > 0, norm, 1)
