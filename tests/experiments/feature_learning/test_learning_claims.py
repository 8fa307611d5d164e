"""The report on tables of feature learning: what it claims follows the numbers, and no further."""

import itertools

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning.learning.comparisons import (
    comparison_claims,
    comparison_tables,
)
from lsa_jax.experiments.feature_learning.learning.experiment import evaluation_steps
from lsa_jax.experiments.feature_learning.learning.first_steps import first_step_table, first_steps
from lsa_jax.experiments.feature_learning.learning.report import make_claims
from lsa_jax.experiments.feature_learning.learning.rows import rows_of
from lsa_jax.reporting import claims as rule


def table_rows(config, accuracies, **columns):
    """Returns made-up results of learners with inputs with structure, by seed."""
    rates = {"ntk": config.ntk_rate, "random_features": config.random_features_rate}
    rows = [
        {
            "learner": learner,
            "rate": rates.get(learner, config.rate),
            "id": f"{learner}{seed}",
            "seed": seed,
            "test_accuracy": accuracy,
        }
        for learner, found in accuracies.items()
        for seed, accuracy in enumerate(found)
    ]
    fixed = {"structured": True, "status": "ok", "cosine": 0.99, "test_balanced_accuracy": 0.9}
    rows = pd.DataFrame(rows).assign(**fixed | columns)
    return rows.assign(cosine=rows["cosine"] + 1e-6 * rows["seed"])  # neurons' are never equal


FIXED = {"ntk": [0.864, 0.863], "random_features": [0.76, 0.761]}


def test_claims_are_shown_within_the_stated_distance_alone(make):
    config, _ = make(data__num_test=10_000)
    for accuracy, status in ((0.99, "shown"), (0.9705, "undecided"), (0.95, "not shown")):
        results = table_rows(config, {"network": [accuracy, accuracy]} | FIXED)
        claims = {claim.item: claim.status for claim in make_claims(config, results)}
        assert claims["test accuracy in %, Network, within 3 points"] == status
        assert claims["test accuracy in %, NTK, within 3 points"] == (
            "shown" if status == "shown" else "undecided"
        )


def test_a_constant_is_no_result_whatever_its_accuracy(make):
    config, _ = make(paper_item="feature_learning/table2", data__num_test=10_000)
    none = "it may be a constant answer: no balanced accuracy is there"
    for balanced, status, note in (
        (0.5, "undecided", "a constant answer"),
        (0.6, "shown", ""),
        (np.nan, "undecided", none),
    ):
        results = table_rows(config, {"network": [1.0, 1.0], "one_step": [0.41, 0.411]} | FIXED)
        constant = results["learner"] == "one_step"
        results.loc[constant, "test_balanced_accuracy"] = balanced
        claims = [c for c in make_claims(config, results) if "%, One Step" in c.item]
        assert [(claim.status, claim.note) for claim in claims] == [(status, note)]


def test_few_test_examples_refute_a_cosine_and_no_accuracy(make):
    found = []
    for examples in (10, 10_000):
        config, _ = make(data__num_test=examples)
        results = table_rows(config, {"network": [0.9, 0.901]} | FIXED, cosine=0.5)
        claims = {c.item.partition(", within")[0]: c.status for c in make_claims(config, results)}
        names = ("test accuracy in %, Network", "cosine of the nearest neuron, Network")
        found.append([claims[name] for name in names])
    assert found == [["undecided", "not shown"], ["not shown", "not shown"]]


def one_step_rows(accuracy):
    """Returns runs of One Step, two seeds, of accuracies (rate, leftover, exact, seed)."""
    kinds = itertools.product((1e-6, 1.0, 10.0), (0.045, 0.0), (False, True), (0, 1))
    rows = [
        {
            "learner": "one_step_exact" if exact else "one_step",
            "rate": rate if exact else 0.1,
            "first_rate": rate,
            "leftover": leftover,
            "seed": seed,
            "test_accuracy": accuracy(rate, leftover, exact, seed),
        }
        for rate, leftover, exact, seed in kinds
    ]
    fixed = {"structured": True, "status": "ok", "cosine": 0.9, "test_balanced_accuracy": 0.9}
    rows = pd.DataFrame(rows).assign(**fixed)
    return rows.assign(cosine=rows["cosine"] + 1e-6 * rows["seed"])


def one_step_claims(make, accuracy):
    config, _ = make(sweep__learner=("network", "one_step_exact"), data__num_test=10_000)
    rows = table_rows(config, {"network": [1.0, 1.0]} | FIXED)
    claims = make_claims(config, pd.concat([rows, one_step_rows(accuracy)]))
    return {claim.item: claim for claim in claims if "One Step:" in claim.item} | {
        claim.item: claim for claim in claims if "suffices" in claim.item or "every" in claim.item
    }


@pytest.mark.parametrize(("worst", "least"), [(0.995, "1"), (0.98, "10")])
def test_one_step_suffices_only_from_the_rate_at_which_every_seed_is_right(make, worst, least):
    def accuracy(rate, leftover, exact, seed):
        if not exact or leftover or rate < 1:
            return 0.5
        return worst if rate == 1 and seed else 1.0

    found = one_step_claims(make, accuracy)
    suffices = {
        item.partition(": ")[2]: c.ours.partition(" (test %: ")
        for item, c in found.items()
        if "suffices" in item
    }
    assert all("suffices, 99 % or more" in item for item in found if "suffices" in item)
    assert {name: rate for name, (rate, _, _) in suffices.items()} == {
        "descent, 0 of the start left": "none up to 10",
        "the best classifier, 0 of the start left": least,
        "descent, 0.045 of the start left": "none up to 10",
        "the best classifier, 0.045 of the start left": "none up to 10",
    }
    best = rule.cell(pd.Series([100.0, 100 * worst]), ".2f")
    listed = f"50.00 ± 0.00 at 1e-06, {best} at 1, 100.00 ± 0.00 at 10)"
    assert suffices["the best classifier, 0 of the start left"][2] == listed
    (second,) = [claim for item, claim in found.items() if "every rate" in item]
    assert second.status == "not shown" and second.ours == "at most 100.00 %"


@pytest.mark.parametrize(
    ("most", "status", "ends"),
    [(0.987, "undecided", (98.48, 98.92)), (1.0, "not shown", (99.97, 100.0))],
)
def test_one_step_refutes_that_it_takes_a_second_one_above_99_percent_alone(
    make, most, status, ends
):
    def accuracy(rate, leftover, exact, seed):
        return most - 1e-6 * seed if rate == 10 else 0.5

    (claim,) = [c for item, c in one_step_claims(make, accuracy).items() if "every rate" in item]
    assert claim.item.endswith("at every rate run, below 99 %") and claim.status == status
    assert (claim.low, claim.high) == ends


def test_the_table_of_first_steps_has_both_classifiers_by_rate_and_what_is_left():
    rows = one_step_rows(lambda rate, leftover, exact, seed: 0.5 + 0.25 * exact + 0.1 * seed)
    rows["feature_size"] = np.where(rows["first_rate"] == 10, 3.0, 0.25)
    table = first_step_table(first_steps(rows))
    assert table["rate of step 1"].tolist() == ["1e-06", "1e-06", "1", "1", "10", "10"]
    assert table["of the start left, over the rate"].tolist() == ["0", "0.045"] * 3
    assert table["descent, test %"].tolist() == ["55.00 ± 7.07"] * 6
    assert table["the best classifier, test %"].tolist() == ["80.00 ± 7.07"] * 6
    assert table["size of <w, x>"].tolist() == ["0.25 ± 0"] * 4 + ["3 ± 0"] * 2
    assert table["cosine"].tolist() == ["0.9000 ± 0.0000"] * 6
    descent = first_step_table(first_steps(rows[rows["learner"] == "one_step"]))
    assert descent["size of <w, x>"].tolist() == [""] * 6


def test_what_each_explanation_of_one_step_gains_alone_and_loses_left_out(make):
    # Of points: the classifier has 30 alone and 5 with a large rate, which has 10 and 20 with it.
    def accuracy(rate, leftover, exact, seed):
        large, forgot = rate == 10, leftover == 0
        return 0.5 + 0.3 * exact + 0.1 * large - 0.05 * (exact and large) + 0.02 * forgot * seed

    points = {
        item.removeprefix("points of test accuracy, One Step: "): claim
        for item, claim in one_step_claims(make, accuracy).items()
        if item.startswith("points")
    }
    assert {item: claim.ours for item, claim in points.items()} == {
        "gained by step 1's rate at 10 alone": 10,
        "gained by 0 of the start left alone": 1,
        "gained by the best classifier alone": 30,
        "lost by all three without step 1's rate at 10": 5,
        "lost by all three without 0 of the start left": 1,
        "lost by all three without the best classifier": 25,
    }
    forgetting = points["gained by 0 of the start left alone"]
    assert forgetting.spread == pytest.approx(100 * 0.02 / 2**0.5)
    assert {claim.status for claim in points.values()} == {"measured"}


def test_longer_kernels_are_measured_as_often_and_are_not_the_table_s_row(make):
    config, points = make(sweep__learner=("ntk",), sweep__ntk_steps=(8, 32))
    long = [point.config for point in points if point.config.steps == 32]
    assert [(c.seed, c.eval_every) for c in long] == [(0, 12), (1, 12)]
    assert len(points) == 4
    assert len(evaluation_steps(long[0])) == len(evaluation_steps(points[0].config))
    rows = [
        {"steps": steps, "seed": seed, "test_accuracy": 0.7 + gain + 0.01 * seed}
        | {"test_first_accuracy": 0.6}
        for steps, gain in ((8, 0.0), (32, 0.1), (128, 0.12))
        for seed in (0, 1)
    ]
    fixed = {"learner": "ntk", "structured": True, "status": "ok", "rate": config.ntk_rate}
    results = pd.DataFrame(rows).assign(**fixed, id="", train_accuracy=0.8, cosine=np.nan)
    results["test_balanced_accuracy"] = results["test_accuracy"]
    assert rows_of(config, results, "ntk")["steps"].tolist() == [8, 8]
    found = {claim.item: claim for claim in make_claims(config, results)}
    assert found["test accuracy in %, NTK after 128 updates"].ours == 82.5
    assert found["test accuracy in %, NTK after 32 updates, first test examples"].ours == 60
    gain = found["points of test accuracy, NTK after 128 updates minus after 32 updates"]
    assert (gain.ours, gain.status) == (2, "measured") and gain.spread == pytest.approx(0)
    assert found["training accuracy in %, NTK after 32 updates"].ours == 80


def test_kernels_at_a_rate_of_their_own_stand_in_the_order_of_rate_times_updates(make):
    fields = {"sweep__learner": ("ntk",), "sweep__ntk_steps": (4, 32)}
    config, points = make(**fields, sweep__ntk_long_rate=1e-3)
    long = {(p.config.steps, p.config.ntk_rate) for p in points}
    assert long == {(8, config.ntk_rate), (4, 1e-3), (32, 1e-3)} and config.ntk_rate == 1e-5
    kinds = [(steps, 1e-3, 0.9) for steps in (4, 32)] + [(8, 1e-5, 0.7), (8, 1e-3, 0.1)]
    rows = [
        {"steps": steps, "rate": rate, "seed": seed, "test_accuracy": accuracy}
        for steps, rate, accuracy in kinds
        for seed in (0, 1)
    ]
    fixed = {"learner": "ntk", "structured": True, "status": "ok", "train_accuracy": 0.8}
    results = pd.DataFrame(rows).assign(**fixed, id="", cosine=np.nan, test_balanced_accuracy=0.6)
    items = [c.item for c in make_claims(config, results) if "NTK after" in c.item]
    names = ["8 updates", "4 updates at 0.001", "32 updates at 0.001"]
    assert [item.partition("after ")[2] for item in items if item.startswith("test")] == names
    # Another rate for as many updates is a row of the table of rates.
    assert [item for item in items if item.startswith("points")] == [
        f"points of test accuracy, NTK after {after} minus after {before}"
        for before, after in zip(names, names[1:], strict=False)
    ]
    table = dict(comparison_tables(config, results))["NTK by number of updates"]
    assert table[""].tolist() == names


def test_other_class_weights_are_measured_beside_the_papers_numbers_and_have_their_table(make):
    config, _ = make(paper_item="feature_learning/table4_80", class_weights="all_steps")
    own = table_rows(config, {"network": [1.0, 0.99]} | FIXED, class_weights="all_steps")
    other = table_rows(
        config,
        {"network": [0.9, 0.8], "ntk": [0.7, 0.72]},
        class_weights="first_steps",
        test_first_accuracy=0.75,
    )
    fine = pd.concat([own, other], ignore_index=True).assign(train_accuracy=0.95)
    found = {claim.item: claim for claim in comparison_claims(config, fine, "")}
    network = found["test accuracy in %, Network, class weights: first_steps"]
    kernel = found["test accuracy in %, NTK, class weights: first_steps"]
    assert (network.ours, kernel.ours, kernel.paper) == (85.0, 71.0, 82.7)  # table 4, NTK
    assert {claim.status for claim in found.values()} == {"measured"} and len(found) == 2
    tables = dict(comparison_tables(config, fine))
    rows = tables["Other class weights"].set_index("")
    assert rows.loc["Network, first_steps", "test %"] == "85.00 ± 7.07"
    assert rows.loc["NTK, first_steps", "test %, first examples"] == "75.00 ± 0.00"
    assert rows.loc["NTK, first_steps", "train %"] == "95.00 ± 0.00"
    # The rates of fixed features are told of the configuration's weights alone.
    rates = tables["Fixed features by learning rate"]
    assert rates[""].tolist() == ["NTK", "random features"] and rates["seeds"].tolist() == [
        "2",
        "2",
    ]
    assert rates["test %"].tolist() == ["86.35 ± 0.07", "76.05 ± 0.07"]
