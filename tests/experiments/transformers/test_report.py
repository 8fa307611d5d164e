"""The tables on decision lists, from made-up results, by hand."""

import json

import numpy as np
import pandas as pd
from small_sweeps import maker

from lsa_jax.experiments.transformers import settings
from lsa_jax.experiments.transformers.experiment import EXPERIMENT
from lsa_jax.experiments.transformers.report import make_report

make = maker(settings, {"sweep.cases": ((6, 3, 2),)})


def table_of(report):
    """Returns a report's table as plain rows."""
    (_, table), *_ = report.tables
    return table.to_dict("records")


def write_metrics(workdir, name, rows):
    folder = workdir / "runs" / name
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_step_is_told_as_mean_and_standard_deviation_over_the_runs_that_did_not_fail(tmp_path):
    config, _ = make(question="value_step")
    results = pd.DataFrame(
        [
            ("exact", np.nan, 0.99, np.nan, "ok"),
            ("sampled", 500, 0.2, 0.5, "ok"),
            ("sampled", 500, 0.6, 0.7, "ok"),
            ("sampled", 500, 0.0, 0.0, "failed"),
        ],
        columns=["gradient", "num_sequences", "correlation", "uniform_attention_limit", "status"],
    )
    picked_up = {"vocabulary_size": 6, "on_min": 1.0, "off_max": 0.0, "seed": [0, 0, 1, 2]}
    report = make_report(config, results.assign(**picked_up), tmp_path)
    correlation, limit = "correlation with P", "most that any V gets right at W = 0"
    exact, sampled = table_of(report)
    assert (exact["sequences"], exact[correlation], exact[limit]) == ("exact", "0.9900", "")
    # Half the difference times the square root of 2.
    assert (sampled[correlation], sampled[limit]) == ("0.4000 ± 0.28", "0.6000 ± 0.14")
    assert "modulo L" in report.notes[0] and set(report.figures) == {"value_step"}


def random_results():
    columns = ["id", "value_scale", "randomness", "seed", "start_distance", "start_columns_right"]
    columns += ["success", "first_perfect", "accuracy", "columns_right", "status"]
    rows = [
        ("a", 1.0, 0.1, 0, 0.1, 1.0, 1.0, 20, 1.0, 1.0, "ok"),
        ("b", 1.0, 0.1, 1, 0.2, 1.0, 1.0, 60, 1.0, 1.0, "ok"),
        ("c", 1.0, 0.1, 2, 0.12345, 0.5, 0.0, None, 0.5, 0.75, "ok"),
        ("d", 1.0, 1.0, 0, 1.0, 0.25, 0.0, None, 0.25, 0.125, "ok"),
        ("e", 1.0, 1.0, 1, 9.0, 0.0, 1.0, 2, 1.0, 1.0, "failed"),
    ]
    sizes = {"vocabulary_size": 6, "sequence_length": 3, "list_length": 2}
    return pd.DataFrame(rows, columns=columns).assign(**sizes)


def test_training_is_told_by_its_start_with_the_median_step_of_those_that_were_perfect(tmp_path):
    config, _ = make(question="value_random")
    for name in "abcd":
        write_metrics(tmp_path, name, [{"step": 0, "accuracy": 0.0}, {"step": 20, "accuracy": 1.0}])
    report = make_report(config, random_results(), tmp_path)
    near, far = table_of(report)
    assert near == {
        **{"L": 6, "n": 3, "M": 2, "c": 1.0, "r": 0.1},
        "distance of V_0 from cP / c": 0.141,
        "columns right at the start": 0.833,
        "runs that succeed": "2 of 3",
        "steps to perfect": "40",
        "accuracy at the end": 0.8333,
        "columns right at the end": 0.917,
    }
    # The run that failed, which says that it was perfect, is not counted.
    assert far["runs that succeed"] == "0 of 1" and far["steps to perfect"] == ""
    assert far["distance of V_0 from cP / c"] == 1.0
    curves = report.extra_tables["curves"]
    assert list(curves["id"]) == list("aabbccdd") and list(curves["step"]) == [0, 20] * 4
    assert f"every {config.eval_every} steps" in report.notes[0]


def test_a_theorem_is_told_run_by_run_with_its_claims_and_paths(tmp_path):
    config, _ = make(question="value_fixed")
    row = {"vocabulary_size": 6, "sequence_length": 3, "list_length": 2, "seed": 0, "bound": 10.0}
    row |= {"first_perfect": 4, "largest_rise": -1.0, "least_slope_ratio": 2.0, "ordered": 1.0}
    results = pd.DataFrame(
        [{"id": "a", **row, "status": "ok"}, {"id": "b", **row, "bound": 0.1, "status": "failed"}]
    )
    write_metrics(tmp_path, "a", [{"step": s, "loss": 1.0 / (s + 1)} for s in range(3)])
    report = make_report(config, results, tmp_path)
    (only,) = table_of(report)
    assert only["steps to perfect"] == 4 and only["bound on the steps"] == "10"
    assert list(only)[:6] == ["L", "n", "M", "seed", "steps to perfect", "bound on the steps"]
    assert len(report.claims) == 4
    assert len(report.claims) == 4 and "float64" in report.notes[0]
    assert report.extra_tables["paths"]["loss"].tolist() == [1.0, 0.5, 1 / 3]
    assert set(report.figures) == {"decision_lists"}


def test_only_training_from_a_random_v_is_compiled_for_a_device():
    found = {
        question: EXPERIMENT.on_host(make(question=question)[0])
        for question in ("value_fixed", "value_near", "value_step", "value_random")
    }
    assert [name for name, on_host in found.items() if not on_host] == ["value_random"]


def test_each_random_start_is_answered_for_its_own_point_and_theorems_come_one_by_one():
    _, points = make(question="value_near", sweep__epsilon=(1.0, 2.0), sweep__seed=(0, 1))
    assert [len(group) for group in EXPERIMENT.groups(points)] == [1, 1, 1, 1]
