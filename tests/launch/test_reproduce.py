"""`launch.reproduce` runs a paper's sweeps, goes on after a kill, and reports on all of them.

A stand-in for launch.sweep takes its place.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# A configuration's name decides its outcome; `count` in its folder counts its runs.
SWEEP = """
import json, os, sys, time
from pathlib import Path
name, folder = sys.argv[1], Path(sys.argv[2])
if name == "missing" and not Path(os.environ["DATA"]).exists():
    print("error: missing data: mnist does not exist; fetch it", file=sys.stderr)
    sys.exit(2)
if name == "crash":
    raise RuntimeError("out of luck")
folder.mkdir(exist_ok=True)
with open(folder / "count", "a") as file:
    file.write("x")
if name == "fig2_killed":
    os.kill(os.getpid(), 9)
if name == "fig2_slow" and not (folder / "end").exists():
    import filelock
    with filelock.FileLock(folder / ".lock"):
        (folder / "started").touch()
        for _ in range(6000):
            if not (folder / "end").exists():
                time.sleep(0.1)
claim = {"item": "accuracy", "paper": 0.75, "ours": 0.5, "spread": 0.01, "status": "not shown"}
other = claim | {"item": "gap", "paper": "above 0", "status": "shown"}
late = claim | {"ours": "", "spread": None, "status": "not run"}
failed = name == "runs_fail"
(folder / "results.csv").write_text(f"seconds,status\\n2,ok\\n1,{'failed' if failed else 'ok'}\\n")
record = {"devices": ["cuda:0 (H200)", "cuda:1 (H200)"], "versions": {"jax": "1"}}
(folder / "config.json").write_text(json.dumps(record))
(folder / "report.json").write_text(json.dumps([late, claim, other]))
(folder / "curve.png").touch()
(folder / "report.md").write_text(str(time.time_ns()))
if name == "late_crash":
    raise RuntimeError("out of luck at the end")
sys.exit(int(failed))
"""

PROGRAM = f"""
from pathlib import Path
from launch import _cli, reproduce
def command(words, folder, data_dir):
    return ["-c", {SWEEP!r}, Path(words[0].partition(":")[0]).stem, str(folder)]
if __name__ == "__main__":
    reproduce.reproduction.sweep_command = command
    _cli.run(reproduce.main)
"""


def start(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "DATA": "/nonexistent", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def reproduce(*arguments, status=0, **options):
    process = start(*arguments, **options)
    output, errors = process.communicate(timeout=600)
    assert process.returncode == status, output + errors
    return output + errors


@pytest.fixture
def paper(tmp_path):
    """Returns the flags of a paper of some configurations, and the folder of results."""

    def make(*names):
        folder = tmp_path / "configs" / "lsa"
        folder.mkdir(parents=True)
        for name in names:
            (folder / f"{name}.py").write_text(f'"""Figure 1 ({name}): what it shows."""\n')
        workdir = tmp_path / "out"
        return ["--paper=lsa", f"--configs={folder.parent}", f"--workdir={workdir}"], workdir

    return make


def sweeps(workdir):
    return {s["name"]: s for s in json.loads((workdir / "report.json").read_text())["sweeps"]}


def count(workdir, name):
    return len((workdir / name / "count").read_text())


def test_a_sweep_that_fails_does_not_stop_the_others(refused, paper, tmp_path):
    flags, workdir = paper("missing", "crash", "late_crash", "works", "runs_fail", "fig2_killed")
    workdir.mkdir()
    (workdir / ".report.json.partial").touch()  # of a reproduction that was killed at its start
    reproduce(*flags, status=1)
    found = sweeps(workdir)
    assert {name: (s["status"], s["reason"]) for name, s in found.items()} == {
        "crash": ("failed", "RuntimeError: out of luck"),
        "fig2_killed": ("failed", "killed by SIGKILL"),
        "late_crash": ("failed", "RuntimeError: out of luck at the end"),  # with a new report
        "missing": ("not run", "missing data: mnist does not exist; fetch it"),
        "runs_fail": ("done, some runs failed", "1 of 2 runs failed"),
        "works": ("done", ""),
    }
    assert found["works"]["run_seconds"] == 3
    assert found["works"]["machine"]["cores"] >= 1
    report = (workdir / "report.md").read_text()
    parts = ("works/report.md", "logs/works.log", "works/curve.png", "1 claim was not run")
    assert all(part in report for part in parts)
    assert "2 x H200" in report
    assert "out of luck" in (workdir / "logs/crash.log").read_text()
    assert "another folder" in refused("reproduce", *flags, "--scale=full")

    # Again: finished sweeps stay as they are, the others are tried again.
    for name in ("crash", "late_crash", "fig2_killed", "runs_fail"):
        (tmp_path / f"configs/lsa/{name}.py").unlink()
    reproduce(*flags, DATA=str(tmp_path))
    assert [count(workdir, name) for name in ("works", "missing")] == [1, 1]
    assert {name: s["status"] for name, s in sweeps(workdir).items()} == {
        "missing": "done",
        "works": "done",
    }


def test_a_reproduction_that_is_killed_goes_on_where_it_was(refused, paper):
    flags, workdir = paper("fig1", "fig2_slow", "fig3")
    with start(*flags) as process:
        deadline = time.monotonic() + 600
        while not (workdir / "fig2_slow/started").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            assert "in use by another process" in refused("reproduce", *flags)
        finally:
            process.send_signal(signal.SIGKILL)
    assert sweeps(workdir)["fig2_slow"]["status"] == "started, not finished"
    with start(*flags) as process:
        lines = iter(process.stdout.readline, "")
        # The sweep has outlived its reproduction.
        assert any("in use by another sweep; waiting for it" in line for line in lines)
        (workdir / "fig2_slow/end").touch()
        process.communicate(timeout=600)
    assert process.returncode == 0
    found = sweeps(workdir)
    assert {sweep["status"] for sweep in found.values()} == {"done"}
    assert found["fig2_slow"]["partly_timed"] and not found["fig3"]["partly_timed"]
    assert [count(workdir, name) for name in ("fig1", "fig2_slow", "fig3")] == [1, 2, 1]
    lines = (workdir / "report.md").read_text().splitlines()
    costs = [line for line in lines if "at least" in line]
    assert costs and not any("of processor time" in cost for cost in costs)


def test_mistakes_are_one_line_and_leave_the_folder_alone(refused, paper, tmp_path):
    flags, workdir = paper("works")

    def said(*more):
        return refused("reproduce", *flags, *more)

    assert "'fig9'; accepted: works" in said("--only=fig9")
    assert "typo is no folder" in said(f"--gallery={tmp_path / 'typo'}") and not workdir.exists()
    workdir.mkdir()
    (workdir / "thesis.tex").write_text("precious")
    for more in ([], ["--dry_run"]):  # a dry run accepts the same
        assert "no report.json" in said(*more)
    assert [entry.name for entry in workdir.iterdir()] == ["thesis.tex"]
    (workdir / "thesis.tex").rename(workdir / "report.json")
    assert "damaged" in said()
    (workdir / "report.json").write_text("[]")  # of a single sweep
    assert "another folder" in said() and "remove" not in said()
    (workdir / "report.json").unlink()
    workdir.rmdir()
    workdir.write_text("")
    assert "is a file" in said("--dry_run")
