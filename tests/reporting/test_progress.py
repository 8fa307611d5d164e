"""The time left: by a bar from the pace since the first report, and by the files of a sweep."""

import errno
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lsa_jax.errors import print_warning
from lsa_jax.reporting import files, progress

ROOT = Path(__file__).resolve().parents[2]

IDS = ["a", "b", "c", "d"]
NOW = 1_000_000.0


def store(workdir, name):
    result = {"id": name, "seconds": 10.0, "status": "ok", "message": ""}
    rows = [{"step": step, "test_accuracy": step / 10} for step in range(8)]
    files.write_run(workdir, name, result, rows)
    os.utime(workdir / "runs" / name / "result.json", (NOW, NOW))


def tell(workdir, runs, fraction, *, started=NOW - 100, updated=NOW - 5):
    beat = progress.Beat(runs, fraction, 0.0, started, updated)
    files.write_json(workdir / "groups" / f"{runs[0]}.progress.json", beat._asdict())


def look(workdir):
    return progress.read_state(workdir, IDS, NOW)


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
    assert "d: 25 %, reported 1 h 0 min ago, so it may have been stopped" in str(state)


def test_a_clock_that_was_set_back_gives_no_negative_time(tmp_path):
    tell(tmp_path, ["a"], 0.5, started=NOW + 3600, updated=NOW)
    assert look(tmp_path).left is None and "reported 0 s ago" in str(look(tmp_path))
    tell(tmp_path, ["b"], 0.5, started=NOW - 100, updated=NOW)
    assert look(tmp_path).left > 0


def test_a_group_whose_runs_all_have_results_does_not_count_as_running(tmp_path):
    for name in IDS:
        store(tmp_path, name)
    tell(tmp_path, ["c", "d"], 0.5)
    tell(tmp_path, ["a"], 0.5, updated=NOW - 3600)
    state = look(tmp_path)
    assert state.done and not state.beats + state.silent and "running" not in str(state)
    assert str(state).endswith("] 4 of 4 runs are done")


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


@pytest.mark.parametrize("terminal", [False, True])
def test_the_time_left_leaves_out_compilation_and_what_a_checkpoint_had(monkeypatch, terminal):
    clock, stream = [0.0], io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.Progress(4, interval=0.0) as bar:
        # A checkpoint had 3.6 points; a hundredth of one takes a second.
        for clock[0], done in ((28.0, 3.6), (29.0, 3.61), (38.0, 3.7), (3728.0, 3.75)):
            bar.advance_to(done, "d")
    lines = stream.getvalue().replace("\r", "\n").strip().split("\n")
    left = [found[0] if (found := re.findall("about (.*) left", line)) else None for line in lines]
    assert "3 of 4 runs" in lines[-1] or "3.8 of 4 runs" in lines[-1]
    assert left[-1] == "1 h 43 min"  # 0.25 at 0.15 in 3,700 s
    if not terminal:  # a bar shows some of them
        assert left[:3] == [None, "39 s", "30 s"] and len(lines) == 4


class Gone(io.StringIO):
    """The stream of a terminal, such as that of a connection that ends."""

    gone = False

    def write(self, text):
        if self.gone:
            raise OSError(errno.EIO, "Input/output error")
        return super().write(text)


@pytest.mark.parametrize("terminal", [False, True])
def test_work_goes_on_where_the_terminal_has_gone(monkeypatch, terminal):
    clock, stream = [0.0], Gone()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.Progress(2, interval=0.0) as bar:
        stream.gone = True
        for clock[0], done in ((10.0, 1.0), (20.0, 2.0)):
            bar.advance_to(done, "d")
        print_warning("late", UserWarning)


@pytest.mark.parametrize(
    "kinds, reports, expected",
    [
        # a: 2 s a point; b: 20 s, at first by the mean of the others.
        (
            {"a": 4, "b": 5},
            [(10, 1, "a"), (12, 2, "a"), (50, 3, "b"), (70, 4, "b"), (72, 5, "a"), (132, 8, "b")],
            [None, "14 s", "12 s", "1 min 4 s", "1 min 2 s", "2 s"],
        ),
        # b reports once, at its end: 1 s a point, or less without compilation.
        ({"a": 3, "b": 10}, [(10, 1, "a"), (14, 2, "a"), (15, 3, "b")], [None, "44 s", "13 s"]),
    ],
)
def test_kinds_of_work_have_paces_of_their_own(monkeypatch, kinds, reports, expected):
    clock, stream = [0.0], io.StringIO()
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress.sys, "stderr", stream)
    with progress.Progress(sum(kinds.values()), interval=0.0, kinds=kinds) as bar:
        for clock[0], done, kind in reports:
            bar.advance_to(done, "d", kind)
    lines = stream.getvalue().strip().split("\n")
    left = [found[0] if (found := re.findall("about (.*) left", line)) else None for line in lines]
    assert left == expected
