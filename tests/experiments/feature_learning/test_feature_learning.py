import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning.learning import exact, training
from lsa_jax.experiments.feature_learning.learning import stages as feature_stages
from lsa_jax.experiments.feature_learning.learning.experiment import EXPERIMENT
from lsa_jax.experiments.feature_learning.learning.tasks import make_task
from lsa_jax.sweep.run import run_sweep
from lsa_jax.training import make_optimizer, segments


@pytest.fixture(scope="module")
def finished(make, tmp_path_factory):
    config, points = make()
    directory = tmp_path_factory.mktemp("feature_learning") / "out"
    return directory, run_sweep(config, points, directory, data_dir=None, command=["test"])


def gradient_by_hand(params, inputs, targets, weights):
    """The hinge loss's gradient in float64, from the formulas of the paper."""
    w, b, a = (np.asarray(params[n], np.float64) for n in "wba")
    z = inputs @ w + b
    neurons = np.clip(z, 0, 1)
    force = -(weights * targets * (1 - targets * (neurons @ a) > 0))[:, None] / len(targets)
    through = force * a * ((z > 0) & (z < 1))
    return {"w": inputs.T @ through, "b": through.sum(axis=0), "a": (force * neurons).sum(axis=0)}


@pytest.fixture(scope="module")
def stages(make):
    config = make(leftover=0.0, first_rate=1e-3, second_rate=2.0)[1][0].config
    made = feature_stages.make_replica(config, make_task(config))
    replica = jax.tree.map(jnp.asarray, made)
    params = jax.jit(functools.partial(feature_stages.first_stages, config))(replica)
    return config, replica, [stage[0] for stage in params]


def test_the_first_steps_are_gradient_steps_that_forget(stages):
    _, replica, (zero, first, second) = stages
    inputs, y = (np.asarray(part, np.float64) for part in replica.train)
    weights = 0.5 / np.where(y > 0, (y > 0).mean(), (y < 0).mean())
    one = gradient_by_hand(zero, inputs, y, weights)
    np.testing.assert_allclose(first["w"], -1e-3 * one["w"], rtol=1e-3, atol=1e-9)
    for name in "ba":
        expected = zero[name] - 1e-3 * one[name]
        np.testing.assert_allclose(first[name], expected, rtol=1e-5, atol=1e-6)
    two = gradient_by_hand(first, inputs, y, weights)
    np.testing.assert_allclose(second["w"], -2 * two["w"], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(second["a"], -2 * two["a"], rtol=1e-3, atol=1e-6)


def test_training_in_pattern_space_is_training_in_input_space(stages):
    config, replica, (_, _, params) = stages
    matrix = np.linalg.qr(np.random.default_rng(0).normal(size=(12, 8)))[0].astype(np.float32)
    outside = replica._replace(
        train=Dataset(replica.train.inputs @ matrix.T, replica.train.targets),
        test=Dataset(replica.test.inputs @ matrix.T, replica.test.targets),
        direction=matrix @ replica.direction,
    )
    rule = make_optimizer("momentum", replica.rate, momentum=config.momentum)
    ends = []
    for space, w in ((replica, params["w"]), (outside, matrix @ params["w"])):
        start = dict(params, w=w)
        state = training.LearnerState(start, rule.init(start), jnp.int32(2), jnp.float32(0))
        advance = jax.jit(functools.partial(training.advance, config, 3))
        ends.append(advance(state, space, jnp.int32(3)))
    (inside_end, row), (outside_end, row_outside) = ends
    assert int(inside_end.step) == 5 and np.abs(inside_end.params["w"] - params["w"]).max() > 0
    np.testing.assert_allclose(
        matrix.T @ outside_end.params["w"], inside_end.params["w"], rtol=1e-4, atol=1e-5
    )
    assert row["test_accuracy"] == row_outside["test_accuracy"]


def test_later_updates_weigh_both_classes_alike_if_asked(stages):
    config, replica, (_, _, params) = stages
    inputs, targets = replica.train.inputs[:20], jnp.repeat(jnp.array([1.0, -1.0]), 10)
    targets = targets.at[10:15].set(1.0)
    replica = replica._replace(train=Dataset(inputs, targets))
    rule = make_optimizer("momentum", replica.rate, momentum=config.momentum)
    state = training.LearnerState(params, rule.init(params), jnp.int32(2), jnp.float32(0))
    for asked, positive, negative in (("first_steps", 1.0, 1.0), ("all_steps", 2 / 3, 2.0)):
        config.class_weights = asked  # of one batch: all 20 examples
        after, _ = training.advance(config, 1, state, replica, jnp.int32(1))
        weights = np.repeat([positive, negative], [15, 5])
        expected = gradient_by_hand(params, *(np.asarray(a) for a in (inputs, targets, weights)))
        moved = np.asarray(params["a"] - after.params["a"]) / config.rate
        np.testing.assert_allclose(moved, expected["a"], rtol=1e-3, atol=1e-6)


def test_every_epoch_visits_every_example_once(key):
    draw = jax.jit(training.batch_rows, static_argnums=(2, 3, 4))
    rows = draw(key, jnp.int32(0), 6, 12, 4)
    for epoch in (rows[:3], rows[3:]):
        assert sorted(np.ravel(epoch)) == list(range(12))
    for first in (2, 4):  # within an epoch, the first one and a later one
        later = draw(key, jnp.int32(first), 6, 12, 4)
        np.testing.assert_array_equal(later[: 6 - first], rows[first:])


def test_cosines_survive_tiny_weights():
    weights = 1e-25 * jnp.array([[1.0, 0.0], [0.0, 0.0]])
    idle = 1e-25 * jnp.array([[1.0, 0.0]])
    found = jax.jit(training.cosines)(weights, idle, jnp.array([1.0, 0.0]))
    np.testing.assert_allclose(found, [0.5**0.5, 0.0], rtol=1e-5)


def test_a_run_goes_on_after_a_kill_with_the_same_numbers(make, finished, tmp_path, monkeypatch):
    _, points = make()
    save = segments.checkpoints.save

    def killed(directory, step, tree):
        save(directory, step, tree)
        if step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(segments.checkpoints, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        EXPERIMENT.run(points, None, tmp_path, lambda fraction: None)
    monkeypatch.undo()
    outcomes = EXPERIMENT.run(points, None, tmp_path, lambda fraction: None)
    for name in ("test_accuracy", "batch_loss", "cosine", "kernel_distance"):
        assert [o.metrics[name] for o in outcomes] == list(finished[1][name])


def test_a_sweep_writes_the_table_the_curves_and_the_pictures(finished):
    directory, results = finished
    assert (results["status"] == "ok").all() and len(results) == 2
    for name in ("curves.png", "weights.svg", "weights.csv", "report.md", "measures.png"):
        assert (directory / name).stat().st_size > 0
    assert (results["kernel_distance"] > 0).all() and (results["weight_movement/w"] > 0).all()
    assert "Measures are taken on 16 training examples" in (directory / "report.md").read_text()
    claims = json.loads((directory / "report.json").read_text())
    agreement = [c for c in claims if "Network, within" in c["item"]]
    # Twenty test examples decide nothing.
    assert [c["status"] for c in agreement][0] in ("condition not met", "measured")
    pictures = pd.read_csv(directory / "weights.csv")
    assert set(pictures["picture"]) == {0, 1, 2}
    assert (pictures["kind"] == "mark").sum() == 3 * 2


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"data__k": 4}, "config.data.k is 4; accepted with parity labels: odd numbers"),
        ({"batch_size": 7}, "config.batch_size is 7; accepted: divisors"),
        ({"data__d": 4}, "config.data.num_patterns is 8; accepted for an orthonormal"),
    ],
)
def test_settings_that_do_not_fit_are_named(make, fields, message):
    with pytest.raises(InputError, match=message):
        make(**fields)


def test_the_best_linear_model_is_that_of_the_normal_equations_at_any_scale_of_the_features():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(40, 3))
    # Features that differ by 1e-6 of themselves, two of them alike: float32 cannot fit these.
    features = 0.3 + 1e-6 * np.concatenate([inputs, inputs[:, :1], np.zeros((40, 1))], axis=1)
    weights = generator.uniform(0.5, 2, size=40)
    targets = np.sign(inputs @ [1.0, -2.0, 0.5] + 0.3)
    found = features @ exact.least_squares(features, targets, weights)
    design = np.concatenate([inputs, np.ones((40, 1))], axis=1)  # spans the same
    normal = design.T * weights
    wanted = design @ np.linalg.solve(normal @ design, normal @ targets)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_of_all_best_linear_models_the_least_one_is_taken():
    for seed in range(30):
        generator = np.random.default_rng(seed)
        # Eight features that are sums of three: what rounding leaves of the others grows with n.
        sources, sums = generator.normal(size=(2000, 3)), generator.normal(size=(3, 8))
        targets = generator.normal(size=2000)
        found = exact.least_squares(sources @ sums, targets, np.ones(2000))
        best = np.linalg.solve(sources.T @ sources, sources.T @ targets)
        wanted = sums.T @ np.linalg.solve(sums @ sums.T, best)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("learner", ["one_step_exact", "two_step_exact"])
def test_an_exact_model_s_features_are_those_of_the_step_it_is_named_after(make, learner):
    config, points = make(
        sweep__learner=(learner,), sweep__first_rate=(10.0,), m=3, data__num_train=300
    )
    others = [(1e-6, 0.0)] * 2 + [(10.0, 0.045)] * 2 + [(10.0, 0.0)] * 2
    assert [(point.config.first_rate, point.config.leftover) for point in points] == [
        *[(1e-6, 0.045)] * 2,
        *(others if learner == "one_step_exact" else []),
    ]
    point = points[-1].config
    found, task = exact.fit(point), make_task(point)
    replica = jax.tree.map(jnp.asarray, feature_stages.make_replica(point, task))
    params, _ = feature_stages.first_stages(point, replica)[exact.EXACT[learner]]
    values = [
        np.clip(np.float64(split.inputs) @ np.float64(params["w"]) + np.float64(params["b"]), 0, 1)
        for split in (task.train, task.test)
    ]
    model = np.linalg.pinv(values[0]) @ task.train.targets
    wanted = np.mean((values[1] @ model > 0) == (task.test.targets > 0))
    assert found["test_accuracy"] == pytest.approx(wanted)
    best = params["w"].T @ task.direction / np.linalg.norm(params["w"], axis=0)
    if point.leftover == 0 or learner == "two_step_exact":
        assert found["cosine"] == pytest.approx(np.nanmax(best), abs=1e-5)
    seen = np.float64(task.train.inputs) @ np.float64(params["w"])
    assert found["feature_size"] == pytest.approx(np.sqrt(np.mean(seen**2)))
