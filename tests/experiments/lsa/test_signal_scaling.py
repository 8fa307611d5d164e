import json
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.lsa.signal.descent import flow_to_target
from lsa_jax.experiments.lsa.signal.population import misclassification
from lsa_jax.experiments.lsa.signal_scaling import experiment, settings
from lsa_jax.experiments.lsa.signal_scaling.claims import make_claims
from lsa_jax.experiments.lsa.signal_scaling.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.signal_scaling.report import make_report, series
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.run import run_sweep
from lsa_jax.sweep.variants import set_fields
from lsa_jax.training.segments import Evaluations

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


make = maker(settings, TINY)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    directory = tmp_path_factory.mktemp("scaling")
    config, points = make()
    results = run_sweep(config, points, directory / "out", data_dir=None, command=["test"])
    return results, points, directory / "out"


def test_every_learner_has_its_points_and_seeds_run_together():
    _, points = make()
    groups = [[point.id for point in group] for group in EXPERIMENT.groups(points)]
    assert groups == [
        ["population-noise_scale=0.3-k=12"],
        ["population-noise_scale=0.3-k=48"],
        [f"sgd-noise_scale=0.3-k=12-seed={seed}" for seed in (0, 1)],
    ]
    assert [EXPERIMENT.on_host(point.config) for point in points] == [True, True, False, False]


def test_a_run_ends_at_the_first_evaluation_whose_exact_error_is_small_enough(swept):
    results, _, directory = swept
    runs = results[results["learner"] == "sgd"]
    assert runs["reached"].all()
    for row in runs.to_dict("records"):
        lines = (directory / "runs" / row["id"] / "metrics.jsonl").read_text().splitlines()
        history = [json.loads(line) for line in lines]
        errors = [
            misclassification(r["w_dot_wstar"], r["w_perp_norm"], r["b"], noise_std(12, 0.3), 12)
            for r in history
        ]
        assert [r["test_error"] for r in history] == pytest.approx(errors, abs=1e-12)
        assert min(errors[:-1]) > 0.05 >= errors[-1]
        assert row["steps_taken"] == history[-1]["step"] == 5 * (len(history) - 1)
        assert row["samples"] == 20 * row["steps_taken"]


def test_a_flow_ends_at_the_error_after_about_as_many_steps(swept):
    results, _, _ = swept
    flows = results[results["learner"] == "population"]
    assert flows["reached"].all() and flows["samples"].isna().all()
    assert flows["test_error"].tolist() == pytest.approx([0.05, 0.05], abs=1e-5)
    sampled = results.loc[results["learner"] == "sgd", "steps_taken"].mean()
    assert 0.3 < sampled / flows["steps_taken"].iloc[0] < 3


def test_the_report_has_table_claims_and_figure(swept):
    _, _, directory = swept
    items = [claim["item"] for claim in json.loads((directory / "report.json").read_text())]
    assert len(items) == 4 and "population, noise scale 0.3" in items[0]
    for name in ("signal_scaling.png", "signal_scaling.svg", "report.md"):
        assert (directory / name).stat().st_size > 0


def test_a_group_killed_at_its_end_goes_on_with_the_same_numbers(swept):
    results, points, directory = swept
    group, told = points[-2:], []
    outcomes = EXPERIMENT.run(group, None, directory / "groups" / group[0].id, told.append)
    assert not told  # nothing was left to do
    wanted = results[results["learner"] == "sgd"]
    for name in ("steps_taken", "test_error", "b", "w_dot_wstar", "test_accuracy"):
        assert [outcome.metrics[name] for outcome in outcomes] == wanted[name].tolist()


def rows(steps, reached=None, learner="sgd", seed=0):
    """Made-up results at k = 16, 64, ..., one row a k."""
    return pd.DataFrame(
        {
            "learner": learner,
            "noise_scale": 0.5,
            "k": [16 * 4**i for i in range(len(steps))],
            "reached": reached or [True] * len(steps),
            "steps_taken": steps,
            "seed": seed,
            "test_error": 1e-3 * (1 + seed),
            "status": "ok",
        }
    )


def decided(results):
    """Returns the decided claims: whether there is a k0, and the growth of the steps."""
    return decide_all(make_claims(list(series(results)), 0.0), Runs.of([], results))


def test_growth_is_decided_between_neighbours_from_k0_on():
    first, growth = decided(
        rows([5.0, 100.0, 200.0, 400.0], [False, True, True, True], "population")
    )
    assert (first.ours, first.status) == ("64", "shown")
    assert growth.status == "shown" and growth.ours.startswith("0.500 ± 0.000 (0.50 to 0.50)")
    _, growth = decided(rows([100.0, 100.0, 1000.0], learner="population"))
    assert growth.status == "not shown" and growth.ours.endswith("at most 1.66")


@pytest.mark.parametrize(("exponent", "status"), [(0.98, "shown"), (1.02, "not shown")])
def test_growth_is_polynomial_up_to_linear(exponent, status):
    steps = [100 * 4 ** (exponent * place) for place in range(3)]
    first, growth = decided(rows(steps, learner="population"))
    assert (first.status, growth.status, growth.low) == ("shown", status, None)


def test_exponents_are_fitted_from_16_times_k0_on_where_there_are_enough_k():
    # At k0 and next to it steps are few; from 16 k0 on they grow like the root of k.
    found = decided(rows([1.0, 2.0, 100.0, 200.0, 400.0], learner="population"))[1]
    assert found.ours.startswith("0.500 ± 0.000") and found.ours.endswith("at most 2.82")


def test_the_growth_of_minibatches_is_decided_by_seeds():
    def growth(*seeds):
        return decided(pd.concat([rows(own, seed=n) for n, own in enumerate(seeds)]))[1]

    assert growth([100.0, 200.0, 400.0]).status == "undecided"
    apart = growth([100.0, 200.0, 400.0], [110.0, 205.0, 390.0], [90.0, 190.0, 410.0])
    assert apart.status == "shown" and apart.low < apart.high < 1
    assert growth([100.0, 300.0, 900.0], [40.0, 300.0, 2000.0]).status == "undecided"
    # Between one pair of neighbours it is surely faster: the other one's does not matter.
    faster = growth([100.0, 900.0, 904.0], [101.0, 905.0, 907.0], [99.0, 896.0, 901.0])
    assert faster.status == "not shown" and faster.low > 1


@pytest.mark.parametrize(
    ("steps", "reached", "statuses"),
    [
        ([100.0, 200.0], None, ("condition not met",) * 2),
        ([1.0, 2.0, 3.0], [False] * 3, ("not shown", "not run")),
        ([1.0, 2.0, 3.0], [False, False, True], ("condition not met", "not run")),
    ],
)
def test_too_few_k_show_nothing(steps, reached, statuses):
    found = decided(rows(steps, reached, "population"))
    assert tuple(claim.status for claim in found) == statuses


def test_growth_is_that_of_the_mean_over_seeds_however_many_a_k_has():
    """Four seeds at 64 and two at each of 16 and 256, of which the steps grow like the root."""
    some = [rows([100.0, 200.0, 400.0], seed=seed) for seed in (0, 1)]
    some += [rows([200.0], seed=seed).assign(k=64) for seed in (2, 3)]
    some = [own.assign(steps_taken=own["steps_taken"] * (1 + 1e-9 * own["seed"])) for own in some]
    found = decided(pd.concat(some))[1]
    assert found.low == pytest.approx(0.5) and found.status == "shown"


def test_a_table_has_a_row_a_k_of_the_runs_that_reached_the_error():
    config, _ = make()
    columns = {"samples": [100, 300, 40, 80], "test_error": [0.01, 0.03, 0.02, 0.5]}
    columns |= {"w_dot_wstar": [1.0, 2.0, 3.0, 5.0], "b": [-1.0, -2.0, -3.0, -5.0]}
    runs = rows([10.0, 30.0, 4.0, 8.0], [True, True, True, False]).assign(**columns)
    runs = runs.assign(k=[16, 16, 64, 64], status=["ok", "ok", "ok", "ok"])
    failed = runs.iloc[:1].assign(status="failed", steps_taken=1e6)
    report = make_report(config, pd.concat([runs, failed]), Path())
    ((heading, table),) = report.tables
    assert heading == "Minibatches, noise scale 0.5"
    assert table["k"].tolist() == [16, 64] and table["reached"].tolist() == ["2 of 2", "1 of 2"]
    assert table["steps"].tolist() == ["20 ± 14", "4"]
    assert table["samples"].tolist() == ["200 ± 1.4e+02", "40"]
    np.testing.assert_allclose(table[["error", "w.w*", "b"]], [[0.02, 1.5, -1.5], [0.26, 4, -4]])
    for words in ("batches of 20 fresh", "at most 0.05", "rate 0.5", "to within 5 steps"):
        assert words in report.notes[0]
    figure = report.figures["signal_scaling"]()
    reached, missed, *_ = figure.axes[0].lines
    np.testing.assert_allclose(reached.get_data(), [[16, 16, 64], [10, 30, 4]])
    np.testing.assert_allclose(missed.get_data(), [[64], [90]])  # three times the most steps
    plt.close(figure)


def test_a_flow_takes_its_time_over_the_rate_in_steps():
    _, points = make()
    for rate in (0.5, 0.125):
        config = set_fields(points[1].config.copy_and_resolve_references(), {"learning_rate": rate})
        flow, sigma = flow_to_target(config)
        (outcome,) = EXPERIMENT.run([points[1]._replace(config=config)], None, Path(), float)
        found = outcome.metrics
        assert found["steps_taken"] == outcome.history[0]["step"] == flow.times[-1] / rate
        error = misclassification(*flow.states[-1], sigma, config.k)
        assert found["test_error"] == pytest.approx(error, rel=1e-9)


def test_errors_are_computed_where_the_state_is_finite():
    table = {name: np.full((3, 2), 0.5) for name in ("w_dot_wstar", "w_perp_norm")}
    table |= {"b": np.array([[0.0, 0.0], [0.0, np.nan], [0.0, 0.0]])}
    table["w_perp_norm"][2, 0] = np.inf
    _, points = make()
    group = points[-2:]

    runs = Evaluations([0, 5, 10], None, table, 1)
    errors = experiment._Errors(group)
    first = errors.of(runs)
    wanted = misclassification(0.5, 0.5, 0.0, noise_std(12, 0.3), 12)
    np.testing.assert_allclose(first, [[wanted, wanted], [wanted, np.nan]])
    np.testing.assert_allclose(errors.of(runs._replace(last=2))[2], [np.nan, wanted])


def test_a_run_ends_where_it_first_reached_the_error_or_else_where_it_stopped(
    monkeypatch, tmp_path
):
    """Of two runs one has the error from the second evaluation on, and the other never has."""
    near, far = (2.4, 0.0, -1.0), (0.5, 0.5, 0.0)
    states = np.array([[far, far], [near, far], [near, far]])
    names = ("w_perp_norm", "ratio", "test_accuracy", "train_loss", "grad_norm")
    table = dict.fromkeys(names, np.ones((3, 2)))
    table |= {name: states[:, :, i] for i, name in enumerate(("w_dot_wstar", "w_perp_norm", "b"))}
    ended = []

    def run_until(finished, group, *given):
        of = {name: values[:, : len(group)] for name, values in table.items()}
        taken = SimpleNamespace(step=np.full(len(group), 10))
        runs = Evaluations([0, 5, 10], taken, of, 2)
        ended.extend(finished(runs._replace(last=last)) for last in range(3))
        return runs

    monkeypatch.setattr(experiment.experiment, "run_until", run_until)
    _, points = make()
    reached, missed = EXPERIMENT.run(points[-2:], None, tmp_path, float)
    errors = [misclassification(*state, noise_std(12, 0.3), 12) for state in (far, near)]
    assert errors[0] > 0.05 > errors[1] and ended == [False] * 3
    assert [row["test_error"] for row in reached.history] == pytest.approx(errors)
    assert [row["test_error"] for row in missed.history] == pytest.approx(errors[:1] * 3)
    told = ("reached", "steps_taken", "samples", "test_error", "w_dot_wstar")
    assert [reached.metrics[name] for name in told] == [True, 5, 100, errors[1], 2.4]
    assert [missed.metrics[name] for name in told] == [False, 10, 200, errors[0], 0.5]
    (alone,) = EXPERIMENT.run(points[-1:], None, tmp_path, float)
    assert alone.metrics["reached"] and ended[3:] == [False, True, True]
