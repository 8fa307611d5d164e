"""The benchmark command prints and writes its rows."""

import json
import os

import pytest


def test_rows_are_printed_and_written(launch, tmp_path):
    file = tmp_path / "rows.json"
    arguments = ["--suite=kernels", "--quick", "--rounds=1", "--only=3-layer FC, train-train"]
    result = launch("benchmark", *arguments, f"--json={file}", XLA_FLAGS=os.environ["XLA_FLAGS"])
    assert result.returncode == 0, result.stderr
    (row,) = json.loads(file.read_text())
    assert row["work"] == "infinite NTK, 3-layer FC, train-train" and row["size"] == "4 x 4"
    assert row["max_rel_diff"] < 1e-3 and row["ratio"] > 0
    # By which a preflight is calibrated.
    assert row["device"] == "cpu" and row["tiles"] and row["bytes"] > 0
    assert row["products"]["highest"] > 0 and row["ours_s"] * row["ours_per_s"] == pytest.approx(16)
    assert result.stdout.startswith("infinite NTK, 3-layer FC, train-train, 4 x 4: ")
