"""Quick sweeps of all experiments, killed at random moments, end with the same results."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lsa_jax.sweep import fields

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


CLOCK = {"seconds", "images_per_second", "peak_fraction", "matrix_seconds"}


def _left(workdir):
    """Returns the files of a sweep, without times."""
    left = {}
    for path in sorted(workdir.rglob("*")):
        name = path.relative_to(workdir).as_posix()
        if path.name == "results.csv":
            table = pd.read_csv(path, dtype=str)
            left[name] = table.drop(columns=CLOCK.intersection(table)).to_dict("list")
        elif path.name in ("metrics.jsonl", "report.json"):
            left[name] = path.read_text()
    return left


FAMILIES = {
    **{f"lazy_rich/{n}": f"lazy_rich/{n}" for n in ("coordinate_check", "dial", "papers")},
    "lazy_rich/learning_rates": "lazy_rich/learning_rates",
    "lazy_rich/collection": "lazy_rich/collection",
    "theory/learning_curves": "theory/learning_curves",
    "theory/laws": "theory/sharpness",
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


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_killed_at_random_moments_ends_with_the_same_results(name, tmp_path):
    config, log = f"--config=configs/{FAMILIES[name]}.py:quick", tmp_path / "log"

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
