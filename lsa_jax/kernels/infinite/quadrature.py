"""Duals of any nonlinearity by quadrature, and a check of duals that are given as formulas."""

import functools
from collections.abc import Callable
from concurrent import futures
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.errors import InputError
from lsa_jax.kernels.infinite.pointwise import inverse_of, root

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
# Standard deviations within which the check integrates, and nodes on each side of zero.
_REACH, _NODES = 8.5, 100


@functools.cache
def _hermite(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes x_i [n] and w_i h_k(x_i) [n (k), n (i)], for the normal density.

    h_k are the Hermite polynomials with E[h_k(z)^2] = 1. The nodes are the eigenvalues of their
    recurrence and the weights follow from the eigenvectors (Golub and Welsch, 1969).
    """
    side = np.sqrt(np.arange(1.0, degree))
    nodes, vectors = np.linalg.eigh(np.diag(side, 1) + np.diag(side, -1))
    return nodes, vectors * vectors[0]


def gauss_hermite(
    phi: Callable[[Array], Array],
    covariance: Float[Array, "..."],
    variance1: Float[Array, "..."],
    variance2: Float[Array, "..."],
    degree: int = 64,
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Computes E[phi(z) phi(z')] and E[phi'(z) phi'(z')] of centred Gaussian numbers z and z'.

    They are power series in the correlation r, sum_k a_k(s) a_k(s') r^k with the deviations s, s'
    and a_k(s) = E[phi(s x) h_k(x)] for the normalised Hermite polynomials h_k. A coefficient is a
    sum over the nodes and takes one example alone, so that a pair of examples costs `degree`
    multiplications where a grid of nodes costs `degree`^2 values of phi. At r = 1 the series is the
    quadrature of phi(s x) phi(s' x).

    The error falls exponentially with the root of `degree` for smooth phi, the slower the larger
    the deviations; at a kink of phi only as a power.

    Args:
        phi: in jax, of single numbers.
        covariance: of z and z'.
        variance1: of z; broadcasts against the covariance.
        variance2: of z'.
        degree: number of nodes and of terms.

    Source: Daniely, Frostig and Singer, Toward deeper understanding of neural networks, 2016,
    section 4.2, for the series.
    """
    nodes, basis = (jnp.asarray(part, covariance.dtype) for part in _hermite(degree))

    def coefficients(std: Array) -> tuple[Array, Array]:
        x = nodes.reshape(-1, *(1,) * std.ndim) * std[None]
        both = jax.jvp(phi, (x,), (jnp.ones_like(x),))
        return tuple(jnp.tensordot(basis, part, 1, precision="highest") for part in both)

    std1, std2 = root(variance1), root(variance2)
    cosine = jnp.clip(covariance * (inverse_of(std1) * inverse_of(std2)), -1, 1)
    of_each = *coefficients(std1), *coefficients(std2)

    def term(sums: tuple[Array, Array], at: tuple[Array, ...]) -> tuple[tuple[Array, Array], None]:
        value1, slope1, value2, slope2 = at
        return (sums[0] * cosine + value1 * value2, sums[1] * cosine + slope1 * slope2), None

    zero = jnp.zeros(jnp.broadcast_shapes(cosine.shape, std1.shape, std2.shape), cosine.dtype)
    (values, slopes), _ = lax.scan(term, (zero, zero), of_each, reverse=True, unroll=_UNROLLED)
    return values, slopes


def check_duals(nonlinearity: Any, tolerance: float = 1e-2) -> float:
    """Compares a nonlinearity's duals with integrals of its function, on a grid.

    Correlations from -0.99 to 0.99 and deviations from 0.5 to 1.5. The integrals are in float64, in
    two dimensions, with Gauss-Legendre nodes on either side of zero for each number, so that a kink
    there costs no accuracy; one elsewhere costs up to 5e-3 of the derivative's.

        kernels.check_duals(models.Tanh())

    Args:
        nonlinearity: with the methods `phi` and `duals` of `models.Elementwise`.
        tolerance: largest error that is accepted, over the root of the product of both numbers'
            mean squares.

    Returns:
        The largest error on the grid.

    Raises:
        InputError: an error is above the tolerance, or not finite.
    """
    correlation, std1, std2 = _GRID.T
    moments = correlation * std1 * std2, std1**2, std2**2

    def computed() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        with jax.enable_x64(True):
            found = nonlinearity.duals(*map(jnp.asarray, moments))
            return np.stack(found), *_integrals(nonlinearity.phi)

    # In a thread of its own, as a network may be made while another program is traced.
    with futures.ThreadPoolExecutor(1) as alone:
        found, expected, sizes = alone.submit(computed).result()
    errors = np.abs(found - expected) / sizes
    if not (errors <= tolerance).all():
        which, at = np.unravel_index(np.argmax(np.nan_to_num(errors, nan=np.inf)), errors.shape)
        name, (covariance, *variances) = ("phi", "phi'")[which], (m[at] for m in moments)
        raise InputError(
            f"duals of {type(nonlinearity).__name__}: E[{name}(z) {name}(z')] is "
            f"{float(found[which][at]):.4g} at covariance {covariance:.3g} and variances "
            f"{variances[0]:.3g} and {variances[1]:.3g}; accepted: its integral over the Gaussian "
            f"density, {expected[which, at]:.4g}, within {tolerance:g} of {sizes[which, at]:.3g}"
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


def _split(at: Float[np.ndarray, " m"]) -> tuple[np.ndarray, np.ndarray]:
    """Returns nodes and weights [m, nodes] for the normal density, in parts that meet at `at`."""
    at = np.clip(at, -_REACH, _REACH)[:, None]
    unit, weights = np.polynomial.legendre.leggauss(_NODES)
    parts = [((at + end) / 2, (end - at) / 2) for end in (-_REACH, _REACH)]
    x = np.concatenate([middle + half * unit for middle, half in parts], axis=1)
    w = np.concatenate([np.abs(half) * weights for _, half in parts], axis=1)
    return x, w * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)
