"""Lemmas 1 to 3: the numbers they bound, their thresholds, and the report of a sweep."""

import math

import pandas as pd
import pytest
from reports import make_report
from small_sweeps import maker, swept

from lsa_jax.experiments.lsa.lemmas.experiment import EXPERIMENT, check_lemmas
from lsa_jax.experiments.lsa.lemmas.settings import SETTINGS

K = 1000
UNIT = 1 / math.log(K) ** 4


make = maker(SETTINGS, {"k": K, "lemma3_constant": 10.0})


def test_each_lemma_is_checked_where_it_applies():
    course = pd.DataFrame(
        {
            "w_dot_wstar": [0.5 * UNIT, UNIT, 5 * UNIT, 20 * UNIT, 0.5, 0.9],
            "w_perp_norm": [2.0, 2.0, 1.0, 1.0, 1.0, 1.0],
            "b": [0.0, 3 * UNIT / K, 0.0, -0.1, -0.2, -0.3],
            "test_accuracy": [0.5, 0.5, 0.6, 0.7, 0.8, 0.995],
            "grad_dot_wstar": [-0.5, -0.4, 7.0, 7.0, 7.0, 7.0],
            "grad_w_perp": [2.0, 8.0, 3.0, 3.0, 3.0, 0.5],
            "grad_b": [-9.0, -1.0, 1.0, 5.0, 2.0, -3.0],
        }
    )
    found = check_lemmas(make()[0], course)
    assert (found["lemma1_least"], found["lemma1_most"]) == (0.4, 0.5)
    # 2 C2 = 20 reaches as far as where lemma 3 sets in, and beyond: 5 and 20 are in it, 0.5 is not.
    assert (found["lemma1_proof_least"], found["lemma1_proof_most"]) == (-7.0, 0.5)
    assert found["lemma2_least"] == 0.5
    assert found["lemma2_ratio"] == pytest.approx(4 / math.log(K) ** 3)
    assert found["lemma3_least"] == 2.0  # not where the error is below the target
    # From 256^(-1/8) = 1/2 on, and up to where the error is equal to the target.
    config, course = make(k=256, target_error=0.125)[0], course.replace(0.8, 0.875)
    assert check_lemmas(config, course)["lemma3_sketch_least"] == 2.0
    late = course.replace(0.5, 0.49)
    assert math.isnan(check_lemmas(config, late)["lemma3_sketch_least"])
    assert found["onset_ratio"] == pytest.approx(3.0)  # half way from 1 to 5
    assert found["bias_ratio"] == pytest.approx(3.0)


def test_a_flow_is_followed_to_the_error_and_its_trajectory_is_reported(tmp_path):
    fields = {"noise_scale": 0.35, "target_error": 0.1, "lemma3_constant": 64.0}
    config, points = make(**fields, sweep__k=(64, 512))
    assert EXPERIMENT.groups(points) == [[point] for point in points]
    assert all(EXPERIMENT.on_host(point.config) for point in points)
    results = swept(config, points, tmp_path / "out")
    assert results["reached"].all()
    assert results["test_error"].tolist() == pytest.approx([0.1, 0.1], abs=1e-5)
    report = make_report(config, results, tmp_path / "out")
    assert {claim.status for claim in report.claims[:3]} == {"condition not met"}
    table = report.extra_tables["trajectories"]
    assert table.columns[0] == "k" and set(table["k"]) == {64, 512}
    for name in ("w_dot_wstar", "b", "time"):  # where the flow ends
        assert results[name].tolist() == pytest.approx(table.groupby("k")[name].last().tolist())
    assert (table.groupby("k")["time"].diff().dropna() > 0).all()
    assert len(report.figures["lemmas"]().axes) == 3
