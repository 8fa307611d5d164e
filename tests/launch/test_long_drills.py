"""Quick sweeps of all experiments, killed at random moments, end with the same results."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reports import CLOCK

from lsa_jax.sweep import config_files, fields

NAMES = fields.experiment_names()
ROOT = Path(__file__).resolve().parents[2]
DRILL = runpy.run_path(str(Path(__file__).with_name("drilled_sweep.py")))


def _begin(arguments, log):
    command = [sys.executable, "-m", *map(str, arguments)]
    # Where there is no data set, none is downloaded.
    environment = {"LSA_DATA_DIR": str(log.parent)} | os.environ
    with open(log, "ab") as file:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)


def _finish(arguments, log):
    """Runs a command to its end; returns its processor time."""
    process = _begin(arguments, log)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = log.read_text()
    if process.returncode == 2 and "missing data" in said:
        pytest.skip(said.strip().splitlines()[-1])
    assert process.returncode == 0, said[-3000:]
    assert "Traceback" not in said
    return usage.ru_utime + usage.ru_stime


def _left(workdir):
    """Returns the files of a sweep, without times."""
    left = {}
    for path in sorted(workdir.rglob("*")):
        name = path.relative_to(workdir).as_posix()
        if path.name == "results.csv":
            table = pd.read_csv(path, dtype=str)
            left[name] = table.drop(columns=CLOCK, errors="ignore").to_dict("list")
        elif path.name in ("metrics.jsonl", "report.json"):
            left[name] = path.read_text()
    return left


def _configuration(name):
    """Returns the first configuration of an experiment, by name."""
    for path in sorted((ROOT / "configs").rglob("*.py")):
        if config_files.load(path).get_config("quick").experiment == name:
            return path.relative_to(ROOT)
    raise LookupError(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_killed_at_random_moments_ends_with_the_same_results(name, tmp_path):
    config, log = f"--config={_configuration(name)}:quick", tmp_path / "log"

    def command(folder):
        return ["launch.sweep", config, f"--workdir={tmp_path / folder}"]

    # The first time programs are compiled, and kept for the next: that takes the longest.
    _, seconds = (_finish(command(folder), log) for folder in ("compiling", "whole"))
    killed = 0
    for share in np.random.default_rng(NAMES.index(name)).uniform(0.2, 1.0, 2):
        process = _begin(command("killed"), log)
        killed += DRILL["kill_after"](process.pid, share * seconds)
        process.wait()
    assert killed
    _finish(command("killed"), log)
    assert _left(tmp_path / "killed") == _left(tmp_path / "whole") != {}
    assert not list((tmp_path / "killed").rglob("*.partial"))
