"""The task for SkyPilot: of its schema where it is installed, and of commands that there are."""

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def task():
    return yaml.safe_load((ROOT / "launch" / "sky.yaml").read_text())


def test_skypilot_accepts_the_task(task):
    schemas = pytest.importorskip("sky.utils.schemas", reason="needs skypilot")
    validate = pytest.importorskip("jsonschema").validate
    validate(task, schemas.get_task_schema())
    validate(task["resources"], schemas.get_resources_schema())
    for mount in task["file_mounts"].values():
        validate(mount, schemas.get_storage_schema())


def _commands(script, **environment):
    """Returns what a script runs, each as the words of a command: by a shell that only prints."""
    printing = 'curl() { :; }; sh() { :; }; python() { printf "%q " python "$@"; echo; }\n'
    script = script.replace("~/.local/bin/uv", ":").replace(".venv/bin/python", "python")
    printed = subprocess.run(
        ["bash", "-c", printing + script],
        env={"PATH": "/usr/bin:/bin"} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [shlex.split(line) for line in printed.stdout.splitlines()]


@pytest.mark.parametrize("dataset", ["", "mnist"])
def test_it_fetches_the_data_and_runs_the_sweep_in_the_bucket(task, dataset):
    environment = task["envs"] | {"DATASET": dataset}
    data = ["--data_dir=data"] if dataset else []
    fetched = [["python", "-m", "launch.data", f"--dataset={dataset}", *data]] if dataset else []
    assert _commands(task["setup"], **environment) == fetched
    folders = ["--config=configs/quickstart.py", "--workdir=/runs/quickstart"]
    (sweep,) = _commands(task["run"], **environment)
    assert sweep == ["python", "-u", "-m", "launch.sweep", *folders, *data]
    assert "/runs" in task["file_mounts"] and task["resources"]["use_spot"]


def test_the_extras_that_it_installs_are_there(task):
    found = (ROOT / "setup.cfg").read_text()
    assert f"\n{task['envs']['EXTRA']} =\n" in found and "\ntpu =\n" in found
    assert (ROOT / task["envs"]["CONFIG"]).exists()
