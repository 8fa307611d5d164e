import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.svm import LinearSVC

from lsa_jax.experiments.feature_learning.fixed_features import settings
from lsa_jax.experiments.feature_learning.fixed_features.experiment import (
    fit_hinge,
    network_point,
    random_features,
)
from lsa_jax.experiments.feature_learning.fixed_features.report import make_claims
from lsa_jax.sweep.points import make_points


def test_fewer_features_are_the_first_of_more_and_are_bounded(key):
    inputs = jax.random.normal(key, (7, 4))
    draw = jax.jit(random_features, static_argnums=(0, 3))
    many = draw("neurons", key, inputs, 5, 0.7)
    np.testing.assert_allclose(many[:, :3], draw("neurons", key, inputs, 3, 0.7), rtol=1e-5)
    assert np.abs(many).max() <= 1 and np.ptp(many) > 0.1


def test_random_features_have_the_kernel_as_their_mean_product(key):
    inputs = 0.5 * jax.random.normal(key, (3, 4))
    draw = jax.jit(random_features, static_argnums=(0, 3))
    features = np.asarray(draw("rbf", key, inputs, 20_000, 1.0))
    squares = np.square(np.asarray(inputs)[:, None] - np.asarray(inputs)[None]).sum(axis=2)
    products = 2 * features @ features.T / 20_000
    np.testing.assert_allclose(products, np.exp(-squares / 2), atol=0.03)


def test_the_fit_is_that_of_a_support_vector_machine():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(80, 3))
    targets = np.where(features[:, 0] + 0.8 * generator.normal(size=80) > 0.3, 1.0, -1.0)
    penalty = 0.05
    weights = fit_hinge(features, targets, penalty, 500)

    def loss(w):
        hinge = np.maximum(1 - targets * (features @ w[:-1] + w[-1]), 0).mean()
        return hinge + penalty / 2 * w[:-1] @ w[:-1]

    peer = LinearSVC(
        loss="hinge", C=1 / (penalty * 80), tol=1e-6, max_iter=100_000, intercept_scaling=30
    ).fit(features, targets)
    best = loss(np.append(peer.coef_[0], peer.intercept_))
    # The bend in the hinge costs at most half of its width.
    assert best - 1e-3 <= loss(weights) <= best + 0.05


def test_the_network_sees_the_linear_models_problem():
    config = settings.default_config()
    point = make_points(config, settings.sweep(config), settings.validate)[0]
    network = network_point(point).config
    assert (network.data.k, network.data.num_patterns) == (5, 100)
    assert network.data.num_test == config.num_validation + config.num_test


@pytest.mark.parametrize(
    ("case", "bounds", "ours", "status"),
    [
        ((100, 5), (0.2, 0.3, 0.0), "0 of 2", "shown"),
        ((100, 5), (0.2, 0.45, 0.0), "1 of 2", "not shown"),
        ((100, 5), (0.0, 0.0, 0.0), "", "not run"),
        ((30, 3), (0.2, 0.3, 0.4), "", "not run"),
        ((64, 5), (0.2, 0.3, 0.4), "", "not run"),
    ],
)
def test_the_lower_bound_is_tested_only_where_it_says_something(case, bounds, ours, status):
    columns = {"num_patterns": case[0], "k": case[1], "learner": "rbf", "N": 10, "status": "ok"}
    of_models = {"bound": bounds, "test_hinge": 0.4, "test_accuracy": 0.6, "norm": 1.0}
    models = pd.DataFrame(of_models).assign(**columns)
    network = models.assign(learner="network", test_accuracy=(1.0, 0.99, 0.98))
    claim, gap = make_claims(pd.concat([models, network]), 10_000)
    assert (claim.ours, claim.status, gap.status) == (ours, status, "shown")
