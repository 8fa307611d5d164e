"""Processes that work together give one process's results; the first alone writes."""

import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reports import read_results

from launch import _distributed
from lsa_jax.errors import InputError

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("distributed_work.py")
NUM_TILES = 6 * 7 // 2


def start(count, *command, devices=1):
    """Starts a command in so many processes of so many devices; {} in it becomes the index."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    together = ("--distributed", f"--coordinator_address={address}", f"--num_processes={count}")
    environment = os.environ | {
        "XLA_FLAGS": os.environ["XLA_FLAGS"].replace("device_count=8", f"device_count={devices}"),
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(ROOT),
    }
    return [
        subprocess.Popen(
            [
                *(sys.executable, *(part.replace("{}", str(index)) for part in command)),
                *(*together, f"--process_id={index}"),
            ],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(count)
    ]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return runpy.run_path(str(SCRIPT))["work"](tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize("count, devices", [(2, 2), pytest.param(4, 2, marks=pytest.mark.slow)])
def test_processes_give_together_what_one_gives(count, devices, alone, tmp_path):
    for index in range(count):
        (tmp_path / str(index)).mkdir()
    running = start(count, str(SCRIPT), f"--workdir={tmp_path}/{{}}", devices=devices)
    outputs = [process.communicate() for process in running]
    assert (tmp_path / "found_0.npz").exists(), outputs
    for index in range(count):
        found = np.load(tmp_path / f"found_{index}.npz")
        np.testing.assert_allclose(found["batches"], alone["batches"], rtol=1e-5)
        np.testing.assert_array_equal(found["sweep"], alone["sweep"])
        np.testing.assert_array_equal(found["stored"], alone["stored"])
        np.testing.assert_allclose(found["memory"], alone["memory"], rtol=1e-6)
        np.testing.assert_allclose(found["solved"], alone["solved"], rtol=1e-6)
        assert found["share"] <= 64 * -(-NUM_TILES // count) and alone["share"] == 64 * NUM_TILES
        for name in ("place", "odd", "byte", "symmetric"):
            np.testing.assert_array_equal(found[name], alone[name])
        # A process that was started with another sweep is named, before anything is written.
        words = "process 1: --distributed: this process has other settings than process 0"
        assert str(found["others"]).startswith(words)
        # Arrays go from device to device; the host passes on messages between processes.
        assert found["through_host"] <= np.int32().nbytes
        # Work done before the stop is not repeated.
        np.testing.assert_array_equal(found["counted"], [NUM_TILES - np.ceil(0.4 * NUM_TILES), 1])
        kind = "InputError" if index == 0 else "ReportedError"
        assert found["error"] == f"{kind} process 1: no such data"
        assert bool(list((tmp_path / str(index)).iterdir())) == (index == 0)
        assert not (tmp_path / str(index) / "others").exists()
    assert outputs[0][0].endswith("done\n") and not any(output for output, _ in outputs[1:])
    # One process found a mistake by itself: it says so, and no other waits for it.
    assert outputs[1][1].splitlines()[-1] == "error in process 1: no such data"
    assert "another process has ended" in outputs[0][1].splitlines()[-1]
    assert [process.returncode for process in running[:2]] == [1, 2]


@pytest.mark.slow
def test_processes_that_are_killed_go_on_where_they_were(tmp_path):
    command = ("-m", "launch.sweep", "--config=configs/quickstart.py:quick")
    workdir, untouched = tmp_path / "together", tmp_path / "alone"
    for pattern in ("groups/*/step_*", "runs/*/result.json", "groups/*/scratch/*.journal"):
        running = start(2, *command, f"--workdir={workdir}")
        while not list(workdir.glob(pattern)) and running[0].poll() is None:
            time.sleep(0.01)
        for process in running:
            process.send_signal(signal.SIGKILL)
            process.communicate()
        assert not (workdir / "results.csv").exists()
    running = start(2, *command, f"--workdir={workdir}")
    assert [process.communicate()[1] for process in running] and not running[0].returncode
    subprocess.run(
        [sys.executable, *command, f"--workdir={untouched}"],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": os.environ["XLA_FLAGS"].replace("count=8", "count=1")},
        capture_output=True,
        check=True,
    )
    found, expected = map(read_results, (workdir, untouched))
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"distributed": False, "num_processes": 2}, "without --distributed"),
        ({"num_processes": 0}, "--num_processes is 0; accepted: 1 or more"),
        ({"num_processes": 2, "process_id": 2}, "--process_id is 2; accepted: 0 to 1"),
        ({"process_id": -1}, "--process_id is -1; accepted: 0 or more"),
        *(
            ({"coordinator_address": wrong}, f"{wrong}'; accepted: HOST:PORT")
            for wrong in ("10.0.0.1", ":8476", "host:0", "host:port")
        ),
    ],
)
def test_wrong_flags_are_refused(values, words, given):
    with given(**{"distributed": True} | values):
        with pytest.raises(InputError, match=words), _distributed.joined():
            pytest.fail("joined")
