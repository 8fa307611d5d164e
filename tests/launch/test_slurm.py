"""A sweep through SLURM ends as a local one, also when its tasks are stopped in the middle."""

import os
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from reports import read_results

from launch import slurm
from launch._sweeps import Planned
from launch._task import SlurmTask
from lsa_jax.errors import InputError, MissingDataError
from lsa_jax.reporting import locks, reproduction
from lsa_jax.sweep import experiment as experiments
from lsa_jax.sweep.points import make_points

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = Path(__file__).with_name("slurm_cluster.sh")
# Two groups: one that trains for some seconds and saves twenty times, and one kernel.
SWEEP = [
    "--config=configs/quickstart.py:quick",
    *("--config.sweep.learner=('network', 'ntk_infinite')", "--config.sweep.noise=(0.0,)"),
    *(
        "--config.sweep.seed=(0,)",
        "--config.network.epochs=100",
        "--config.network.checkpoint_every=5",
    ),
]


def launch(script, *arguments, cwd=ROOT, **environment):
    xla = os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=1")
    return subprocess.run(
        [sys.executable, "-m", f"launch.{script}", *arguments],
        cwd=cwd,
        env=os.environ | {"XLA_FLAGS": xla, "JAX_PLATFORMS": "cpu", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_dry_run_prints_the_scripts_and_writes_nothing(tmp_path):
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "data").mkdir()
    result = launch(
        *("slurm", *SWEEP, "--workdir=out", "--data_dir=data", "--partition=night", "--gpus=2"),
        *("--cpus=8", "--mem_gb=1.4999", "--time=90", "--array_parallelism=1", "--dry_run"),
        cwd=tmp_path,
        PATH="",
        PYTHONPATH=str(ROOT),
    )
    assert result.returncode == 0, result.stderr
    numbers, array, report = result.stdout.split("#!/bin/bash")
    assert numbers.startswith("# 2 runs in 2 groups, 2 tasks; no time is published")
    for flag in ("partition=night", "mem=1536MB", "requeue", f"chdir={tmp_path}", "signal=USR2@60"):
        assert f"#SBATCH --{flag}\n" in array and f"#SBATCH --{flag}\n" in report
    for flag in ("gpus-per-node=2", "cpus-per-task=8", "time=90"):
        assert f"#SBATCH --{flag}\n" in array and f"#SBATCH --{flag}\n" not in report
    assert "#SBATCH --array=0-1%1\n" in array and "--dependency=afterany:" in report
    task = f"{sys.executable} -m launch.groups --workdir={tmp_path / 'out'} --groups="
    for number in (0, 1):
        assert f"# task {number}: {task}{number} --data_dir={tmp_path / 'data'}\n" in array
    assert f"# task 0: {sys.executable} -m launch.report --workdir={tmp_path / 'out'}\n" in report
    assert (
        f"export PYTHONPATH={ROOT}" in array and f"srun --unbuffered --output {tmp_path}" in array
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("most", "sizes"), [(2, [2, 2, 1]), (1001, [5])])
def test_arrays_have_the_size_that_the_cluster_accepts(tmp_path, monkeypatch, given, most, sizes):
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho 'MaxArraySize            = {most}'\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    commands = [[str(number)] for number in range(5)]
    arrays = slurm._arrays(commands)
    assert [len(array) for array in arrays] == sizes and sum(arrays, []) == commands
    with given(array_parallelism=7):
        executor = slurm._executor(tmp_path, None, len(arrays))
    assert executor.parameters["array_parallelism"] * len(arrays) <= 7


@pytest.fixture
def submit(tmp_path, monkeypatch, given):
    """Returns a call of launch.slurm with a stand-in for submitit, and the submitted commands."""
    submitted = []

    def stand_in(executor, commands):
        submitted.append(commands)
        return str(100 + len(submitted))

    config = runpy.run_path(str(ROOT / "configs/lsa/fig6_mnist.py"))["get_config"]("quick")
    points = make_points(config, [{}], lambda config: None)
    monkeypatch.setattr(slurm, "_check", lambda: None)
    monkeypatch.setattr(slurm, "_executor", lambda *arguments: None)
    monkeypatch.setattr(slurm, "_submit", stand_in)
    planned = [Planned("", SWEEP, config, points, tmp_path / "out")]
    monkeypatch.setattr(slurm._sweeps, "planned", lambda: planned)
    workdir, data = tmp_path / "out", tmp_path / "data"
    data.mkdir()

    def call():
        with given(workdir=str(workdir), data_dir=str(data)):
            slurm.main()

    return call, submitted, workdir


def _set_data(monkeypatch, present):
    """Says whether the data of the sweep are there, which nothing reads."""

    def load(points, data_dir):
        if not present:
            raise MissingDataError("mnist does not exist")

    experiment = experiments.load_experiment("lsa/noise_curves")
    monkeypatch.setattr(experiments, "load_experiment", lambda name: experiment._replace(load=load))


def test_tasks_are_not_submitted_where_the_data_have_gone_since(submit, monkeypatch):
    call, submitted, workdir = submit
    _set_data(monkeypatch, present=True)
    call()
    assert [len(commands) for commands in submitted] == [1, 1] and workdir.exists()
    _set_data(monkeypatch, present=False)
    with pytest.raises(MissingDataError):
        call()
    assert len(submitted) == 2


def test_a_sweep_whose_array_is_queued_is_not_submitted_twice(submit, monkeypatch, tmp_path):
    call, submitted, _ = submit
    _set_data(monkeypatch, present=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "squeue").write_text(f"#!/bin/sh\n[ $2 = --jobs=101 ] && cat {tmp_path}/queue\n")
    (programs / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    (tmp_path / "queue").write_text("101_[0-1] night PD\n")
    call()
    with pytest.raises(InputError, match="job 101 is still queued.*`scancel 101`"):
        call()
    assert len(submitted) == 2
    (tmp_path / "queue").write_text("")
    call()
    assert len(submitted) == 4


def test_a_task_ends_as_its_command_does():
    with pytest.raises(SystemExit) as ending:
        SlurmTask()([sys.executable, "-c", "import sys; sys.exit(3)"])
    assert ending.value.code == 3
    # A warning of SLURM does not reach the command.
    warn = "import os, signal; [os.kill(os.getpid(), s) for s in (signal.SIGTERM, signal.SIGUSR2)]"
    SlurmTask()([sys.executable, "-c", warn])


def _missing_programs():
    places = os.environ["PATH"] + ":/usr/sbin:/sbin"
    programs = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")
    return [name for name in programs if shutil.which(name, path=places) is None]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Starts a SLURM of one node; returns its environment."""
    if missing := _missing_programs():
        pytest.skip(f"no SLURM here: {missing[0]} not found (Debian: slurm-wlm, munge)")
    if os.geteuid() != 0:
        pytest.skip("slurmd needs root")
    directory = tmp_path_factory.mktemp("slurm")
    try:
        subprocess.run([CLUSTER, "start", directory], check=True, timeout=60)
        yield {"SLURM_CONF": str(directory / "slurm.conf")}
    finally:
        subprocess.run([CLUSTER, "stop", directory], check=False, timeout=60)


def _ask(cluster, *command):
    return subprocess.run(
        command, env=os.environ | cluster, capture_output=True, text=True, check=True
    ).stdout


def _wait_until(happened, event, every=0.05):
    deadline = time.monotonic() + 900  # of a busy machine
    while not happened():
        assert time.monotonic() < deadline, f"never: {event}"
        time.sleep(every)


def _epochs(workdir):
    """Epochs of the last checkpoint; 0 where there is none."""
    names = [path.name for path in workdir.glob("groups/network*/step_*.npz")]
    return max((int(name[len("step_") : -len(".npz")]) for name in names), default=0)


def _log(workdir):
    return "".join(path.read_text() for path in sorted(workdir.glob("slurm/*log*")))


def _starts(workdir):
    """How often the first task, which trains, was started."""
    return sum(path.read_text().count("Starting") for path in workdir.glob("slurm/*_0_0_log.out"))


@pytest.mark.slurm
def test_an_array_with_a_task_that_is_stopped_and_queued_again_ends_as_a_local_sweep(
    cluster, tmp_path
):
    local, workdir = tmp_path / "local", tmp_path / "array"
    finished = launch("sweep", *SWEEP, f"--workdir={local}")
    assert finished.returncode == 0, finished.stderr
    wrong = launch("slurm", *SWEEP, f"--workdir={workdir}", "--partition=nosuch", **cluster)
    assert wrong.returncode == 2 and "partition" in wrong.stderr, wrong.stderr
    submitted = launch("slurm", *SWEEP, f"--workdir={workdir}", "--cpus=1", **cluster)
    assert submitted.returncode == 0, submitted.stderr
    array = submitted.stdout.split()[1].rstrip(":")

    _wait_until(lambda: _epochs(workdir) > 0, "a first checkpoint")
    with pytest.raises(InputError, match="in use by another process"), locks.alone(workdir):
        pass
    _ask(cluster, "scancel", "--signal=USR2", f"{array}_0")  # as SLURM does before it stops a task
    _wait_until(lambda: _starts(workdir) == 2, "a second start")
    assert not list(workdir.glob("runs/network*/result.json"))

    _wait_until(lambda: not _ask(cluster, "squeue", "--noheader"), "the end of all jobs", every=1)
    assert (workdir / "report.md").exists(), _log(workdir)
    for name in ("report.md", "report.json", "noise_curves.png", "noise_curves.svg"):
        assert (workdir / name).read_bytes() == (local / name).read_bytes(), name
    here, there = map(read_results, (workdir, local))
    pd.testing.assert_frame_equal(here, there, check_exact=True)


@pytest.mark.slurm
def test_sweeps_of_a_file_are_split_into_arrays_with_one_report_on_all(cluster, tmp_path):
    """The cluster's MaxArraySize is 2, and there are three groups."""
    kernel = '--config.sweep.learner="(\'ntk_infinite\',)" --config.sweep.seed="(0,)"'
    lines = tmp_path / "many.txt"
    lines.write_text(
        f'configs/quickstart.py:quick {kernel} --config.sweep.noise="(0.0, 1.0)"\n'
        f'configs/quickstart.py:quick {kernel} --config.sweep.noise="(2.0,)"  # alone\n'
    )
    workdir = tmp_path / "many"
    command = [f"--config={lines}", f"--workdir={workdir}", "--cpus=1"]
    shown = launch("slurm", *command, "--dry_run", **cluster)
    assert shown.stdout.count("#SBATCH --array=0-1%") == 1, shown.stderr
    submitted = launch("slurm", *command, **cluster)
    assert submitted.returncode == 0, submitted.stderr
    assert [line.split(": ")[1] for line in submitted.stdout.splitlines()[:3]] == [
        "2 task(s)",
        "1 task(s)",
        "report",
    ]
    _wait_until(lambda: not _ask(cluster, "squeue", "--noheader"), "the end of all jobs", every=1)
    report = reproduction.read(workdir / "report.json")
    assert [sweep.status for sweep in report["sweeps"]] == ["done", "done"], _log(workdir)
    assert [sweep.runs for sweep in report["sweeps"]] == [2, 1]
