import json

import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.lsa.signal.population import misclassification
from lsa_jax.experiments.lsa.signal_scaling import settings
from lsa_jax.experiments.lsa.signal_scaling.experiment import EXPERIMENT
from lsa_jax.experiments.lsa.signal_scaling.report import make_claims
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.sweep.run import run_sweep

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


def rows(steps, reached=None, learner="sgd"):
    """Made-up results at k = 16, 64, ..., one row a k."""
    return pd.DataFrame(
        {
            "learner": learner,
            "noise_scale": 0.5,
            "k": [16 * 4**i for i in range(len(steps))],
            "reached": reached or [True] * len(steps),
            "steps_taken": steps,
            "status": "ok",
        }
    )


def test_growth_is_judged_between_neighbours_from_k0_on():
    first, growth = make_claims(
        rows([5.0, 100.0, 200.0, 400.0], [False, True, True, True], "population")
    )
    assert (first.ours, first.status) == ("64", "shown")
    assert growth.status == "shown" and growth.ours.startswith("0.500 ± 0.000 (0.50 to 0.50)")
    _, growth = make_claims(rows([100.0, 100.0, 1000.0], learner="population"))
    assert growth.status == "not shown" and growth.ours.endswith("at most 1.66")


@pytest.mark.parametrize(("exponent", "status"), [(0.98, "shown"), (1.02, "not shown")])
def test_growth_is_polynomial_up_to_linear(exponent, status):
    steps = [100 * 4 ** (exponent * place) for place in range(3)]
    first, growth = make_claims(rows(steps, learner="population"))
    assert (first.status, growth.status) == ("shown", status)
    assert growth.low == growth.high == pytest.approx(exponent)


def test_exponents_are_fitted_from_16_times_k0_on_where_there_are_enough_k():
    # At k0 and next to it steps are few; from 16 k0 on they grow like the root of k.
    found = make_claims(rows([1.0, 2.0, 100.0, 200.0, 400.0], learner="population"))[1]
    assert found.ours.startswith("0.500 ± 0.000") and found.ours.endswith("at most 2.82")
    four = make_claims(rows([1.0, 2.0, 4.0, 8.0], learner="population"))[1]
    assert four.ours.startswith("0.500 ± 0.000 (0.50 to 0.50)")


def test_the_growth_of_minibatches_is_decided_by_seeds():
    def growth(*seeds):
        return make_claims(pd.concat([rows(steps) for steps in seeds]))[1]

    assert growth([100.0, 200.0, 400.0]).note == "it would take 2 seeds or more"
    apart = growth([100.0, 200.0, 400.0], [110.0, 205.0, 390.0], [90.0, 190.0, 410.0])
    assert apart.status == "shown" and apart.low < apart.high < 1
    assert growth([100.0, 300.0, 900.0], [40.0, 300.0, 2000.0]).status == "undecided"


def test_too_few_k_show_nothing():
    first, growth = make_claims(rows([100.0, 200.0]))
    assert (first.status, growth.status) == ("undecided", "undecided")
    first, growth = make_claims(rows([100.0, 200.0, 300.0], [True, True, False]))
    assert (first.ours, growth.ours) == ("none up to 256", "no fit")
    (claim,) = make_claims(rows([]))
    assert claim.status == "not run"
