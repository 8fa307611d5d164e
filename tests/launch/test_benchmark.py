"""The benchmark command lists its works and writes its rows."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_works_are_listed_with_the_flags_that_select_them(launch):
    lines = launch("benchmark", "--list", "--suite=stability").stdout.splitlines()
    assert lines == ['--suite=stability --only="logistic regression on S and S\'"']


def test_every_core_is_a_device_unless_the_environment_has_a_number_of_them():
    code = (
        "import os, jax; from launch import benchmark; benchmark._make_cores_devices(); "
        "print(jax.local_device_count(), len(os.sched_getaffinity(0)))"
    )

    def counted(**environment):
        command = [sys.executable, "-c", code]
        bare = {"PATH": "", "HOME": "/nonexistent", "JAX_PLATFORMS": "cpu"} | environment
        run = subprocess.run(
            command, cwd=ROOT, env=bare, capture_output=True, text=True, check=True
        )
        return tuple(map(int, run.stdout.split()))

    devices, cores = counted()
    assert devices == cores
    flags = f"--xla_force_host_platform_device_count={cores + 1}"
    assert counted(XLA_FLAGS=flags) == (cores + 1, cores)


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
