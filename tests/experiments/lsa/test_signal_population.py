"""Loss, gradient and error of the population against quadrature, sampling and closed forms."""

import math

import ml_collections
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from lsa_jax.experiments.lsa.signal.population import (
    PopulationState,
    flow_to_target,
    measure,
    misclassification,
    population_gradient,
    population_step,
    population_trajectory,
    typical_start,
)
from lsa_jax.experiments.lsa.sparse_signal import noise_std

# (c, o, b, sigma, k): thresholds of both signs, few and many rows, an output that is often 0.
STATES = [
    (0.86, 0.05, -0.38, 0.218, 1000),
    (0.05, 0.03, 0.01, 0.218, 1000),
    (0.5, 0.2, -0.1, 0.4, 50),
    (0.5, 0.2, 0.1, 0.4, 50),
    (0.1, 0.5, -0.4, 0.3, 5),
    (-0.3, 0.1, -0.1, 0.5, 5),
    (0.3, 0.1, 0.1, 0.9, 1),
    (3.0, 1e-3, -2.0, 0.3, 200),
]


def phi(z, b):
    return np.maximum(z + b, 0) - np.maximum(b - z, 0)


def expect(function, scale, kinks=()):
    """E function(z) for z ~ N(0, scale^2), by adaptive quadrature."""
    points = [p for p in (*kinks, 0.0) if abs(p) < 12 * scale]
    return quad(
        lambda z: function(z) * norm.pdf(z, scale=scale),
        -12 * scale,
        12 * scale,
        points=points,
        limit=500,
        epsabs=1e-13,
    )[0]


@pytest.mark.parametrize("b", [-0.2, 0.1])
def test_with_one_noise_row_it_is_a_gaussian_integral(b):
    c, o, sigma = 0.4, 0.3, 0.8
    s, g = sigma * math.hypot(c, o), float(phi(c, b))
    kinks = (b, -b, -g + b, -g - b, -g)
    loss = expect(lambda z: np.logaddexp(0, -(g + phi(z, b))), s, kinks)
    assert population_gradient(c, o, b, sigma, 1).loss == pytest.approx(loss, abs=1e-12)
    wrong = expect(lambda z: float(g + phi(z, b) <= 0), s, (-g + b, -g - b, -g / 2))
    assert misclassification(c, o, b, sigma, 1) == pytest.approx(wrong, abs=1e-8)


@pytest.mark.parametrize("k", [3, 4000])
def test_without_a_threshold_the_noise_is_gaussian(k):
    c, o, sigma = 0.3, 0.2, 0.25
    norm_w, total = math.hypot(c, o), sigma * math.hypot(c, o) * math.sqrt(k)
    found = population_gradient(c, o, 0.0, sigma, k)
    assert found.loss == pytest.approx(expect(lambda x: np.logaddexp(0, -c - x), total), abs=1e-10)
    # By Stein's lemma E[-sigmoid(-(c + S)) S] = Var(S) E[sigmoid'].
    curvature = expect(lambda x: expit(c + x) * expit(-c - x), total)
    residual = -expect(lambda x: expit(-c - x), total)
    scale = k * sigma**2 * curvature
    assert found.w_dot_wstar == pytest.approx(residual + scale * c, abs=1e-9)
    assert found.w_perp == pytest.approx(scale * o, abs=1e-9)
    # The derivative in b of a row is sign(z): condition on z, the other rows are Gaussian.
    s, rest = sigma * norm_w, sigma * norm_w * math.sqrt(k - 1)
    x = np.linspace(-12, 12, 4001) * rest
    weight = norm.pdf(x, scale=rest) * (x[1] - x[0])
    nodes, node_weights = np.polynomial.legendre.leggauss(60)
    z = 6 * s * (nodes + 1)  # 0 to 12 standard deviations
    given = [np.sum(weight * (expit(x - c - v) - expit(x - c + v))) for v in z]
    slope = -np.sum(6 * s * node_weights * norm.pdf(z, scale=s) * given)
    assert found.b == pytest.approx(residual + k * slope, rel=1e-8)
    assert misclassification(c, o, 0.0, sigma, k) == pytest.approx(norm.cdf(-c / total), abs=1e-10)


@pytest.mark.parametrize("state", STATES)
def test_the_gradient_is_that_of_the_loss(state):
    found = population_gradient(*state)[1:]
    for i, component in enumerate(found):
        step = 1e-4 * abs(state[i])
        up, down = list(state), list(state)
        up[i], down[i] = state[i] + step, state[i] - step
        difference = population_gradient(*up).loss - population_gradient(*down).loss
        assert component == pytest.approx(difference / (2 * step), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("state", STATES)
def test_loss_and_error_are_those_of_sampled_networks(state):
    c, o, b, sigma, k = state
    rng = np.random.default_rng(k)
    count = 2_000_000 // max(k, 20)
    rows = sigma * rng.standard_normal((count, k, 2)) @ np.array([c, o])
    margin = phi(c, b) + phi(rows, b).sum(axis=1)
    loss, wrong = np.logaddexp(0, -margin), margin <= 0
    found = population_gradient(*state).loss
    assert abs(loss.mean() - found) < 4.5 * loss.std() / math.sqrt(count)
    exact = misclassification(*state)
    assert abs(wrong.mean() - exact) < 4.5 * math.sqrt(exact * (1 - exact) / count) + 1e-4


def test_without_noise_only_the_signal_row_counts():
    found = population_gradient(0.5, 0.1, -0.2, 0.0, 10)
    residual = -1 / (1 + math.exp(0.3))
    assert found == pytest.approx((math.log1p(math.exp(-0.3)), residual, 0.0, residual), abs=1e-12)
    assert misclassification(0.5, 0.1, -0.2, 0.0, 10) == 0.0
    assert misclassification(0.1, 0.1, -0.2, 0.0, 10) == 1.0


def test_a_step_along_w_perp_turns_it_round_and_never_underflows():
    gradient = population_gradient(0.1, 0.2, 0.0, 0.3, 50)
    state = population_step(PopulationState(0.1, 0.2, 0.0), gradient, 1.0, 0.5)
    assert state.o == pytest.approx(abs(0.2 - gradient.w_perp))
    assert state.b == pytest.approx(-0.5 * gradient.b)
    tiny = population_step(PopulationState(0.1, 1e-200, 0.0), gradient._replace(w_perp=0.0), 1, 1)
    assert tiny.o == 0.0


def flow_of(**fields):
    given = {"d": 5, "bias_learning_rate_ratio": None, **fields}
    return flow_to_target(ml_collections.ConfigDict(given))


def test_the_flow_is_the_limit_of_small_steps_and_ends_at_the_error():
    start, k = {"k": 32, "noise_scale": 0.25, "init_scale": 1e-3}, 32
    flow, sigma = flow_of(**start, target_error=0.05, duration=1e4)
    assert flow.reached and sigma == noise_std(k, 0.25)
    end = measure(flow.states[-1], sigma, k)
    assert 1 - end["test_accuracy"] == pytest.approx(0.05, abs=1e-6)
    ends = []
    for rate in (0.02, 0.01):
        steps, rates = round(float(flow.times[-1]) / rate), (rate, rate / k)
        ends += population_trajectory(typical_start(1e-3, 5), rates, sigma, k, steps=[steps])
    for name in ("w_dot_wstar", "b", "train_loss"):
        limit = 2 * ends[1][name] - ends[0][name]  # the error is linear in the rate
        assert end[name] == pytest.approx(limit, rel=2e-3)


def test_the_flow_ends_at_its_duration_where_the_error_is_out_of_reach():
    fields = {"k": 16, "noise_scale": 1.0, "init_scale": 1e-6, "target_error": 0.01}
    flow, sigma = flow_of(**fields, duration=1e5)
    assert not flow.reached and flow.times[-1] == 1e5
    # It rests: for so few rows theorem 1 does not hold.
    gradient = population_gradient(*flow.states[-1], sigma, 16)
    assert abs(gradient.w_dot_wstar) + abs(gradient.b) < 1e-5
    assert misclassification(*flow.states[-1], sigma, 16) == pytest.approx(0.355, abs=1e-3)


@pytest.mark.parametrize("ratio", [None, 0.5])
def test_a_flow_begins_along_the_gradient_its_threshold_k_times_slower_by_default(ratio):
    k, scale = 64, 0.35
    fields = {"k": k, "d": 5, "noise_scale": scale, "init_scale": 0.2, "duration": 0.01}
    fields |= {"bias_learning_rate_ratio": ratio, "target_error": 1e-3}
    flow, sigma = flow_of(**fields)
    assert sigma == pytest.approx(scale * math.log(k) / math.sqrt(k))
    assert flow.times[-1] == 0.01 and not flow.reached
    first, last = flow.states[0], flow.states[-1]
    assert first == pytest.approx((0.2, 0.4, 0.0), rel=1e-12)
    slope = population_gradient(*first, sigma, k)
    moved = [(b - a) / 0.01 for a, b in zip(first, last, strict=True)]
    bias = slope.b * (1 / k if ratio is None else ratio)
    # To first order in the time; all three are far from 0.
    assert moved == pytest.approx([-slope.w_dot_wstar, -slope.w_perp, -bias], rel=0.05)
