"""Loss, gradient and error of the one-filter network over the whole distribution: no sampling.

The network is the one of `networks`. By its symmetries the population sees w only through
c = w.w* and o = |w_perp|, and the population gradient lies in the span of w* and w_perp, so on the
population loss Algorithm 1 is a deterministic recursion in three numbers (c, o, b).

With y = 1 the margin is g + S: g = phi_b(c) from the signal row, S the sum over k noise rows of
phi_b(z), z ~ N(0, s^2), s = sigma sqrt(c^2 + o^2). Only the law of S is not elementary. It is used
through its characteristic function psi(t)^k, psi(t) = E cos(t phi_b(z)), in three steps:

1. psi and its derivatives in s and b take one value of the Faddeeva function w each.
2. The Fourier transform of the logistic function is known,
   1 / (1 + e^m) = 1/2 - integral over t > 0 of sin(t m) / sinh(pi t),
   so the expectation over S is that integral with sin(t m) replaced by sin(t g) psi(t)^k. Loss and
   gradient are integrals of the same kind. All are even, analytic and decay like exp(-pi t), where
   the trapezoid rule converges geometrically: some hundred nodes leave float64's rounding.
3. The misclassification probability is the inversion integral of Gil-Pelaez. For b < 0 the events
   that no noise row passes the threshold (an atom of S at 0) and that exactly one does are taken
   out and added in closed form; the rest decays fast.

Everything is float64 numpy. Source: network and distribution of Karp et al. (2021), section 3, and
the formulas of thesis appendix B.1.1 for the gradient; the way of computing them is ours. Algorithm
1's steps, and the flow that is their limit of small steps, follow at the end.
"""

import functools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp
from scipy.special import ndtr, wofz

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.sweep.fields import Config

# 1 / sinh(pi t) is below float64's resolution from here on.
_LAST_FREQUENCY = 12.0

# exp(-_REACH) is below float64's resolution: how far the images that the trapezoid rule adds to a
# function with tails exp(-|m|) must stay from its argument.
_REACH = 37.0

# Beyond so many standard deviations of S, and of one row, there is nothing left to add up.
_DEVIATIONS = 12.0

# Last frequency of the inversion integral, for rows in units of their standard deviation. The
# rest is below 1e-8 for b <= 0, and for b > 0 from about 8 rows up. It is summed in blocks, up to
# where the terms are negligible.
_LAST_ROW_FREQUENCY, _BLOCK, _NEGLIGIBLE = 200.0, 1024, 1e-13

# A threshold, in standard deviations of a row, that no row passes.
_NEVER_PASSED = 40.0


class PopulationGradient(NamedTuple):
    """Mean logistic loss; gradient along w* and w_perp / |w_perp|, and in the threshold."""

    loss: float
    w_dot_wstar: float
    w_perp: float
    b: float


class _Row(NamedTuple):
    """Expectations over one noise row u = z / s ~ N(0, 1), at frequencies t."""

    cosine: Float[np.ndarray, " t"]  # psi = E cos(t phi_b(z))
    slope_u: Float[np.ndarray, " t"]  # E sin(t phi_b(z)) phi_b'(z) u = -(d psi / ds) / t
    bias_slope: Float[np.ndarray, " t"]  # E sin(t phi_b(z)) (d/db) phi_b(z) = -(d psi / db) / t


def _tail_transform(tau: Float[np.ndarray, " t"], threshold: float) -> np.ndarray:
    """Returns E exp(i tau (|u| - threshold)) 1[|u| > threshold] for u ~ N(0, 1), threshold >= 0."""
    return math.exp(-0.5 * threshold**2) * wofz((tau + 1j * threshold) / math.sqrt(2))


def _row(tau: Float[np.ndarray, " t"], threshold: float) -> _Row:
    """Returns the expectations over a row at t = tau / s, where b = -threshold * s."""
    tail = _tail_transform(tau, abs(threshold))
    if threshold >= 0:
        silent = math.erf(threshold / math.sqrt(2))
        return _Row(silent + tail.real, tau * tail.real, tail.imag)
    # Here phi_b(z) = 2 z up to |z| = b, and z + sign(z) b beyond.
    phase = np.exp(-2j * tau * threshold)
    outer, inner = phase * tail, phase * _tail_transform(2 * tau, -threshold)
    whole = np.exp(-2 * tau**2)
    edge = phase.imag * math.sqrt(2 / math.pi) * math.exp(-0.5 * threshold**2)
    slope_u = 4 * tau * whole - edge + tau * (outer - 4 * inner).real
    return _Row(whole + (outer - inner).real, slope_u, outer.imag)


def _soft_threshold(z: float, b: float) -> tuple[float, float, float]:
    """Returns phi_b(z) and its derivatives in z and b; ReLU'(0) = 0."""
    rising, falling = float(z + b > 0), float(b - z > 0)
    return (z + b) * rising - (b - z) * falling, rising + falling, rising - falling


def _row_variance(threshold: float) -> float:
    """Returns the variance of phi_b(z) / s, where b = -threshold * s."""
    a = abs(threshold)
    density, beyond = math.exp(-0.5 * a * a) / math.sqrt(2 * math.pi), ndtr(-a)
    if threshold >= 0:
        # The difference cancels far out, where it is 4 phi(a) / a^3 to first order.
        return max(2 * ((1 + a * a) * beyond - a * density), 0.0)
    return 4 * (1 - 2 * beyond - 2 * a * density) + 2 * ((1 + a * a) * beyond + 3 * a * density)


def _reach(threshold: float, k: int) -> float:
    """Returns a bound on the sum over k rows, over s, of negligible probability."""
    # A row is twice as steep for b > 0.
    return _DEVIATIONS * (math.sqrt(k * _row_variance(threshold)) + 2)


@functools.lru_cache(maxsize=64)
def _frequencies(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns `count` equal steps of frequencies t > 0 and the step times 1 / sinh(pi t).

    Midpoints: the same accuracy as the trapezoid rule without its limit at t = 0.
    """
    t = (np.arange(count) + 0.5) * (_LAST_FREQUENCY / count)
    return t, (_LAST_FREQUENCY / count) / np.sinh(np.pi * t)


def _num_frequencies(period: float) -> int:
    """Returns how many frequencies give images a period apart, or a little more."""
    # In eighths of powers of two, so that the nodes of one step serve the next.
    count = _LAST_FREQUENCY * period / (2 * math.pi)
    unit = 2.0 ** (math.floor(math.log2(count)) - 3)
    return math.ceil(math.ceil(count / unit) * unit)


def population_gradient(c: float, o: float, b: float, sigma: float, k: int) -> PopulationGradient:
    """Computes the population loss and its gradient, to about the rounding of float64.

    c = w.w* and o = |w_perp| are not both 0; sigma is of the k noise rows' entries.
    """
    norm = math.hypot(c, o)
    s = sigma * norm
    g, slope, bias_slope = _soft_threshold(c, b)
    threshold = -b / s if s else _NEVER_PASSED
    t, weight = _frequencies(_num_frequencies(_REACH + abs(g) + s * _reach(threshold, k)))
    row = _row(t * s, threshold)
    others = row.cosine ** (k - 1)
    cosine, sine = np.cos(t * g), np.sin(t * g)
    all_rows = others * row.cosine
    residual = -0.5 + np.sum(weight * sine * all_rows)  # mean derivative of the loss in the margin
    by_row = k * weight * cosine * others
    scale_slope = np.sum(by_row * row.slope_u)
    return PopulationGradient(
        loss=float(math.log(2) - 0.5 * g + np.sum(weight * (1 - cosine * all_rows) / t)),
        w_dot_wstar=float(residual * slope + scale_slope * sigma * c / norm),
        w_perp=float(scale_slope * sigma * o / norm),
        b=float(residual * bias_slope + np.sum(by_row * row.bias_slope)),
    )


def misclassification(c: float, o: float, b: float, sigma: float, k: int) -> float:
    """Computes P(y f(X) <= 0): as in `losses.is_correct`, an output of 0 is an error.

    Args as in `population_gradient`. The error is below 1e-7 (for 2 to 7 rows and b > 0 it can
    reach 1e-4, as the law of so short a sum is not smooth).
    """
    s = sigma * math.hypot(c, o)
    g = _soft_threshold(c, b)[0]
    if s == 0:
        return float(g <= 0)
    g, threshold = g / s, -b / s
    silent = math.erf(max(threshold, 0.0) / math.sqrt(2))  # P(a noise row contributes nothing)
    none, one = silent**k, k * silent ** (k - 1)
    step = 2 * math.pi / (abs(g) + _reach(threshold, k))
    total, first, largest = 0.0, 0, math.inf
    while largest > _NEGLIGIBLE and first * step < _LAST_ROW_FREQUENCY:
        tau = (np.arange(first, first + _BLOCK) + 0.5) * step
        passing = _row(tau, threshold).cosine - silent
        rest = (silent + passing) ** k - none - one * passing
        total += np.sum(np.sin(tau * g) / tau * rest)
        first, largest = first + _BLOCK, np.abs(rest).max()
    several = 0.5 * (1 - none - one * (1 - silent)) - total * step / math.pi
    error = none * (g <= 0) + one * _above(g, threshold) + several
    return float(np.clip(error, 0.0, 1.0))


def _above(g: float, threshold: float) -> float:
    """Returns P(phi_b(z) > g s and the row passes), where b = -threshold * s."""
    z = 0.5 * g if abs(g) <= -2 * threshold else g + threshold * math.copysign(1, g)
    tail = ndtr(-abs(z))
    passes = 2 * ndtr(-max(threshold, 0.0))
    return float(tail if g > 0 else passes - tail)


# --- Algorithm 1 on the population loss, and its limit of small steps ---------------------------

# A smaller |w_perp| counts as none: far below c it no longer matters, and it must not underflow.
_SMALLEST_LOG = -300.0
_SMALLEST = math.exp(_SMALLEST_LOG)


class PopulationState(NamedTuple):
    """State of the recursion: c = w.w*, o = |w_perp| and the threshold b."""

    c: float
    o: float
    b: float


def population_step(
    state: PopulationState, gradient: PopulationGradient, rate: float, bias_rate: float
) -> PopulationState:
    """Takes a step of Algorithm 1 along the population gradient.

    A step that is longer than w_perp turns w_perp round; its norm stays positive.
    """
    o = abs(state.o - rate * gradient.w_perp)
    return PopulationState(
        state.c - rate * gradient.w_dot_wstar,
        o if o >= _SMALLEST else 0.0,
        state.b - bias_rate * gradient.b,
    )


def typical_start(init_scale: float, d: int) -> PopulationState:
    """Returns a start of the size that w ~ N(0, init_scale^2 I) typically has: d enters only here.

    c is one standard deviation and positive. (From c = 0 exactly it would never move, as at b = 0
    the slope phi_b'(0) is 0.)
    """
    return PopulationState(init_scale, init_scale * math.sqrt(d - 1), 0.0)


def measure(state: PopulationState, sigma: float, k: int) -> dict[str, float]:
    """Returns state, error, loss and gradient by the names of `signal_dynamics`.

    `grad_w_perp` is the gradient's component along w_perp / |w_perp|.
    """
    gradient = population_gradient(*state, sigma, k)
    return {
        "w_dot_wstar": state.c,
        "w_perp_norm": state.o,
        "b": state.b,
        "ratio": abs(state.b) / state.c if state.c else math.nan,
        "test_accuracy": 1 - misclassification(*state, sigma, k),
        "train_loss": gradient.loss,
        "grad_dot_wstar": gradient.w_dot_wstar,
        "grad_w_perp": gradient.w_perp,
        "grad_b": gradient.b,
    }


def population_trajectory(
    start: PopulationState,
    rates: tuple[float, float],
    sigma: float,
    k: int,
    *,
    steps: Iterable[int],
) -> list[dict[str, float]]:
    """Runs Algorithm 1 at rates eta_w and eta_b on the population gradient.

    Returns `step` and the entries of `measure` after each of the increasing steps.
    """
    rows, state, taken = [], start, 0
    for step in steps:
        for _ in range(step - taken):
            gradient = population_gradient(*state, sigma, k)
            state = population_step(state, gradient, *rates)
        taken = step
        rows.append({"step": step, **measure(state, sigma, k)})
    return rows


class PopulationFlow(NamedTuple):
    """States of the gradient flow at times, learning rate times steps; the last is the end.

    `reached` is whether the error is the target there.
    """

    times: Float[np.ndarray, " n"]
    states: list[PopulationState]
    reached: bool


def bias_rate_ratio(config: Config) -> float:
    """Returns eta_b / eta_w of the settings; None stands for the paper's 1 / k."""
    ratio = config.bias_learning_rate_ratio
    return 1 / config.k if ratio is None else ratio


def flow_to_target(config: Config) -> tuple[PopulationFlow, float]:
    """Follows the recursion's limit of small steps from a typical start, until an error is reached.

    d(c, |w_perp|, b)/dt is minus the population gradient, in b times the ratio of the rates; a step
    of rate eta is eta units of time. It is stiff (w_perp relaxes at a rate near log(k)^2 / 4, b at
    one near 1 / k), so scipy's LSODA solves it, for log |w_perp| in place of |w_perp|. It ends at
    `config.target_error`, or else at `config.duration`.

    Returns the flow, and sigma, the standard deviation of the noise rows' entries.

    Raises:
        NumericalError: the solver gave up.
    """
    k, ratio, sigma = config.k, bias_rate_ratio(config), noise_std(config.k, config.noise_scale)

    def state_of(y: np.ndarray) -> PopulationState:
        return PopulationState(float(y[0]), math.exp(max(y[1], _SMALLEST_LOG)), float(y[2]))

    def descent(t: float, y: np.ndarray) -> list[float]:
        state = state_of(y)
        gradient = population_gradient(*state, sigma, k)
        return [-gradient.w_dot_wstar, -gradient.w_perp / state.o, -ratio * gradient.b]

    def excess(t: float, y: np.ndarray) -> float:
        return misclassification(*state_of(y), sigma, k) - config.target_error

    excess.terminal = True
    start = typical_start(config.init_scale, config.d)
    span, first = (0.0, config.duration), np.array([start.c, math.log(start.o), start.b])
    solution = solve_ivp(descent, span, first, method="LSODA", rtol=1e-8, atol=1e-12, events=excess)
    if not solution.success:
        raise NumericalError(f"the gradient flow at k = {k} was not solved: {solution.message}")
    states, reached = [state_of(y) for y in solution.y.T], solution.status == 1
    return PopulationFlow(solution.t, states, reached), sigma
