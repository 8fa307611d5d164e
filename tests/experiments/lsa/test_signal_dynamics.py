import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import scipy.stats

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.lsa.signal import networks
from lsa_jax.experiments.lsa.signal.gradients import SAMPLERS, Params
from lsa_jax.experiments.lsa.signal_dynamics import experiment, settings
from lsa_jax.experiments.lsa.signal_dynamics.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.signal_dynamics.report import trajectories
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.experiments.lsa.streams import SignalDynamics
from lsa_jax.reporting import files
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.run import run_sweep
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training import course

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


def configure(**fields):
    named = {name.replace("sweep_", "sweep."): value for name, value in fields.items()}
    return set_fields(settings.default_config(), TINY | named)


def make(config):
    return make_points(config, settings.sweep(config), settings.validate)


def run(points, directory, progress=lambda fraction: None):
    return EXPERIMENT.run(points, None, directory, progress)


def same(first, second):
    """Whether two outcomes are equal to the last bit; NaN counts as equal to NaN."""
    return json.dumps(first._asdict()) == json.dumps(second._asdict())


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    points = make(configure())
    return points, run(points, tmp_path_factory.mktemp("uninterrupted"))


def test_rows_are_taken_before_the_first_step_and_after_the_last(uninterrupted):
    _, outcomes = uninterrupted
    for outcome in outcomes:
        assert outcome.status == "ok"
        assert [row["step"] for row in outcome.history] == [0, 5, 10, 12]
        assert outcome.metrics["b"] == outcome.history[-1]["b"]


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_run_is_algorithm_1_on_its_minibatches(tmp_path, sampler):
    config = configure(sampler=sampler, sweep_seed=(5, 1, 2, 3), bias_learning_rate_ratio=0.25)
    outcome = run(make(config), tmp_path)[0]
    key = jax.random.key(5)
    replica = experiment.make_replica(make(config)[0].config)
    start = experiment.init_state(config, replica).params
    w, b = np.asarray(start.w, np.float64), 0.0
    gradient_at = jax.jit(functools.partial(SAMPLERS[sampler].gradient, k=20, num_examples=16))
    for step in range(12):
        at = Params(jnp.asarray(w, jnp.float32), jnp.float32(b))
        step_key = jax.random.fold_in(jax.random.fold_in(key, SignalDynamics.TRAIN), step)
        loss, gradient = gradient_at(step_key, at, noise_std(20, 1.0))
        if step in (0, 5, 10):
            row = outcome.history[step // 5]
            found = [row[n] for n in ("w_dot_wstar", "w_perp_norm", "b", "train_loss", "grad_b")]
            wanted = [w[0], np.linalg.norm(w[1:]), b, loss, gradient.b]
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(row["grad_norm"], np.linalg.norm(gradient.w), rtol=1e-4)
            np.testing.assert_allclose(row["grad_dot_wstar"], gradient.w[0], rtol=1e-4)
        w, b = w - 0.1 * np.asarray(gradient.w), b - 0.1 * 0.25 * float(gradient.b)
    last = outcome.history[-1]
    np.testing.assert_allclose(last["ratio"], abs(b) / w[0], rtol=1e-4)


def test_the_cosine_compares_consecutive_evaluations(uninterrupted):
    for outcome in uninterrupted[1]:
        assert np.isnan(outcome.history[0]["w_perp_cosine"])
    config = configure(d=3)
    replica = experiment.make_replica(make(config)[0].config)
    at = Params(jnp.array([5.0, 1.0, 2.0]), jnp.float32(0.3))
    state = experiment.FilterState(at, jnp.int32(0), jnp.array([0.0, 2.0, 0.0]))
    look = jax.jit(functools.partial(experiment.advance, config))
    after, row = look(state, replica, jnp.int32(0))
    # Between (1, 2) now and (2, 0) before; the first entry is along w*.
    assert float(row["w_perp_cosine"]) == pytest.approx(1 / 5**0.5)
    np.testing.assert_array_equal(after.w_perp, [0.0, 1.0, 2.0])


def test_the_start_is_normal_with_the_scale_asked_for():
    config = configure(d=4000, init_scale=1e-3)
    state = experiment.init_state(config, experiment.make_replica(config))
    assert scipy.stats.kstest(np.asarray(state.params.w) / 1e-3, "norm").pvalue > 1e-4
    assert state.params.b == 0


def test_the_bias_learns_k_times_slower_by_default():
    replica = experiment.make_replica(configure(k=50, learning_rate=0.2))
    assert float(replica.bias_learning_rate) == pytest.approx(0.2 / 50)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """Outcomes of long enough runs at a small size, by sampler."""
    config = {"steps": 300, "eval_every": 300, "num_test": 500, "noise_scale": 0.7}
    return {
        sampler: run(
            make(configure(sampler=sampler, sweep_seed=tuple(range(24)), **config)),
            tmp_path_factory.mktemp(sampler),
        )
        for sampler in SAMPLERS
    }


def test_both_samplers_give_the_same_mean_trajectory(learned):
    measures = ("w_dot_wstar", "w_perp_norm", "b", "test_accuracy")
    first, second = (
        np.array([[outcome.metrics[name] for name in measures] for outcome in outcomes])
        for outcomes in learned.values()
    )
    error = np.sqrt((first.var(axis=0) + second.var(axis=0)) / len(first))
    assert (np.abs(first.mean(axis=0) - second.mean(axis=0)) < 4 * error).all()


def test_the_filter_finds_the_signal_and_thresholds_the_noise(learned):
    for outcomes in learned.values():
        for outcome in outcomes:
            last = outcome.history[-1]
            assert last["w_dot_wstar"] > 0.5 and last["w_perp_norm"] < 0.4 * last["w_dot_wstar"]
            assert last["b"] < -0.1
            assert last["test_accuracy"] > 0.65
        # Where it starts depends on the first direction: at chance on average, in two dimensions
        # far from it in some runs.
        gain = [o.history[1]["test_accuracy"] - o.history[0]["test_accuracy"] for o in outcomes]
        assert np.mean(gain) > 0.1


def test_the_accuracy_is_the_share_of_the_first_40_margins_of_pieces_of_16(uninterrupted):
    points, outcomes = uninterrupted
    draw = jax.jit(functools.partial(SAMPLERS["shortcut"].margins, k=20, num_examples=16))
    for point, outcome in zip(points, outcomes, strict=True):
        replica = experiment.make_replica(point.config)
        start = experiment.init_state(point.config, replica).params
        stream = jax.random.fold_in(jax.random.key(point.config.seed), SignalDynamics.TEST)
        key = jax.random.fold_in(stream, 0)
        pieces = [draw(jax.random.fold_in(key, i), start, noise_std(20, 1.0)) for i in range(3)]
        right = np.concatenate(pieces)[:40] > 0
        assert outcome.history[0]["test_accuracy"] == pytest.approx(right.mean())
        for row in outcome.history:
            assert 0 <= row["test_accuracy"] <= 1
            assert row["test_accuracy"] * 40 == pytest.approx(round(row["test_accuracy"] * 40))


def test_what_measuring_may_take_goes_by_all_examples_that_are_trained_on(monkeypatch):
    told = []

    def affordable(apply, one, form, marks, seen):
        told.append(seen)
        raise Killed  # nothing need be measured

    def draw(config, key, sigma):
        return Dataset(jnp.zeros((16, 20, 2)), jnp.ones(16))

    monkeypatch.setattr(course, "affordable", affordable)
    monkeypatch.setattr(experiment, "draw_examples", draw)
    fields = {"measures": ("kernel_distance",), "sampler": "plain", "population": False}
    config = configure(**fields)
    replica = experiment.make_replica(config)
    start = Params(np.ones((1, 2), np.float32), np.zeros(1, np.float32))
    with pytest.raises(Killed):
        experiment._course(config, [replica], start, [0, 5, 10, 12])
    assert told == [16 * 12]


class Killed(Exception):
    pass


def test_a_killed_run_resumes_bit_identical(tmp_path, uninterrupted):
    points, _ = uninterrupted

    def kill_in_the_middle(fraction):
        if fraction > 0.8:
            raise Killed

    with pytest.raises(Killed):
        run(points, tmp_path, kill_in_the_middle)
    resumed = []
    outcomes = run(points, tmp_path, resumed.append)
    assert resumed == [1.0]
    assert all(map(same, outcomes, uninterrupted[1]))


def test_a_run_depends_on_no_other_and_one_that_fails_stops_alone(tmp_path, uninterrupted):
    config = configure(sweep_seed=(1,), sweep_learning_rate=(0.1, 3e38, 0.2, 0.3))
    fine, failed, *others = run(make(config), tmp_path)
    assert all(other.status == "ok" for other in others)
    assert same(fine, uninterrupted[1][1])
    assert failed.status == "failed" and not failed.metrics
    assert failed.message == "the loss was not finite at step 1; lower config.learning_rate"
    assert [row["step"] for row in failed.history] == [0]


def test_no_step_is_taken_from_the_first_that_is_not_finite(monkeypatch):
    def sometimes_not_finite(key, params, sigma, *, k, num_examples):
        slope = jnp.where(jax.random.bernoulli(key, 0.2), jnp.inf, 1.0)
        return jnp.float32(0.5), Params(jnp.zeros_like(params.w), slope)

    fake = SAMPLERS["shortcut"]._replace(gradient=sometimes_not_finite)
    monkeypatch.setitem(SAMPLERS, "shortcut", fake)
    config = configure(learning_rate=0.1, bias_learning_rate_ratio=1.0)
    replica = experiment.make_replica(config)
    start = experiment.init_state(config, replica)
    state, _, _ = experiment.train_steps(config, start, replica, jnp.int32(30))

    stream = jax.random.fold_in(replica.key, SignalDynamics.TRAIN)
    steps = jax.vmap(jax.random.fold_in, (None, 0))(stream, jnp.arange(30))
    bad = np.asarray(jax.vmap(lambda key: jax.random.bernoulli(key, 0.2))(steps))
    first = int(bad.argmax())
    assert first > 0 and not bad[first:].all()  # finite ones come before and after
    assert int(state.step) == first
    assert float(state.params.b) == pytest.approx(-0.1 * first)


def test_nothing_is_computed_once_every_run_has_failed(tmp_path):
    config = configure(learning_rate=3e38, steps=1000)
    fractions = []
    outcomes = run(make(config), tmp_path, fractions.append)
    assert {outcome.status for outcome in outcomes} == {"failed"} and len(fractions) == 1


def test_points_that_share_a_program_form_a_group():
    config = configure(sweep_seed=(0, 1), sweep_noise_scale=(0.5, 1.0))
    points = make(config)
    assert EXPERIMENT.groups(points) == [points]
    larger = make(configure(k=30))
    assert EXPERIMENT.groups(points + larger) == [points, larger]


def test_a_sweep_writes_the_trajectories_and_the_figure(tmp_path):
    config = configure(sweep_seed=(0, 1), sweep_noise_scale=(0.5, 1.0))
    results = run_sweep(config, make(config), tmp_path / "out", data_dir=None, command=["test"])
    assert len(results) == 4 and (results["status"] == "ok").all()
    table = pd.read_csv(tmp_path / "out" / "trajectories.csv")
    wanted = {"step", "w_dot_wstar", "w_perp_norm", "b", "ratio", "test_accuracy"}
    assert wanted | {"seed", "noise_scale", "status"} <= set(table)
    assert len(table) == 4 * 4
    for name in ("signal_dynamics.png", "signal_dynamics.svg", "report.md"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    claims = json.loads((tmp_path / "out" / "report.json").read_text())
    assert len(claims) == 2 * 5
    row = table[(table["seed"] == 1) & (table["noise_scale"] == 0.5)].iloc[-1]
    metrics = results.set_index("id").loc["noise_scale=0.5-seed=1"]
    assert row["b"] == pytest.approx(metrics["b"])


def test_runs_without_a_sweep_have_their_seed_in_the_trajectories(tmp_path):
    files.write_run(tmp_path, "single", {"id": "single"}, [{"step": 0}, {"step": 10}])
    results = pd.DataFrame([{"id": "single", "status": "ok"}])
    table = trajectories(configure(seed=7), results, tmp_path)
    assert table.to_dict("list") == {"seed": [7, 7], "status": ["ok", "ok"], "step": [0, 10]}


def test_measures_along_the_way_are_of_the_filters_kernel_and_change_nothing(tmp_path):
    """At b = 0 the gradients are sum_i X_i in w and sum_i sign(<w, X_i>) in b."""
    names = ("kernel_distance", "target_alignment")
    fields = {"sampler": "plain", "population": False, "init_scale": 0.5}
    points = make(configure(**fields, measures=names, measured_examples=16))
    measured = run(points, tmp_path / "measured")
    plain = run(make(configure(**fields)), tmp_path / "plain")
    for one, other in zip(measured, plain, strict=True):
        rows = [{n: v for n, v in row.items() if n not in names} for row in one.history]
        assert json.dumps(rows) == json.dumps(other.history)
        assert one.metrics.items() >= other.metrics.items()
    config, outcome = points[1].config, measured[1]
    assert outcome.metrics["measured_examples"] == 16
    distances = [row["kernel_distance"] for row in outcome.history]
    assert distances[0] == pytest.approx(0, abs=1e-6) and distances[-1] > 1e-4
    replica = experiment.make_replica(config)
    key = jax.random.fold_in(replica.key, SignalDynamics.MEASURED)
    batch = networks.draw_examples(config, key, replica.sigma)
    x, y = (np.asarray(part, float) for part in batch)
    signs = np.sign(x @ np.asarray(experiment.init_state(config, replica).params.w, float))
    gradients = np.concatenate([x.sum(axis=1), signs.sum(axis=1)[:, None]], axis=1)
    centring = np.eye(16) - 1 / 16
    a, b = (centring @ k @ centring for k in (gradients @ gradients.T, np.outer(y, y)))
    alignment = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
    assert outcome.history[0]["target_alignment"] == pytest.approx(alignment, rel=1e-3)
