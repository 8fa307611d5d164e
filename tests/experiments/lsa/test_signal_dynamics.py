"""Training dynamics: Algorithm 1 on its minibatches, claims and the population's course."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from small_sweeps import maker

from lsa_jax.experiments.lsa.signal import networks
from lsa_jax.experiments.lsa.signal.networks import Params
from lsa_jax.experiments.lsa.signal.population import (
    population_gradient,
    population_trajectory,
    typical_start,
)
from lsa_jax.experiments.lsa.signal_dynamics import experiment
from lsa_jax.experiments.lsa.signal_dynamics.experiment import EXPERIMENT, SignalDynamics
from lsa_jax.experiments.lsa.signal_dynamics.settings import SETTINGS
from lsa_jax.experiments.lsa.sparse_signal import noise_std

SAMPLERS = ("shortcut", "plain")
# As many runs everywhere as in TINY: the same program, compiled once.
TINY = {
    "k": 20,
    "d": 2,
    "batch_size": 16,
    "steps": 12,
    "eval_every": 5,
    "num_test": 40,
    "checkpoint_every": 1,
    "sweep.seed": (0, 1, 2, 3),
}


make = maker(SETTINGS, TINY)


def run(points, directory, progress=lambda fraction: None):
    return EXPERIMENT.run(points, None, directory, progress)


def same(first, second):
    """Whether two outcomes are equal to the last bit; NaN counts as equal to NaN."""
    return json.dumps(first._asdict()) == json.dumps(second._asdict())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    points = make()[1]
    return points, run(points, tmp_path_factory.mktemp("uninterrupted"))


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_run_is_algorithm_1_on_its_minibatches(tmp_path, sampler):
    points = make(sampler=sampler, sweep__seed=(5, 1, 2, 3), bias_learning_rate_ratio=0.25)[1]
    outcome, config, key = run(points, tmp_path)[0], points[0].config, jax.random.key(5)
    assert outcome.status == "ok" and [row["step"] for row in outcome.history] == [0, 5, 10, 12]
    draws = networks.make_sampler(config)
    gradient_at, margins_at = jax.jit(draws.gradient), jax.jit(draws.margins)
    sigma, stream = jnp.float32(noise_std(20, 1.0)), jax.random.fold_in(key, SignalDynamics.TRAIN)
    start = experiment.init_state(config, experiment.make_replica(config)).params
    w, b = np.asarray(start.w, np.float64), 0.0
    for step in range(12):
        at = Params(jnp.asarray(w, jnp.float32), jnp.float32(b))
        loss, gradient = gradient_at(jax.random.fold_in(stream, step), at, sigma)
        if step in (0, 5, 10):
            row = outcome.history[step // 5]
            found = [row[n] for n in ("w_dot_wstar", "w_perp_norm", "b", "train_loss", "grad_b")]
            wanted = [w[0], np.linalg.norm(w[1:]), b, loss, gradient.b]
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(row["grad_norm"], np.linalg.norm(gradient.w), rtol=1e-4)
            np.testing.assert_allclose(row["grad_dot_wstar"], gradient.w[0], rtol=1e-4)
        if step == 0:  # the first 40 margins of pieces of 16
            of_test = jax.random.fold_in(jax.random.fold_in(key, SignalDynamics.TEST), 0)
            pieces = [margins_at(jax.random.fold_in(of_test, i), at, sigma) for i in range(3)]
            right = np.concatenate(pieces)[:40] > 0
            assert outcome.history[0]["test_accuracy"] == pytest.approx(right.mean())
        w, b = w - 0.1 * np.asarray(gradient.w), b - 0.1 * 0.25 * float(gradient.b)
    assert outcome.history[-1]["ratio"] == pytest.approx(abs(b) / w[0], rel=1e-4)
    assert outcome.metrics["b"] == outcome.history[-1]["b"]


def test_the_start_is_normal_and_the_bias_learns_k_times_slower_by_default():
    config = make(d=4000, k=50, init_scale=1e-3, learning_rate=0.2)[0]
    replica = experiment.make_replica(config)
    state = experiment.init_state(config, replica)
    assert scipy.stats.kstest(np.asarray(state.params.w) / 1e-3, "norm").pvalue > 1e-4
    assert state.params.b == 0
    assert float(replica.bias_learning_rate) == pytest.approx(0.2 / 50)
    assert float(replica.sigma) == pytest.approx(noise_std(50, 1.0))


def test_a_run_depends_on_no_other_and_one_that_fails_stops_alone(tmp_path, uninterrupted):
    points = make(sweep__seed=(1,), sweep__learning_rate=(0.1, 3e38, 0.2, 0.3))[1]
    fine, failed, *others = run(points, tmp_path)
    assert all(other.status == "ok" for other in others)
    assert same(fine, uninterrupted[1][1])
    assert failed.status == "failed" and not failed.metrics
    assert failed.message.startswith("the loss was not finite at step 1")
    assert [row["step"] for row in failed.history] == [0]
    fractions = []
    all_fail = run(make(learning_rate=3e38, steps=1000)[1], tmp_path / "all", fractions.append)
    assert {outcome.status for outcome in all_fail} == {"failed"} and len(fractions) == 1


def test_measures_along_the_way_begin_at_zero_and_change_nothing(tmp_path):
    fields = {"sampler": "plain", "population": False, "init_scale": 0.5}
    points = make(**fields, measures=("kernel_distance",), measured_examples=16)[1]
    measured, plain = run(points, tmp_path / "measured"), run(make(**fields)[1], tmp_path / "plain")
    for one, other in zip(measured, plain, strict=True):
        distances = [row.pop("kernel_distance") for row in one.history]
        assert json.dumps(one.history) == json.dumps(other.history)
        assert one.metrics.items() >= other.metrics.items()
        assert distances[0] == pytest.approx(0, abs=1e-6) and distances[-1] > 1e-4
        assert one.metrics["measured_examples"] == 16


@pytest.mark.parametrize(("ratio", "times"), [(None, 1 / 20), (0.25, 0.25)])
def test_the_population_is_followed_at_the_rates_noise_and_steps_of_the_runs(ratio, times):
    config = make(bias_learning_rate_ratio=ratio, steps=3, eval_every=2, d=5)[0]
    sweep = pd.DataFrame({"seed": [0, 1, 0], "learning_rate": [0.1, 0.1, 0.3]})
    table = experiment.population(config, sweep)
    assert table["step"].tolist() == [0, 2, 3] * 2
    sigma, start = noise_std(20, 1.0), typical_start(config.init_scale, 5)
    for rate, rows in table.groupby("learning_rate"):
        wanted = population_trajectory(start, (rate, rate * times), sigma, 20, steps=[0, 2, 3])
        for name in ("w_dot_wstar", "w_perp_norm", "b"):
            assert rows[name].tolist() == pytest.approx([row[name] for row in wanted], rel=1e-12)
    at = population_gradient(*start, sigma, 20)
    (_, first) = population_trajectory(start, (0.1, 0.1 * times), sigma, 20, steps=[0, 1])
    assert first["b"] == pytest.approx(-0.1 * times * at.b, rel=1e-9)
    assert experiment.population(make(population=False)[0], sweep).empty
