"""The command: its output, its exit statuses, and one line a mistake."""

import importlib.util
import json
import os
import subprocess

import pytest


@pytest.fixture
def preflight(fork):
    """Runs the command in a fork; flags of the compiler are tried in another process first."""

    def run(*flags, config="configs/quickstart.py:quick", xla=""):
        ended = fork(
            *("preflight", f"--config={config}", *flags),
            environment=os.environ | {"XLA_FLAGS": xla},
        )
        return subprocess.CompletedProcess(flags, *ended.wait())

    return run


def test_the_quickstarts_programs_are_compiled_for_several_devices(preflight, tmp_path):
    file = tmp_path / "found.json"
    # One program of every kind: training, tiles of a kernel, a solve on the host.
    learners = "--config.sweep.learner=('network', 'ntk_infinite')"
    xla = os.environ["XLA_FLAGS"]
    done = preflight("--topology=cpu:2", f"--json={file}", learners, xla=xla)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    names = [program["name"] for program in found["programs"]]
    assert {"init", "train_epoch", "evaluate"} <= set(names)
    assert any(name.startswith("tile") and "kernel" in name for name in names)
    assert all(program["peak"] > 0 for program in found["programs"])
    assert found["devices"] == 2 and found["fits"] and found["solved_on_the_host"]
    assert all(name in done.stdout for name in names)


@pytest.mark.parametrize(
    "flags, named",
    [
        ((), "--topology is missing"),
        (("--topology=v9:2x2",), "--topology is 'v9:2x2'"),
        (("--topology=cpu", "--json=nowhere/found.json"), "--json is 'nowhere/found.json'"),
        (("--topology=cpu", "--calibrate=none.json"), "--calibrate is 'none.json'"),
        (("--topology=v5e:2x2",), "pip install 'lsa_jax[preflight-tpu]'"),
    ],
)
def test_mistakes_cost_one_line(preflight, flags, named):
    if "preflight-tpu" in named and importlib.util.find_spec("libtpu"):
        pytest.skip("libtpu is installed")
    done = preflight(*flags)
    (line,) = done.stderr.strip().splitlines()
    assert done.returncode == 2 and line.startswith("error: ") and named in line


def test_a_flag_that_the_compiler_does_not_know_costs_one_line(preflight):
    # jaxlib ends a process for it, and so does libtpu.
    done = preflight("--topology=cpu", xla="--xla_no_such_flag=1")
    (line,) = done.stderr.strip().splitlines()
    assert done.returncode == 2 and not done.stdout and "--xla_no_such_flag=1; accepted" in line


def test_a_configuration_that_compiles_nothing_is_a_mistake(preflight):
    done = preflight("--topology=cpu", config="configs/lsa/lemmas.py:quick")
    assert done.returncode == 2 and "compiles nothing for a device" in done.stderr
