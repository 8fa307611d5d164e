"""Groups on a Dask cluster: lost workers, killed commands and two at once change no bit."""

import os
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="needs pip install -e '.[dask]'")

DRILL = runpy.run_path(str(Path(__file__).with_name("cluster_drill.py")))
WORDS = DRILL["fields"](4, 40)
ENVIRONMENT = {"XLA_FLAGS": os.environ["XLA_FLAGS"].replace("device_count=8", "device_count=1")}


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
    return DRILL["results"](workdir)


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
        lambda: list(workdir.glob("groups/network*/step_*[0-9]")) or not client.process.is_alive()
    )
    assert not list(workdir.glob("runs/network*/result.json"))
    os.kill(first.process.pid, signal.SIGKILL)  # in mid-group
    second = worker()
    wait_until(lambda: list(workdir.glob("runs/network*/result.json")))
    assert client.process.is_alive()
    os.kill(client.process.pid, signal.SIGKILL)
    witness = DRILL["Witness"](workdir)
    clients = [begin(*command), begin(*command)]
    while any(client.process.is_alive() for client in clients):
        witness.look()
        time.sleep(0.05)
    witness.look()
    assert [client.wait()[0] for client in clients] == [0, 0], [c.wait()[2] for c in clients]
    assert second.process.is_alive()
    assert DRILL["results"](workdir) == whole and not witness.different
    assert (workdir / "report.md").exists() and not list(workdir.rglob("*.partial"))


def test_a_scheduler_that_does_not_answer_is_one_line_and_nothing_is_written(refused, tmp_path):
    words = [f"--workdir={tmp_path / 'out'}", "--scheduler=tcp://127.0.0.1:1"]
    line = refused("cluster", *WORDS, *words, bare=False)
    assert "tcp://127.0.0.1:1" in line and "--local=4" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("drill", ["workers", "clients"])
def test_random_kills_lose_nothing(drill, tmp_path):
    words = DRILL["fields"](20, 40)
    run = {
        "workers": lambda: DRILL["drill_workers"](tmp_path, words, 2, 8, 0),
        "clients": lambda: DRILL["drill_clients"](tmp_path, words, 8),
    }[drill]
    found = DRILL["compared"](tmp_path, run, words)
    assert found["runs"] == 20
    assert found["lost"] == found["differ"] == found["written_differently"] == 0, found
