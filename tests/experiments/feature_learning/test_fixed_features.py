"""Linear models on fixed features: the draw, the fit, the bound, claims and report."""

import jax
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from small_sweeps import maker, swept

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.fixed_features.experiment import (
    fit_best,
    fit_hinge,
    random_features,
)
from lsa_jax.experiments.feature_learning.fixed_features.settings import SETTINGS
from lsa_jax.reporting import outcomes

make = maker(SETTINGS, {})
draw = jax.jit(random_features, static_argnums=(0, 3))


def test_random_features_have_the_kernel_as_their_mean_product(key):
    inputs = 0.5 * jax.random.normal(key, (3, 4))
    squares = np.square(np.asarray(inputs)[:, None] - np.asarray(inputs)[None]).sum(axis=2)
    for scale in (1.0, 0.5):
        features = np.asarray(draw("rbf", key, inputs, 20_000, scale))
        products = 2 * features @ features.T / 20_000
        np.testing.assert_allclose(products, np.exp(-squares / (2 * scale**2)), atol=0.03)
    few = draw("rbf", key, inputs, 3, 0.5)  # the first of more
    np.testing.assert_allclose(features[:, :3], few, rtol=1e-5, atol=1e-6)


def test_random_neurons_have_weights_of_the_inverse_scale_and_biases_of_0_4(key):
    inputs = np.array([[0.0, 0, 0], [3.0, 0, 4]], np.float32)
    features = np.asarray(draw("neurons", key, inputs, 20_000, 2.0), np.float64)
    for values, std in zip(features, (0.4, np.hypot(0.4, 5 / 2)), strict=True):
        # Of a Gaussian pre-activation: nothing below 0, and 1 above 1.
        assert np.mean(values == 0) == pytest.approx(0.5, abs=0.02)
        assert np.mean(values == 1) == pytest.approx(scipy.stats.norm.sf(1 / std), abs=0.02)


def noisy(count, seed=0, features=3):
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(count, features))
    return inputs, np.where(inputs[:, 0] + 0.8 * generator.normal(size=count) > 0.3, 1.0, -1.0)


@pytest.mark.parametrize("penalty", [0.02, 0.3])
def test_the_fit_is_the_least_of_the_bent_hinge_and_the_penalty(penalty):
    features, targets = noisy(40, features=2)

    def loss(w):
        z = targets * (features @ w[:2] + w[2])
        line, parabola = 1 - z - 0.05, (1 - z) ** 2 / 0.2  # they meet at 0.9, in slope too
        bent = np.where(z < 0.9, line, np.where(z < 1, parabola, 0))
        return penalty / 2 * (w[0] ** 2 + w[1] ** 2) + bent.mean()

    found = fit_hinge(features, targets, penalty, 500)
    peer = scipy.optimize.minimize(loss, found + 0.1, method="Nelder-Mead", options={"xatol": 1e-6})
    assert 1e-3 < loss(found) <= loss(peer.x) + 1e-6
    np.testing.assert_allclose(found, peer.x, atol=2e-3)


def test_the_best_fit_is_that_of_the_least_validation_loss_and_has_the_theorem_s_bound():
    data = {}
    for seed, (name, count) in enumerate((("train", 60), ("validation", 40), ("test", 50))):
        inputs, targets = noisy(count, seed)
        data[name] = Dataset(inputs.astype(np.float32), targets.astype(np.float32))
    fields = {"learner": "rbf", "bandwidths": (1.0, 3.0), "penalties": (0.02, 0.5), "N": 3}
    config = make(**fields, p0=0.5, k=5)[0]
    found = fit_best(config, data, lambda x, scale: x * scale)
    kinds = [(row["scale"], row["penalty"]) for row in found.history]
    assert kinds == [(1.0, 0.02), (1.0, 0.5), (3.0, 0.02), (3.0, 0.5)]
    losses = [row["validation_hinge"] for row in found.history]
    best = found.history[int(np.argmin(losses))]
    assert len(set(losses)) == 4 and best.items() <= found.metrics.items()
    features = {name: best["scale"] * part.inputs for name, part in data.items()}
    of_training = features["train"], data["train"].targets
    weights = fit_hinge(*of_training, best["penalty"], config.max_iterations)
    assert best["norm"] == pytest.approx(np.sqrt(np.square(weights).sum()))
    for name, part in data.items():
        outputs = features[name] @ weights[:3] + weights[3]
        hinge = np.maximum(1 - part.targets * outputs, 0).mean()
        assert best[f"{name}_hinge"] == pytest.approx(hinge)
        right = np.sign(outputs) == part.targets
        assert best[f"{name}_accuracy"] == right.mean()
    np.testing.assert_array_equal(found.outcomes.values, right)  # of the last, the test examples
    # p0 (1 - sqrt(2 N + 2) B / 2^k), the offset being one more feature.
    assert found.metrics["bound"] == pytest.approx(0.5 * (1 - 8**0.5 * best["norm"] / 32))
    far = fit_best(make(**fields, k=1)[0], data, lambda x, scale: x * scale)
    assert far.metrics["bound"] == 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Returns a sweep of one case: networks, and linear models by N, of two seeds."""
    fields = {"num_train": 40, "num_validation": 30, "num_test": 50, "penalties": (0.01,)}
    fields |= {"network__m": 6, "network__batch_size": 20, "network__steps": 6}
    axes = {"sweep__cases": ((48, 3),), "sweep__N": (4, 9), "sweep__seed": (4, 6)}
    config, points = make(**fields, **axes, sweep__features=("rbf",), bandwidths=(1.0,))
    folder = tmp_path_factory.mktemp("fixed") / "out"
    return points, folder, swept(config, points, folder)


def test_networks_and_linear_models_of_a_seed_are_tested_on_the_same_examples(finished):
    _, folder, results = finished
    assert (results["status"] == "ok").all() and len(results) == 6
    kept = outcomes.read(folder, results["id"])
    for _, own in results.groupby("seed"):
        assert len({kept[run].test for run in own["id"]}) == 1
        for run, accuracy in zip(own["id"], own["test_accuracy"], strict=True):
            assert len(kept[run].values) == 50
            assert kept[run].values.mean() == pytest.approx(accuracy)
