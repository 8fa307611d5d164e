"""Linear models on fixed features: the draw, the fit, the bound, claims and report."""

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
from small_sweeps import maker, swept

from lsa_jax.data.dataset import Dataset
from lsa_jax.experiments.feature_learning.fixed_features.experiment import (
    fit_best,
    fit_hinge,
    make_claims,
    random_features,
)
from lsa_jax.experiments.feature_learning.fixed_features.settings import SETTINGS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs

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


def models(learner, accuracies, size=10, **columns):
    own = {"bound": 0.2, "test_hinge": 0.4, "norm": 1.0, "train_accuracy": 0.75, "id": ""}
    own |= {"num_patterns": 80, "k": 5, "learner": learner, "N": size, "status": "ok"}
    found = pd.DataFrame({"test_accuracy": accuracies}).assign(**(own | columns))
    return found.assign(seed=found.index, train_accuracy=0.75 + 1e-6 * found.index)


def decided(*rows, case=(80, 5)):
    """Returns the claims on results: of the bound, if it is about the case, and the gap."""
    results = pd.concat(rows).assign(num_patterns=case[0], k=case[1])
    axes = {"sweep__cases": (case,), "sweep__N": (10, 20), "sweep__features": ("rbf",)}
    config = make(**axes, sweep__seed=(0, 1, 2))[0]
    runs = Runs.of(SETTINGS.sweep(config), results, fresh=True).assign(num_test=10_000)
    return decide_all(make_claims(config), runs)


BEST = models("rbf", (0.8, 0.84, 0.87), 20)
NETWORK = models("network", (0.9, 0.92, 0.97), np.nan)


@pytest.mark.parametrize(
    ("columns", "bound"),
    [
        ({"test_hinge": 0.2}, "shown"),  # at its bound is not below it
        ({"test_hinge": 0.199}, "not shown"),
        ({"norm": 0.0, "test_hinge": 0.1}, "shown"),
        ({"test_hinge": 1.0, "bound": 1.1}, "shown"),  # no better than the answer 0
    ],
)
def test_the_network_exceeds_the_best_model_and_models_below_their_bound_refute_it(columns, bound):
    first, gap = decided(models("rbf", (0.5,) * 3, **columns), BEST, NETWORK)
    assert (first.status, gap.status) == (bound, "shown")
    assert gap.ours == pytest.approx(100 * (0.93 - 2.51 / 3), abs=0.005)
    worse = NETWORK.assign(test_accuracy=BEST["test_accuracy"] - [0.005, 0.0051, 0.0049])
    first, gap = decided(models("rbf", (0.5,) * 3), BEST, worse)
    assert (first.status, gap.status) == ("condition not met", "not shown")
    # The theorem is about 3 < k <= D / 16.
    about = {(80, 5): 2, (79, 5): 1, (48, 3): 1, (160, 11): 1}
    rows = models("rbf", (0.5,) * 3), BEST, NETWORK
    assert {case: len(decided(*rows, case=case)) for case in about} == about
