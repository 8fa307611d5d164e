r"""Runs every configuration of a paper, one sweep after the other, and writes one report on all.

Examples:
    python -m launch.reproduce --paper=lsa --workdir=runs/lsa --data_dir=data
    python -m launch.reproduce --paper=lsa --workdir=runs/lsa --data_dir=data \
        --only=fig3_dynamics,lemmas
    python -m launch.reproduce --paper=transformers --scale=full --workdir=runs/full --dry_run
    python -m launch.reproduce --results_table=docs/results.md --reports=runs/lsa,runs/resnet

Each sweep is a command of its own, which `--dry_run` prints and the report shows, into the folder
of its configuration's name. The same command again runs what is not finished, and goes on after a
kill. What needs a data set that is missing is reported as not run; exit status 1 means that
something else failed. `--scale=quick`, a few seconds a sweep, shows that everything runs but none
of the claims.
"""

import ast
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import filelock
from absl import flags

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.reporting import files, machine, reproduction, results_table
from lsa_jax.reporting.reproduction import Sweep
from lsa_jax.sweep import locks


class _Paper(NamedTuple):
    """A work, and the folders below --configs that hold its configurations."""

    title: str
    folders: tuple[str, ...]


_PAPERS = {
    "lsa": _Paper("Karp et al., Local Signal Adaptivity (NeurIPS 2021)", ("lsa",)),
    "feature_learning": _Paper(
        "Shi, Wei and Liang, Feature Learning (ICLR 2022)", ("feature_learning",)
    ),
    "resnet": _Paper("Allen-Zhu and Li, What Can ResNet Learn (NeurIPS 2019)", ("resnet",)),
    "stability": _Paper("Karp's thesis (2024), chapter 2: stability", ("stability",)),
    "transformers": _Paper(
        "Karp's thesis (2024), chapters 4 and 5: Transformers", ("transformers", "growing")
    ),
}
_VARIANTS = {"small": ":small", "full": "", "quick": ":quick"}
# What a folder's configurations begin with, in the order in which they are run; others come last.
_KINDS = ("fig", "table", "theorem", "lemma")
_POLL = 0.2  # seconds between looks at what a sweep prints
_END = 10_000  # characters of it in which its last line is looked for

_PAPER = flags.DEFINE_enum("paper", None, list(_PAPERS), "Whose configurations to run.")
_SCALE = flags.DEFINE_enum(
    "scale", "small", list(_VARIANTS), "Their sizes: for 2 CPU cores, as published, or for tests."
)
_ONLY = flags.DEFINE_list("only", [], "Only these configurations, by name: NAME,NAME.")
_CONFIGS = flags.DEFINE_string("configs", "configs", "Folder of configurations.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the commands and run nothing.")
_RESULTS_TABLE = flags.DEFINE_string(
    "results_table", None, "Markdown file whose table of results takes what reports hold."
)
_REPORTS = flags.DEFINE_list(
    "reports", [], "Folders of reproductions that --results_table shows beside --workdir."
)


def _place(path: Path) -> tuple:
    """Where a configuration comes in its folder: by kind, then with numbers in their order."""
    kinds = [kind for kind in _KINDS if path.stem.startswith(kind)]
    parts = re.split(r"(\d+)", path.stem)
    return (
        _KINDS.index(kinds[0]) if kinds else len(_KINDS),
        [int(part) if part.isdigit() else part for part in parts],
    )


def _first_line(path: Path) -> str:
    """Returns the first line of a configuration's docstring; its name where there is none."""
    try:
        docstring = ast.get_docstring(ast.parse(path.read_text()))
    except SyntaxError:
        docstring = None  # its command will tell
    return docstring.splitlines()[0] if docstring else path.stem


def _command(config: str, folder: Path) -> list[str]:
    """Returns a sweep's command, without the interpreter."""
    data = [f"--data_dir={_cli.DATA_DIR.value}"] if _cli.DATA_DIR.value else []
    return ["-m", "launch.sweep", f"--config={config}", f"--workdir={folder}", *data]


def _configurations(paper: str) -> list[Path]:
    """Returns a paper's configurations, in the order in which they are run.

    Raises:
        InputError: there is no folder of them, or none in it.
    """
    paths = []
    for folder in (Path(_CONFIGS.value) / name for name in _PAPERS[paper].folders):
        paths += sorted(folder.glob("*.py"), key=_place)
    if not paths:
        raise InputError(
            f"--configs={_CONFIGS.value} holds no {_PAPERS[paper].folders[0]}/*.py; accepted: the "
            "folder configs of the project, or one laid out like it"
        )
    return paths


def _is_wanted(sweep: Sweep) -> bool:
    return not _ONLY.value or sweep.name in _ONLY.value


def _planned(paper: str, workdir: Path) -> list[Sweep]:
    """Returns the sweeps of a paper as they are before any has run."""
    sweeps = []
    for path in _configurations(paper):
        item, _, about = _first_line(path).partition(": ")
        config = f"{path}{_VARIANTS[_SCALE.value]}"
        command = shlex.join(["python", *_command(config, workdir / path.stem)])
        sweeps.append(Sweep(path.stem, config, item.removesuffix("."), about, command))
    names = [sweep.name for sweep in sweeps]
    for name in _ONLY.value:
        if name not in names:
            raise InputError(f"--only has {name!r}; accepted: {', '.join(names)}")
    return sweeps


def _with_earlier(sweeps: list[Sweep], workdir: Path) -> list[Sweep]:
    """Returns the sweeps with what an earlier call of the command left, and is still there.

    Raises:
        InputError: the folder holds something else.
    """
    path = workdir / "report.json"
    if not path.exists():
        own = {".lock", files.partial(path).name, "logs", "report.md"}
        own |= {sweep.name for sweep in sweeps}
        if workdir.is_dir() and any(entry.name not in own for entry in workdir.iterdir()):
            raise InputError(
                f"--workdir {workdir} holds files but no report.json; accepted: a new or empty "
                "folder"
            )
        return sweeps
    record = reproduction.read(path)
    if (record["paper"], record["scale"]) != (_PAPER.value, _SCALE.value):
        raise InputError(
            f"--workdir {workdir} holds --paper={record['paper']} --scale={record['scale']}; "
            "accepted: the same, or another folder"
        )
    earlier = {
        (sweep.name, sweep.config): sweep
        for sweep in record["sweeps"]
        if sweep.status not in reproduction.FINISHED
        or (workdir / sweep.name / "report.json").exists()
    }
    found = [earlier.get((sweep.name, sweep.config), sweep) for sweep in sweeps]
    return [
        before._replace(item=sweep.item, about=sweep.about, command=sweep.command)
        for before, sweep in zip(found, sweeps, strict=True)
    ]


def _wait_for_others(folder: Path) -> None:
    """Waits for a sweep in this folder, such as one whose reproduction was killed."""
    if not (folder / ".lock").exists():
        return
    lock = filelock.FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        print(f"{folder} is in use by another sweep; waiting for it", flush=True)
        lock.acquire()
    lock.release()


def _execute(command: list[str], log: Path) -> tuple[int, str]:
    """Runs a command of this interpreter; what it prints goes to a file and to the terminal.

    Returns:
        Its exit status, negative for a signal, and the last line that it printed.
    """
    with files.storing(log, 0):
        log.parent.mkdir(parents=True, exist_ok=True)
        sink = open(log, "ab")
    end = ""
    with sink, open(log, encoding="utf-8", errors="replace") as shown:
        shown.seek(0, os.SEEK_END)
        process = subprocess.Popen(
            [sys.executable, *command],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        try:
            running = True
            while running:
                time.sleep(_POLL)
                running = process.poll() is None
                # Read after the look at the process, so that nothing of its end is missed.
                printed = shown.read()
                print(printed, end="", flush=True)
                end = (end + printed)[-_END:]
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return process.returncode, end.strip().rpartition("\n")[2]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Returns what changes when a file is written anew; None where there is none."""
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def _run(sweep: Sweep, workdir: Path, host: dict[str, Any]) -> Sweep:
    """Runs a sweep's command, and returns the sweep with what came out."""
    folder = workdir / sweep.name
    command = _command(sweep.config, folder)
    before = _stamp(folder / "report.md")
    start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    code, last = _execute(command, workdir / "logs" / f"{sweep.name}.log")
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
    sweep = sweep._replace(
        wall_seconds=round(sweep.wall_seconds + time.monotonic() - start, 1),
        cpu_seconds=round(sweep.cpu_seconds + cpu, 1),
    )
    # Status 1 is of a sweep with failed runs, which ends with its report, and of a crash.
    if code == 0 or (code == 1 and _stamp(folder / "report.md") != before):
        return reproduction.finished(sweep, workdir, host)
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    reason = last.removeprefix("error: ")
    if code == _cli.BAD_INPUT and reason.startswith(_cli.MISSING_DATA):
        return sweep._replace(status=reproduction.NOT_RUN, reason=reason)
    if code < 0:
        reason = f"killed by {signal.Signals(-code).name}"
    return sweep._replace(status=reproduction.FAILED, reason=reason or f"exit status {code}")


def _run_all(sweeps: list[Sweep], workdir: Path) -> list[Sweep]:
    """Runs the sweeps that are not finished; writes the report before and after each."""
    record = {
        "paper": _PAPER.value,
        "scale": _SCALE.value,
        "title": f"{_PAPERS[_PAPER.value].title}, --scale={_SCALE.value}",
        "command": shlex.join(["python", "-m", "launch.reproduce", *sys.argv[1:]]),
    }
    sweeps, host = list(sweeps), machine.describe_host()

    def store(place: int, sweep: Sweep) -> None:
        sweeps[place] = sweep
        reproduction.write(workdir, record | {"sweeps": sweeps})

    for place, sweep in enumerate(sweeps):
        if sweep.status in reproduction.FINISHED or not _is_wanted(sweep):
            continue
        folder = workdir / sweep.name
        begun = (folder / "config.json").exists() and not sweep.wall_seconds  # not by this command
        stopped = begun or sweep.status == reproduction.STARTED
        print(f"\n[{place + 1} of {len(sweeps)}] {sweep.command}", flush=True)
        sweep = sweep._replace(
            status=reproduction.STARTED, reason="", partly_timed=sweep.partly_timed or stopped
        )
        store(place, sweep)
        _wait_for_others(folder)
        store(place, _run(sweep, workdir, host))
        reason = sweeps[place].reason
        print(f"{sweep.name}: {sweeps[place].status}" + (f": {reason}" if reason else ""))
    reproduction.write(workdir, record | {"sweeps": sweeps})
    return sweeps


def _reproduce(workdir: Path) -> int:
    """Runs what is missing of a paper; returns 1 if something failed."""
    _cli.data_dir()  # only to see that it is there
    sweeps = _planned(_PAPER.value, workdir)
    if _DRY_RUN.value:
        for sweep in sweeps:
            if _is_wanted(sweep):
                print(sweep.command)
        return 0
    _with_earlier(sweeps, workdir)  # only to refuse before the folder is touched
    with locks.alone(workdir):
        sweeps = _run_all(_with_earlier(sweeps, workdir), workdir)
    statuses = [sweep.status for sweep in sweeps]
    counts = {status: statuses.count(status) for status in dict.fromkeys(statuses)}
    print("\n" + ", ".join(f"{count} {status}" for status, count in counts.items()))
    print(f"wrote {workdir / 'report.json'}\nwrote {workdir / 'report.md'}")
    return int(
        any(status in statuses for status in (reproduction.FAILED, reproduction.RUNS_FAILED))
    )


def _read_reports(folders: Iterable[str | Path]) -> list[dict[str, Any]]:
    return [reproduction.read(Path(folder) / "report.json") for folder in folders]


def main() -> int:
    """Runs --paper, and writes --results_table; returns 1 if a sweep failed."""
    if not _PAPER.value and not (_RESULTS_TABLE.value and _REPORTS.value):
        raise InputError(
            f"--paper is missing; accepted: one of {', '.join(_PAPERS)}, or --results_table=FILE "
            "with --reports=DIR"
        )
    if _REPORTS.value and not _RESULTS_TABLE.value:
        raise InputError("--reports is given without --results_table; accepted: both")
    workdir = _cli.workdir() if _PAPER.value else None
    table = Path(_RESULTS_TABLE.value) if _RESULTS_TABLE.value else None
    if table:  # only to see that they are there, before sweeps run for hours
        results_table.read(table)
        _read_reports(_REPORTS.value)
    status = _reproduce(workdir) if workdir else 0
    if table and not _DRY_RUN.value:
        own = [workdir] if workdir else []
        results_table.update(table, _read_reports([*own, *_REPORTS.value]))
        print(f"wrote {table}")
    return status


if __name__ == "__main__":
    _cli.run(main)
