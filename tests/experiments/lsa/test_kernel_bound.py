"""Theorem 2: fits of fixed filters against closed forms and scikit-learn, and decisions."""

import math

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.stats
from small_sweeps import maker, swept

from lsa_jax.experiments.lsa.kernel_bound import experiment
from lsa_jax.experiments.lsa.kernel_bound.experiment import (
    EXPERIMENT,
    KernelBound,
    fit_logistic,
    make_claims,
)
from lsa_jax.experiments.lsa.kernel_bound.settings import SETTINGS, row_length
from lsa_jax.experiments.lsa.kernel_bound.thresholds import (
    discriminant,
    draw_features,
    row_covariance,
)
from lsa_jax.experiments.lsa.signal_dynamics import experiment as dynamics
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting import files
from lsa_jax.reporting import outcomes as kept
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.experiment import Outcome
from lsa_jax.sweep.variants import set_fields

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


def test_weights_are_pulled_to_the_discriminant_by_the_covariance_of_the_noise():
    """The errors of a kernel are those of fits that are made by hand on its examples."""
    points = make(sweep__m=(2,), sweep__seed=(3,))[1]
    config = points[0].config
    sigma, (design,) = row_length(config) ** -0.5, experiment.choose_designs(points)
    key = jax.random.key(3)
    features = {
        stream: draw_features(
            jax.random.fold_in(key, stream), [design], sigma, k=20, num_examples=config[size]
        )[0]
        for stream, size in zip((1, 2, 3), ("num_train", "num_validation", "num_test"), strict=True)
    }
    outcome = experiment.fit_kernel(config, design, features)
    start = discriminant(design, sigma, 20)
    covariance = 20 * sigma**2 * row_covariance(design, design) + 1e-9 * np.eye(len(start))
    fits = fit_logistic(features[KernelBound.TRAIN], start, covariance, config.penalties)
    right = features[KernelBound.TEST] @ np.stack([start, *fits]).T > 0
    found = [row["test_error"] for row in outcome.history]
    np.testing.assert_allclose(found, 1 - right.mean(axis=0), atol=2.5e-3)


def test_a_sweep_measures_the_kernels_and_keeps_their_outcomes(finished):
    directory, kernels = finished
    assert (kernels["status"] == "ok").all() and len(kernels) == 2 * 2
    found = kept.read(directory, kernels["id"])
    for row in kernels.itertuples():
        assert row.test_error == pytest.approx(1 - found[row.id].values.mean())
        fits = pd.DataFrame(files.read_metrics(directory, row.id))
        assert fits["penalty"].tolist()[1:] == [1.0, 0.1]  # after the discriminant
        # The fit that errs least on validation examples is tested.
        assert row.test_error == fits["test_error"][fits["validation_error"].argmin()]
        assert row.discriminant_error == fits["test_error"][0]
        assert row.least_test_error == fits["test_error"].min()
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


@pytest.mark.parametrize("k", [100, 1000, 10_000])
def test_rows_are_as_long_as_makes_both_formulas_of_the_noise_agree(k):
    d = row_length(make(k=k)[0])
    assert d == pytest.approx((math.log(k) / math.sqrt(k)) ** -2, abs=0.5)
    assert row_length(make(k=k, d=7)[0]) == 7


def test_the_sweep_leaves_out_kernels_with_too_many_weights():
    fields = {"sweep.k": (1000, 3000), "sweep.m": (2, 50), "sweep.seed": (4,)}
    fields |= {"sweep.network_seed": (5,), "sweep.linear_seed": (), "max_features": 50 * 21}
    points = SETTINGS.sweep(set_fields(SETTINGS.default_config(), fields))
    assert [(p["learner"], p["k"], p.get("m"), p["seed"]) for p in points] == [
        ("network", 1000, None, 5),
        ("kernel", 1000, 2, 4),
        ("kernel", 1000, 50, 4),
        ("network", 3000, None, 5),
        ("kernel", 3000, 2, 4),  # 50 filters of 47 entries are too many
    ]


def decided(errors, most, *, is_largest=True):
    """Decides the share of draws of a filter; 64 filters err on `most`, and the network learns."""
    learners = [("kernel", 1, errors), ("kernel", 64, [most] * 2), ("network", 1, [0.001, 0.003])]
    rows = pd.DataFrame(
        {"learner": name, "k": 9, "d": 3, "m": m, "seed": seed, "test_error": error}
        for name, m, own in learners
        for seed, error in enumerate(own)
    ).assign(num_test=10**6, status="ok")
    found = decide_all(make_claims(9, [1], is_largest=is_largest), Runs.of([], rows))
    (row,) = (row for row in found if "share of draws" in row.item)
    return row


@pytest.mark.parametrize(
    ("errors", "most", "status"),
    [
        # 0.999^3688 is below 2.5 %: so many draws show a probability of 0.999.
        (0.3 + 1e-6 * np.arange(3687), 0.001, "undecided"),
        (0.3 + 1e-6 * np.arange(3688), 0.001, "shown"),
        ([0.3, 0.05], 0.001, "not shown"),  # one draw is surely below the bound
        (0.3 + 1e-6 * np.arange(3688), 0.2, "condition not met"),  # the search may have failed
    ],
)
def test_a_share_of_draws_is_shown_by_many_and_refuted_by_one(errors, most, status):
    tested, measured = (decided(errors, most, is_largest=largest) for largest in (True, False))
    assert tested.status == status
    # Below the largest k the same value has the same interval, and nothing to reach.
    assert measured.status == "measured" and not measured.condition
    assert measured[2:4] == tested[2:4] and (measured.low, measured.high) == (
        tested.low,
        tested.high,
    )
