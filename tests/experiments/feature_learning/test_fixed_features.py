from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats
from sklearn.svm import LinearSVC

from lsa_jax.data.dataset import Dataset
from lsa_jax.errors import InputError
from lsa_jax.experiments.feature_learning.fixed_features import experiment, settings
from lsa_jax.experiments.feature_learning.fixed_features.claims import make_claims
from lsa_jax.experiments.feature_learning.fixed_features.experiment import (
    fit_best,
    fit_hinge,
    network_point,
    random_features,
)
from lsa_jax.experiments.feature_learning.fixed_features.report import make_report
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields


def test_fewer_features_are_the_first_of_more_and_are_bounded(key):
    inputs = jax.random.normal(key, (7, 4))
    draw = jax.jit(random_features, static_argnums=(0, 3))
    many = draw("neurons", key, inputs, 5, 0.7)
    np.testing.assert_allclose(many[:, :3], draw("neurons", key, inputs, 3, 0.7), rtol=1e-5)
    assert np.abs(many).max() <= 1 and np.ptp(many) > 0.1


def test_random_features_have_the_kernel_as_their_mean_product(key):
    inputs = 0.5 * jax.random.normal(key, (3, 4))
    draw = jax.jit(random_features, static_argnums=(0, 3))
    squares = np.square(np.asarray(inputs)[:, None] - np.asarray(inputs)[None]).sum(axis=2)
    for scale in (1.0, 0.5):
        features = np.asarray(draw("rbf", key, inputs, 20_000, scale))
        products = 2 * features @ features.T / 20_000
        np.testing.assert_allclose(products, np.exp(-squares / (2 * scale**2)), atol=0.03)


def test_random_neurons_have_weights_of_the_inverse_scale_and_biases_of_0_4(key):
    inputs = np.array([[0.0, 0, 0], [3.0, 0, 4]], np.float32)
    draw = jax.jit(random_features, static_argnums=(0, 3))
    features = np.asarray(draw("neurons", key, inputs, 20_000, 2.0), np.float64)
    for values, std in zip(features, (0.4, np.hypot(0.4, 5 / 2)), strict=True):
        # Of a Gaussian pre-activation: nothing below 0, and 1 above 1.
        assert np.mean(values == 0) == pytest.approx(0.5, abs=0.02)
        assert np.mean(values == 1) == pytest.approx(scipy.stats.norm.sf(1 / std), abs=0.02)


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


@pytest.mark.parametrize("penalty", [0.02, 0.3])
def test_the_fit_is_the_least_of_the_bent_hinge_and_the_penalty(penalty):
    generator = np.random.default_rng(0)
    features = generator.normal(size=(40, 2))
    targets = np.where(features[:, 0] + 0.8 * generator.normal(size=40) > 0.3, 1.0, -1.0)

    def loss(w):
        total = penalty / 2 * (w[0] ** 2 + w[1] ** 2)
        for (first, second), y in zip(features, targets, strict=True):
            z = y * (w[0] * first + w[1] * second + w[2])
            if z < 0.9:
                total += (1 - z - 0.05) / 40
            elif z < 1:
                total += (1 - z) ** 2 / 0.2 / 40  # meets the line at 0.9, in slope too
        return total

    found = fit_hinge(features, targets, penalty, 500)
    assert 1e-3 < loss(found) < 1
    for step in (1e-2 * np.concatenate([np.eye(3), -np.eye(3)])).tolist():
        assert loss(found + step) > loss(found)
    peer = scipy.optimize.minimize(loss, found, method="Nelder-Mead", options={"xatol": 1e-6})
    np.testing.assert_allclose(found, peer.x, atol=2e-3)


def test_the_best_fit_is_that_of_the_least_validation_loss_and_has_the_theorem_s_bound():
    generator, data = np.random.default_rng(0), {}
    for name, count in (("train", 60), ("validation", 40), ("test", 50)):
        inputs = generator.normal(size=(count, 3)).astype(np.float32)
        noisy = inputs[:, 0] + 0.7 * generator.normal(size=count) > 0.2
        data[name] = Dataset(inputs, np.where(noisy, 1.0, -1.0).astype(np.float32))
    fields = {"learner": "rbf", "bandwidths": (1.0, 3.0), "penalties": (0.02, 0.5), "N": 3}
    config = set_fields(settings.default_config(), fields | {"p0": 0.5, "k": 5})
    found = fit_best(config, data, lambda x, scale: x * scale)
    kinds = [(row["scale"], row["penalty"]) for row in found.history]
    assert kinds == [(1.0, 0.02), (1.0, 0.5), (3.0, 0.02), (3.0, 0.5)]
    losses = [row["validation_hinge"] for row in found.history]
    best = found.history[int(np.argmin(losses))]
    assert len(set(losses)) == 4
    assert found.metrics == {**best, "bound": found.metrics["bound"]}
    features = {name: best["scale"] * part.inputs for name, part in data.items()}
    of_training = features["train"], data["train"].targets
    weights = fit_hinge(*of_training, best["penalty"], config.max_iterations)
    assert best["norm"] == pytest.approx(np.sqrt(np.square(weights).sum()))
    for name, part in data.items():
        outputs = features[name] @ weights[:3] + weights[3]
        short = [max(1 - y * f, 0) for y, f in zip(part.targets, outputs, strict=True)]
        assert best[f"{name}_hinge"] == pytest.approx(np.mean(short))
        assert best[f"{name}_accuracy"] == np.mean(np.sign(outputs) == part.targets)
    # p0 (1 - sqrt(2 N + 2) B / 2^k), the offset being one more feature.
    assert found.metrics["bound"] == pytest.approx(0.5 * (1 - 8**0.5 * best["norm"] / 32))
    far = fit_best(set_fields(config, {"k": 1}), data, lambda x, scale: x * scale)
    assert far.metrics["bound"] == 0


def test_the_network_sees_the_linear_models_problem():
    config = settings.default_config()
    set_fields(config, {"sweep.cases": ((50, 3),), "p0": 0.25, "num_train": 4000, "num_test": 7})
    set_fields(config, {"network.m": 9, "network.rate": 0.7, "num_validation": 11})
    point = make_points(config, settings.sweep(config), settings.validate)[1]
    network = network_point(point).config
    assert (network.learner, network.seed, network.pictures) == ("network", 1, False)
    data = network.data
    assert (data.k, data.num_patterns, data.d, data.p0) == (3, 50, 50, 0.25)
    assert (data.num_train, data.num_test) == (4000, 18)
    assert (network.m, network.rate) == (9, 0.7)


@pytest.fixture
def points():
    """Returns the groups of one case and two seeds: networks, then linear models by seed."""
    axes = {"cases": ((10, 3),), "N": (2, 5), "features": ("rbf",), "seed": (4, 6)}
    fields = {f"sweep.{name}": values for name, values in axes.items()}
    config = set_fields(settings.default_config(), fields | {"num_validation": 3})
    found = make_points(config, settings.sweep(config), settings.validate)
    return experiment.groups(found)


def test_linear_models_of_a_seed_have_their_own_features_of_one_validated_problem(
    points, monkeypatch, unchecked
):
    networks, *linear = points
    assert [[(p.config.seed, p.config.N) for p in group] for group in linear] == [
        [(4, 2), (4, 5)],
        [(6, 2), (6, 5)],
    ]
    rng = np.random.default_rng(0)
    train, test = (
        Dataset(rng.normal(size=(n, 10)).astype(np.float32), rng.normal(size=n)) for n in (6, 8)
    )
    task, seen, told, keys = SimpleNamespace(train=train, test=test), [], [], []
    monkeypatch.setattr(experiment, "make_task", lambda config: task)

    def best(config, data, make):
        seen.append((data, make))
        return Outcome({"norm": 0.5}, [])

    def features(kind, key, inputs, count, scale):
        keys.append((kind, key))
        return scale * inputs[:, :count]

    monkeypatch.setattr(experiment, "random_features", features)
    monkeypatch.setattr(experiment, "fit_best", best)
    found = experiment.run(linear[1], None, Path("out"), told.append)
    assert told == [0.5, 1.0]
    own = {"learner": "rbf", "num_patterns": 10, "k": 3, "seed": 6, "norm": 0.5}
    assert [outcome.metrics for outcome in found] == [own | {"N": 2}, own | {"N": 5}]
    for (data, make), count in zip(seen, (2, 5), strict=True):
        assert data["train"] is train
        for part in (0, 1):
            np.testing.assert_array_equal(data["validation"][part], test[part][:3])
            np.testing.assert_array_equal(data["test"][part], test[part][3:])
        np.testing.assert_array_equal(make(test.inputs, 2.0), 2 * test.inputs[:, :count])
    assert keys == [("rbf", jax.random.key(6))] * 2


def test_networks_of_a_case_run_together_and_leave_accuracies_and_cosines(points, monkeypatch):
    networks, *_ = points
    assert [point.config.seed for point in networks] == [4, 6]
    measured = {"test_accuracy": 0.9, "train_accuracy": 0.8, "cosine": 0.7, "share_near": 0.6}

    def run(group, data, directory, progress):
        assert [point.config.data.num_patterns for point in group] == [10, 10]
        return [Outcome(measured, [{"step": 1}]), Outcome({}, [], "failed", "lost")]

    monkeypatch.setattr(experiment.experiment, "run", run)
    fine, lost = experiment.run(networks, None, Path("out"), lambda fraction: None)
    assert fine.metrics == {
        **{"learner": "network", "num_patterns": 10, "k": 3, "seed": 4},
        **{"test_accuracy": 0.9, "train_accuracy": 0.8, "cosine": 0.7},
    }
    assert fine.history == [{"step": 1}]
    assert (lost.status, lost.message, lost.metrics["seed"]) == ("failed", "lost", 6)


def models(case, learner, accuracies, size=10, **columns):
    own = {"bound": 0.2, "test_hinge": 0.4, "norm": 1.0, "train_accuracy": 0.75}
    own |= {"num_patterns": case[0], "k": case[1], "learner": learner, "N": size, "status": "ok"}
    found = pd.DataFrame({"test_accuracy": accuracies}).assign(**(own | columns))
    found["train_accuracy"] += 1e-6 * found.index
    return found.assign(seed=found.index)


def decide(*rows, num_test=10_000, **axes):
    """Returns the rows of claims on results: of the bound, if it is about the case, and the gap."""
    results = pd.concat(rows)
    linear = results[results["learner"] != "network"]
    cases = results[["num_patterns", "k"]].drop_duplicates()
    asked = {"cases": cases.itertuples(index=False, name=None), "N": linear["N"].unique().tolist()}
    asked |= {name: results[name].unique().tolist() for name in ("seed",)}
    asked |= {"features": linear["learner"].unique().tolist()} | axes
    fields = {f"sweep.{name}": tuple(values) for name, values in asked.items()}
    config = set_fields(settings.default_config(), fields)
    runs = Runs.of(settings.sweep(config), results, fresh=True).assign(num_test=num_test)
    return decide_all(make_claims(config), runs)


CASE, BEST, NETWORK = (80, 5), (0.8, 0.84, 0.87), (0.9, 0.92, 0.97)


def test_the_network_is_compared_with_every_linear_model_seed_by_seed():
    near = models(CASE, "rbf", BEST, 20), models(CASE, "neurons", (0.6, 0.62, 0.6), 10)
    network = models(CASE, "network", NETWORK, np.nan)
    others = models(CASE, "rbf", (0.5, 0.5, 0.5), 10), models(CASE, "neurons", (0.5,) * 3, 20)
    bound, gap = decide(*near, *others, network)
    points = 100 * (np.array(NETWORK) - BEST)
    half = scipy.stats.t.ppf(0.975, 2) * points.std(ddof=1) / 3**0.5
    assert (gap.ours, gap.status) == (pytest.approx(points.mean(), abs=0.005), "shown")
    assert gap.low == pytest.approx(points.mean() - half, abs=0.01)
    assert (bound.ours, bound.status) == ("3 of 3", "shown")
    worse = models(CASE, "network", np.subtract(BEST, (0.005, 0.0051, 0.0049)), np.nan)
    bound, gap = decide(*near, *others, worse)
    assert (gap.ours, gap.status) == (-0.5, "not shown")
    assert bound.status == "condition not met"


@pytest.mark.parametrize(
    ("case", "about"),
    [((80, 5), True), ((79, 5), False), ((48, 3), False), ((64, 4), True), ((160, 11), False)],
)
def test_theorem_2_is_about_more_than_three_and_at_most_a_sixteenth(case, about):
    rows = decide(models(case, "rbf", BEST), models(case, "network", NETWORK, np.nan))
    assert len(rows) == 1 + about


@pytest.mark.parametrize(
    ("columns", "status"),
    [
        ({"test_hinge": 0.2}, "shown"),  # at its bound is not below it
        ({"test_hinge": 0.199}, "not shown"),
        ({"norm": 0.0, "test_hinge": 0.1}, "not run"),
        ({"test_hinge": 1.0, "norm": 1e-9}, "not run"),  # no better than the answer 0
        ({"bound": 0.0}, "not run"),
    ],
)
def test_models_below_their_bound_refute_it(columns, status):
    network = models(CASE, "network", NETWORK, np.nan)
    assert decide(models(CASE, "rbf", BEST, **columns), network)[0].status == status


@pytest.mark.parametrize(
    "lost", [{"seed": range(4)}, {"N": (10, 30)}, {"features": ("rbf", "neurons")}]
)
def test_an_interrupted_sweep_of_fixed_features_shows_nothing(lost):
    rows = models(CASE, "rbf", BEST), models(CASE, "network", NETWORK, np.nan)
    assert {row.status for row in decide(*rows)} == {"shown"}
    assert {row.status for row in decide(*rows, **lost)} == {"condition not met"}
    assert {row.status for row in decide(*rows, num_test=20)} == {"condition not met"}


def test_the_table_of_fixed_features_has_models_by_size_and_then_networks(tmp_path):
    results = pd.concat(
        [
            models((100, 5), "rbf", (0.6, 0.7), 20),
            models((100, 5), "neurons", [0.5], 10),
            models((48, 5), "rbf", [0.8], 10),
            models((100, 5), "network", [1.0], np.nan),
            models((48, 5), "network", [0.9], np.nan),
            models((48, 5), "rbf", [0.1], 10, status="failed"),
        ]
    ).assign(id="none")
    config = settings.default_config()
    made = make_report(config, results, tmp_path)
    ((_, table),) = made.tables
    assert table["D"].tolist() == [100, 100, 48, 48, 100]
    assert table["N"].tolist() == [20, 10, 10, "", ""]
    assert table["features"].tolist() == ["rbf", "neurons", "rbf", *["learned (network)"] * 2]
    assert table["test accuracy"].tolist() == [
        *("0.650 ± 0.071", "0.500", "0.800", "0.900", "1.000")
    ]
    assert table["bound of theorem 2"].tolist() == ["0.200 ± 0.000", "0.200", "", "", ""]
    assert table["train accuracy"].tolist()[1:] == ["0.750"] * 4
    assert table["norm B"].tolist()[2:] == ["1.000", "", ""]
    figure = made.figures["fixed_features"]()
    assert len(figure.axes) == 4
    assert [axis.get_title() for axis in figure.axes[:2]] == ["D = 48, k = 5", "D = 100, k = 5"]
    marks = figure.axes[1].containers
    found = {mark.get_label(): mark.lines[0].get_ydata().tolist() for mark in marks}
    assert found["random neurons"] == [0.5]
    assert found["random features of an RBF"] == pytest.approx([0.65])
    (level,) = (line for line in figure.axes[0].get_lines() if line.get_label() == "network")
    assert level.get_ydata()[0] == 0.9
    assert make_report(config, results.iloc[:0], tmp_path).tables == []


def test_linear_models_are_fitted_on_the_host_and_networks_on_the_device(points):
    on_host = {
        group[0].config.learner: experiment.EXPERIMENT.on_host(group[0].config) for group in points
    }
    assert on_host == {"network": False, "rbf": True}


@pytest.mark.parametrize("field", ["penalties", "bandwidths"])
def test_nothing_to_try_is_refused_before_anything_is_trained(field):
    config = set_fields(settings.default_config(), {field: ()})
    with pytest.raises(InputError, match=f"config.{field} is .*accepted: .*one value or more"):
        settings.validate(config)
