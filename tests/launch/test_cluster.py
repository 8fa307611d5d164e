"""Groups on a Dask cluster: lost workers, killed commands and two at once change no bit."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from reports import CLOCK

pytest.importorskip("distributed", reason="needs pip install -e '.[dask]'")

# Four groups of one run, half of each learner.
WORDS = [
    "--config=configs/quickstart.py:quick",
    "--config.max_replicas=1",
    "--config.sweep.learner=('network', 'ntk_infinite')",
    "--config.sweep.seed=(0,)",
    "--config.sweep.noise=(0.0, 0.01)",
    "--config.network.epochs=40",
    "--config.network.checkpoint_every=5",
]
ENVIRONMENT = {"XLA_FLAGS": os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=1")}


def results(workdir):
    """Returns each run's numbers, without its times, and its history."""
    found = {}
    for path in workdir.glob("runs/*/result.json"):
        result = json.loads(path.read_text())
        numbers = {name: value for name, value in result.items() if name not in CLOCK}
        found[path.parent.name] = numbers, (path.parent / "metrics.jsonl").read_bytes()
    return found


@pytest.fixture
def begin(fork):
    """Starts a command in a fork, on one device."""
    started = []

    def start(script, *arguments):
        started.append(fork(script, *arguments, environment=os.environ | ENVIRONMENT))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()


@pytest.fixture
def scheduler(tmp_path):
    """Starts a scheduler of Dask, and returns its address."""
    log = tmp_path / "scheduler.log"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host=127.0.0.1"]
    command += ["--port=0", "--no-dashboard"]
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)
    try:
        wait_until(lambda: re.search(r"Scheduler at:\s+tcp", log.read_text()))
        yield re.search(r"Scheduler at:\s+(tcp://\S+)", log.read_text())[1]
    finally:
        process.kill()
        process.wait()


def wait_until(happened):
    deadline = time.monotonic() + 300  # of a busy machine
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def whole(fork, tmp_path_factory):
    """The results of an undisturbed sweep."""
    workdir = tmp_path_factory.mktemp("whole") / "out"
    ended = fork("sweep", *WORDS, f"--workdir={workdir}", environment=os.environ | ENVIRONMENT)
    status, _, errors = ended.wait()
    assert status == 0, errors
    return results(workdir)


def test_killed_workers_and_commands_and_two_commands_at_once_change_no_bit(
    begin, scheduler, whole, tmp_path
):
    workdir = tmp_path / "out"
    command = ["cluster", *WORDS, f"--workdir={workdir}", f"--scheduler={scheduler}"]

    def worker():
        arguments = ["--nthreads=1", "--no-nanny", "--no-dashboard", "--memory-limit=0"]
        return begin("distributed.cli.dask_worker", scheduler, *arguments)

    first, client = worker(), begin(*command)
    wait_until(
        lambda: list(workdir.glob("groups/network*/step_*.npz")) or not client.process.is_alive()
    )
    assert not list(workdir.glob("runs/network*/result.json"))
    os.kill(first.process.pid, signal.SIGKILL)  # in mid-group
    second = worker()
    wait_until(lambda: list(workdir.glob("runs/network*/result.json")))
    assert client.process.is_alive()
    os.kill(client.process.pid, signal.SIGKILL)
    clients = [begin(*command), begin(*command)]
    assert [client.wait()[0] for client in clients] == [0, 0], [c.wait()[2] for c in clients]
    assert second.process.is_alive()
    assert results(workdir) == whole
    assert (workdir / "report.md").exists() and not list(workdir.rglob("*.partial"))


@pytest.mark.parametrize("place", ["tcp://127.0.0.1:1", "missing.json", "damaged.json"])
def test_a_scheduler_that_does_not_answer_is_one_line_and_nothing_is_written(
    place, refused, tmp_path
):
    (tmp_path / "damaged.json").write_text("{")
    place = place if "//" in place else str(tmp_path / place)
    line = refused(
        "cluster", *WORDS, f"--workdir={tmp_path / 'out'}", f"--scheduler={place}", bare=False
    )
    assert place in line and "--local=4" in line
    assert not (tmp_path / "out").exists()
