"""What a seed draws, how its network starts and what is measured of it, against plain numpy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.learning import exact, stages, training
from lsa_jax.experiments.feature_learning.learning.tasks import make_law, make_task


def configured(make, **fields):
    return make(**fields)[1][0].config


def test_labels_are_one_where_the_relevant_patterns_are_as_many_as_the_interval_says(make):
    config = configured(make, data__labels="interval", data__interval=(1, 2))
    law = make_law(config, structured=True)
    counts = np.arange(4)
    phi = np.ones((4, 8), np.float32)
    phi[:, law.relevant] = np.arange(3)[None] < counts[:, None]
    assert law.label(phi).tolist() == [-1, 1, 1, -1]
    drawn, labels = law.draw(jax.random.key(0), 20_000)
    np.testing.assert_array_equal(labels, law.label(drawn))
    chances = np.full(8, 0.5)
    chances[law.relevant] = 2 / 3
    np.testing.assert_allclose(np.mean(drawn, axis=0), chances, atol=5 * 0.5 / 20_000**0.5)


def test_patterns_are_as_likely_as_the_mixture_says(make):
    p0, share, count = 0.6, 0.3, 20_000
    config = configured(make, data__p0=p0, data__ones_share=share, data__probability_spread=0.35)
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
    make, spread
):
    config = configured(make, data__probability_spread=spread, data__num_train=400)
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
    gaps = [
        np.abs(column[:, None] - two[None]).min(axis=1)
        for column, two in zip(test.T, values, strict=True)
    ]
    assert len(test) == 20 and np.max(gaps) < 1e-4


def test_outside_of_pattern_space_the_truth_is_that_of_the_dictionary(make):
    config = configured(make, data__noise_std=0.1, data__num_train=2000)
    task = make_task(config)
    assert task.train.inputs.shape == (2000, 12) and task.direction.shape == (12,)
    assert np.linalg.norm(task.direction) == pytest.approx(1, rel=1e-5)
    # Examples in which all relevant patterns are there lie further along it than those with none.
    along = np.asarray(task.train.inputs @ task.direction) * task.scale * 3**0.5
    levels = np.arange(4) - (along.max() + along.min()) / 2
    nearest = np.abs(along[:, None] - (levels - levels.mean() + np.median(along))[None]).min(axis=1)
    assert np.ptp(along) > 2.5 and nearest.max() < 1.1


def test_the_network_is_the_same_with_and_without_structure(make):
    config = make(sweep__unstructured_learner=("network",))[1]
    with_structure, without = (make_task(config[place].config) for place in (0, 2))
    assert with_structure.gamma == without.gamma
    np.testing.assert_array_equal(with_structure.direction, without.direction)
    assert (with_structure.train.inputs != without.train.inputs).any()


@pytest.fixture(scope="module", params=["none", "first_steps"])
def replica(request, make):
    """Returns a configuration and its replica, whose classes are of different size."""
    fields = {"leftover": 0.5, "first_rate": 1e-2, "smoothing": 0.3, "feature_scale": 0.7}
    config = configured(make, **fields, data__ones_share=0.2, class_weights=request.param)
    return config, jax.tree.map(jnp.asarray, stages.make_replica(config, make_task(config)))


def test_the_network_is_drawn_at_the_scale_of_the_theory(make):
    config = configured(make, m=4000, bias_std=0.7)
    task = make_task(config)
    drawn = stages.make_replica(config, task)
    assert float(drawn.output_std) == pytest.approx(task.scale**2 / (task.gamma * 9))
    assert float(drawn.rate) == pytest.approx(config.rate)
    params, idle = jax.jit(functools.partial(stages.initial_params, config))(drawn)
    assert params["w"].shape == (8, 8000) and idle.shape == (4, 8000)
    sizes = {"w": 3**-0.5, "b": 0.7, "a": float(drawn.output_std)}
    for name, size in sizes.items():
        assert np.std(params[name]) == pytest.approx(size, rel=0.06)  # of 4,000 draws
    assert np.std(idle) == pytest.approx(3**-0.5, rel=0.06)
    own = configured(make, output_std=0.3)
    assert float(stages.make_replica(own, task).output_std) == pytest.approx(0.3)
    memory = configured(make, sweep__learner=("memorise",), memorise__output_std=0.2)
    found = stages.make_replica(memory, task)
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
    found = jax.jit(functools.partial(stages.first_stages, config))(own)
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
    found = jax.jit(training.cosines)(weights, idle, jnp.float32(direction))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_both_classes_count_alike_in_the_balanced_accuracy():
    generator = np.random.default_rng(0)
    inputs = jnp.float32(generator.normal(size=(37, 1)))
    targets = jnp.where(jnp.arange(37) < 30, 1.0, -1.0)
    right = np.asarray(inputs[:, 0] * targets > 0)
    expected = right.mean(), (right[:30].mean() + right[30:].mean()) / 2
    for size in (5, 37):
        found = training.accuracies(
            lambda params, x: params * x, jnp.float32(2.0), Dataset(inputs, targets), size
        )
        assert found == pytest.approx(expected)


def test_memorising_is_adam_with_a_cosine_to_zero(make):
    config = configured(make, sweep__learner=("memorise",), memorise__epochs=2)
    own = jax.tree.map(jnp.asarray, stages.make_replica(config, make_task(config)))
    rule, params = training._optimizer(config, own), {"a": jnp.float32(0.0)}
    state, moved = rule.init(params), []
    for _ in range(6):  # three steps an epoch; all gradients alike, so that Adam moves by its rate
        updates, state = rule.update({"a": jnp.float32(2.0)}, state, params)
        moved.append(-float(updates["a"]))
    expected = config.memorise.rate * (1 + np.cos(np.pi * np.arange(6) / 6)) / 2
    np.testing.assert_allclose(moved, expected, rtol=1e-4)
    assert training.total_steps(config) == 6


@pytest.mark.parametrize(
    ("learner", "steps", "sizes"),
    [
        ("network", [0, 1, 2], [1, 2, 3]),
        ("one_step", [1], [2]),
        ("two_step", [2], [3]),
        ("random_features", [0], [1]),
        ("memorise", [0], [1]),
        ("ntk", [0], [1]),
    ],
)
def test_a_learner_starts_at_its_stage_with_a_state_of_what_it_trains(
    make, monkeypatch, learner, steps, sizes
):
    def params(size):
        return {name: jnp.full(2, float(size)) for name in "wba"}

    monkeypatch.setattr(training, "initial_params", lambda config, own: (params(1), None))
    monkeypatch.setattr(
        training, "first_stages", lambda config, own: [(params(s), 10.0 * s) for s in (1, 2, 3)]
    )
    config = configured(make, sweep__learner=(learner,))
    own = stages.make_replica(config, make_task(config))
    found = training.start_states(config, own)
    assert found.step.tolist() == steps
    left = [10 * size for size in sizes] if learner in stages.FIRST_STEPS else [1]
    assert found.idle_scale.tolist() == left
    at = found.params
    if learner == "ntk":
        np.testing.assert_array_equal(at["initial"]["w"], at["weights"]["w"])
        at = at["weights"]
    elif learner not in ("network", "memorise"):
        assert not at["a"].any()  # a linear model on features starts at nothing
    for name in "wb":
        assert at[name][:, 0].tolist() == sizes
    # Momentum is a number a trained parameter, Adam's moments are two.
    kept = [leaf for leaf in jax.tree.leaves(found.opt_state) if leaf.ndim > 1]
    expected = {"network": 3, "ntk": 3, "memorise": 6}
    assert len(kept) == expected.get(learner, 1)


def test_a_step_whose_loss_is_not_finite_is_not_taken_nor_any_after_it(make):
    config = configured(make, sweep__learner=("random_features",), rate=1e-3)
    own = jax.tree.map(jnp.asarray, stages.make_replica(config, make_task(config)))
    start = jax.jit(functools.partial(training.start_states, config))(own)
    state = jax.tree.map(lambda leaf: leaf[0], start)
    rows = training.batch_rows(
        jax.random.fold_in(own.key, training.Learning.ORDER), jnp.int32(0), 3, 60, 20
    )
    hurt = own.train.targets.at[rows[1, 3]].set(jnp.nan)  # one example of the second batch
    step = jax.jit(functools.partial(training.advance, config, 3))
    after, row = step(state, own._replace(train=Dataset(own.train.inputs, hurt)), jnp.int32(3))
    one, _ = step(state, own, jnp.int32(1))
    assert int(after.step) == int(one.step) == 1
    np.testing.assert_allclose(after.params["a"], one.params["a"], rtol=1e-6)
    assert np.abs(one.params["a"]).max() > 0 and 0 < row["test_accuracy"] < 1


@pytest.mark.parametrize("weights", ["none", "all_steps"])
def test_the_best_linear_model_weighs_classes_where_asked_and_is_measured_on_both_splits(
    make, weights, monkeypatch
):
    fields = {"data__num_test": 30, "data__ones_share": 0.9, "data__p0": 0.5, "m": 6}
    config = configured(make, sweep__learner=("two_step_exact",), class_weights=weights, **fields)
    monkeypatch.setattr(exact, "FEW_EXAMPLES", 7)
    found, task = exact.fit(config), make_task(config)
    own = jax.tree.map(jnp.asarray, stages.make_replica(config, task))
    params = stages.first_stages(config, own)[2][0]
    w, b = (np.asarray(params[name], np.float64) for name in "wb")
    train, test = (
        np.clip(np.float64(part.inputs) @ w + b, 0, 1) for part in (task.train, task.test)
    )
    y, labels = (np.asarray(part.targets, np.float64) for part in (task.train, task.test))
    share = np.where(y > 0, (y > 0).mean(), (y < 0).mean())
    root = np.sqrt(0.5 / share if weights == "all_steps" else np.ones(len(y)))
    model = np.linalg.pinv(train * root[:, None]) @ (y * root)
    right = (test @ model > 0) == (labels > 0)
    assert found["test_accuracy"] == pytest.approx(right.mean())
    assert found["test_first_accuracy"] == pytest.approx(right[:7].mean())
    balanced = (right[labels > 0].mean() + right[labels < 0].mean()) / 2
    assert found["test_balanced_accuracy"] == pytest.approx(balanced)
    known = (train[:30] @ model > 0) == (y[:30] > 0)
    assert found["train_accuracy"] == pytest.approx(known.mean())
