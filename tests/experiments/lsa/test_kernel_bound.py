import json

import numpy as np
import pytest
import scipy.stats
from sklearn.linear_model import LogisticRegression
from small_sweeps import maker

from lsa_jax.experiments.lsa.kernel_bound import experiment, settings
from lsa_jax.experiments.lsa.kernel_bound.experiment import EXPERIMENT, fit_logistic
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.run import run_sweep

TINY = {
    "num_train": 200,
    "num_validation": 100,
    "num_test": 400,
    "pass_fractions": (0.1,),
    "penalties": (1.0, 0.1),
    "sweep.k": (20,),
    "sweep.m": (1, 3),
    "sweep.seed": (0, 1),
    "sweep.network_seed": (),
    "sweep.linear_seed": (),
}


make = maker(settings, TINY)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config, points = make()
    directory = tmp_path_factory.mktemp("kernel_bound") / "out"
    return directory, run_sweep(config, points, directory, data_dir=None, command=["test"])


def test_a_sweep_measures_the_kernels(finished):
    directory, kernels = finished
    assert (kernels["status"] == "ok").all() and len(kernels) == 2 * 2
    assert kernels["test_error"].between(0, 1).all()
    assert (kernels["least_test_error"] <= kernels["test_error"]).all()
    assert (kernels["least_test_error"] <= kernels["discriminant_error"]).all()
    for name in ("kernel_bound.png", "kernel_bound.svg", "report.md"):
        assert (directory / name).stat().st_size > 0
    assert len(json.loads((directory / "report.json").read_text())) == 6


def test_the_discriminant_errs_as_often_as_it_should(finished):
    kernels = finished[1]
    away = (kernels["discriminant_error"] - kernels["predicted_error"]).abs()
    # 400 examples, and an output that is not quite normal.
    assert (away < 4 * 0.5 / np.sqrt(400)).all()
    # With all rows passing, which every search tries, w* alone errs as often as this; d = 2.
    linear = scipy.stats.norm.cdf(-1 / np.sqrt(20 / 2))
    assert (kernels["predicted_error"] <= linear + 1e-6).all()


def test_more_filters_are_predicted_to_err_less(finished):
    errors = finished[1].pivot(index="seed", columns="m")
    predicted = errors["predicted_error"]
    assert (predicted[3] <= predicted[1] + 1e-9).all()


def test_a_kernel_does_not_depend_on_the_other_seeds(finished, tmp_path):
    _, points = make(sweep__seed=(1,))
    outcomes = EXPERIMENT.run(points, None, tmp_path, lambda fraction: None)
    wanted = finished[1].query("seed == 1")
    assert [o.metrics["test_error"] for o in outcomes] == list(wanted["test_error"])
    assert all(EXPERIMENT.on_host(point.config) for point in points)
    networks = make(sweep__seed=(), sweep__network_seed=(0,))[1]
    assert [EXPERIMENT.on_host(point.config) for point in networks] == [False]


def test_the_fit_that_errs_least_on_validation_is_tested_and_pulled_by_the_noise_s_covariance(
    monkeypatch,
):
    """Two filters without thresholds: a noise row's features are (x, x), so are k rows' sums."""
    _, points = make(penalties=(2.0, 0.5), sweep__m=(2,), sweep__seed=(0,))
    config, given = points[0].config, []

    def fit(features, start, covariance, penalties):
        given.append((start, covariance, penalties))
        return np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])

    monkeypatch.setattr(experiment, "fit_logistic", fit)
    angle = np.array([0.3, 1.2])
    directions = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    design = experiment.Design(directions, np.zeros(2))
    start = experiment.discriminant(design, 2**-0.5, 20)
    # Of ten examples of each stream: how many the discriminant and either fit get wrong.
    wrong = {"TRAIN": (1, 2, 3), "VALIDATION": (4, 5, 3), "TEST": (6, 2, 7)}

    def examples(discriminant, first, second):
        rows = np.ones((10, 4))
        rows[:first, 1], rows[10 - second :, 2] = -1, 0
        rows[:, 0] = 1 - (rows @ start - start[0]) / start[0]
        rows[:discriminant, 0] -= 2 / start[0]
        return rows

    features = {
        getattr(experiment.KernelBound, stream): examples(*counts)
        for stream, counts in wrong.items()
    }
    outcome = experiment.fit_kernel(config, design, features)
    assert [row["penalty"] for row in outcome.history] == [np.inf, 2.0, 0.5]
    for stream, counts in wrong.items():
        found = [10 * row[f"{stream.lower()}_error"] for row in outcome.history]
        assert found == pytest.approx(counts)
    names = ("test_error", "least_test_error", "discriminant_error")
    assert [outcome.metrics[name] for name in names] == pytest.approx([0.7, 0.2, 0.6])
    ((pulled_to, covariance, penalties),) = given
    assert tuple(penalties) == (2.0, 0.5) and np.array_equal(pulled_to, start)
    rows = np.random.default_rng(0).normal(size=(4000, 20, 2)) * 2**-0.5  # d = 2
    sums = np.concatenate([rows.sum(axis=1)] * 2, axis=1)
    np.testing.assert_allclose(covariance, np.cov(sums.T), atol=1.0)
    np.testing.assert_allclose(covariance, 10 * np.kron(np.ones((2, 2)), np.eye(2)), atol=1e-4)


def test_kernels_of_a_seed_have_each_its_own_part_of_examples_that_are_drawn_once(
    monkeypatch, tmp_path
):
    """Whatever their order; smaller kernels come first among what is drawn."""
    drawn, fitted, fractions = [], [], []

    def draw(key, *, designs, sigma, k, num_examples):
        assert (sigma, k) == (2**-0.5, 20)  # d = 2
        drawn.append((key, designs))
        return [(design, num_examples) for design in designs]

    def fit(config, design, features):
        fitted.append((config.m, design, features))
        return Outcome({"test_error": config.m}, [])

    monkeypatch.setattr(experiment, "choose_designs", lambda group: [p.config.m for p in group])
    monkeypatch.setattr(experiment, "draw_features", draw)
    monkeypatch.setattr(experiment, "fit_kernel", fit)
    _, points = make(sweep__m=(3, 1, 2), sweep__seed=(0,))
    outcomes = EXPERIMENT.run(points, None, tmp_path, fractions.append)
    assert [outcome.metrics["test_error"] for outcome in outcomes] == [3, 1, 2]
    assert [designs for _, designs in drawn] == [[1, 2, 3]] * 3
    assert len({str(key) for key, _ in drawn}) == 3
    stream = experiment.KernelBound
    sizes = {stream.TRAIN: 200, stream.VALIDATION: 100, stream.TEST: 400}
    parts = {m: {place: (m, size) for place, size in sizes.items()} for m in (1, 2, 3)}
    assert sorted(fitted, key=lambda of: of[0]) == [(m, m, parts[m]) for m in (1, 2, 3)]
    assert 0 < fractions[0] and fractions[-1] < 1 and (np.diff(fractions) > 0).all()


def test_kernels_of_a_seed_share_a_group_and_so_do_the_networks():
    _, points = make(sweep__k=(20, 30), sweep__network_seed=(0, 1))
    names = [[p.id for p in group] for group in EXPERIMENT.groups(points)]
    assert names[0] == ["network-k=20-seed=0", "network-k=20-seed=1"]
    assert names[1] == ["kernel-k=20-m=1-seed=0", "kernel-k=20-m=3-seed=0"]
    assert len(names) == 2 * (1 + 2)


def test_the_network_is_trained_on_the_kernels_distribution():
    _, points = make(sweep__k=(3000,), sweep__network_seed=(0,))
    config = experiment.network_point(points[0]).config
    assert config.d == settings.row_length(points[0].config)
    assert noise_std(3000, config.noise_scale) == pytest.approx(config.d**-0.5)


def test_the_networks_error_is_what_its_accuracy_leaves(monkeypatch, tmp_path):
    seen = []

    def fake(group, data, directory, progress):
        seen.append((directory, [point.config.seed for point in group]))
        metrics = {"test_accuracy": 0.75, "w_dot_wstar": 2.0, "ratio": 0.4, "b": -0.8}
        return [Outcome(metrics, []), Outcome({}, [], "failed", "no")]

    monkeypatch.setattr(experiment.experiment, "run", fake)
    _, points = make(sweep__network_seed=(3, 4), sweep__m=())
    fine, failed = EXPERIMENT.run(points, None, tmp_path, lambda fraction: None)
    assert seen == [(tmp_path, [3, 4])]
    assert fine.metrics["test_error"] == 0.25 and fine.metrics["w_dot_wstar"] == 2.0
    assert (failed.status, failed.message) == ("failed", "no")


def test_the_fit_is_that_of_sklearn_where_the_start_is_zero():
    generator = np.random.default_rng(0)
    features = generator.normal(size=(60, 3)) + np.array([[0.5, 0.0, -0.3]])
    labels = generator.choice([-1, 1], 60)
    penalty = 0.2
    reference = LogisticRegression(C=1 / (penalty * 60), fit_intercept=False, tol=1e-8)
    reference.fit(features * labels[:, None], labels)
    (found,) = fit_logistic(features, np.zeros(3), np.eye(3), [penalty])
    np.testing.assert_allclose(found, reference.coef_[0], rtol=1e-3, atol=1e-4)


def test_the_fit_balances_loss_and_distance_from_the_start():
    generator = np.random.default_rng(1)
    features, start = generator.normal(size=(50, 2)) + 0.4, np.array([1.0, -0.5])
    covariance, penalty = np.array([[2.0, 0.6], [0.6, 0.5]]), 0.3
    _, found = fit_logistic(features, start, covariance, [1.0, penalty])
    residual = 1 / (1 + np.exp(features @ found))
    slope = penalty * covariance @ (found - start) - features.T @ residual / 50
    np.testing.assert_allclose(slope, 0, atol=1e-4)


def test_the_linear_classifier_errs_as_often_as_noise_of_log_k_makes_it(monkeypatch, tmp_path):
    monkeypatch.setattr(experiment, "_DRAWN", 20_000)
    fields = {"sweep__k": (20, 60), "sweep__m": (), "sweep__linear_seed": (0, 1)}
    _, points = make(num_test=4000, **fields)
    (first, other, *_) = points
    outcomes = EXPERIMENT.run(points[:2], None, tmp_path, float)
    assert [o.metrics["test_error"] for o in outcomes] == [
        experiment.linear_error(point.config) for point in (first, other)
    ]
    assert outcomes[0].metrics["test_error"] != outcomes[1].metrics["test_error"]
    for point in points:
        d = round(point.config.k / np.log(point.config.k) ** 2)
        wanted = scipy.stats.norm.cdf(-np.sqrt(d / point.config.k))
        assert experiment.linear_error(point.config) == pytest.approx(
            wanted, abs=4 * 0.5 / 4000**0.5
        )
    # Where the report says that the paper's number is reached.
    assert scipy.stats.norm.cdf(-1 / 39.9) == pytest.approx(0.49, abs=1e-5)
