"""Theorem 1: where runs end, power laws and growths, and decisions on made-up steps."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from small_sweeps import maker, swept

from lsa_jax.experiments.lsa.signal.population import flow_to_target, misclassification
from lsa_jax.experiments.lsa.signal_scaling.experiment import (
    EXPERIMENT,
    course_of,
    fit_of,
    fit_power_law,
    growths_of,
)
from lsa_jax.experiments.lsa.signal_scaling.settings import SETTINGS
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting import files
from lsa_jax.sweep.variants import set_fields

TINY = {
    "d": 2,
    "sampler": "plain",
    "noise_scale": 0.3,
    "learning_rate": 0.5,
    "batch_size": 20,
    "num_test": 20,
    "steps": 400,
    "eval_every": 5,
    "target_error": 0.05,
    "checkpoint_every": 1,
    "sweep.seed": (0, 1),
    "sweep.k": (12,),
    "sweep.noise_scale": (0.3,),
    "sweep.population_k": (12, 48),
    "sweep.population_noise_scale": (0.3,),
}

make = maker(SETTINGS, TINY)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    directory = tmp_path_factory.mktemp("scaling") / "out"
    config, points = make()
    results = swept(config, points, directory)
    return results, points, directory


def test_a_run_ends_at_the_first_evaluation_whose_exact_error_is_small_enough(finished):
    results, _, directory = finished
    runs = results[results["learner"] == "sgd"]
    assert runs["reached"].all()
    for row in runs.to_dict("records"):
        history = files.read_metrics(directory, row["id"])
        errors = [
            misclassification(r["w_dot_wstar"], r["w_perp_norm"], r["b"], noise_std(12, 0.3), 12)
            for r in history
        ]
        assert [r["test_error"] for r in history] == pytest.approx(errors, abs=1e-12)
        assert min(errors[:-1]) > 0.05 >= errors[-1]
        assert row["steps_taken"] == history[-1]["step"] == 5 * (len(history) - 1)
        assert row["samples"] == 20 * row["steps_taken"]


def test_a_flow_ends_at_the_error_after_its_time_over_the_rate(finished):
    results, points, _ = finished
    flows = results[results["learner"] == "population"]
    assert flows["reached"].all() and flows["samples"].isna().all()
    assert flows["test_error"].tolist() == pytest.approx([0.05, 0.05], abs=1e-5)
    sampled = results.loc[results["learner"] == "sgd", "steps_taken"].mean()
    assert 0.3 < sampled / flows["steps_taken"].iloc[0] < 3
    for rate in (0.5, 0.125):
        config = set_fields(points[1].config.copy_and_resolve_references(), {"learning_rate": rate})
        (outcome,) = EXPERIMENT.run([points[1]._replace(config=config)], None, Path(), float)
        assert outcome.metrics["steps_taken"] == flow_to_target(config)[0].times[-1] / rate


def test_exponents_are_fitted_from_16_times_k0_on_where_there_are_enough_k():
    # At k0 and next to it steps are few; from 16 k0 on they grow like the root of k.
    steps = [1.0, 2.0, 100.0, 200.0, 400.0]
    course = pd.DataFrame({"k": 16 * 4 ** np.arange(5), "steps_taken": steps})
    assert fit_of(course).exponent == pytest.approx(0.5)
    assert fit_of(course.iloc[:4]) == fit_power_law(course["k"][:4], course["steps_taken"][:4])


def test_a_power_law_is_found_exactly_and_a_constant_has_exponent_0():
    k = np.array([16, 64, 256])
    fit = fit_power_law(k, 3 * k**1.5)
    assert (fit.exponent, fit.factor) == pytest.approx((1.5, 3.0))
    assert fit.low == pytest.approx(1.5) == fit.high
    assert fit_power_law(k, np.full(3, 0.7)) == (0.0, 0.0, 0.0, pytest.approx(0.7))


def test_the_interval_of_an_exponent_is_students_of_the_points_less_two():
    fit = fit_power_law(np.array([1.0, 10, 100]), np.array([1.0, 20, 100]))
    # The deviations from a straight line in units of log 10 are 1, -2 and 1 times log10(2) / 3.
    reach = 12.7062 * np.log10(2) / 3 * (6 / 1 / 2) ** 0.5
    assert (fit.low, fit.high) == pytest.approx((1 - reach, 1 + reach), rel=1e-4)
    two = fit_power_law(np.array([10, 100]), np.array([1, 100]))
    assert two.exponent == pytest.approx(2) and np.isnan([two.low, two.high]).all()
    assert fit_power_law(np.array([10, 10]), np.array([1, 2])) is None
    assert fit_power_law(np.array([10, 20]), np.array([1, 0])) is None


def test_k0_is_above_the_last_miss():
    k = np.array([1, 2, 4, 4, 8, 8])
    for reached, first in (([0, 1, 1, 0, 1, 1], 8), ([1] * 6, 1), ([1, 1, 1, 1, 1, 0], np.nan)):
        least = course_of(pd.DataFrame({"k": k, "reached": reached}))["k"].min()
        assert least == pytest.approx(first, nan_ok=True)


def growths(steps, within=0.0):
    """Returns the growths of one row a seed, one column at k = 4, 16, ..."""
    table = pd.DataFrame(steps).stack().rename_axis(["seed", "place"]).rename("steps_taken")
    table = table.reset_index()
    return growths_of(table.assign(k=4.0 ** (1 + table["place"])), within)


def test_a_growth_is_that_of_each_seed_with_students_interval():
    (first, second) = growths([[100.0, 200.0, 1600.0], [100.0, 400.0, np.nan]])
    reach = scipy.stats.t.ppf(0.975, 1) * 0.5 / 2**0.5 / 2**0.5
    np.testing.assert_allclose(first.ends(0.025), [0.75 - reach, 0.75 + reach])
    # Only the first seed has the second growth, whose error is not known.
    assert second.values.mean() == pytest.approx(1.5) and second.ends(0.025) == (-np.inf, np.inf)


def test_growths_are_wider_by_the_steps_between_evaluations():
    (known,) = growths([[100.0, 400.0], [100.0, 400.0]], 20)
    np.testing.assert_allclose(known.ends(0.025), np.log([380 / 100, 400 / 80]) / np.log(4))
    (none,) = growths([[20.0, 400.0], [20.0, 400.0]], 20)  # reached before it was looked at
    assert none.ends(0.025)[1] == np.inf and np.isfinite(none.ends(0.025)[0])
