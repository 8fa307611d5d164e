"""Duals of any nonlinearity as Hermite series, and a check of duals that are given as formulas."""

import functools
from collections.abc import Callable
from concurrent import futures
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.checks import Kind, require
from lsa_jax.errors import InputError, one_line
from lsa_jax.kernels.infinite.correlations import Cosine

# Terms of the series in one step of its loop.
_UNROLLED = 8

# Grid of the check: correlation, and both standard deviations.
_GRID = np.array(
    [
        (correlation, *stds)
        for correlation in (-0.99, -0.6, 0.0, 0.3, 0.8, 0.99)
        for stds in ((1.0, 1.0), (0.5, 1.0), (1.5, 1.5))
    ]
)
# Standard deviations within which integrals are taken, and least number of nodes on either side.
_REACH, _NODES = 12.0, 128


@functools.cache
def _hermite(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes x_i [n] and w_i h_k(x_i) [degree (k), n], for the normal density.

    h_k are the Hermite polynomials with E[h_k(z)^2] = 1, by their recurrence.
    """
    (x,), (weights,) = _split(np.zeros(1), max(_NODES, 2 * degree))
    basis = [np.zeros_like(x), weights]
    for k in range(1, degree):
        basis.append((x * basis[-1] - np.sqrt(k - 1) * basis[-2]) / np.sqrt(k))
    return x, np.stack(basis[1:])


def coefficients(
    phi: Callable[[Array], Array], degree: int, std: Float[Array, "..."]
) -> tuple[Float[Array, "k ..."], Float[Array, "k ..."]]:
    """Computes E[phi(s x) h_k(x)] and E[phi'(s x) h_k(x)] of a standard normal x, for k < degree.

    Integrals by Gauss-Legendre nodes on either side of zero, so that a kink there costs nothing.
    """
    nodes, basis = (jnp.asarray(part, std.dtype) for part in _hermite(degree))
    x = nodes.reshape(-1, *(1,) * std.ndim) * std[None]
    both = jax.jvp(phi, (x,), (jnp.ones_like(x),))
    return tuple(jnp.tensordot(basis, part, 1, precision="highest") for part in both)


def series(
    each1: Float[Array, "k ..."], each2: Float[Array, "k ..."], cosine: Cosine
) -> Float[Array, "..."]:
    """Computes sum_k a_k a'_k r^k: the mean of a product of functions of Gaussian numbers.

    Their coefficients broadcast against the correlation r. They take one example alone, so that a
    pair costs `degree` multiplications where a grid of nodes costs `degree`^2 values of phi.

    Source: Daniely, Frostig and Singer, Toward deeper understanding of neural networks, 2016,
    section 4.2.
    """

    def term(total: Array, at: tuple[Array, Array]) -> tuple[Array, None]:
        return total * cosine.value + at[0] * at[1], None

    shape = jnp.broadcast_shapes(cosine.value.shape, each1.shape[1:], each2.shape[1:])
    zero = jnp.zeros(shape, each1.dtype)
    return lax.scan(term, zero, (each1, each2), reverse=True, unroll=_UNROLLED)[0]


def series_gap(
    each1: Float[Array, "k ..."], each2: Float[Array, "k ..."], cosine: Cosine
) -> Float[Array, "..."]:
    """Computes 1 - sum_k u_k u'_k r^k of coefficients whose squares sum to 1, without cancellation.

    It is sum_k (u_k - u'_k)^2 / 2 + u_k u'_k (1 - r^k).
    """
    gap = jnp.where(cosine.value >= 0, cosine.gap, 2 - cosine.gap)

    def term(
        sums: tuple[Array, Array], at: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        total, lost = sums
        one, other = at
        total = total + (one - other) ** 2 / 2 + one * other * lost
        return (total, gap + cosine.value * lost), None

    shape = jnp.broadcast_shapes(gap.shape, each1.shape[1:], each2.shape[1:])
    zeros = jnp.zeros(shape, each1.dtype), jnp.zeros_like(gap)
    return lax.scan(term, zeros, (each1, each2), unroll=_UNROLLED)[0][0]


def check_duals(nonlinearity: Any, tolerance: float = 3e-2) -> float:
    """Compares a nonlinearity's duals with integrals of its function, on a grid.

        kernels.check_duals(models.Tanh())

    Correlations from -0.99 to 0.99 and deviations from 0.5 to 1.5. The integrals are in float64, in
    two dimensions, with Gauss-Legendre nodes on either side of zero for each number, so that a kink
    there costs no accuracy; one elsewhere costs up to 2e-2 of the derivative's. The nonlinearity
    has the methods `phi` and `duals` of `models.Elementwise`.

    Returns:
        The largest error, over the root of the product of both numbers' mean squares.

    Raises:
        InputError: an error is above the tolerance, or not finite.
    """
    has_duals = Kind(
        lambda given: all(callable(getattr(given, name, None)) for name in ("phi", "duals")),
        "with methods phi and duals, such as models.ElementwiseNumerical(function)",
        object,
    )
    require("nonlinearity", nonlinearity, has_duals)
    correlation, std1, std2 = _GRID.T
    moments = correlation * std1 * std2, std1**2, std2**2

    def computed() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with jax.enable_x64(True):
            found = nonlinearity.duals(*map(jnp.asarray, moments))
            return np.stack(found), *_integrals(nonlinearity.phi)

    # In a thread of its own, as a network may be made while another program is traced.
    name = type(nonlinearity).__name__
    try:
        with futures.ThreadPoolExecutor(1) as alone:
            found, expected, sizes = alone.submit(computed).result()
    except Exception as error:  # a function of users may raise anything
        reason = one_line(error)
        raise InputError(
            f"phi or duals of {name} raise {type(error).__name__}: {reason:.200}; accepted: "
            "functions, in jax (jnp in place of np), of each number of an array by itself"
        ) from error
    errors = np.abs(found - expected) / sizes
    if not (errors <= tolerance).all():
        which, at = np.unravel_index(np.argmax(np.nan_to_num(errors, nan=np.inf)), errors.shape)
        phi, (covariance, *variances) = ("phi", "phi'")[which], (m[at] for m in moments)
        raise InputError(
            f"duals of {name}: E[{phi}(z) {phi}(z')] is "
            f"{float(found[which][at]):.4g} at covariance {covariance:.3g} and variances "
            f"{variances[0]:.3g} and {variances[1]:.3g}; accepted: its integral over the Gaussian "
            f"density, {expected[which, at]:.4g}, within {tolerance:g} of {sizes[which, at]:.3g}, "
            "by correct formulas or a higher degree"
        )
    return float(errors.max())


def _integrals(phi: Callable[[Array], Array]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the two expectations on the grid [2, points], and root mean squares that bound them.

    With z' = s' (r x + sqrt(1 - r^2) u), in two standard normal numbers x and u.
    """
    correlation, std1, std2 = (column[:, None] for column in _GRID.T)
    (x,), (weights,) = _split(np.zeros(1))
    angle = np.sqrt(1 - correlation**2)
    u, inner = _split((-correlation * x / angle).reshape(-1))  # meet where z' changes its sign
    second = (std2 * correlation * x)[..., None] + (std2 * angle)[..., None] * u.reshape(
        len(_GRID), len(x), -1
    )
    both = jax.jit(lambda z: jnp.stack(jax.jvp(phi, (z,), (jnp.ones_like(z),))))
    ones, others, alone = (np.asarray(both(jnp.asarray(z))) for z in (std1 * x, second, std2 * x))
    means = np.sum(inner.reshape(second.shape) * others, axis=-1)
    sizes = np.sqrt((ones**2 @ weights) * (alone**2 @ weights))
    return (ones * means) @ weights, np.where(sizes > 0, sizes, 1)


def _split(
    at: Float[np.ndarray, " m"], count: int = _NODES
) -> tuple[Float[np.ndarray, "m n"], Float[np.ndarray, "m n"]]:
    """Returns nodes and weights for the normal density, in two parts that meet at `at`."""
    at = np.clip(at, -_REACH, _REACH)[:, None]
    unit, weights = np.polynomial.legendre.leggauss(count)
    parts = [((at + end) / 2, (end - at) / 2) for end in (-_REACH, _REACH)]
    x = np.concatenate([middle + half * unit for middle, half in parts], axis=1)
    w = np.concatenate([np.abs(half) * weights for _, half in parts], axis=1)
    return x, w * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
