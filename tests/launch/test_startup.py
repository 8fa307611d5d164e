"""A command imports, records and logs as it should, by itself or by groups."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# One run of the quickstart's network; prints the imports before its report is written.
PROGRAM = """
import sys
sys.argv = [
    "run", "--config=configs/quickstart.py:quick", "--config.network.epochs=3", sys.argv[1],
    "--tensorboard", "--profile",
]
from launch import _cli, run
from lsa_jax.sweep import run as runner

report_sweep = runner.report_sweep

def report(config, points, workdir, show):
    loaded = {name.split(".")[0] for name in sys.modules}
    print("loaded", *(loaded & {"tensorflow", "tf2jax", "matplotlib", "seaborn", "IPython"}))
    return report_sweep(config, points, workdir, show)

runner.report_sweep = report
_cli.run(run.main, configured=True)
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Returns the folder of a run, and its output."""
    workdir = tmp_path_factory.mktemp("trained") / "out"
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"--workdir={workdir}"],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": os.environ["XLA_FLAGS"].replace("count=8", "count=1")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return workdir, process.stdout


def test_training_imports_neither_tensorflow_nor_plotting_code(trained):
    workdir, printed = trained
    assert "\nloaded\n" in printed
    (trace,) = (workdir / "profile").glob("plugins/profile/*/*.xplane.pb")
    assert trace.stat().st_size > 0 and f"wrote {workdir / 'profile'}" in printed


def _events(folder):
    """Returns {(name, step): value} of TensorBoard's event files: length, crc, event, crc, ..."""
    from tensorboardX.proto.event_pb2 import Event

    found = {}
    for path in folder.iterdir():
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            for value in event.summary.value:
                found[value.tag, event.step] = value.simple_value
            content = content[16 + length :]
    return found


def test_tensorboard_gets_the_metrics_the_pace_and_the_results(trained):
    workdir, _ = trained
    (directory,) = (workdir / "runs").iterdir()
    rows = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    expected = {
        (name, row["step"]): value
        for row in rows
        for name, value in row.items()
        if name not in ("step", "epoch")
    }
    result = json.loads((directory / "result.json").read_text())
    last = rows[-1]["step"]
    for name in ("test_accuracy", "seconds", "images_per_second"):
        expected[f"result/{name}", last] = result[name]
    found = _events(workdir / "tensorboard" / directory.name)
    assert {key: found[key] for key in expected} == pytest.approx(expected)
    assert {step for _, step in found} == {row["step"] for row in rows}


def test_a_sweep_that_is_only_recorded_is_run_by_its_groups(launch, refused, tmp_path):
    workdir = tmp_path / "out"
    fields = ["--config.sweep.learner=('ntk_infinite',)", "--config.sweep.noise=(0.0, 1.0)"]
    sweep = ["sweep", "--config=configs/quickstart.py:quick", *fields, f"--workdir={workdir}"]
    sweep += ["--config.sweep.seed=(0,)", "--record_only"]
    for ignored in ("--tensorboard", "--distributed"):
        assert f"accepted: without {ignored}" in refused(*sweep, ignored)
    assert "given without --distributed" in refused(*sweep, "--num_processes=2")
    recorded = launch(*sweep)
    assert recorded.stdout == f"{workdir}: 2 runs; groups that are missing: 0-1\n"
    assert (workdir / "config.json").exists() and not (workdir / "runs").exists()
    launch("groups", f"--workdir={workdir}", "--groups=0,1,00", bare=False)
    assert "are missing" not in launch("report", f"--workdir={workdir}", bare=False).stdout
    assert len(list(workdir.glob("runs/*/result.json"))) == 2
