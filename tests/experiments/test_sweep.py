"""A sweep that was killed, repeated, or spread over more devices ends with the same numbers."""

import os
import runpy
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import filelock
import ml_collections
import pandas as pd
import pytest

from launch import _cli
from lsa_jax.errors import InputError, MissingDataError, MixedVersionsWarning
from lsa_jax.experiments import sweep
from lsa_jax.experiments.sweep import run_groups, run_sweep
from lsa_jax.reporting import files
from lsa_jax.settings.points import Point, make_points

ROOT = Path(__file__).resolve().parents[2]


def start(workdir, *, devices=1, script="sweep", arguments=()):
    """Starts the quick variant of the quickstart in a process of its own, or what is left of it."""
    config = ["--config=configs/quickstart.py:quick"] if script in ("sweep", "run") else []
    # Compiled as cheaply as in the tests, whose own number of devices is another.
    flags = os.environ["XLA_FLAGS"].replace("device_count=8", f"device_count={devices}")
    return subprocess.Popen(
        [
            *(sys.executable, "-m", f"launch.{script}", *config),
            *(f"--workdir={workdir}", *arguments),
        ],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(workdir, **options):
    process = start(workdir, **options)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return output


CLOCK = ["seconds", "images_per_second", "peak_fraction"]


def read(workdir):
    return pd.read_csv(workdir / "results.csv").drop(columns=CLOCK)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    workdir = tmp_path_factory.mktemp("uninterrupted")
    finish(workdir)
    return workdir


def test_results_have_the_columns_and_every_point(uninterrupted):
    results = read(uninterrupted)
    assert {"learner", "noise", "seed", "test_accuracy", "train_accuracy", "status"} <= set(results)
    assert len(results) == 3 * 2 * 2 and (results["status"] == "ok").all()
    for name in ("noise_curves.png", "noise_curves.svg", "report.md", "report.json", "config.json"):
        assert (uninterrupted / name).stat().st_size > 0
    assert not list(uninterrupted.glob("groups/*/scratch"))


def _kill_when(workdir, happened):
    process = start(workdir)
    deadline = time.monotonic() + 120
    while not happened() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None, "the sweep ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_sweep_killed_at_several_moments_ends_with_the_same_results(uninterrupted, tmp_path):
    workdir = tmp_path / "killed"

    def count(pattern):
        return len(list(workdir.glob(pattern)))

    moments = [
        lambda: (workdir / "config.json").exists(),
        lambda: count("groups/*/step_*") > 0,
        lambda: count("runs/*/result.json") >= 6,  # the first group's, and part of the second's
    ]
    for happened in moments:
        _kill_when(workdir, happened)
        assert not (workdir / "results.csv").exists()
    finish(workdir)
    pd.testing.assert_frame_equal(read(workdir), read(uninterrupted), check_exact=True)
    assert not list(workdir.rglob("*.partial")) + list(workdir.glob("groups/*/scratch"))


def test_a_finished_sweep_repeated_does_no_work(uninterrupted):
    before = {p: p.stat().st_mtime_ns for p in (uninterrupted / "runs").rglob("*")}
    results = (uninterrupted / "results.csv").read_bytes()
    assert "nothing to run" in finish(uninterrupted)
    assert {p: p.stat().st_mtime_ns for p in (uninterrupted / "runs").rglob("*")} == before
    assert (uninterrupted / "results.csv").read_bytes() == results


def test_eight_devices_give_the_same_results_to_rounding(uninterrupted, tmp_path):
    finish(tmp_path, devices=8)
    pd.testing.assert_frame_equal(read(tmp_path), read(uninterrupted), rtol=1e-5, atol=1e-5)


def test_a_second_sweep_on_the_same_folder_refuses(uninterrupted):
    with filelock.FileLock(uninterrupted / ".lock"):
        process = start(uninterrupted)
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert errors.strip().splitlines() == [errors.strip()] and "in use" in errors


def test_a_sweep_with_other_settings_on_the_same_folder_refuses(uninterrupted):
    process = start(uninterrupted, arguments=["--config.network.epochs=3"])
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 2
    assert "other settings" in errors and len(errors.strip().splitlines()) == 1


def test_the_report_can_be_made_again(uninterrupted):
    wanted = {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()}
    for name in ("report.md", "report.json", "results.csv", "noise_curves.png"):
        (uninterrupted / name).unlink()
    process = subprocess.run(
        [sys.executable, "-m", "launch.report", f"--workdir={uninterrupted}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Percentage of zero-noise accuracy retained" in process.stdout
    assert {p.name: p.read_bytes() for p in uninterrupted.iterdir() if p.is_file()} == wanted


def test_one_point_runs_alone(tmp_path, uninterrupted):
    finish(tmp_path, script="run", arguments=["--config.noise=2.0", "--config.seed=1"])
    alone = read(tmp_path)
    assert len(alone) == 1
    swept = read(uninterrupted).query("learner == 'network' and noise == 2 and seed == 1")
    assert alone["test_loss"].item() == pytest.approx(swept["test_loss"].item(), rel=1e-5)


def test_groups_run_at_once_by_several_processes_give_the_same_report(uninterrupted, tmp_path):
    (tmp_path / "config.json").write_bytes((uninterrupted / "config.json").read_bytes())
    commands = [["groups", "--groups=0,2,4"], ["groups", "--groups=1,3,5"], ["report"]]
    for at_once in (commands[:2], commands[2:]):
        processes = [
            start(tmp_path, script=script, arguments=arguments) for script, *arguments in at_once
        ]
        for process in processes:
            _, errors = process.communicate(timeout=300)
            assert process.returncode == 0, errors
    pd.testing.assert_frame_equal(read(tmp_path), read(uninterrupted), check_exact=True)
    for name in ("report.md", "report.json", "noise_curves.png"):
        assert (tmp_path / name).read_bytes() == (uninterrupted / name).read_bytes()


def test_a_group_that_is_not_there_is_refused(uninterrupted):
    config, points = _cli.recorded_points(uninterrupted)
    with pytest.raises(InputError, match="--groups has 6; accepted: 0 to 5"):
        run_groups(config, points, uninterrupted, [0, 6], data_dir=None)


@pytest.mark.parametrize("names", [[], [".lock"]])
def test_missing_data_leave_a_folder_that_was_made_before_as_it_was(tmp_path, names):
    data, workdir = tmp_path / "data", tmp_path / "out"
    for folder in (data, workdir):
        folder.mkdir()
    for name in names:
        (workdir / name).touch()
    config = runpy.run_path(str(ROOT / "configs/lsa/fig6_mnist.py"))["get_config"]()
    points = make_points(config, [{}], lambda config: None)
    with pytest.raises(MissingDataError):
        run_sweep(config, points, workdir, data_dir=data, command=[])
    assert [entry.name for entry in workdir.iterdir()] == names


def test_a_report_waits_for_one_that_is_being_written(tmp_path, monkeypatch):
    config = runpy.run_path(str(ROOT / "configs/quickstart.py"))["get_config"]("quick")
    points = make_points(config, [{}], lambda config: None)
    files.write_run(tmp_path, "single", {"id": "single", "status": "ok"}, [])
    experiment = sweep.load_experiment(config.experiment)._replace(report=lambda *given: None)
    writing, at_once = [], []

    def write(*given):
        writing.append(given)
        time.sleep(0.2)
        at_once.append(len(writing))
        writing.pop()
        return ""

    monkeypatch.setattr(sweep, "load_experiment", lambda name: experiment)
    monkeypatch.setattr(sweep, "write_report", write)
    with ThreadPoolExecutor() as threads:
        reports = [threads.submit(sweep.report_sweep, config, points, tmp_path) for _ in range(3)]
    assert [len(report.result()) for report in reports] == [1, 1, 1]
    assert at_once == [1, 1, 1]


def test_a_sweep_that_goes_on_with_other_versions_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "_run_groups", lambda *given: None)
    experiment = sweep.load_experiment("noise_curves")
    point = Point("single", {}, ml_collections.ConfigDict())
    for versions, expected in ((sweep._versions(), []), ({"jax": "0.1"}, ["jax 0.1 -> "])):
        files.write_json(tmp_path / "config.json", {"versions": versions})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            sweep._run_missing(experiment, [[point]], lambda: None, tmp_path, sweep.UNWATCHED)
        said = [str(w.message) for w in caught if w.category is MixedVersionsWarning]
        assert len(said) == len(expected)
        assert all(part in line for part, line in zip(expected, said, strict=True))
