"""A seed's problem, its network's start, updates and measures in plain numpy, and a sweep."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from small_sweeps import maker, swept

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning import learners, settings
from lsa_jax.experiments.feature_learning.learning.experiment import EXPERIMENT
from lsa_jax.experiments.feature_learning.learning.settings import SETTINGS
from lsa_jax.experiments.feature_learning.learning.tasks import Learning, make_law, make_task
from lsa_jax.reporting import outcomes
from lsa_jax.training import make_optimizer

TINY = {
    "paper_item": "feature_learning/table1",
    "data.d": 12,
    "data.num_patterns": 8,
    "data.k": 3,
    "data.num_train": 60,
    "data.num_test": 20,
    "m": 6,
    "batch_size": 20,
    "steps": 8,
    "eval_every": 3,
    "checkpoint_every": 1,
    "measures": ("kernel_distance", "weight_movement"),
    "measured_examples": 16,
    "sweep.learner": ("network",),
    "sweep.unstructured_learner": (),
    "sweep.seed": (0, 1),
    "sweep.ntk_rate": (),
    "sweep.random_features_rate": (),
}

make = maker(SETTINGS, TINY)


def configured(**fields):
    return make(**fields)[1][0].config


def test_patterns_are_as_likely_as_the_mixture_says():
    p0, share, count = 0.6, 0.3, 20_000
    config = configured(data__p0=p0, data__ones_share=share, data__probability_spread=0.35)
    law = make_law(config, structured=True)
    alone = 0.5 + 0.35 * np.arange(8) / 7  # in the first part
    expected = p0 * alone + (1 - p0) * p0 / (2 - 2 * p0)
    expected[law.relevant] = p0 * alone[law.relevant] + (1 - p0) * share
    drawn, _ = law.draw(jax.random.key(0), count)
    np.testing.assert_allclose(np.mean(drawn, axis=0), expected, atol=5 * 0.5 / count**0.5)
    coins, _ = make_law(config, structured=False).draw(jax.random.key(0), count)
    np.testing.assert_allclose(np.mean(coins, axis=0), 0.5, atol=5 * 0.5 / count**0.5)


@pytest.mark.parametrize("spread", [0.0, 0.4])
def test_inputs_are_patterns_less_their_mean_over_their_scale_and_the_truth_lies_on_the_relevant(
    spread,
):
    config = configured(data__probability_spread=spread, data__num_train=400)
    task, relevant = make_task(config), make_law(config, structured=True).relevant
    inputs, y = (np.asarray(part, np.float64) for part in task.train)
    np.testing.assert_allclose(inputs.mean(axis=0), 0, atol=1e-6)
    assert np.square(inputs).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)
    values = [np.unique(column.round(5)) for column in inputs.T]
    # Two values a pattern, there and not there.
    np.testing.assert_allclose([np.diff(two) for two in values], 1 / task.scale, rtol=1e-4)
    phi = inputs * task.scale
    gammas = (phi * (y - y.mean())[:, None]).mean(axis=0)[relevant]
    assert task.gamma == pytest.approx(np.abs(gammas).mean(), rel=1e-4)
    truth = np.zeros(8)
    truth[relevant] = 1 / 3**0.5 if spread == 0 else gammas / np.linalg.norm(gammas)
    np.testing.assert_allclose(task.direction, truth, atol=1e-5)
    # Test inputs are moved and scaled as those of training.
    test = np.asarray(task.test.inputs)
    assert len(test) == 20
    for column, two in zip(test.T, values, strict=True):
        assert np.abs(column[:, None] - two[None]).min(axis=1).max() < 1e-4


@pytest.fixture(scope="module", params=["none", "first_steps"])
def replica(request):
    """Returns a configuration and its replica, whose classes are of different size."""
    fields = {"leftover": 0.5, "first_rate": 1e-2, "smoothing": 0.3, "feature_scale": 0.7}
    config = configured(**fields, data__ones_share=0.2, class_weights=request.param)
    return config, jax.tree.map(jnp.asarray, learners.make_replica(config, make_task(config)))


def test_the_network_is_drawn_at_the_scale_of_the_theory():
    config = configured(m=4000, bias_std=0.7)
    task = make_task(config)
    drawn = learners.make_replica(config, task)
    assert float(drawn.output_std) == pytest.approx(task.scale**2 / (task.gamma * 9))
    assert float(drawn.rate) == pytest.approx(config.rate)
    params, idle = jax.jit(functools.partial(learners.initial_params, config))(drawn)
    assert params["w"].shape == (8, 8000) and idle.shape == (4, 8000)
    sizes = {"w": 3**-0.5, "b": 0.7, "a": float(drawn.output_std)}
    for name, size in sizes.items():
        assert np.std(params[name]) == pytest.approx(size, rel=0.06)  # of 4,000 draws
    assert np.std(idle) == pytest.approx(3**-0.5, rel=0.06)
    own = configured(output_std=0.3)
    assert float(learners.make_replica(own, task).output_std) == pytest.approx(0.3)
    memory = configured(sweep__learner=("memorise",), memorise__output_std=0.2)
    found = learners.make_replica(memory, task)
    assert float(found.output_std) == pytest.approx(0.2)
    assert float(found.rate) == pytest.approx(memory.memorise.rate)


def smoothed_gradient(params, inputs, y, weights, std):
    """The hinge loss's gradient where a neuron is its mean over noise, in float64."""
    w, b, a = (np.asarray(params[name], np.float64) for name in "wba")
    z, cdf, pdf = inputs @ w + b, scipy.stats.norm.cdf, scipy.stats.norm.pdf

    def relu(z):
        return z * cdf(z / std) + std * pdf(z / std)

    neurons, slope = relu(z) - relu(z - 1), cdf(z / std) - cdf((z - 1) / std)
    force = -(weights * y * (1 - y * (neurons @ a) > 0))[:, None] / len(y)
    through = force * a * slope
    return {"w": inputs.T @ through, "b": through.sum(axis=0), "a": (force * neurons).sum(axis=0)}


def test_first_steps_smooth_their_neurons_and_keep_what_is_left_over(replica):
    config, own = replica
    found = jax.jit(functools.partial(learners.first_stages, config))(own)
    (start, _), (first, kept), (second, none) = found
    inputs, y = (np.asarray(part, np.float64) for part in own.train)
    weights, positive = np.ones(len(y)), (y > 0).mean()
    if config.class_weights == "first_steps":
        weights = 0.5 / np.where(y > 0, positive, 1 - positive)
    assert abs(positive - 0.5) > 0.05
    one = smoothed_gradient(start, inputs, y, weights, 0.3)
    assert float(kept) == pytest.approx(0.5 * 1e-2) and float(none) == 0
    expected = 0.005 * np.asarray(start["w"]) - 1e-2 * one["w"]
    np.testing.assert_allclose(first["w"], expected, rtol=1e-3, atol=1e-7)
    np.testing.assert_allclose(first["a"], start["a"] - 1e-2 * one["a"], rtol=1e-5, atol=1e-6)
    # The rate of the second step is such that neurons which move see inputs at this scale.
    two = smoothed_gradient(first, inputs, y, weights, 0.3)
    seen = np.mean(np.square(inputs @ np.asarray(second["w"], np.float64)), axis=0)
    assert np.sqrt(seen[seen > 0].mean()) == pytest.approx(0.7, rel=1e-4)
    rate = -np.asarray(second["w"], np.float64).ravel() @ two["w"].ravel()
    rate /= np.square(two["w"]).sum()
    np.testing.assert_allclose(second["w"], -rate * two["w"], rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(second["a"], -rate * two["a"], rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(second["b"], first["b"] - rate * two["b"], rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("idle_size", [0, 2])
@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e20])
def test_cosines_are_those_of_all_coordinates_at_any_scale(scale, idle_size):
    generator = np.random.default_rng(0)
    # Of different lengths, and one that is zero.
    rows = generator.normal(size=(3 + idle_size, 6)) * [1, 3, 1e-3, 0.2, 0, 5]
    direction = np.array([0.6, 0, -0.8])
    lengths = np.linalg.norm(rows, axis=0)
    expected = direction @ rows[:3] / np.where(lengths > 0, lengths, 1)
    weights, idle = jnp.float32(scale * rows[:3]), jnp.float32(scale * rows[3:])
    found = jax.jit(learners.cosines)(weights, idle, jnp.float32(direction))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_accuracies_are_counted_on_all_examples_in_pieces_and_by_class():
    config = configured(data__num_test=30, data__ones_share=0.9)
    task = make_task(config)
    own = jax.tree.map(jnp.asarray, learners.make_replica(config, task))
    start = jax.jit(functools.partial(learners.start_states, config))(own)
    state = jax.tree.map(lambda leaf: leaf[2], start)
    w, b, a = (np.asarray(state.params[name], np.float64) for name in "wba")
    inputs, y = (np.asarray(part, np.float64) for part in task.test)
    right = (np.clip(inputs @ w + b, 0, 1) @ a) * y > 0
    found = jax.jit(functools.partial(learners.measure, config))(state, own)
    assert float(found["test_accuracy"]) == pytest.approx(right.mean())
    balanced = (right[y > 0].mean() + right[y < 0].mean()) / 2
    assert float(found["test_balanced_accuracy"]) == pytest.approx(balanced) != right.mean()
    np.testing.assert_array_equal(learners.results_on_test(config, state, own), right)
    inputs, y = (np.asarray(part[:30], np.float64) for part in task.train)
    known = (np.clip(inputs @ w + b, 0, 1) @ a) * y > 0
    assert float(found["train_accuracy"]) == pytest.approx(known.mean())


def test_memorising_is_adam_with_a_cosine_to_zero():
    config = configured(sweep__learner=("memorise",), memorise__epochs=2)
    own = jax.tree.map(jnp.asarray, learners.make_replica(config, make_task(config)))
    rule, params = learners._optimizer(config, own), {"a": jnp.float32(0.0)}
    state, moved = rule.init(params), []
    for _ in range(6):  # three steps an epoch; all gradients alike, so that Adam moves by its rate
        updates, state = rule.update({"a": jnp.float32(2.0)}, state, params)
        moved.append(-float(updates["a"]))
    expected = config.memorise.rate * (1 + np.cos(np.pi * np.arange(6) / 6)) / 2
    np.testing.assert_allclose(moved, expected, rtol=1e-4)
    assert learners.total_steps(config) == 6


@pytest.mark.parametrize(
    ("learner", "steps"),
    [
        ("network", [0, 1, 2]),
        ("one_step", [1]),
        ("two_step", [2]),
        ("random_features", [0]),
        ("memorise", [0]),
        ("ntk", [0]),
    ],
)
def test_a_learner_starts_at_its_stage_with_a_state_of_its_trained_parameters(learner, steps):
    config = configured(sweep__learner=(learner,), leftover=0.0)
    own = jax.tree.map(jnp.asarray, learners.make_replica(config, make_task(config)))
    stages = jax.jit(functools.partial(learners.first_stages, config))(own)
    found = jax.jit(functools.partial(learners.start_states, config))(own)
    assert found.step.tolist() == steps
    at = found.params
    if learner == "ntk":
        np.testing.assert_array_equal(at["initial"]["w"], at["weights"]["w"])
        at = at["weights"]
    elif learner not in ("network", "memorise"):
        assert not at["a"].any()  # a linear model on features starts at nothing
    for place, step in enumerate(steps):
        params, left = stages[step]
        assert float(found.idle_scale[place]) == float(left)
        for name in "wb":
            np.testing.assert_allclose(at[name][place], params[name], rtol=1e-4, atol=1e-7)
    # Momentum is an array a trained parameter, Adam's moments are two.
    kept = [leaf for leaf in jax.tree.leaves(found.opt_state) if leaf.ndim > 1]
    expected = {"network": 3, "ntk": 3, "memorise": 6}
    assert len(kept) == expected.get(learner, 1)


def test_a_step_whose_loss_is_not_finite_is_not_taken_nor_any_after_it():
    config = configured(sweep__learner=("random_features",), rate=1e-3)
    own = jax.tree.map(jnp.asarray, learners.make_replica(config, make_task(config)))
    start = jax.jit(functools.partial(learners.start_states, config))(own)
    state = jax.tree.map(lambda leaf: leaf[0], start)
    rows = learners.batch_rows(jax.random.fold_in(own.key, Learning.ORDER), jnp.int32(0), 3, 60, 20)
    hurt = own.train.targets.at[rows[1, 3]].set(jnp.nan)  # one example of the second batch
    step = jax.jit(functools.partial(learners.advance, config, 3))
    after, row = step(state, own._replace(train=Dataset(own.train.inputs, hurt)), jnp.int32(3))
    one, _ = step(state, own, jnp.int32(1))
    assert int(after.step) == int(one.step) == 1
    np.testing.assert_allclose(after.params["a"], one.params["a"], rtol=1e-6)
    assert np.abs(one.params["a"]).max() > 0 and 0 < row["test_accuracy"] < 1


@pytest.fixture(scope="module")
def two_steps():
    """Returns a configuration, its replica and the parameters after two steps."""
    config = configured(leftover=0.0, first_rate=1e-3, second_rate=2.0)
    replica = jax.tree.map(jnp.asarray, learners.make_replica(config, make_task(config)))
    stages = jax.jit(functools.partial(learners.first_stages, config))(replica)
    return config, replica, stages[2][0]


def test_later_updates_weigh_both_classes_alike_if_asked(two_steps):
    config, replica, params = two_steps
    inputs, targets = replica.train.inputs[:20], jnp.repeat(jnp.array([1.0, -1.0]), 10)
    targets = targets.at[10:15].set(1.0)
    replica = replica._replace(train=Dataset(inputs, targets))
    rule = make_optimizer("momentum", replica.rate, momentum=config.momentum)
    state = learners.LearnerState(params, rule.init(params), jnp.int32(2), jnp.float32(0))
    for asked, positive, negative in (("first_steps", 1.0, 1.0), ("all_steps", 2 / 3, 2.0)):
        config.class_weights = asked  # of one batch: all 20 examples
        after, _ = learners.advance(config, 1, state, replica, jnp.int32(1))
        weights = np.repeat([positive, negative], [15, 5])
        arrays = (np.asarray(a, np.float64) for a in (inputs, targets, weights))
        expected = smoothed_gradient(params, *arrays, 1e-9)
        moved = np.asarray(params["a"] - after.params["a"]) / config.rate
        np.testing.assert_allclose(moved, expected["a"], rtol=1e-3, atol=1e-6)


def test_every_epoch_visits_every_example_once(key):
    draw = jax.jit(learners.batch_rows, static_argnums=(2, 3, 4))
    rows = draw(key, jnp.int32(0), 6, 12, 4)
    for epoch in (rows[:3], rows[3:]):
        assert sorted(np.ravel(epoch)) == list(range(12))
    for first in (2, 4):  # within an epoch, the first one and a later one
        later = draw(key, jnp.int32(first), 6, 12, 4)
        np.testing.assert_array_equal(later[: 6 - first], rows[first:])


def test_the_best_linear_model_is_that_of_the_normal_equations_at_any_scale_of_the_features():
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(40, 3))
    # Features that differ by 1e-6 of themselves, two of them alike: float32 cannot fit these.
    features = 0.3 + 1e-6 * np.concatenate([inputs, inputs[:, :1], np.zeros((40, 1))], axis=1)
    weights = generator.uniform(0.5, 2, size=40)
    targets = np.sign(inputs @ [1.0, -2.0, 0.5] + 0.3)
    found = features @ learners.least_squares(features, targets, weights)
    design = np.concatenate([inputs, np.ones((40, 1))], axis=1)  # spans the same
    normal = design.T * weights
    wanted = design @ np.linalg.solve(normal @ design, normal @ targets)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.parametrize(
    ("learner", "weights"), [("one_step_exact", "none"), ("two_step_exact", "all_steps")]
)
def test_the_best_linear_model_is_that_on_features_of_its_step(learner, weights, monkeypatch):
    fields = {"data__num_test": 30, "data__ones_share": 0.9, "data__num_train": 300, "m": 3}
    fields |= {"first_rate": 10.0, "leftover": 0.0, "class_weights": weights}
    config = configured(sweep__learner=(learner,), **fields)
    monkeypatch.setattr(learners, "FEW_EXAMPLES", 7)
    outcome, task = learners.fit_exactly(config), make_task(config)
    replica = jax.tree.map(jnp.asarray, learners.make_replica(config, task))
    params, _ = learners.first_stages(config, replica)[learners.EXACT[learner]]
    w, b = (np.asarray(params[name], np.float64) for name in "wb")
    train, test = (np.clip(np.float64(p.inputs) @ w + b, 0, 1) for p in (task.train, task.test))
    y, labels = (np.asarray(part.targets, np.float64) for part in (task.train, task.test))
    share = np.where(y > 0, (y > 0).mean(), (y < 0).mean())
    root = np.sqrt(0.5 / share if weights == "all_steps" else np.ones(len(y)))
    model = np.linalg.pinv(train * root[:, None]) @ (y * root)
    right = (test @ model > 0) == (labels > 0)
    norms = np.linalg.norm(w, axis=0)
    np.testing.assert_array_equal(outcome.outcomes.values, right)
    expected = {
        "test_accuracy": right.mean(),
        "test_first_accuracy": right[:7].mean(),
        "test_balanced_accuracy": (right[labels > 0].mean() + right[labels < 0].mean()) / 2,
        "train_accuracy": ((train[:30] @ model > 0) == (y[:30] > 0)).mean(),
        "feature_size": np.sqrt(np.mean((np.float64(task.train.inputs) @ w) ** 2)),
        "cosine": np.max(task.direction @ w / np.where(norms > 0, norms, 1)),
    }
    assert {name: outcome.metrics[name] for name in expected} == pytest.approx(expected, abs=1e-5)
    assert [row["step"] for row in outcome.history] == [learners.EXACT[learner]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config, points = make(
        sweep__learner=("network", "ntk", "one_step_exact"),
        sweep__unstructured_learner=("memorise",),
        sweep__first_rate=(),
        sweep__leftover=(),
        memorise__epochs=2,
    )
    folder = tmp_path_factory.mktemp("learning") / "out"
    return points, folder, swept(config, points, folder)


def test_runs_of_a_seed_keep_outcomes_on_its_test_set_and_have_its_settings(finished):
    points, folder, results = finished
    assert (results["status"] == "ok").all() and len(results) == 8
    kept = outcomes.read(folder, results["id"])
    for point, row in zip(points, results.to_dict("records"), strict=True):
        assert kept[point.id].values.mean() == pytest.approx(row["test_accuracy"])
        assert settings.described(point.config).items() <= row.items()
    structured = results[results["structured"]]
    tests = [{kept[run].test for run in own["id"]} for _, own in structured.groupby("seed")]
    assert [len(names) for names in tests] == [1, 1] and tests[0] != tests[1]


def test_runs_whose_loss_is_not_finite_have_failed_where_they_stopped(tmp_path, monkeypatch):
    points = make(measures=(), pictures=False)[1]
    monkeypatch.setattr(learners, "hinge", lambda outputs, targets: np.nan * targets)
    for found in EXPERIMENT.run(points, None, tmp_path, lambda fraction: None):
        assert found.status == "failed" and found.outcomes is None
        assert [row["step"] for row in found.history] == [0, 1, 2]  # after the first steps
