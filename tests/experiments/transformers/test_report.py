"""The tables on decision lists, from made-up results, by hand."""

import json

import pandas as pd
from small_sweeps import maker

from lsa_jax.experiments.transformers.report import make_report
from lsa_jax.experiments.transformers.settings import SETTINGS

make = maker(SETTINGS, {"sweep.cases": ((6, 3, 2),)})
SIZES = {"vocabulary_size": 6, "sequence_length": 3, "list_length": 2}


def table_of(directory, question, rows):
    """Returns the rows of a report's table, and its extra tables."""
    results = pd.DataFrame(rows).assign(**SIZES)
    for name in results["id"]:
        folder = directory / "runs" / name
        folder.mkdir(parents=True)
        lines = [json.dumps({"step": step, "accuracy": step / 20}) for step in (0, 20)]
        (folder / "metrics.jsonl").write_text("\n".join(lines))
    report = make_report(make(question=question)[0], results, directory)
    return report.tables[0][1].to_dict("records"), report.extra_tables


def test_a_step_is_a_mean_over_the_runs_that_did_not_fail(tmp_path):
    step = {"on_min": 1.0, "off_max": 0.0, "status": "ok"}
    exact = step | {"id": "a", "gradient": "exact", "seed": 0, "correlation": 0.99}
    sampled = step | {"gradient": "sampled", "num_sequences": 500}
    rows = [exact] + [
        sampled | {"id": f"s{seed}", "seed": seed, "correlation": c, "status": status}
        for seed, (c, status) in enumerate([(0.2, "ok"), (0.6, "ok"), (0.0, "failed")])
    ]
    found, _ = table_of(tmp_path, "value_step", rows)
    assert [row["sequences"] for row in found] == ["exact", "500"]
    # Half the difference times the square root of 2.
    assert [row["correlation with P"] for row in found] == ["0.9900", "0.4000 ± 0.28"]


def test_starts_have_the_median_step_of_the_runs_that_were_perfect(tmp_path):
    columns = ["id", "randomness", "seed", "start_distance", "success", "first_perfect", "status"]
    rows = [
        ("a", 0.1, 0, 0.1, 1.0, 20, "ok"),
        ("b", 0.1, 1, 0.2, 1.0, 60, "ok"),
        ("c", 0.1, 2, 0.12345, 0.0, None, "ok"),
        ("d", 1.0, 0, 1.0, 0.0, None, "ok"),
        ("e", 1.0, 1, 9.0, 1.0, 2, "failed"),
    ]
    rest = {"value_scale": 1.0, "start_columns_right": 1.0, "accuracy": 0.5, "columns_right": 0.5}
    made = [dict(zip(columns, row, strict=True)) | rest for row in rows]
    (near, far), extra = table_of(tmp_path, "value_random", made)
    assert (near["r"], near["distance of V_0 from cP / c"]) == (0.1, 0.141)
    assert (near["runs that succeed"], near["steps to perfect"]) == ("2 of 3", "40")
    assert (far["runs that succeed"], far["steps to perfect"]) == ("0 of 1", "")
    assert list(extra["curves"]["id"]) == list("aabbccdd")
    assert list(extra["curves"]["step"]) == [0, 20] * 4
