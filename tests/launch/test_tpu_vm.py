"""Commands of `launch/tpu_vm.sh` and of the SkyPilot task, as a remote machine reads them."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
VM = ["--name=vm", "--zone=zone"]
RUN = ["run", *VM, "--workdir=runs/my run", "--config=a.py", "--config.sweep.x=('a', 'b')"]


def tpu_vm(*arguments, **environment):
    return subprocess.run(
        [ROOT / "launch" / "tpu_vm.sh", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def printed(*arguments):
    """The output of a dry run, each line as the words of a command."""
    result = tpu_vm(*arguments, "--dry_run", PATH="/usr/bin:/bin")
    assert result.returncode == 0, result.stderr
    return [shlex.split(line) for line in result.stdout.splitlines()]


GCLOUD = ["gcloud", "compute", "tpus", "tpu-vm"]


def test_run_starts_the_sweep_with_the_same_words_and_does_not_wait_for_it(tmp_path):
    """A stand-in for gcloud runs the code as the VM's shell would, with a stand-in for Python."""
    programs, home = tmp_path / "bin", tmp_path / "home"
    project = home / "lsa_jax_project"
    (project / ".venv" / "bin").mkdir(parents=True)
    programs.mkdir()
    stand_ins = {
        programs
        / "gcloud": 'for word; do [[ $word != --command=* ]] || bash -c "${word#*=}"; done',
        programs / "sleep": "until [[ -s 'runs/my run.log' ]]; do :; done",
        project / ".venv" / "bin" / "python": "printf '%s\\n' \"$@\"; exec /bin/sleep 8",
    }
    for path, code in stand_ins.items():
        path.write_text(f"#!/bin/bash\n{code}\n")
        path.chmod(0o755)
    (home / "link").symlink_to(project)
    outputs = []
    for _ in range(2):
        result = subprocess.run(
            [ROOT / "launch" / "tpu_vm.sh", *RUN],
            cwd=home,
            env={"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=4,  # less than the stand-in takes
        )
        assert result.returncode == 0, result.stderr
        outputs.append(result.stdout)
    # A running sweep is left alone: a second process would end the first on every host.
    assert ["still runs" in output for output in outputs] == [False, True]
    wanted = ["-u", "-m", "launch.sweep", "--config=a.py", "--workdir=runs/my run"]
    wanted.append("--config.sweep.x=('a', 'b')")
    assert (project / "runs" / "my run.log").read_text().splitlines() == wanted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "create, install, run, fetch, delete"),
        (["start", *VM], "'start'"),
        (["delete", "--zone=zone"], "--name is missing"),
        (["create", *VM, "--version=v2"], "--type is missing"),
        (["run", *VM, "--config=a.py"], "--workdir is missing"),
        (["run", *VM, "--workdir=x", "a.py"], "does not take 'a.py'"),
        (["create", *VM, "--type=t", "--version=v", "--spot=no"], "does not take '--spot=no'"),
        (["delete", *VM], "gcloud is not on the PATH"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, arguments, words):
    for name in ("bash", "dirname", "env"):  # the programs of the message itself
        (tmp_path / name).symlink_to(f"/usr/bin/{name}")
    result = tpu_vm(*arguments, PATH=str(tmp_path))
    (line,) = result.stderr.splitlines()
    assert result.returncode == 2 and line.startswith("error: ") and words in line


def _commands(task, script, **given):
    """Returns the commands of a SkyPilot script, each as words: by a shell that only prints."""
    printing = "curl() { :; }; sh() { :; }; cd() { :; }\n"
    printing += 'python() { printf "%q " python "$@"; echo; }\n'
    script = task[script].replace("~/.local/bin/uv", ":").replace(".venv/bin/python", "python")
    environment = {"PATH": "/usr/bin:/bin"} | task["envs"] | given
    shell = ["bash", "-c", printing + script]
    printed = subprocess.run(shell, env=environment, capture_output=True, text=True, check=True)
    return [shlex.split(line) for line in printed.stdout.splitlines()]


@pytest.mark.parametrize("dataset", ["", "mnist"])
def test_skypilot_fetches_data_and_runs_the_sweep_in_the_bucket_or_a_group_a_job(dataset):
    task, pool, group = (
        yaml.safe_load((ROOT / "launch" / f"{name}.yaml").read_text())
        for name in ("sky", "sky_pool", "sky_group")
    )
    data = ["--data_dir=data"] if dataset else []
    fetched = [["python", "-m", "launch.data", f"--dataset={dataset}", *data]] if dataset else []
    folders = ["--config=configs/quickstart.py", "--workdir=/runs/quickstart"]
    assert _commands(task, "run", DATASET=dataset) == [
        ["python", "-u", "-m", "launch.sweep", *folders, *data]
    ]
    assert _commands(group, "run", DATASET=dataset, SKYPILOT_JOB_RANK="7") == [
        ["python", "-m", "launch.sweep", *folders, *data, "--record_only"],
        ["python", "-u", "-m", "launch.groups", "--groups=7", folders[1], *data],
    ]
    # Jobs of a pool have neither setup nor files of their own, and its machines run nothing else.
    assert not {"setup", "workdir", "file_mounts"} & set(group) and "run" not in pool
    assert group["resources"]["accelerators"] == pool["resources"]["accelerators"]
    assert pool["pool"]["workers"] > 1
    for machine in (task, pool):
        assert _commands(machine, "setup", DATASET=dataset) == fetched
        assert "/runs" in machine["file_mounts"] and machine["resources"]["use_spot"]
        assert f"\n{machine['envs']['EXTRA']} =\n" in (ROOT / "setup.cfg").read_text()
    assert (ROOT / task["envs"]["CONFIG"]).exists()


PAGE = re.sub(r"\\\n\s*", " ", (ROOT / "docs" / "launching" / "clouds.md").read_text())


def test_the_pages_commands_of_the_vm_are_accepted():
    found = dict.fromkeys(re.findall(r"^launch/tpu_vm\.sh .*$", PAGE, re.MULTILINE))
    (vm,) = set(re.findall(r"^vm=.*$", PAGE, re.MULTILINE))
    assert {line.split()[1] for line in found} == {"create", "install", "run", "fetch", "delete"}
    for line in found:
        ended = subprocess.run(["bash", "-c", f"{vm}\n{line} --dry_run"], cwd=ROOT, check=False)
        assert ended.returncode == 0, line
