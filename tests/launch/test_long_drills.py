"""Long commands and quick sweeps of all experiments, killed at random moments, end the same."""

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lsa_jax.sweep import registry

NAMES = registry.names()
ROOT = Path(__file__).resolve().parents[2]
DRILL = runpy.run_path(str(Path(__file__).with_name("drilled_sweep.py")))


def _begin(arguments, log):
    command = [sys.executable, "-m", *map(str, arguments)]
    # Where there is no data set, none is downloaded.
    environment = {"LSA_DATA_DIR": str(log.parent)} | os.environ
    with open(log, "ab") as file:
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=file, stderr=file)


def _finish(arguments, log):
    """Runs a command to its end; returns what it took of the processor."""
    process = _begin(arguments, log)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    said = log.read_text()
    if process.returncode == 2 and "missing data" in said:
        pytest.skip(said.strip().splitlines()[-1])
    assert process.returncode == 0, said[-3000:]
    assert "Traceback" not in said
    return usage.ru_utime + usage.ru_stime


CLOCK = {"seconds", "images_per_second", "peak_fraction", "matrix_seconds"}
CLOCK |= {"wall_seconds", "cpu_seconds"}


def _left(workdir):
    """Returns all that commands have left in a folder, apart from what the clock says."""
    left = {}
    for path in sorted(workdir.rglob("*")):
        name = path.relative_to(workdir).as_posix()
        if path.name == "results.csv":
            table = pd.read_csv(path, dtype=str)
            left[name] = table.drop(columns=CLOCK.intersection(table)).to_dict("list")
        elif path.name in ("metrics.jsonl", "report.json") and path.parent.name != "reproduced":
            left[name] = path.read_text()
    return left


QUICK = "--config=configs/quickstart.py:quick"

# By name: the commands, of which the first is killed, with {} for the folder.
COMMANDS = {
    "run": [["launch.run", QUICK, "--workdir={}"]],
    "sweep": [["launch.sweep", QUICK, "--workdir={}"]],
    "reproduce": [
        ["launch.reproduce", "--paper=lsa", "--scale=quick", "--only=fig5_placements,lemmas"]
        + ["--workdir={}/reproduced"]
    ],
    "benchmark": [["launch.benchmark", "--suite=kernels", "--quick", "--json={}/rows.json"]],
}
FAMILIES = {
    **{f"lazy_rich/{n}": f"lazy_rich/{n}" for n in ("coordinate_check", "dial", "papers")},
    "lazy_rich/learning_rates": "lazy_rich/learning_rates",
    "lsa/activation_sparsity": "lsa/fig2_sparsity",
    "transformers": "transformers/fig4_1",
    "feature_learning/learning": "feature_learning/table1",
    "feature_learning/filter_clouds": "feature_learning/table7",
    "feature_learning/fixed_features": "feature_learning/fixed_features",
    "growing": "growing/small",
    "resnet/hierarchical": "resnet/fig2a",
    "lsa/image_examples": "lsa/fig5_placements",
    "feature_learning/input_structure": "feature_learning/structure_mnist",
    "lsa/kernel_bound": "lsa/theorem2",
    "lsa/lemmas": "lsa/lemmas",
    "resnet/minimal_norm": "resnet/fig4a",
    "lsa/noise_curves": "lsa/fig6_mnist",
    "lsa/signal_dynamics": "lsa/fig3_dynamics",
    "lsa/signal_scaling": "lsa/theorem1_scaling",
    "stability": "stability/fig2_1",
    "feature_learning/weight_clouds": "feature_learning/weights_mnist",
}


def test_every_experiment_has_its_drill():
    assert set(FAMILIES) == set(NAMES)


def _drill(commands, tmp_path, seed, kills=3):
    """Runs commands undisturbed, then killed at random moments, and compares what they leave."""

    def filled(folder):
        (tmp_path / folder).mkdir(exist_ok=True)
        return [[part.format(tmp_path / folder) for part in command] for command in commands]

    # The first time programs are compiled, and kept for the next: that takes the longest.
    for folder in ("compiling", "whole"):
        seconds = [_finish(command, tmp_path / "log") for command in filled(folder)][0]
    log, killed = tmp_path / "killed.log", 0
    for share in np.random.default_rng(seed).uniform(0.2, 1.0, kills):
        process = _begin(filled("killed")[0], log)
        killed += DRILL["kill_after"](process.pid, share * seconds)
        process.wait()
    assert killed
    for command in filled("killed"):
        _finish(command, log)
    assert _left(tmp_path / "killed") == _left(tmp_path / "whole") != {}
    assert not list((tmp_path / "killed").rglob("*.partial"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["run", "sweep", "reproduce"])
def test_a_command_killed_at_random_moments_ends_with_the_same_results(name, tmp_path):
    _drill(COMMANDS[name], tmp_path, seed=len(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_killed_at_random_moments_ends_with_the_same_results(name, tmp_path):
    config = f"--config=configs/{FAMILIES[name]}.py:quick"
    _drill([["launch.sweep", config, "--workdir={}"]], tmp_path, seed=NAMES.index(name), kills=2)


@pytest.mark.slow
def test_groups_and_reports_killed_at_random_moments_end_with_the_same_results(tmp_path):
    whole, workdir, log = tmp_path / "whole", tmp_path / "killed", tmp_path / "log"
    groups = ["launch.groups", f"--workdir={workdir}", "--groups=0,1,2,3,4,5"]
    report = ["launch.report", f"--workdir={workdir}"]
    _finish(["launch.sweep", QUICK, f"--workdir={whole}"], log)
    workdir.mkdir()
    shutil.copy(whole / "config.json", workdir)
    random = np.random.default_rng(0)
    for command, longest in ((groups, 15.0), (report, 4.0)):
        for seconds in random.uniform(1.0, longest, 3):
            process = _begin(command, log)
            DRILL["kill_after"](process.pid, seconds)
            process.wait()
        _finish(command, log)
    assert _left(workdir) == _left(whole)
    assert not list(workdir.rglob("*.partial"))


@pytest.mark.slow
def test_a_benchmark_that_is_killed_leaves_whole_rows(tmp_path):
    (command,), rows = COMMANDS["benchmark"], tmp_path / "rows.json"
    command = [part.format(tmp_path) for part in command]
    seconds = _finish(command, tmp_path / "log")
    works = [row["work"] for row in json.loads(rows.read_text())]
    rows.unlink()
    for share in (0.5, 0.9):
        process = _begin(command, tmp_path / "log")
        DRILL["kill_after"](process.pid, share * seconds)
        process.wait()
        if rows.exists():
            found = [row["work"] for row in json.loads(rows.read_text())]
            assert found == works[: len(found)]
