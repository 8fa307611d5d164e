"""The tables on stability from made-up pairs, by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.stability.fit_table import fit_all
from lsa_jax.experiments.stability.measures import MEASURES, QUANTITIES
from lsa_jax.experiments.stability.report import collect, make_report

SIZES, STEPS = (100, 200, 400, 800), (3, 8)


def value_of(quantity, m, step, pair):
    """Each quantity falls with a power of m of its own, and doubles from stop to stop.

    Pairs are not equal to the last bit, by which nothing would be shown.
    """
    power = {"loss_gap": -1.0, "stability": -0.5, "distance": 0.25}.get(quantity, 0.0)
    return 2.0 * m**power * (1 if step == STEPS[0] else 2) * (1 - 1e-6 * pair)


@pytest.fixture
def swept(tmp_path):
    """Returns results of four pairs a size; the last pair failed, the first one has a path."""
    rows = []
    for m in SIZES:
        for pair in range(4):
            name = f"m={m}-pair={pair}"
            lines = [
                {"step": step} | {q: value_of(q, m, step, pair) for q in MEASURES} for step in STEPS
            ]
            for line in lines:
                line["train_error"] = pair / 10
            lines.append({"step": 3, "weight_movement/w": 0.5})  # measured along training
            if pair == 0:
                lines += [
                    {"step": 8, "alpha": a, "train_accuracy": 0.9, "test_accuracy": 0.8}
                    for a in (0.0, 1.0)
                ]
            (tmp_path / "runs" / name).mkdir(parents=True)
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (tmp_path / "runs" / name / "metrics.jsonl").write_text(text)
            rows.append({"id": name, "m": m, "pair": pair, "status": "ok"})
    results = pd.DataFrame(rows).assign(learner="logistic", perturbation="swap", seed=0)
    results.loc[results.index[-1], "status"] = "failed"
    return results, tmp_path


def test_pairs_and_paths_are_collected_from_the_runs_that_did_not_fail(swept):
    pairs, paths = collect(*swept)
    assert len(pairs) == 15 * len(STEPS) and set(pairs["step"]) == set(STEPS)
    assert pairs.groupby("m").size().tolist() == [8, 8, 8, 6]
    row = pairs[(pairs["m"] == 200) & (pairs["pair"] == 0) & (pairs["step"] == 8)].iloc[0]
    assert row["loss_gap"] == 4.0 / 200 and row["seed"] == 0 and row["learner"] == "logistic"
    assert paths["m"].tolist() == np.repeat(SIZES, 2).tolist()
    assert paths["alpha"].tolist() == [0.0, 1.0] * 4 and "loss_gap" not in paths.dropna(axis=1)


def test_every_curve_has_the_exponent_of_each_quantity_and_its_difference_to_the_loss_gaps(swept):
    pairs, _ = collect(*swept)
    fits = fit_all(pairs, 20)
    assert len(fits) == len(STEPS) * len(QUANTITIES) and set(fits["pairs"]) == {3}
    assert set(fits["sizes"]) == {4} and fits["tied"].isna().all()
    # One pair of 0, 0.1, 0.2 and 0.3 failed at the largest size.
    assert set(fits["train_accuracy"].round(9)) == {0.85}
    expected = {"loss_gap": -1.0, "stability": -0.5, "distance": 0.25, "norm": 0.0}
    for quantity, exponent in expected.items():
        rows = fits[fits["quantity"] == quantity]
        np.testing.assert_allclose(rows["exponent"], exponent, atol=1e-6)
        np.testing.assert_allclose(rows["factor"], [2, 4], rtol=1e-5)
        if quantity == "loss_gap":
            assert rows["less_gap"].isna().all()
        else:
            np.testing.assert_allclose(rows["less_gap"], exponent + 1, atol=1e-6)


def test_the_least_size_all_of_whose_pairs_are_equal_is_named(swept):
    pairs, _ = collect(*swept)
    for sizes in ((400,), (800, 200)):
        pairs.loc[pairs["m"].isin(sizes), "loss_gap"] = 0.5
        tied = fit_all(pairs, 20).groupby("quantity")["tied"].agg(["min", "max"])
        assert tied.loc["loss_gap"].tolist() == [min(sizes)] * 2
        assert tied.drop("loss_gap").isna().all(axis=None)


def test_tables_have_exponents_in_words_and_means_at_the_step_reported(swept, make):
    results, workdir = swept
    config = make(sweep__m=SIZES, fit__resamples=50)[0]
    report = make_report(config, results.assign(status="ok"), workdir)
    (_, exponents), (title, means) = report.tables
    gap = exponents[exponents["quantity"] == "loss gap"]
    assert gap["b of maxima"].tolist() == ["-1.00 (-1.00 to -1.00)"] * 2
    assert gap["on log axes"].tolist() == gap["b of means"].tolist() == ["-1.00"] * 2
    assert gap["less the loss gap's"].tolist() == ["", ""]
    stability = exponents[exponents["quantity"] == "stability"]
    assert stability["less the loss gap's"].tolist() == ["0.50 (0.50 to 0.50)"] * 2
    assert title == "Means over pairs after 8 updates"
    assert means["loss_gap"].tolist() == ["0.04", "0.02", "0.01", "0.005"]
    assert means["train_accuracy"].tolist() == ["0.850"] * 4
    assert means["least_train_accuracy"].tolist() == ["0.700"] * 4
    assert {"pairs_logistic_swap_3", "pairs_logistic_swap_8", "connectivity"} <= set(report.figures)
    assert set(report.extra_tables) == {"pairs", "fits", "paths"}
    # Where one size has three pairs there is no interval.
    (_, exponents), _ = make_report(config, results, workdir).tables
    assert exponents["b of maxima"].iloc[0] == "-1.00"


def test_tables_keep_the_order_of_the_sweep(swept, make):
    results, workdir = swept
    both = pd.concat([results, results.assign(learner="convex")])
    config = make(sweep__m=SIZES, fit__resamples=10)[0]
    means = make_report(config, both, workdir).tables[1][1]
    assert means["learner"].tolist() == ["logistic"] * 4 + ["convex"] * 4


def test_a_mean_is_no_number_where_a_pair_has_none(swept, make):
    results, workdir = swept
    file = workdir / "runs" / "m=200-pair=1" / "metrics.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[1]["test_loss"] = np.nan
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = make(sweep__m=SIZES, fit__resamples=50)[0]
    means = make_report(config, results.assign(status="ok"), workdir).tables[1][1]
    assert means["test_loss"].tolist() == ["4", "nan", "4", "4"]


def test_without_a_pair_that_was_trained_there_is_nothing_to_tell(swept, make):
    results, workdir = swept
    report = make_report(make()[0], results.assign(status="failed"), workdir)
    assert report.tables == [] and report.claims == [] and "No pair" in report.notes[0]


def test_influence_is_told_by_its_least_correlation(make, tmp_path):
    config = make(question="influence", influence__removed=3)[0]
    names = ["stability", "predicted_stability", "distance", "predicted_distance"]
    row = dict.fromkeys(names, 1.0) | {"relative_error": 0.1, "seed": 0, "m": 12}
    results = pd.DataFrame(
        [
            {"id": name, "correlation": found, "status": status, **row}
            for name, found, status in (("a", 0.9, "ok"), ("b", 0.7, "ok"), ("c", 0.1, "failed"))
        ]
    )
    for name in "ab":
        (tmp_path / "runs" / name).mkdir(parents=True)
        lines = [json.dumps({"removed": i, "stability": 1.0}) for i in range(3)]
        (tmp_path / "runs" / name / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    report = make_report(config, results, tmp_path)
    (claim,) = report.claims
    assert claim.status == "measured" and float(claim.ours) == 0.7
    assert report.tables[0][1]["correlation"].tolist() == [0.9, 0.7]
    assert report.extra_tables["examples"]["removed"].tolist() == [0, 1, 2] * 2
    assert claim.note == ""
    more = make(question="influence", influence__removed=3, sweep__m=(12, 15))[0]
    (claim,) = make_report(more, results, tmp_path).claims
    assert "1 of 2 runs" in claim.note
    constant = results.assign(m=[12, 15, 15], correlation=[0.9, np.nan, 0.1])
    (claim,) = make_report(more, constant, tmp_path).claims
    assert float(claim.ours) == 0.9 and "1 of 2 runs" in claim.note
    empty = make_report(config, results.assign(status="failed"), tmp_path)
    assert empty.claims[0].status == "not run" and empty.tables == [] and empty.figures == {}
