"""Loss and gradient of a one-filter network on fresh sparse-signal examples, without their rows.

The network is f(X) = sum_i phi_b(<w, X_i>) with phi_b(z) = ReLU(z + b) - ReLU(-z + b), and w* is
the first basis vector. Gradients of exactly the law of sampled rows (to the rounding of float32)
are drawn from far fewer numbers:

1. As phi_b is odd, the margin y f(X) and the gradient have the law that they have at y = 1.
2. A noise row enters the margin, and the gradient along w and in b, only by z = <w, X_i>, which is
   N(0, sigma^2 |w|^2). Orthogonal to w the rows are independent of all z, so given the z the sum
   over rows and examples of r phi_b'(z) X_i, with r the derivative of an example's loss in its
   margin, is there N(0, sigma^2 sum r^2 phi_b'(z)^2): one vector for the whole batch.
3. For b < 0 a row with |z| <= -b has phi_b = 0 and no gradient. So only how many rows pass is
   drawn, Binomial(k, P(|z| > -b)), and then those rows' z from the normal law beyond the threshold.

So a step costs a number for each row that passes instead of d numbers for each row. The sampler
that draws every row and differentiates is in `networks`.

Source: network and distribution of Karp et al. (2021), section 3; the shortcut is ours.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Key

from lsa_jax.experiments.lsa.patch_cnn import soft_threshold
from lsa_jax.experiments.lsa.streams import SignalGradient
from lsa_jax.training.losses import logistic

# Rows of every example drawn at once: few enough for the cache, enough to keep loops short.
_ROWS_AT_ONCE = 64

# The largest float32 below 1. Its quantile is where jax.random.normal ends too.
_BELOW_ONE = 1 - 2.0**-24


class Params(NamedTuple):
    """The d + 1 parameters, or a gradient in them.

    Attributes:
        w: the filter.
        b: the threshold.
    """

    w: Float[Array, " d"]
    b: Float[Array, ""]


class _RowSums(NamedTuple):
    """Sums over an example's noise rows; u = z / (sigma |w|) is standard normal.

    Attributes:
        slope_u: sum of phi_b'(z) u.
        slope_squared: sum of phi_b'(z)^2.
        bias_slope: sum of the derivatives of phi_b(z) in b.
    """

    slope_u: Float[Array, " n"]
    slope_squared: Float[Array, " n"]
    bias_slope: Float[Array, " n"]


def soft_threshold_slopes(
    z: Float[Array, "..."], b: Float[Array, ""]
) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Returns the derivatives of phi_b(z) in z and in b; ReLU'(0) = 0, as in `jax.nn.relu`."""
    rising = (z + b > 0).astype(jnp.float32)
    falling = (b - z > 0).astype(jnp.float32)
    return rising + falling, rising - falling


def _passing_normals(
    key: Key[Array, ""], probability: Float[Array, ""], shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """Draws standard normals u given |u| > t, where P(|u| > t) is the probability given."""
    v = jax.random.uniform(key, shape, minval=-1.0, maxval=1.0)
    # P(|u| <= x) = erf(x / sqrt(2)); given |u| > t it is uniform between 1 - probability and 1.
    quantile = jnp.minimum(1 - probability * jnp.abs(v), _BELOW_ONE)
    return jnp.where(v < 0, -math.sqrt(2), math.sqrt(2)) * lax.erf_inv(quantile)


def _sum_noise_rows(
    key: Key[Array, ""], scale: Float[Array, ""], b: Float[Array, ""], k: int, num_examples: int
) -> _RowSums:
    """Draws the sums over k rows with z ~ N(0, scale^2), for each example."""
    # At scale 0 the quotient is infinite and no row passes, as it should be.
    passes = jax.scipy.special.erfc(-b / (scale * math.sqrt(2)))
    probability = jnp.where(b < 0, passes, 1.0)
    count = jax.random.binomial(
        jax.random.fold_in(key, SignalGradient.COUNT), k, probability, shape=(num_examples,)
    )
    most = jnp.max(count)
    rows_key = jax.random.fold_in(key, SignalGradient.ROWS)
    block = jnp.arange(_ROWS_AT_ONCE)[:, None]

    def add_rows(carry: tuple[Array, _RowSums]) -> tuple[Array, _RowSums]:
        first, sums = carry
        u = _passing_normals(
            jax.random.fold_in(rows_key, first), probability, (_ROWS_AT_ONCE, num_examples)
        )
        z = scale * u
        slope, bias_slope = soft_threshold_slopes(z, b)
        rows = _RowSums(slope * u, jnp.square(slope), bias_slope)
        drawn = first + block < count[None]
        sums = jax.tree.map(
            lambda total, term: total + jnp.sum(jnp.where(drawn, term, 0.0), axis=0), sums, rows
        )
        return first + _ROWS_AT_ONCE, sums

    zeros = jnp.zeros(num_examples)
    start = (jnp.int32(0), _RowSums(zeros, zeros, zeros))
    return lax.while_loop(lambda carry: carry[0] < most, add_rows, start)[1]


def _margins(
    w: Float[Array, " d"], b: Float[Array, ""], scale: Float[Array, ""], noise: _RowSums
) -> Float[Array, " n"]:
    """Returns phi_b(w.w*) + sum of phi_b(z), as phi_b(z) = phi_b'(z) z + b (d/db) phi_b(z)."""
    return soft_threshold(w[0], b) + scale * noise.slope_u + b * noise.bias_slope


def shortcut_margins(
    key: Key[Array, ""], params: Params, sigma: Float[Array, ""], *, k: int, num_examples: int
) -> Float[Array, " n"]:
    """Draws the margins y f(X) of fresh examples, exactly in distribution.

    Arguments as in `shortcut_gradient`.
    """
    w, b = params
    scale = sigma * jnp.linalg.norm(w)
    return _margins(w, b, scale, _sum_noise_rows(key, scale, b, k, num_examples))


def shortcut_gradient(
    key: Key[Array, ""], params: Params, sigma: Float[Array, ""], *, k: int, num_examples: int
) -> tuple[Float[Array, ""], Params]:
    """Draws the mean logistic loss of a minibatch and its gradient, exactly in distribution.

    At w = 0 (where w has no direction) the law is the same: the direction then only selects the
    coordinate of the rows that is drawn one by one, and any will do.

    Args:
        key: of this minibatch alone.
        params: where the gradient is taken.
        sigma: standard deviation of the noise rows' entries.
        k: number of noise rows.
        num_examples: the minibatch's size n.

    Returns:
        Loss and gradient. O(n k P(|z| > -b)) time, O(n) memory.
    """
    w, b = params
    norm = jnp.linalg.norm(w)
    signal = jnp.zeros_like(w).at[0].set(1.0)
    direction = jnp.where(norm > 0, w / jnp.where(norm > 0, norm, 1.0), signal)
    noise = _sum_noise_rows(key, sigma * norm, b, k, num_examples)
    margin = _margins(w, b, sigma * norm, noise)
    residual = -jax.nn.sigmoid(-margin)  # derivative of log(1 + exp(-margin))

    signal_slope, signal_bias_slope = soft_threshold_slopes(w[0], b)
    along = jnp.mean(residual * noise.slope_u)
    spread = jnp.sqrt(jnp.sum(jnp.square(residual) * noise.slope_squared)) / num_examples
    across = spread * jax.random.normal(jax.random.fold_in(key, SignalGradient.ACROSS), w.shape)
    across -= jnp.sum(across * direction) * direction
    gradient_w = jnp.mean(residual) * signal_slope * signal + sigma * (along * direction + across)
    gradient_b = jnp.mean(residual * (signal_bias_slope + noise.bias_slope))
    loss = jnp.mean(logistic(margin[:, None], jnp.ones_like(margin)))
    return loss, Params(gradient_w, gradient_b)
