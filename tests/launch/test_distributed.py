"""Processes that work together give what one gives; the first alone writes; all end together."""

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
from absl import flags
from absl.testing import flagsaver

from launch import _distributed, _joining
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


@pytest.mark.parametrize(
    "count, devices, mapped_by",
    [
        (2, 2, "pmap"),
        pytest.param(2, 2, "shard_map", marks=pytest.mark.slow),
        pytest.param(4, 2, "pmap", marks=pytest.mark.slow),
        pytest.param(4, 2, "shard_map", marks=pytest.mark.slow),
    ],
)
def test_processes_give_together_what_one_gives(count, devices, mapped_by, alone, tmp_path):
    for index in range(count):
        (tmp_path / str(index)).mkdir()
    flags = (f"--workdir={tmp_path}/{{}}", f"--map={mapped_by}")
    running = start(count, str(SCRIPT), *flags, devices=devices)
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
        # Arrays go from device to device; the host passes on what processes say to each other.
        assert found["through_host"] <= np.int32().nbytes
        # What was done when the work was stopped is not computed again.
        np.testing.assert_array_equal(found["counted"], [NUM_TILES - np.ceil(0.4 * NUM_TILES), 1])
        kind = "InputError" if index == 0 else "ReportedError"
        assert found["error"] == f"{kind} process 1: no such data"
        assert bool(list((tmp_path / str(index)).iterdir())) == (index == 0)
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
    clock = ["seconds", "images_per_second", "peak_fraction", "matrix_seconds"]
    found, expected = (
        pd.read_csv(folder / "results.csv").drop(columns=clock, errors="ignore")
        for folder in (workdir, untouched)
    )
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


def _kill_one_when(running, there):
    """Kills the third process once it is so, and returns how the others end."""
    while not there() and all(process.poll() is None for process in running):
        time.sleep(0.01)
    running[2].send_signal(signal.SIGKILL)
    outputs = [process.communicate()[1] for process in running]
    assert running[2].returncode == -signal.SIGKILL, outputs
    assert all(running[other].returncode not in (0, None) for other in (0, 1, 3)), outputs


@pytest.mark.slow
def test_a_sharded_matrix_survives_the_loss_of_a_process(tmp_path):
    command, apart = (str(SCRIPT.with_name("sharded_work.py")), "--num=400"), "--workdir={}/{{}}"
    single, whole, killed = (tmp_path / name for name in ("single", "whole", "killed"))
    for folder, count in ((single, 1), (whole, 4)):
        running = start(count, *command, apart.format(folder), devices=2)
        outputs = [process.communicate()[1] for process in running]
        assert not any(process.returncode for process in running), outputs
    # First while the third process computes tiles, then while the first one iterates.
    journal = killed / "2" / "train.02of04.npy.0.journal"
    for there in (
        lambda: journal.exists() and journal.read_bytes().count(b"\n") > 3,
        (killed / "0" / "state.npz").exists,
    ):
        pausing = (*command, "--pause=0.2", apart.format(killed))
        _kill_one_when(start(4, *pausing, devices=2), there)
        assert not list(killed.glob("*/found.json"))
    running = start(4, *command, apart.format(killed), devices=2)
    outputs = [process.communicate()[1] for process in running]
    assert not any(process.returncode for process in running), outputs
    expected = np.load(single / "0" / "found.npz")
    tiles = []
    for index in range(4):
        for name in ("train", "test"):
            file = f"{name}.0{index}of04.npy"
            found, left_alone = ((f / str(index) / file).read_bytes() for f in (killed, whole))
            assert found == left_alone
            assert not list(killed.glob(f"[!{index}]/{name}.0{index}of04.npy"))
        tiles.append(np.load(killed / str(index) / f"train.0{index}of04.npy"))
        found = np.load(killed / str(index) / "found.npz")
        for name in ("predictions", "weights"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-6, atol=1e-9)
        print((killed / str(index) / "found.json").read_text())
    np.testing.assert_array_equal(np.concatenate(tiles), np.load(single / "0" / "train.npy"))
    print((single / "0" / "found.json").read_text())


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"num_processes": 2}, "--num_processes is given without --distributed; accepted: both"),
        ({"distributed": True, "num_processes": 0}, "--num_processes is 0; accepted: 1 or more"),
        (
            {"distributed": True, "num_processes": 2, "process_id": 2},
            "--process_id is 2; accepted: 0 to 1, as --num_processes is 2",
        ),
        ({"distributed": True, "process_id": -1}, "--process_id is -1; accepted: 0 or more"),
        *(
            ({"distributed": True, "coordinator_address": wrong}, f"{wrong}'; accepted: HOST:PORT")
            for wrong in ("10.0.0.1", ":8476", "host:0", "host:port")
        ),
    ],
)
def test_wrong_flags_are_refused_in_one_line(values, words):
    flags.FLAGS.mark_as_parsed()
    with flagsaver.flagsaver(**values), pytest.raises(InputError) as caught:
        with _distributed.joined():
            pytest.fail("joined")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_port_that_is_taken_is_refused():
    with socket.create_server(("", 0)) as server:
        address = f"localhost:{server.getsockname()[1]}"
        given = {"coordinator_address": address, "num_processes": 2, "process_id": 0}
        with flagsaver.flagsaver(distributed=True, **given):
            with pytest.raises(InputError, match="that port cannot be opened here: Address"):
                with _distributed.joined():
                    pytest.fail("joined")


@pytest.mark.parametrize("wrong", ["all", "0;1", "0,-1"])
def test_devices_of_a_process_that_are_not_numbers_are_refused(wrong, monkeypatch):
    monkeypatch.setenv("JAX_LOCAL_DEVICE_IDS", wrong)
    with pytest.raises(InputError, match="JAX_LOCAL_DEVICE_IDS is .*such as 0,1"):
        _joining.connect("localhost:1", 2, 1)


def test_a_process_that_runs_on_this_host_already_is_not_joined_twice():
    flags.FLAGS.mark_as_parsed()
    address = f"localhost:{os.getpid()}"
    given = {"coordinator_address": address, "num_processes": 2, "process_id": 1}
    _joining._take_place(address, 0)  # another place is no hindrance
    _joining._take_place(address, 1)
    try:
        with flagsaver.flagsaver(distributed=True, **given):
            with pytest.raises(InputError, match="--process_id is 1, which runs on this host"):
                with _distributed.joined():
                    pytest.fail("joined")
    finally:
        for _ in range(2):
            _joining._held.pop().release()


def test_the_loss_of_another_process_is_told_from_other_lost_connections():
    gloo = "Gloo AllGather failed: [gloo/transport/tcp/pair.cc:547] Connection closed by peer"
    assert _distributed._is_loss(RuntimeError(gloo))
    assert not _distributed._is_loss(OSError("Connection to api.wandb.ai timed out"))
