"""`launch.reproduce` runs a paper's sweeps, goes on after a kill, and reports on all of them.

A stand-in for launch.sweep takes its place except in one test, which runs the real one.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What a configuration's name says, happens; `count` in its folder counts how often it was run.
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
def command(config, folder):
    return ["-c", {SWEEP!r}, Path(config.partition(":")[0]).stem, str(folder)]
if __name__ == "__main__":
    if not {{real}}:
        reproduce._command = command
    _cli.run(reproduce.main)
"""


def start(*arguments, real=False, **environment):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("{real}", str(real)), *map(str, arguments)],
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
def refused(fork):
    """Returns what is said of a command that is refused, as it is before any sweep starts."""

    def run(*arguments):
        status, output, errors = fork("reproduce", *arguments, environment={**os.environ}).wait()
        assert status == 2, output + errors
        return output + errors

    return run


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


def test_every_configuration_belongs_to_one_paper_or_to_what_is_beyond_them():
    program = (
        "from pathlib import Path; from lsa_jax.reporting import papers\n"
        "for name in papers.PAPERS:\n"
        "    print(*papers.configurations(name, Path('configs')), sep='\\n')"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    configs = [str(path.relative_to(ROOT)) for path in (ROOT / "configs").rglob("*.py")]
    assert sorted(printed.split()) == sorted(configs)


def test_a_dry_run_prints_the_commands_and_writes_nothing(tmp_path):
    flags = ["--paper=transformers", f"--workdir={tmp_path}", "--only=small,theorem4_3"]
    printed = reproduce(*flags, "--dry_run", real=True)
    command = "python -m launch.sweep --config=configs/{0}.py:small --workdir={1}"
    assert printed.splitlines() == [
        command.format("transformers/theorem4_3", tmp_path / "theorem4_3"),
        command.format("growing/small", tmp_path / "small"),
    ]
    assert not any(tmp_path.iterdir())


def test_figures_come_first_and_numbers_in_their_order(paper):
    flags, _ = paper("lemmas", "table2", "fig10", "fig2_b", "theorem1", "fig2_a", "other")
    printed = reproduce(*flags, "--dry_run", "--scale=full", real=True)
    order = re.findall(r"lsa/(\w+)\.py ", printed)
    assert order == ["fig2_a", "fig2_b", "fig10", "table2", "theorem1", "lemmas", "other"]


def test_what_cannot_be_run_does_not_stop_the_others(paper, tmp_path):
    flags, workdir = paper("missing", "crash", "late_crash", "works", "runs_fail")
    reproduce(*flags, status=1)
    found = sweeps(workdir)
    assert {name: (s["status"], s["reason"]) for name, s in found.items()} == {
        "crash": ("failed", "RuntimeError: out of luck"),
        "late_crash": ("failed", "RuntimeError: out of luck at the end"),  # with a new report
        "missing": ("not run", "missing data: mnist does not exist; fetch it"),
        "runs_fail": ("done, some runs failed", "1 of 2 runs failed"),
        "works": ("done", ""),
    }
    assert found["works"]["run_seconds"] == 3
    assert found["works"]["machine"]["cores"] >= 1
    report = (workdir / "report.md").read_text()
    for part in ("works/report.md", "logs/works.log", "works/curve.png", "1 of 2 shown, 1 not run"):
        assert part in report
    assert "2 x cuda (H200)" in report
    assert "out of luck" in (workdir / "logs/crash.log").read_text()

    # Again: what is done stays as it is, the others are tried again.
    (tmp_path / "configs/lsa/crash.py").unlink()
    reproduce(*flags, status=1, DATA=str(tmp_path))
    assert [count(workdir, name) for name in ("works", "runs_fail", "missing")] == [1, 1, 1]
    assert sweeps(workdir)["missing"]["status"] == "done" and "crash" not in sweeps(workdir)


def test_data_that_are_missing_alone_are_no_failure(refused, paper):
    flags, workdir = paper("missing", "works")
    reproduce(*flags, status=0)
    assert sweeps(workdir)["missing"]["status"] == "not run"
    assert "another folder" in refused(*flags, "--scale=full")


def test_a_reproduction_that_is_killed_goes_on_where_it_was(refused, paper):
    flags, workdir = paper("fig1", "fig2_slow", "fig3")
    with start(*flags) as process:
        deadline = time.monotonic() + 600
        while not (workdir / "fig2_slow/started").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            assert "in use by another sweep" in refused(*flags)
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


def test_a_sweep_that_is_killed_does_not_take_the_others_along(paper):
    flags, workdir = paper("fig2_killed", "works")
    workdir.mkdir()
    (workdir / ".report.json.partial").touch()  # of a reproduction that was killed at its start
    reproduce(*flags, status=1)
    found = sweeps(workdir)
    assert found["fig2_killed"]["reason"] == "killed by SIGKILL"
    assert found["works"]["status"] == "done"


def test_mistakes_are_one_line_and_leave_the_folder_alone(refused, paper, tmp_path):
    flags, workdir = paper("works")
    assert "--paper is missing" in refused()
    assert "'fig9'; accepted: works" in refused(*flags, "--only=fig9")
    workdir.mkdir()
    (workdir / "thesis.tex").write_text("precious")
    assert "no report.json" in refused(*flags)
    # A dry run accepts what the command itself does.
    assert "no report.json" in refused(*flags, "--dry_run")
    assert [entry.name for entry in workdir.iterdir()] == ["thesis.tex"]
    (workdir / "thesis.tex").rename(workdir / "report.json")
    assert "damaged" in refused(*flags)


def test_what_a_gallery_alone_would_ignore_is_refused(refused, tmp_path):
    for flag in ("--workdir=out", "--only=fig9", "--scale=full", "--data_dir=data", "--dry_run"):
        said = refused(f"--gallery={tmp_path}", flag)
        assert f"{flag.partition('=')[0]} is given without --paper" in said


def test_a_file_as_folder_is_refused_also_where_nothing_is_run(refused, paper):
    flags, workdir = paper("works")
    workdir.write_text("")
    assert "is a file" in refused(*flags, "--dry_run")


def test_a_gallery_and_reports_that_are_not_there_are_refused_before_anything_runs(
    refused, paper, tmp_path
):
    flags, workdir = paper("works")
    reproduction, gallery = tmp_path / "quick", tmp_path / "gallery"
    reproduction.mkdir()
    gallery.mkdir()
    record = {"paper": "lsa", "scale": "quick", "title": "", "command": "", "sweeps": []}
    (reproduction / "report.json").write_text(json.dumps(record))
    for options, message in [
        ([f"--gallery={tmp_path / 'typo'}"], "typo is no folder"),
        ([f"--gallery={gallery}", "--reports=typo"], "typo/report.json cannot be read: No"),
        ([f"--gallery={gallery}", f"--reports={reproduction}"], "shows no claim; accepted"),
        (["--reports=typo"], "--reports is given without --gallery"),
    ]:
        assert message in refused(*flags, *options)
        assert not workdir.exists()


def test_the_folder_of_a_sweep_is_not_to_lose_its_report(refused, paper):
    flags, workdir = paper("works")
    workdir.mkdir()
    (workdir / "report.json").write_text("[]")
    said = refused(*flags)
    assert "another folder" in said and "remove" not in said


@pytest.mark.slow
def test_the_real_sweep_is_run_and_reported_on(tmp_path):
    flags = ["--paper=lsa", "--only=fig5_placements", "--scale=quick", f"--workdir={tmp_path}"]
    reproduce(*flags, real=True)
    found = sweeps(tmp_path)
    done = found.pop("fig5_placements")
    assert done["status"] == "done" and done["pictures"] == ["examples.png"]
    assert done["cpu_seconds"] > 0 and done["machine"]["versions"]["jax"]
    assert {sweep["status"] for sweep in found.values()} == {"not run"}


@pytest.mark.slow
def test_what_is_reproduced_is_published_and_again_only_what_is_new(tmp_path):
    gallery = tmp_path / "gallery"
    gallery.mkdir()
    flags = ["--paper=transformers", "--only=fig4_1", f"--workdir={tmp_path / 'out'}"]
    said = reproduce(*flags, f"--gallery={gallery}", real=True)
    assert "published configs/transformers/fig4_1.py:small\n" in said
    (figure,) = (gallery / "transformers").glob("fig4_1-small.*.svg")
    page = (gallery / "transformers.md").read_text()
    assert f"](transformers/{figure.name})" in page and "of V with P, exact step" in page
    said = reproduce(f"--gallery={gallery}", f"--reports={tmp_path / 'out'}", real=True)
    assert "published" not in said and f"wrote 7 pages in {gallery}" in said
