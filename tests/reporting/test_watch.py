"""Time left and progress of a sweep, read from its folder while it runs."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lsa_jax.reporting import files, progress, watch

ROOT = Path(__file__).resolve().parents[2]

IDS = ["a", "b", "c", "d"]
NOW = 1_000_000.0


def store(workdir, name):
    result = {"id": name, "seconds": 10.0, "status": "ok", "message": ""}
    rows = [{"step": step, "test_accuracy": step / 10} for step in range(8)]
    files.write_run(workdir, name, result, rows)
    os.utime(workdir / "runs" / name / "result.json", (NOW, NOW))


def tell(workdir, runs, fraction, *, updated=NOW - 5):
    beat = progress.Beat(runs, fraction, 0.0, NOW - 100, updated)
    files.write_json(workdir / "groups" / f"{runs[0]}.progress.json", beat._asdict())


def look(workdir):
    return watch.read(workdir, IDS, NOW)


def test_the_time_left_is_what_missing_runs_take_shared_by_the_groups_that_run(tmp_path):
    store(tmp_path, "a")
    tell(tmp_path, ["b", "c"], 0.5)
    assert look(tmp_path).left == pytest.approx((0.5 * 2 + 1) * 10)
    tell(tmp_path, ["d"], 0.25)
    assert look(tmp_path).left == pytest.approx((0.5 * 2 + 0.75) * 10 / 2)
    # A group that has been silent for long does not count.
    tell(tmp_path, ["d"], 0.25, updated=NOW - 3600)
    state = look(tmp_path)
    assert state.left == pytest.approx((0.5 * 2 + 1) * 10)
    assert "d: 25 %, reported 1 h 0 min ago, so it may have been stopped" in watch.text(state)


def test_a_group_whose_runs_all_have_results_does_not_count_as_running(tmp_path):
    for name in IDS:
        store(tmp_path, name)
    tell(tmp_path, ["c", "d"], 0.5)
    tell(tmp_path, ["a"], 0.5, updated=NOW - 3600)
    state = look(tmp_path)
    assert state.done and not state.beats + state.silent and "running" not in watch.text(state)
    assert watch.text(state).endswith("] 4 of 4 runs are done")


def test_a_heart_beats_not_too_often_and_ends_with_its_group(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    heart = progress.Heartbeat(tmp_path / "groups" / "a", ["a", "b"])
    told = [beat.fraction for beat in progress.read_heartbeats(tmp_path)]
    for fraction, seconds in ((0.25, 0), (0.5, 1), (0.75, 5)):
        clock[0] += seconds
        heart.report(fraction)
        (beat,) = progress.read_heartbeats(tmp_path)
        told.append(beat.fraction)
    assert told == [0.0, 0.25, 0.25, 0.75] and beat.first == 0.25 and beat.runs == ["a", "b"]
    heart.report(1.0)
    assert progress.read_heartbeats(tmp_path) == []


@pytest.mark.parametrize("wrong", [{"runs": []}, {"runs": "a"}, {"fraction": "x"}, {"first": None}])
def test_a_heartbeat_of_other_types_is_no_beat(tmp_path, wrong):
    beat = progress.Beat(["a"], 0.5, 0.0, 1.0, 2.0)
    for fields, expected in (({}, [beat]), (wrong, [])):
        files.write_json(tmp_path / "groups/a.progress.json", beat._asdict() | fields)
        assert progress.read_heartbeats(tmp_path) == expected


def launch(*arguments):
    command = [sys.executable, "-m", "launch.watch", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def record(workdir):
    """Writes the record of a sweep of two runs."""
    settings = importlib.import_module("lsa_jax.experiments.lsa.lemmas.settings").SETTINGS
    config = json.loads(settings.default_config().to_json())
    files.write_json(workdir / "config.json", {"config": config, "sweep": [{"k": 64}, {"k": 256}]})


def test_a_watched_folder_stays_as_it_is(tmp_path):
    workdir = tmp_path / "run"
    record(workdir)
    store(workdir, "k=64")
    before = {path: path.stat().st_mtime_ns for path in workdir.rglob("*")}
    result = launch(f"--workdir={workdir}", "--once")
    assert result.returncode == 0, result.stderr
    assert "1 of 2 runs are done, about 10 s left" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in workdir.rglob("*")} == before
