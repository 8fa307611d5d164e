"""Linear models of a pair: start, updates and measures, in plain numpy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from lsa_jax.experiments.stability import linear
from lsa_jax.experiments.stability.linear import LinearModels
from lsa_jax.experiments.stability.samples import ExamplePool, draw_order, draw_pair


def test_both_models_start_from_glorots_uniform_weights_without_a_bias(key):
    models = linear.init(key, 4095)
    limit = np.sqrt(6 / 4096)  # one output
    w = np.asarray(models.w)
    assert (w[0] == w[1]).all() and not models.b.any()
    assert 0.99 * limit < np.abs(w).max() <= limit
    assert np.std(w) == pytest.approx(limit / np.sqrt(3), rel=0.03)
    assert abs(w.mean()) < 4 * limit / np.sqrt(3 * 4095)


@pytest.mark.parametrize(
    ("learner", "packed"), [("logistic", True), ("logistic", False), ("linear_regression", True)]
)
def test_a_pair_is_measured_on_the_sample_and_on_the_test_examples(make, learner, packed):
    config, rng = make(learner=learner)[0], np.random.default_rng(0)
    x = rng.integers(0, 256, (30, 6)).astype(np.uint8)
    real = x / 255
    y = rng.choice([-1.0, 1.0], 30)
    models = LinearModels(rng.normal(size=(2, 6)), rng.normal(size=2))
    pool = ExamplePool(jnp.asarray(x if packed else np.float32(real)), jnp.asarray(np.float32(y)))
    pair = draw_pair(0, 12, 0, num_train=20, num_test=10, perturbation="swap")
    single = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), models)
    found, right = linear.measure(config, 20, single, pair, pool)

    def loss(which, rows):
        f = real[rows] @ models.w[which] + models.b[which]
        own = np.logaddexp(0, -y[rows] * f) if learner == "logistic" else (f - y[rows]) ** 2 / 2
        return own, f * y[rows] <= 0

    sample, test = np.asarray(pair.sample), np.arange(20, 30)
    (train_losses, train_wrong), (losses, wrong) = loss(0, sample), loss(0, test)
    away = np.append(models.w[0] - models.w[1], models.b[0] - models.b[1])
    expected = {
        "train_loss": train_losses.mean(),
        "test_loss": losses.mean(),
        "train_error": train_wrong.mean(),
        "test_error": wrong.mean(),
        "stability": np.abs(losses - loss(1, test)[0]).max(),
        "distance": np.linalg.norm(away),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    np.testing.assert_array_equal(right, ~wrong)


def sgd(config, x, y, pair, order, which):
    """Plain SGD in float64, an example at a time."""
    start = linear.init(jax.random.key(1), x.shape[1])
    w, b = np.asarray(start.w[which], np.float64), 0.0
    for positions in order:
        slope_w, slope_b, count = np.zeros_like(w), 0.0, 0
        for position in positions:
            row, weight = pair.sample[position], 1.0
            if position == pair.position:
                row, weight = pair.rows[which], float(pair.weights[which])
            output = x[row] @ w + b
            slope = -y[row] * expit(-y[row] * output)
            if config.learner == "linear_regression":
                slope = output - y[row]
            slope_w += weight * slope * x[row]
            slope_b += weight * slope
            count += weight
        w -= config.training.learning_rate * slope_w / count
        b -= config.training.learning_rate * slope_b / count
    return w, b


@pytest.mark.parametrize("learner", ["logistic", "linear_regression"])
def test_updates_of_both_members_are_those_of_plain_descent(make, learner):
    config, _ = make(learner=learner)
    rng = np.random.default_rng(0)
    inputs = rng.integers(0, 256, (40, 6)).astype(np.uint8)
    signs = rng.choice([-1.0, 1.0], 40).astype(np.float32)
    pool = ExamplePool(jnp.asarray(inputs), jnp.asarray(signs))
    order = draw_order(0, 12, 5, jnp.int32(0), 8)
    start = linear.init(jax.random.key(1), 6)
    advance = jax.jit(functools.partial(linear.advance, config))
    for perturbation in ("swap", "removal"):
        pair = draw_pair(0, 12, 0, num_train=30, num_test=10, perturbation=perturbation)
        models = advance(start, pair, pool, order, jnp.int32(7))
        numpy_pair = jax.tree.map(np.asarray, pair)
        for which in (0, 1):
            w, b = sgd(config, inputs / 255, signs, numpy_pair, np.asarray(order[:7]), which)
            np.testing.assert_allclose(models.w[which], w, rtol=2e-5, atol=2e-6)
            np.testing.assert_allclose(models.b[which], b, rtol=2e-5, atol=2e-6)
        assert np.abs(models.w[0] - models.w[1]).max() > 1e-4
