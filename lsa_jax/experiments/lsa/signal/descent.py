"""Algorithm 1 on the population loss, step by step, and its limit of small steps.

A deterministic recursion in three numbers; see `population` for its gradient.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import ml_collections
import numpy as np
from jaxtyping import Float
from scipy.integrate import solve_ivp

from lsa_jax.errors import NumericalError
from lsa_jax.experiments.lsa.signal.population import (
    PopulationGradient,
    misclassification,
    population_gradient,
)
from lsa_jax.experiments.lsa.sparse_signal import noise_std

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
    """Runs Algorithm 1 on the population gradient, the limit of large minibatches.

    Args:
        start: the first state.
        rates: eta_w and eta_b.
        sigma: standard deviation of the noise rows' entries.
        k: number of noise rows.
        steps: numbers of steps after which to measure, increasing.

    Returns:
        One row a measurement: `step` and the entries of `measure`.
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
    """A solution of the gradient flow.

    Attributes:
        times: [n], learning rate times steps.
        states: at these times.
        reached: whether the error is the target at the last time.
    """

    times: Float[np.ndarray, " n"]
    states: list[PopulationState]
    reached: bool


def bias_rate_ratio(config: ml_collections.ConfigDict) -> float:
    """Returns eta_b / eta_w of the settings; None stands for the paper's 1 / k."""
    ratio = config.bias_learning_rate_ratio
    return 1 / config.k if ratio is None else ratio


def flow_to_target(config: ml_collections.ConfigDict) -> tuple[PopulationFlow, float]:
    """Follows the recursion's limit of small steps from a typical start, until an error is reached.

    d(c, |w_perp|, b)/dt is minus the population gradient, in b times the ratio of the rates; a step
    of rate eta is eta units of time. It is stiff (w_perp relaxes at a rate near log(k)^2 / 4, b at
    one near 1 / k), so scipy's LSODA solves it, for log |w_perp| in place of |w_perp|.

    Args:
        config: the distribution (`k`, `d`, `noise_scale`), the start (`init_scale`), the rates, and
            `target_error` or else `duration`, at which the flow ends.

    Returns:
        The flow, and sigma, the standard deviation of the noise rows' entries.

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
