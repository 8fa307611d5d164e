"""The tables on stability from made-up pairs, by hand."""

import json

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.stability.fits import fit_all
from lsa_jax.experiments.stability.report import collect, make_report
from lsa_jax.experiments.stability.samples import MEASURES, QUANTITIES

SIZES, STEPS = (100, 200, 400, 800), (3, 8)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Returns results of four pairs a size; the last pair failed, the first one has a path.

    Each quantity falls with a power of m of its own, and doubles from stop to stop. Pairs are not
    equal to the last bit, as nothing would be shown then.
    """
    directory, rows = tmp_path_factory.mktemp("pairs"), []
    powers = {"loss_gap": -1.0, "stability": -0.5, "distance": 0.25}
    for m in SIZES:
        for pair in range(4):
            name, equal = f"m={m}-pair={pair}", 1 - 1e-6 * pair
            lines = [
                {"step": step} | {q: 2.0 * k * m ** powers.get(q, 0.0) * equal for q in MEASURES}
                for k, step in enumerate(STEPS, start=1)
            ]
            lines = [line | {"train_error": pair / 10} for line in lines]
            lines.append({"step": 3, "weight_movement/w": 0.5})  # measured along training
            if pair == 0:
                accuracy = {"train_accuracy": 0.9, "test_accuracy": 0.8}
                lines += [{"step": 8, "alpha": a} | accuracy for a in (0.0, 1.0)]
            (directory / "runs" / name).mkdir(parents=True)
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (directory / "runs" / name / "metrics.jsonl").write_text(text)
            rows.append({"id": name, "m": m, "pair": pair, "status": "ok"})
    results = pd.DataFrame(rows).assign(learner="logistic", perturbation="swap", seed=0)
    results.loc[results.index[-1], "status"] = "failed"
    return results, directory


def test_curves_have_exponents_and_their_differences_to_the_loss_gaps(swept):
    results, directory = swept
    pairs, paths = collect(results[results["status"] == "ok"], directory)
    assert len(pairs) == 15 * len(STEPS) and paths["alpha"].tolist() == [0.0, 1.0] * 4
    fits = fit_all(pairs, 20)
    assert len(fits) == len(STEPS) * len(QUANTITIES) and set(fits["pairs"]) == {3}
    assert set(fits["sizes"]) == {4} and fits["tied"].isna().all()
    # One pair of 0, 0.1, 0.2 and 0.3 failed at the largest size.
    assert set(fits["train_accuracy"].round(9)) == {0.85}
    for quantity, exponent in {"loss_gap": -1.0, "stability": -0.5, "distance": 0.25}.items():
        rows = fits[fits["quantity"] == quantity]
        np.testing.assert_allclose(rows["exponent"], exponent, atol=1e-6)
        np.testing.assert_allclose(rows["factor"], [2, 4], rtol=1e-5)
        less = np.nan if quantity == "loss_gap" else exponent + 1
        np.testing.assert_allclose(rows["less_gap"], less, atol=1e-6)
    for sizes in ((400,), (800, 200)):  # the least size at which all pairs are equal
        pairs.loc[pairs["m"].isin(sizes), "loss_gap"] = 0.5
        tied = fit_all(pairs, 20).groupby("quantity")["tied"].agg(["min", "max"])
        assert tied.loc["loss_gap"].tolist() == [min(sizes)] * 2
        assert tied.drop("loss_gap").isna().all(axis=None)


def test_tables_have_exponents_in_words_and_means_at_the_step_reported(swept, make):
    results, directory = swept
    config = make(sweep__m=SIZES, fit__resamples=50)[0]
    report = make_report(config, results.assign(status="ok"), directory)
    (_, exponents), (title, means) = report.tables
    gap = exponents[exponents["quantity"] == "loss gap"]
    assert gap["b of maxima"].tolist() == ["-1.00 (-1.00 to -1.00)"] * 2
    assert gap["on log axes"].tolist() == gap["b of means"].tolist() == ["-1.00"] * 2
    stability = exponents[exponents["quantity"] == "stability"]
    assert stability["less the loss gap's"].tolist() == ["0.50 (0.50 to 0.50)"] * 2
    assert title.endswith("after 8 updates")
    assert means["loss_gap"].tolist() == ["0.04", "0.02", "0.01", "0.005"]
    assert means["train_accuracy"].tolist() == ["0.850"] * 4
    assert means["least_train_accuracy"].tolist() == ["0.700"] * 4
    assert {"pairs_logistic_swap_3", "pairs_logistic_swap_8", "connectivity"} <= {*report.figures}
    for draw in report.figures.values():
        assert draw() is not None
    # Where one size has three pairs there is no interval.
    (_, exponents), _ = make_report(config, results, directory).tables
    assert exponents["b of maxima"].iloc[0] == "-1.00"
