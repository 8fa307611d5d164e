"""Theorem 2: fits of fixed filters against closed forms and scikit-learn, and decisions."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from sklearn.linear_model import LogisticRegression
from small_sweeps import maker, swept

from lsa_jax.experiments.lsa.kernel_bound import experiment
from lsa_jax.experiments.lsa.kernel_bound.experiment import EXPERIMENT, KernelBound, fit_logistic
from lsa_jax.experiments.lsa.kernel_bound.report import make_claims, make_report
from lsa_jax.experiments.lsa.kernel_bound.settings import SETTINGS, row_length
from lsa_jax.experiments.lsa.kernel_bound.thresholds import Design, discriminant
from lsa_jax.experiments.lsa.signal_dynamics import experiment as dynamics
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting import outcomes as kept
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.experiment import Outcome

TINY = {
    "num_train": 200,
    "num_validation": 100,
    "num_test": 400,
    "pass_fractions": (0.1,),
    "penalties": (1.0, 0.1),
    "sweep.k": (20,),
    "sweep.m": (3, 1),
    "sweep.seed": (0, 1),
    "sweep.network_seed": (),
    "sweep.linear_seed": (),
}

make = maker(SETTINGS, TINY)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    config, points = make()
    directory = tmp_path_factory.mktemp("kernel_bound") / "out"
    return directory, swept(config, points, directory)


def test_a_sweep_measures_the_kernels_and_keeps_their_outcomes(finished):
    directory, kernels = finished
    assert (kernels["status"] == "ok").all() and len(kernels) == 2 * 2
    assert (kernels["least_test_error"] <= kernels["test_error"]).all()
    assert (kernels["least_test_error"] <= kernels["discriminant_error"]).all()
    found = kept.read(directory, kernels["id"])
    for row in kernels.itertuples():
        assert row.test_error == pytest.approx(1 - found[row.id].values.mean())
    tests = {(row.seed, found[row.id].test) for row in kernels.itertuples()}
    assert len(tests) == 2  # a test set a seed, which its kernels share


def test_the_discriminant_errs_as_often_as_it_should_and_less_with_more_filters(finished):
    kernels = finished[1]
    away = (kernels["discriminant_error"] - kernels["predicted_error"]).abs()
    # 400 examples, and an output that is not quite normal.
    assert (away < 4 * 0.5 / np.sqrt(400)).all()
    # With all rows passing, which every search tries, w* alone errs as often as this; d = 2.
    linear = scipy.stats.norm.cdf(-1 / np.sqrt(20 / 2))
    assert (kernels["predicted_error"] <= linear + 1e-6).all()
    predicted = kernels.pivot(index="seed", columns="m")["predicted_error"]
    assert (predicted[3] <= predicted[1] + 1e-9).all()


def test_a_kernel_does_not_depend_on_the_other_seeds(finished, tmp_path):
    _, points = make(sweep__seed=(1,))
    fractions = []
    found = EXPERIMENT.run(points, None, tmp_path, fractions.append)
    wanted = finished[1].query("seed == 1")["test_error"].tolist()
    assert [outcome.metrics["test_error"] for outcome in found] == wanted
    assert (np.diff(fractions) > 0).all() and 0 < fractions[0] and fractions[-1] < 1


def test_the_fit_that_errs_least_on_validation_is_tested_and_pulled_by_the_noise_s_covariance(
    monkeypatch,
):
    """Two filters without thresholds: a noise row's features are (x, x), so are k rows' sums."""
    _, points = make(penalties=(2.0, 0.5), sweep__m=(2,), sweep__seed=(0,))
    given = []

    def fit(features, start, covariance, penalties):
        given.append((start, covariance, penalties))
        return np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])

    monkeypatch.setattr(experiment, "fit_logistic", fit)
    angle = np.array([0.3, 1.2])
    design = Design(np.stack([np.cos(angle), np.sin(angle)], axis=1), np.zeros(2))
    start = discriminant(design, 2**-0.5, 20)
    # Of ten examples of each stream: how many the discriminant and either fit get wrong.
    wrong = {"TRAIN": (1, 2, 3), "VALIDATION": (4, 5, 3), "TEST": (6, 2, 7)}

    def examples(discriminant, first, second):
        rows = np.ones((10, 4))
        rows[:first, 1], rows[10 - second :, 2] = -1, 0
        rows[:, 0] = 1 - (rows @ start - start[0]) / start[0]
        rows[:discriminant, 0] -= 2 / start[0]
        return rows

    features = {getattr(KernelBound, name): examples(*counts) for name, counts in wrong.items()}
    outcome = experiment.fit_kernel(points[0].config, design, features)
    assert [row["penalty"] for row in outcome.history] == [np.inf, 2.0, 0.5]
    for stream, counts in wrong.items():
        found = [10 * row[f"{stream.lower()}_error"] for row in outcome.history]
        assert found == pytest.approx(counts)
    names = ("test_error", "least_test_error", "discriminant_error")
    assert [outcome.metrics[name] for name in names] == pytest.approx([0.7, 0.2, 0.6])
    assert outcome.outcomes.values.tolist() == [True] * 3 + [False] * 7
    ((pulled_to, covariance, penalties),) = given
    assert tuple(penalties) == (2.0, 0.5) and np.array_equal(pulled_to, start)
    np.testing.assert_allclose(covariance, 10 * np.kron(np.ones((2, 2)), np.eye(2)), atol=1e-4)


def test_kernels_of_a_seed_share_a_group_and_so_do_the_networks():
    _, points = make(sweep__k=(20, 30), sweep__network_seed=(0, 1))
    groups = EXPERIMENT.groups(points)
    names = [[p.id for p in group] for group in groups]
    assert names[0] == ["network-k=20-seed=0", "network-k=20-seed=1"]
    assert names[1] == ["kernel-k=20-m=3-seed=0", "kernel-k=20-m=1-seed=0"]
    assert len(names) == 2 * (1 + 2)
    assert [EXPERIMENT.on_host(group[0].config) for group in groups[:2]] == [False, True]


def test_the_network_is_trained_on_the_kernels_distribution_and_errs_where_it_is_not_right(
    monkeypatch, tmp_path
):
    seen = []

    def fake(group, data, directory, progress):
        seen.extend(point.config for point in group)
        metrics = {"test_accuracy": 0.75, "w_dot_wstar": 2.0, "ratio": 0.4, "b": -0.8}
        return [Outcome(metrics, []), Outcome({}, [], "failed", "no")]

    monkeypatch.setattr(dynamics, "run", fake)
    _, points = make(sweep__k=(3000,), sweep__network_seed=(3, 4), sweep__m=())
    fine, failed = EXPERIMENT.run(points, None, tmp_path, float)
    assert fine.metrics == {"test_error": 0.25, "w_dot_wstar": 2.0, "ratio": 0.4}
    assert (failed.status, failed.message) == ("failed", "no")
    assert [config.seed for config in seen] == [3, 4]
    assert seen[0].d == row_length(points[0].config) == 47
    assert noise_std(3000, seen[0].noise_scale) == pytest.approx(47**-0.5)


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
    _, points = make(num_test=4000, sweep__k=(20, 60), sweep__m=(), sweep__linear_seed=(0, 1))
    errors = [EXPERIMENT.run([p], None, tmp_path, float)[0].metrics["test_error"] for p in points]
    assert errors[0] != errors[1]
    for point, error in zip(points, errors, strict=True):
        wanted = scipy.stats.norm.cdf(-np.sqrt(row_length(point.config) / point.config.k))
        assert error == pytest.approx(wanted, abs=4 * 0.5 / 4000**0.5)


# Kernels of many filters, without which few would say nothing of their number.
MANY = {64: [0.001, 0.002]}


def table(kernel_errors, network_errors, linear_errors=()):
    learners = [("kernel", m, errors) for m, errors in kernel_errors.items()]
    learners += [("network", 1, network_errors), ("linear", 1, linear_errors)]
    rows = [
        {"learner": learner, "k": 9, "d": 3, "m": m, "seed": s, "test_error": e, "status": "ok"}
        for learner, m, errors in learners
        for s, e in enumerate(errors)
    ]
    return pd.DataFrame(rows)


def decided(results, num_test):
    """Returns the decided claims: of the kernels' share, of the network, of the linear one."""
    filters = sorted(map(int, results.loc[results["learner"] == "kernel", "m"].unique()))
    rows = decide_all(make_claims(9, filters), Runs.of([], results.assign(num_test=num_test)))
    words = ("share", "the network", "error of the linear")
    found = {word: row for row in rows[::-1] for word in words if row.item.startswith(word)}
    return [found.get(word) for word in words]


@pytest.mark.parametrize(
    ("errors", "num_test", "status"),
    [
        (0.3 + 1e-6 * np.arange(20), 3000, "undecided"),  # too few for a probability of 0.999
        ([0.3, 0.05], 3000, "not shown"),  # one draw is surely below the bound
        ([0.3, 0.09], 3000, "undecided"),  # 9 % of 3,000 examples are no sure exception
        (0.3 + 1e-6 * np.arange(3688), 10**6, "shown"),  # 0.999^3688 is below 2.5 %
        (0.3 + 1e-6 * np.arange(3687), 10**6, "undecided"),
    ],
)
def test_the_share_of_draws_is_decided_by_the_exact_binomial_interval(errors, num_test, status):
    share, network, _ = decided(table({1: errors, **MANY}, [0.001, 0.003]), num_test)
    assert (share.status, network.status) == (status, "shown")


def test_kernels_that_fail_show_nothing_where_nothing_could_be_learned():
    share, network, _ = decided(table({1: [0.3, 0.31], **MANY}, [0.1, 0.2]), 3000)
    assert share.status == "condition not met" and network.status == "not shown"
    no_search = decided(table({1: [0.3, 0.31]}, [0.001, 0.003]), 3000)
    assert no_search[0].status == "condition not met"


@pytest.mark.parametrize(
    ("errors", "status"),
    [
        ([0.001, 0.002], "shown"),
        ([0.001], "shown of one seed"),
        ([0.001, 0.0095], "undecided"),
        ([0.001, 0.02], "not shown"),
    ],
)
def test_the_network_errs_on_next_to_nothing_for_every_seed(errors, status):
    _, network, linear = decided(table({}, errors, [0.4, 0.5]), 10_000)
    assert network.status == status
    assert linear.ours == pytest.approx(scipy.stats.norm.sf(3**-0.5), abs=1e-4)
    assert (linear.status, linear.low) == ("not shown", None)


def test_a_report_has_errors_and_how_many_reach_the_bound_by_m(tmp_path):
    fine = table({1: [0.25, 0.05], 3: [0.1, 0.2]}, [0.001, 0.003], [0.5, 0.5])
    columns = dict.fromkeys(("least_test_error", "discriminant_error", "predicted_error"), 0.5)
    failed = fine.iloc[:1].assign(test_error=0.9, status="failed")
    results = pd.concat([fine, failed]).assign(**columns)
    report = make_report(SETTINGS.default_config(), results, tmp_path)
    errors, shares, _ = (frame for _, frame in report.tables)
    assert list(errors) == ["k", "m = 1", "m = 3", "network", "linear"]
    assert shares.iloc[0].tolist() == [9, "1 of 2", "2 of 2", "0 of 2", "2 of 2"]
    figure = report.figures["kernel_bound"]()
    lines = {line.get_label(): line.get_data() for line in figure.axes[0].lines}
    np.testing.assert_allclose(lines["k = 9"], [[1, 3], [0.15, 0.15]])
    np.testing.assert_allclose(lines["network, k = 9"][1], [0.002, 0.002])
    plt.close(figure)
    network = results[results["learner"] == "network"]
    assert make_report(SETTINGS.default_config(), network, tmp_path).tables == []
