"""Linear models of a pair: their start, and what is measured of them, in plain numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.experiments.stability import linear
from lsa_jax.experiments.stability.linear import LinearModels
from lsa_jax.experiments.stability.samples import ExamplePool, draw_pair


def test_both_models_start_from_glorots_uniform_weights_without_a_bias(key):
    models = linear.init(key, 4095)
    limit = np.sqrt(6 / 4096)  # one output
    w = np.asarray(models.w)
    assert (w[0] == w[1]).all() and not models.b.any()
    assert 0.99 * limit < np.abs(w).max() <= limit
    assert np.std(w) == pytest.approx(limit / np.sqrt(3), rel=0.03)
    assert abs(w.mean()) < 4 * limit / np.sqrt(3 * 4095)


def test_losses_are_the_logistic_one_and_half_the_squared_error():
    outputs, signs = jnp.array([2.0, -0.5]), jnp.array([1.0, 1.0])
    np.testing.assert_allclose(
        linear.logistic_loss(outputs, signs), np.log1p(np.exp([-2.0, 0.5])), rtol=1e-6
    )
    np.testing.assert_allclose(linear.squared_error(outputs, signs), [0.5, 1.125], rtol=1e-6)


@pytest.mark.parametrize("learner", ["logistic", "linear_regression"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_pair_is_measured_on_the_sample_and_on_the_test_examples(make, learner, packed):
    config, rng = make(learner=learner)[0], np.random.default_rng(0)
    x = rng.integers(0, 256, (30, 6)).astype(np.uint8)
    real = x / 255
    y = rng.choice([-1.0, 1.0], 30)
    models = LinearModels(rng.normal(size=(2, 6)), rng.normal(size=2))
    pool = ExamplePool(jnp.asarray(x if packed else np.float32(real)), jnp.asarray(np.float32(y)))
    pair = draw_pair(0, 12, 0, num_train=20, num_test=10, perturbation="swap")
    single = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), models)
    found = linear.measure(config, 20, single, pair, pool)

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
