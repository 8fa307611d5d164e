"""Networks on S and S', of a linear map with statistics of its batches, against plain numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from lsa_jax.experiments.stability import networks
from lsa_jax.experiments.stability.networks import Members, NetworkLearner, Networks
from lsa_jax.experiments.stability.samples import ExamplePool, draw_order, draw_pair

D, C, NUM_TRAIN, NUM_TEST, M = 6, 3, 25, 10, 12

LEARNER = NetworkLearner(
    init=lambda key: {"w": jax.random.normal(key, (D, C))},
    fixed=lambda params, inputs: {},
    train=lambda params, fixed, x: x.reshape(len(x), -1) @ params["w"],
    context=lambda params, x: {"mean": jnp.mean(x, axis=0).reshape(-1)},
    evaluate=lambda params, fixed, context, x: (
        (x.reshape(len(x), -1) - context["mean"][None]) @ params["w"]
    ),
)


@pytest.fixture
def pool():
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (NUM_TRAIN + NUM_TEST, 3, 2, 1)).astype(np.uint8)
    targets = np.eye(C, dtype=np.float32)[rng.integers(0, C, len(inputs))]
    return ExamplePool(jnp.asarray(inputs), jnp.asarray(targets))


def rows_of(pool):
    """Returns inputs as rows, and labels, in float64."""
    inputs = np.asarray(pool.inputs, float).reshape(len(pool.inputs), -1) / 255
    return inputs, np.asarray(pool.targets).argmax(axis=1)


def losses_of(outputs, labels):
    logs = scipy.special.log_softmax(outputs, axis=1)
    return -logs[np.arange(len(labels)), labels]


def configure(make, **fields):
    small = {"learner": "resnet", "sweep__learner": ("resnet",), "eval_batch_size": 4}
    return make(**small | {"model__statistics_batches": 2} | fields)[0]


def pair_of(perturbation="swap"):
    """Returns a pair that differs in an example of the batches which statistics are taken of."""
    sizes = {"num_train": NUM_TRAIN, "num_test": NUM_TEST, "perturbation": perturbation}
    pairs = (draw_pair(0, M, number, **sizes) for number in range(20))
    return next(pair for pair in pairs if pair.position < 10)


def members_of(seed=2, **finite):
    w = np.random.default_rng(seed).normal(size=(2, D, C)).astype(np.float32)
    going = jnp.asarray(finite.get("finite", [True, True]))
    return Members({"w": jnp.asarray(w)}, (), going)


def test_a_pair_is_measured_with_each_models_own_statistics(make, pool):
    config, (x, labels) = configure(make), rows_of(pool)
    pair, members = pair_of(), members_of(5)
    found, right = Networks(config, LEARNER, NUM_TRAIN).measure(members, pair, pool, {})
    sample = [np.asarray(networks.fetch_member(pair, which)[0]) for which in (0, 1)]
    test, w = np.arange(NUM_TRAIN, len(x)), np.asarray(members.params["w"], float)
    means = [x[rows[:10]].mean(axis=0) for rows in sample]
    outputs = [(x - mean) @ own for mean, own in zip(means, w, strict=True)]
    losses = [losses_of(of, labels) for of in outputs]
    wrong, other = (of.argmax(axis=1) != labels for of in outputs)
    assert wrong[sample[0]].mean() != other[sample[0]].mean()  # else they could be exchanged
    expected = {
        "train_loss": losses[0][sample[0]].mean(),
        "test_loss": losses[0][test].mean(),
        "train_error": wrong[sample[0]].mean(),
        "test_error": wrong[test].mean(),
        "stability": np.abs(losses[0] - losses[1])[test].max(),
        "distance": np.linalg.norm(w[0] - w[1]),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, err_msg=name)
    np.testing.assert_array_equal(right, ~wrong[test])
    stopped = members_of(finite=[True, False])
    gone, _ = Networks(config, LEARNER, NUM_TRAIN).measure(stopped, pair, pool, {})
    assert all(np.isnan(value) for value in gone.values())
    unknown = members._replace(params={"w": members.params["w"].at[:, 0, 0].set(jnp.nan)})
    assert not Networks(config, LEARNER, NUM_TRAIN).measure(unknown, pair, pool, {})[1].any()


@pytest.mark.parametrize("perturbation", ["swap", "removal"])
def test_updates_are_those_of_the_heavy_ball_with_weight_decay_and_falls_of_the_rate(
    make, pool, perturbation
):
    fields = {"training__momentum": 0.9, "training__weight_decay": 0.1}
    fields |= {"training__learning_rate": 0.5, "training__decay_steps": (2,)}
    config, (x, labels) = configure(make, training__decay_factor=0.1, **fields), rows_of(pool)
    pair = pair_of(perturbation)
    start = Networks(config, LEARNER, NUM_TRAIN).init(jax.random.key(3))
    order = draw_order(0, M, 5, jnp.int32(0), 5)
    after = Networks(config, LEARNER, NUM_TRAIN).advance(start, pair, pool, {}, order, jnp.int32(4))
    for which in (0, 1):
        w, velocity = np.asarray(start.params["w"][which], float), 0.0
        for step, positions in enumerate(order[:4]):
            rows, weights = map(np.asarray, networks.fetch_member(pair, which, positions))
            share = weights / weights.sum()
            slopes = scipy.special.softmax(x[rows] @ w, axis=1) - np.eye(C)[labels[rows]]
            gradient = x[rows].T @ (share[:, None] * slopes) + 0.1 * w
            velocity = 0.9 * velocity + gradient
            w = w - (0.5 if step < 2 else 0.05) * velocity
        np.testing.assert_allclose(after.params["w"][which], w, rtol=1e-4, atol=1e-5)
    assert after.finite.all() and (after.params["w"][0] != after.params["w"][1]).any()


def test_a_model_stays_as_it_was_before_a_loss_that_was_not_finite(make, pool):
    config, pair = configure(make, training__learning_rate=1.0), pair_of()
    start = Networks(config, LEARNER, NUM_TRAIN).init(jax.random.key(3))
    far = start.params["w"].at[1].set(jnp.inf)
    order = draw_order(0, M, 5, jnp.int32(0), 2)
    begun = start._replace(params={"w": far})
    after = Networks(config, LEARNER, NUM_TRAIN).advance(begun, pair, pool, {}, order, jnp.int32(2))
    assert after.finite.tolist() == [True, False]
    np.testing.assert_array_equal(after.params["w"][1], far[1])
    assert (after.params["w"][0] != far[0]).any()


@pytest.mark.parametrize("statistics", ["interpolated", "recomputed"])
def test_paths_have_their_ends_at_the_models_and_go_on_beyond_them(make, pool, statistics):
    fields = {"num_alphas": 4, "num_train": 8, "num_test": 7, "statistics": statistics}
    config = configure(make, **{f"connectivity__{name}": v for name, v in fields.items()})
    (x, labels), pair, members = rows_of(pool), pair_of(), members_of()
    found = Networks(config, LEARNER, NUM_TRAIN).connect(members, pair, pool, {})
    np.testing.assert_array_equal(networks.alphas(config), [-1, 0, 1, 2])
    w = np.asarray(members.params["w"], float)
    sample = [np.asarray(networks.fetch_member(pair, which)[0]) for which in (0, 1)]
    ends = [x[rows[:10]].mean(axis=0) for rows in sample]
    parts = {"train": sample[0][:8], "test": np.arange(NUM_TRAIN, NUM_TRAIN + 7)}
    for place, alpha in enumerate((-1, 0, 1, 2)):
        of_both = alpha * ends[0] + (1 - alpha) * ends[1]
        mean = ends[0] if statistics == "recomputed" else of_both
        right = ((x - mean) @ (alpha * w[0] + (1 - alpha) * w[1])).argmax(axis=1) == labels
        for name, rows in parts.items():
            accuracy = found[f"{name}_accuracy"][place]
            np.testing.assert_allclose(accuracy, right[rows].mean(), rtol=1e-5)
