"""The command: what it prints, its exit statuses, and one line a mistake."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import jax
import ml_collections
import pytest
from absl import flags
from absl.testing import flagsaver

import launch.preflight
from launch import _cli
from lsa_jax import backend
from lsa_jax.errors import InputError
from lsa_jax.preflight import dry_run, machines
from lsa_jax.sweep.experiment import Experiment
from lsa_jax.sweep.points import Point

ROOT = Path(__file__).resolve().parents[2]


def _preflight(*flags):
    command = [sys.executable, "-m", "launch.preflight", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_quickstarts_programs_are_compiled_for_several_devices(tmp_path):
    file = tmp_path / "found.json"
    # Of every kind of program one: what trains, what tiles a kernel, what the host solves.
    learners = "--config.sweep.learner=('network', 'ntk_infinite')"
    flags = ("--topology=cpu:2", f"--json={file}", learners)
    done = _preflight("--config=configs/quickstart.py:quick", *flags)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    names = [program["name"] for program in found["programs"]]
    assert {"init", "train_epoch", "evaluate"} <= set(names)
    assert any(name.startswith("tile") and "kernel" in name for name in names)
    assert all(program["peak"] > 0 for program in found["programs"])
    assert found["devices"] == 2 and found["fits"] and found["solved_on_the_host"]
    for name in names:
        assert name in done.stdout


@pytest.mark.parametrize(
    "flags, named",
    [
        ((), "--topology is missing"),
        (("--topology=v9:2x2",), "--topology is 'v9:2x2'"),
        (("--topology=cpu", "--json=nowhere/found.json"), "--json is 'nowhere/found.json'"),
    ],
)
def test_mistakes_cost_one_line(flags, named):
    done = _preflight("--config=configs/quickstart.py:quick", *flags)
    assert done.returncode == 2
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: ") and named in line


def test_a_flag_that_the_compiler_does_not_know_costs_one_line(monkeypatch):
    # jaxlib ends a process for it, as libtpu does for what it does not know.
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    done = _preflight("--config=configs/quickstart.py:quick", "--topology=cpu")
    assert done.returncode == 2 and not done.stdout
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("error: XLA_FLAGS is '--xla_no_such_flag=1', and the compiler for cpu ")
    assert "does not know --xla_no_such_flag=1; accepted: " in line


@pytest.mark.parametrize("flags", ["", "--xla_force_host_platform_device_count=3"])
def test_without_flags_of_ones_own_no_compiler_is_tried(flags, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", flags)
    monkeypatch.setattr(machines.subprocess, "run", lambda *a, **k: pytest.fail("it was tried"))
    machines.check_flags(machines.parse("cpu"))


@pytest.fixture
def here(monkeypatch):
    """Runs the command in this process, with the devices that it has."""
    flags.FLAGS.mark_as_parsed()
    monkeypatch.setattr(launch.preflight, "_set_up_compilers", lambda: None)
    monkeypatch.setattr(launch.preflight, "_simulate_devices", lambda count: None)
    jax.devices()  # has read XLA_FLAGS then: later tests of this process count on its devices
    monkeypatch.setenv("XLA_FLAGS", "")  # no compiler is to be tried with them

    def run(config, *overrides):
        monkeypatch.setattr(_cli, "_overrides", list(overrides))
        with flagsaver.flagsaver(config=config, topology="cpu"):
            return launch.preflight.main()

    return run


def test_a_configuration_that_compiles_nothing_is_a_mistake(here, capsys):
    with pytest.raises(InputError, match="compiles nothing for a device.*; accepted: "):
        here("configs/lsa/lemmas.py:quick")
    assert not any(capsys.readouterr())


def test_what_does_not_fit_ends_with_status_1(here, capsys, monkeypatch):
    small = machines.CHIPS["cpu"]._replace(memory=1e4)
    monkeypatch.setitem(machines.CHIPS, "cpu", small)
    assert here("configs/quickstart.py:quick", "--config.sweep.learner=('network',)") == 1
    said = capsys.readouterr()
    assert "train_epoch takes" in said.out and "what helps: " in said.out
    assert "looking for programs: group 1 of " in said.err and "compiling 1 of " in said.err


def test_programs_are_chosen_by_what_jax_may_use_of_a_device(here, monkeypatch):
    machine, seen = machines.parse("cpu")._replace(memory=3e9), []
    monkeypatch.setattr(machines, "parse", lambda name: machine)

    def look(*arguments):
        seen.append(backend.memory())
        raise InputError("seen")

    monkeypatch.setattr(dry_run, "run", look)
    with pytest.raises(InputError, match="seen"):
        here("configs/quickstart.py:quick")
    assert seen == [3e9]


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is not None, reason="libtpu is installed")
def test_a_compiler_that_is_missing_costs_one_line_with_its_installation():
    done = _preflight("--config=configs/quickstart.py:quick", "--topology=v5e:2x2")
    (line,) = done.stderr.strip().splitlines()
    assert done.returncode == 2 and "pip install 'lsa_jax[preflight-tpu]'" in line


def test_what_the_host_computes_is_counted_and_not_run():
    def run(*arguments):
        raise AssertionError("it was run")

    experiment = Experiment(run, None, varying=("seed",), on_host=lambda config: True)
    config = ml_collections.ConfigDict({"experiment": "lsa/lemmas"})
    found = dry_run.run(experiment, [Point("a", {}, config), Point("b", {}, config)], None)
    assert found == [(dry_run.Solve("a point of lsa/lemmas"), 2)]
