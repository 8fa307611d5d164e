"""The finite-width CNTK of the one-filter network: its features, and the best that can be had.

    k_w(X) = sum_i sum_j <w_j, X_i> 1[|<w_j^0, X_i>| >= t_j]

is linear in the features F_j(X) = sum_i X_i 1[|<w_j^0, X_i>| >= t_j] of m fixed random filters. The
thresholds here are in units of a noise row's own spread, t_j = -b_j / (sigma |w_j^0|), so only the
direction of w_j^0 matters, and t_j = 0 lets every row pass. Three facts are used:

1. F is odd in X and noise rows are symmetric, so y F(X) has at every y the law that F has at y = 1:
   the signal w* in each filter that w* passes, plus a sum over k independent noise rows.
2. Reflecting the space orthogonal to w* and to all w_j^0 leaves that law unchanged. So the best
   weights of any convex loss lie in the span of these m + 1 vectors, and rows are drawn there only:
   coordinates in which w* is the first basis vector and w_j^0 lies in the first j + 1.
3. The covariance of a noise row's features is known: for a pair of filters it is a moment of two
   jointly normal numbers. So thresholds are searched for the population, without examples.

Source: Karp et al. (2021), section 5 (the kernel; b_j there is added inside the indicator); the
three points are ours.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import lax
from jaxtyping import Array, Float, Int, Key
from scipy.special import ndtr, ndtri

from lsa_jax.errors import NumericalError

# Nodes and length of the quadrature over a standard normal number beyond a threshold.
_NODES, _REACH = 64, 9.0

# Added to a correlation matrix before it is solved with: filters may nearly coincide.
_JITTER = 1e-8

# How far from |<w^0, w*>| a threshold is that just lets the signal pass, or just not.
_MARGIN = 1e-4

# Examples whose rows are drawn at once.
_EXAMPLES_AT_ONCE = 4


class Design(NamedTuple):
    """Filters w_j^0 / |w_j^0|, in coordinates that begin with w*, with their thresholds t_j."""

    directions: Float[np.ndarray, "m r"]
    thresholds: Float[np.ndarray, " m"]


def draw_directions(key: Key[Array, ""], m: int, d: int) -> Float[np.ndarray, "m r"]:
    """Draws m filters w^0 ~ N(0, I_d), as unit vectors in coordinates that begin with w*.

    The r = min(d, m + 1) coordinates are an orthonormal basis of the span of w*, w_1^0, ..., w_m^0,
    made in that order: row j is zero from coordinate j + 2 on.
    """
    filters = np.asarray(jax.random.normal(key, (m, d)), np.float64)
    vectors = np.concatenate([np.eye(1, d), filters])
    coordinates = np.linalg.qr(vectors.T, mode="r")
    # w* itself is the first basis vector, not its negative.
    coordinates *= np.sign(coordinates[0, 0])
    rows = coordinates[:, 1:].T
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def signal_features(design: Design, sigma: float) -> Float[np.ndarray, " f"]:
    """Returns the signal row's part of the features at y = 1: w* where it passes, else zero."""
    passes = np.abs(design.directions[:, 0]) >= design.thresholds * sigma
    features = np.zeros_like(design.directions)
    features[:, 0] = passes
    return features.ravel()


def _density(x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.exp(-np.square(x) / 2) / np.sqrt(2 * np.pi)


def _pair_moments(
    correlation: Float[np.ndarray, "*n"], t1: Float[np.ndarray, "*n"], t2: Float[np.ndarray, "*n"]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns P(A), E[x^2; A], E[x y; A] and E[y^2; A] for independent standard normal x and y.

    A is the event that |x| >= t1 and |c x + s y| >= t2, with c the correlation and c^2 + s^2 = 1;
    where s = 0 (the same filter twice) it does not depend on y.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    s = np.sqrt(np.maximum(1 - correlation**2, 0))[..., None]
    same = s < 1e-6
    s, c = np.where(same, 1.0, s), np.where(same, 0.0, correlation[..., None])
    start = np.where(same, np.maximum(t1, t2)[..., None], t1[..., None])
    other = np.where(same, 0.0, t2[..., None])
    x = start + _REACH * (nodes + 1) / 2
    # By symmetry x > 0 is half of A; given x, y lies above `high` or below `low`.
    weight = _REACH * weights * _density(x)
    high, low = (other - c * x) / s, (-other - c * x) / s
    at_high, at_low = _density(high), _density(low)
    probability = ndtr(-high) + ndtr(low)
    first = at_high - at_low
    second = probability + high * at_high - low * at_low
    return tuple(
        np.sum(weight * term, axis=-1)
        for term in (probability, x**2 * probability, x * first, second)
    )


def row_covariance(first: Design, second: Design) -> Float[np.ndarray, "f1 f2"]:
    """Returns the covariance of a noise row's features under two designs, over sigma^2.

    Blocks [r, r] are E[e e^T 1[|<a, e>| >= t1] 1[|<b, e>| >= t2]] with e ~ N(0, I_r).
    """
    a, b = first.directions, second.directions
    correlation = np.clip(a @ b.T, -1, 1)
    t1, t2 = np.broadcast_arrays(first.thresholds[:, None], second.thresholds[None])
    p, xx, xy, yy = _pair_moments(correlation, t1, t2)
    # x is the coordinate along a, y the one along the part of b orthogonal to a.
    across = b[None] - correlation[..., None] * a[:, None]
    length = np.linalg.norm(across, axis=-1, keepdims=True)
    across = np.where(length < 1e-6, 0.0, across / np.maximum(length, 1e-6))
    along = np.broadcast_to(a[:, None], across.shape)
    frame = np.stack([along, across], axis=2)  # [m1, m2, 2, r]
    inner = np.stack([np.stack([xx - p, xy], -1), np.stack([xy, yy - p], -1)], axis=-2)
    blocks = np.swapaxes(frame, 2, 3) @ inner @ frame
    blocks = blocks + p[..., None, None] * np.eye(a.shape[1])[None, None]
    return blocks.transpose(0, 2, 1, 3).reshape(a.size, b.size)


def _solver(covariance: Float[np.ndarray, "f f"]):
    """Returns a function that solves with a covariance, scaled to be a correlation matrix.

    Raises:
        NumericalError: it is singular to rounding, as with many more filters than coordinates.
    """
    scale = 1 / np.sqrt(np.diag(covariance))
    correlation = covariance * scale[:, None] * scale[None]
    correlation[np.diag_indices_from(correlation)] += _JITTER
    try:
        factor = scipy.linalg.cho_factor(correlation, overwrite_a=True)
    except np.linalg.LinAlgError:
        raise NumericalError(
            f"the covariance of the {len(scale)} features is singular to rounding; lower "
            "config.m, or config.max_features to leave such kernels out"
        ) from None

    def solve(right: Float[np.ndarray, "f ..."]) -> Float[np.ndarray, "f ..."]:
        scales = scale.reshape(-1, *[1] * (right.ndim - 1))
        return scales * scipy.linalg.cho_solve(factor, scales * right)

    return solve


def separation(design: Design, sigma: float, k: int) -> float:
    """Returns the largest ratio of mean to standard deviation that y k_w(X) has at any weights.

    Where y k_w(X) is normal, minus this ratio is the normal quantile of the least error.
    """
    signal = signal_features(design, sigma)
    power = signal @ _solver(row_covariance(design, design))(signal)
    return float(np.sqrt(max(power, 0.0) / k) / sigma)


def discriminant(design: Design, sigma: float, k: int) -> Float[np.ndarray, " f"]:
    """Returns Fisher's discriminant of the population, scaled to be log odds for normal features.

    Result: w_j in row j of its [m, r], flattened.
    """
    signal = signal_features(design, sigma)
    weights = _solver(row_covariance(design, design))(signal)
    return 2 * weights / (k * sigma**2)


def candidates(
    directions: Float[np.ndarray, "m r"], sigma: float, pass_fractions: Sequence[float]
) -> Float[np.ndarray, "m c"]:
    """Returns thresholds worth trying: none, common ones, just below and just above the signal."""
    common = -ndtri(np.asarray([1.0, *pass_fractions]) / 2)
    own = np.abs(directions[:, :1]) / sigma
    grid = np.broadcast_to(common, (len(directions), len(common)))
    return np.concatenate([grid, own * (1 - _MARGIN), own * (1 + _MARGIN)], axis=1)


def search_thresholds(
    directions: Float[np.ndarray, "m r"],
    sigma: float,
    k: int,
    pass_fractions: Sequence[float],
    *,
    sweeps: int,
    starts: int,
    known: Float[np.ndarray, " m0"] | None = None,
) -> Design:
    """Searches for the thresholds at which the population's separation is largest.

    First each candidate is tried for all filters at once. With sweeps it is also tried for all but
    the first while that one lets every row pass, and from the best of these starts each filter's
    threshold is then chosen in turn, the others' fixed. With thresholds that are known of the first
    m0 filters, candidates are also tried for the other filters alone, so that more filters never do
    worse.
    """
    choices = candidates(directions, sigma, pass_fractions)
    filters, size = choices.shape
    everything = np.repeat(np.arange(size)[:, None], filters, axis=1)
    tried = [everything]
    if sweeps:
        tried.append(np.where(np.arange(filters) == 0, 0, everything))
    if known is not None:
        kept = np.argmin(np.abs(choices[: len(known)] - known[:, None]), axis=1)
        tried.append(np.concatenate([np.tile(kept, (size, 1)), everything[:, len(known) :]], 1))

    def picked(picks: Int[np.ndarray, " m"]) -> Design:
        return Design(directions, np.take_along_axis(choices, picks[:, None], axis=1)[:, 0])

    def score(picks: Int[np.ndarray, " m"]) -> float:
        return separation(picked(picks), sigma, k)

    pool = sorted(np.unique(np.concatenate(tried), axis=0), key=score, reverse=True)
    if sweeps and filters > 1:
        # Every filter at every candidate threshold.
        every = Design(np.repeat(directions, size, axis=0), choices.ravel())
        shape = every.directions.shape
        covariance = row_covariance(every, every).reshape(*shape, *shape)
        signal = signal_features(every, sigma).reshape(shape)
        searched = []
        for start in pool[:starts]:
            picks = start.copy()
            for index in list(range(filters)) * sweeps:
                picks[index] = np.argmax(_gains(covariance, signal, picks, index))
            searched.append(picks)
        pool = sorted(searched, key=score, reverse=True)
    return picked(pool[0])


def _gains(
    covariance: Float[np.ndarray, "mc r mc r"],
    signal: Float[np.ndarray, "mc r"],
    picks: Int[np.ndarray, " m"],
    index: int,
) -> Float[np.ndarray, " c"]:
    """Returns a filter's addition to signal^T covariance^-1 signal at each of its candidates.

    It is the part of its features that the other filters' leave unexplained, at their picks.
    Filters and candidates are one axis.
    """
    size, dimension = len(signal) // len(picks), signal.shape[1]
    others = np.delete(np.arange(len(picks)) * size + picks, index)
    own = index * size + np.arange(size)
    width = len(others) * dimension
    solve = _solver(covariance[others][:, :, others].reshape(width, width))
    cross = covariance[own][:, :, others].reshape(-1, width)
    shape = (size, dimension, -1)
    explained = solve(cross.T).T.reshape(shape) @ cross.reshape(shape).swapaxes(1, 2)
    left = covariance[own, :, own] - explained
    jitter = _JITTER * np.trace(left, axis1=1, axis2=2) + np.finfo(float).tiny
    left += jitter[:, None, None] * np.eye(dimension)[None]
    missing = signal[own] - (cross @ solve(signal[others].ravel())).reshape(shape[:2])
    return np.sum(missing * np.linalg.solve(left, missing[:, :, None])[:, :, 0], axis=1)


def draw_features(
    key: Key[Array, ""], designs: Sequence[Design], sigma: float, *, k: int, num_examples: int
) -> list[Float[np.ndarray, "n f"]]:
    """Draws y F(X) of fresh examples under several designs, all on the same examples.

    Designs have the first filters, in the first coordinates, of the largest one.
    """
    arrays = [Design(*(jnp.asarray(a, jnp.float32) for a in design)) for design in designs]
    sums = _draw_noise_sums(key, arrays, k, num_examples)
    return [
        sigma * np.asarray(noise, np.float64) + signal_features(design, sigma)
        for noise, design in zip(sums, designs, strict=True)
    ]


def sum_passing_rows(
    rows: Float[Array, "k r"], directions: Float[Array, "m r"], thresholds: Float[Array, " m"]
) -> Float[Array, "m r"]:
    """Returns for each filter the sum of the rows it lets pass, |<direction, row>| >= threshold."""
    passes = jnp.abs(rows @ directions.T) >= thresholds[None]
    return passes.astype(rows.dtype).T @ rows


@jax.jit(static_argnums=(2, 3))
def _draw_noise_sums(
    key: Key[Array, ""], designs: list[Design], k: int, num_examples: int
) -> list[Float[Array, "n f"]]:
    dimension = max(design.directions.shape[1] for design in designs)

    def one(index: Array) -> list[Array]:
        rows = jax.random.normal(jax.random.fold_in(key, index), (k, dimension))
        return [
            sum_passing_rows(rows[:, : d.directions.shape[1]], d.directions, d.thresholds).ravel()
            for d in designs
        ]

    return lax.map(one, jnp.arange(num_examples), batch_size=_EXAMPLES_AT_ONCE)
