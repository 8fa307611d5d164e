"""Targets made in two stages: a base signal F of the inputs, and a composite one G of F's outputs.

H(x) = beta F(x) + alpha G(F(x)). The paper's F and G are lists of parities; polynomials of linear
features are the smooth targets of its theory.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, Shaped

from lsa_jax.errors import InputError
from lsa_jax.experiments.resnet.streams import Target


class Hierarchy(NamedTuple):
    """A target in two stages.

    Attributes:
        base: F, from inputs [n, d] to [n, k].
        composite: G, from F's outputs [n, k] to [n, k].
        alpha: weight of the composite signal.
        beta: weight of the base signal.
    """

    base: Callable[[Array], Array]
    composite: Callable[[Array], Array]
    alpha: float
    beta: float


def parities(
    members: Int[np.ndarray, "k degree"], signs: Shaped[np.ndarray, " k"]
) -> Callable[[Float[Array, "n c"]], Float[Array, "n k"]]:
    """Returns z -> (s_1 prod_{j in S_1} z_j, ..., s_k prod_{j in S_k} z_j).

    Args:
        members: row i holds S_i, numbered from 0.
        signs: s.
    """

    def apply(z: Float[Array, "n c"]) -> Float[Array, "n k"]:
        return jnp.prod(z[:, members], axis=-1) * jnp.asarray(signs, z.dtype)[None]

    return apply


def paper_parities(
    d: int,
    base_degree: int,
    composite_degree: int,
    alpha: float,
    beta: float = 1.0,
    k: int | None = None,
) -> Hierarchy:
    """Returns F of the products of neighbours, and G of one product with alternating signs.

    With p = base_degree and q = composite_degree, F_i = x_{(i-1)p+1} ... x_{ip} for i = 1 to k, and
    G_i(y) = (-1)^i y_1 ... y_q. None takes all outputs that there are: k is the whole part of d/p.

    Raises:
        InputError: F has fewer outputs than G needs.

    Source: Allen-Zhu and Li (2019), section 8.1, with d = 30, p = 2, q = 4, alpha = 0.3; and,
    but for the signs, eq. 7.1 of the arXiv version, with p = 1 and q = k.
    """
    k = d // base_degree if k is None else k
    if composite_degree > k:
        raise InputError(
            f"composite_degree is {composite_degree}; accepted: at most {k}, the outputs of a base "
            f"signal of degree {base_degree} on d = {d} inputs"
        )
    base = np.arange(k * base_degree).reshape(k, base_degree)
    composite = np.tile(np.arange(composite_degree), (k, 1))
    signs = (-1.0) ** np.arange(1, k + 1)
    return Hierarchy(parities(base, np.ones(k)), parities(composite, signs), alpha, beta)


def polynomials(
    directions: Float[Array, "k c"], degree: int
) -> Callable[[Float[Array, "n c"]], Float[Array, "n k"]]:
    """Returns z -> He_degree(<w_i, z>) / sqrt(degree!), one output a direction w_i.

    For z of mean 0 and identity covariance and unit directions, outputs have about mean 0 and
    variance 1: exactly so where <w_i, z> is Gaussian.
    """

    def apply(z: Float[Array, "n c"]) -> Float[Array, "n k"]:
        feature = jnp.tensordot(z, directions, axes=(1, 1))
        before, value = jnp.ones_like(feature), feature
        for p in range(1, degree):
            before, value = value, feature * value - p * before
        return value / math.sqrt(math.factorial(degree))

    return apply


def smooth_hierarchy(
    key: Key[Array, ""],
    d: int,
    k: int,
    base_degree: int,
    composite_degree: int,
    alpha: float,
    beta: float = 1.0,
) -> Hierarchy:
    """Draws a hierarchy of polynomials of linear features, directions uniform on the sphere.

    Source: Allen-Zhu and Li (2019), section 2: the concept class, here with one feature an output.
    """
    base = _unit_rows(jax.random.fold_in(key, Target.BASE), (k, d))
    composite = _unit_rows(jax.random.fold_in(key, Target.COMPOSITE), (k, k))
    return Hierarchy(
        polynomials(base, base_degree), polynomials(composite, composite_degree), alpha, beta
    )


def sample_cube(key: Key[Array, ""], num_examples: int, d: int) -> Float[Array, "n d"]:
    """Draws x uniform on {-1, 1}^d."""
    return jax.random.rademacher(key, (num_examples, d), jnp.float32)


def signals(
    hierarchy: Hierarchy, x: Float[Array, "n d"]
) -> tuple[Float[Array, "n k"], Float[Array, "n k"]]:
    """Returns beta F(x) and alpha G(F(x)); the target is their sum."""
    base = hierarchy.base(x)
    return hierarchy.beta * base, hierarchy.alpha * hierarchy.composite(base)


def _unit_rows(key: Key[Array, ""], shape: tuple[int, int]) -> Float[Array, "k c"]:
    rows = jax.random.normal(key, shape)
    return rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
