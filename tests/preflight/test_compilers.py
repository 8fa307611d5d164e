"""Programs compiled for a TPU and for GPUs that are not there, by their own compilers.

With the extras preflight-tpu and preflight-gpu installed: pytest -m compilers
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lsa_jax.preflight import machines

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.compilers


def preflight(folder, config, topology, *flags):
    """Returns the programs that a preflight compiles, by name."""
    machine = machines.parse(topology)
    modules, command = machines.PLUGINS[machine.chip.platform]
    if not any(map(importlib.util.find_spec, modules)):
        pytest.skip(f"needs {command}")
    file = folder / "found.json"
    command = [sys.executable, "-m", "launch.preflight", f"--config={config}", *flags]
    command += [f"--topology={topology}", f"--json={file}"]
    # The tests' own flags are for CPUs, and libtpu knows not all of them.
    env = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(file.read_text())
    assert found["fits"] and found["devices"] == machine.count
    return {program["name"]: program for program in found["programs"]}


WIDE_RESNET = "configs/lsa/fig4_cifar10_photographs.py:quick"
NETWORK = "--config.sweep.learner=('network',)"


def test_parts_of_a_batch_on_gpus_exchange_by_all_reduce_and_replicas_not_at_all(tmp_path):
    programs = preflight(tmp_path, WIDE_RESNET, "h100:4", NETWORK, "--config.parallel=data")
    epoch = programs["train_epoch"]
    assert epoch["num_devices"] == 4
    # Statistics of every normalisation, forward and back, and the gradient.
    assert set(epoch["collectives"]) == {"all-reduce"} and epoch["collectives"]["all-reduce"] > 1
    assert epoch["peak"] < 1e9
    assert set(programs["evaluate"]["collectives"]) <= {"all-reduce"}
    programs = preflight(tmp_path, WIDE_RESNET, "h100:2", NETWORK)
    assert programs["train_epoch"]["num_devices"] == 2
    assert not any(program["collectives"] for program in programs.values())


def test_tiles_of_an_infinite_kernel_fit_a_tpu(tmp_path):
    learner = "--config.sweep.learner=('ntk_infinite',)"
    programs = preflight(tmp_path, "configs/lsa/fig6_mnist.py:quick", "v5e:2x2", learner)
    tiles = {name: program for name, program in programs.items() if name.startswith("tile ")}
    assert tiles
    for tile in tiles.values():
        assert tile["peak"] < 300e6
        assert set(tile["count"]["products"]) == {"highest"}


@pytest.mark.parametrize("topology", ["v5e:2x2", "h100:1"])
def test_the_default_finite_ntk_compiles_for_tpus_and_gpus(tmp_path, topology):
    # Of trained networks, by the default method; the networks are there to be trained.
    learners = "--config.sweep.learner=('network','ntk_trained')"
    programs = preflight(tmp_path, "configs/quickstart.py:quick", topology, learners)
    tiles = {n: p for n, p in programs.items() if n.startswith("tile ") and "finite_kernel" in n}
    assert tiles
    for tile in tiles.values():
        assert 0 < tile["peak"] < 300e6
        assert set(tile["count"]["products"]) == {"highest"}
