"""Reproduction of a paper: runs its sweeps, and reports every number, ours, and the cost.

A reproduction's folder holds `report.json`, `report.md`, `logs/` with each sweep's output, and each
sweep's own folder. `report.json` has the keys `paper`, `scale`, `title`, `command` and `sweeps`, a
list of `Sweep`s; a reproduction resumes from it.
"""

import collections
import os
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lsa_jax.errors import BAD_INPUT, MISSING_DATA, InputError
from lsa_jax.reporting import files, locks, machine, papers
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.write import claims_table, counts_in_words, markdown_table

NOT_RUN, STARTED, FAILED = "not run", "started, not finished", "failed"
RUNS_FAILED, DONE = "done, some runs failed", "done"
FINISHED = (DONE, RUNS_FAILED)
WITH_FAILURES = (FAILED, RUNS_FAILED)
_POLL = 0.2  # seconds between readings of a sweep's output
_END = 10_000  # characters of it in which its last line is searched for


class Sweep(NamedTuple):
    """One configuration's part of a reproduction."""

    name: str  # of the configuration, and of its folder below the reproduction's
    config: str  # the value of --config
    item: str  # the figure, table or theorem, as the configuration's docstring begins
    about: str  # the rest of that first line
    command: str  # the sweep's command line
    status: str = NOT_RUN  # also "started, not finished" while it runs
    reason: str = "not started yet"  # one line, why it was not run or failed
    wall_seconds: float = 0.0  # by the clock, of all commands that ended by themselves
    cpu_seconds: float = 0.0  # processor time likewise, of all cores
    partly_timed: bool = False  # whether commands were stopped, whose time is not in these two
    run_seconds: float = 0.0  # the sum of its runs' own times
    runs: int = 0
    failed_runs: int = 0
    claims: list[dict[str, Any]] = []  # the rows of the sweep's own `report.json`
    pictures: list[str] = []  # names of the figures in its folder
    machine: dict[str, Any] | None = None  # host, devices and versions; None before it is finished


class Request(NamedTuple):
    """The flags of a reproduction."""

    paper: str  # of `PAPERS`
    scale: str  # of `VARIANTS`
    workdir: Path
    configs: Path  # the folder of the papers' folders of configurations
    only: list[str]  # names of the configurations to run; empty means all
    data_dir: str | None = None

    def wants(self, sweep: Sweep) -> bool:
        """Whether a sweep is to be run."""
        return not self.only or sweep.name in self.only


def sweep_command(
    words: Sequence[str], folder: Path | str, data_dir: Path | str | None
) -> list[str]:
    """Returns a sweep's command without the interpreter; `words` are --config=... and fields."""
    data = [f"--data_dir={data_dir}"] if data_dir else []
    return ["-m", "launch.sweep", *words, f"--workdir={folder}", *data]


def planned(request: Request) -> list[Sweep]:
    """Returns the sweeps of a paper as they are before any has run.

    Raises:
        InputError: there are none, or none of a requested name.
    """
    sweeps = []
    for path in papers.configurations(request.paper, request.configs):
        item, about = papers.item_and_claim(path)
        config = f"{path}{papers.VARIANTS[request.scale]}"
        folder = request.workdir / path.stem
        command = ["python", *sweep_command([f"--config={config}"], folder, request.data_dir)]
        sweeps.append(Sweep(path.stem, config, item, about, shlex.join(command)))
    names = [sweep.name for sweep in sweeps]
    for name in request.only:
        if name not in names:
            raise InputError(f"--only has {name!r}; accepted: {', '.join(names)}")
    return sweeps


def with_earlier(sweeps: list[Sweep], request: Request) -> list[Sweep]:
    """Returns the sweeps with the results of an earlier call of the command, where they remain.

    Raises:
        InputError: the folder holds something else.
    """
    workdir, path = request.workdir, request.workdir / "report.json"
    if not path.exists():
        own = {".lock", files.partial(path).name, "logs", "report.md"}
        own |= {sweep.name for sweep in sweeps}
        if workdir.is_dir() and any(entry.name not in own for entry in workdir.iterdir()):
            raise InputError(
                f"--workdir {workdir} holds files but no report.json; accepted: a new or empty "
                "folder"
            )
        return sweeps
    record = read(path)
    if (record["paper"], record["scale"]) != (request.paper, request.scale):
        raise InputError(
            f"--workdir {workdir} holds --paper={record['paper']} --scale={record['scale']}; "
            "accepted: the same, or another folder"
        )
    earlier = {
        (sweep.name, sweep.config): sweep
        for sweep in record["sweeps"]
        if sweep.status not in FINISHED or (workdir / sweep.name / "report.json").exists()
    }
    left = [earlier.get((sweep.name, sweep.config), sweep) for sweep in sweeps]
    return [
        before._replace(item=sweep.item, about=sweep.about, command=sweep.command)
        for before, sweep in zip(left, sweeps, strict=True)
    ]


def read(path: Path) -> dict[str, Any]:
    """Reads a reproduction's `report.json`, its sweeps as `Sweep`s.

    Raises:
        InputError: the file cannot be read, or it is not one.
    """
    remedy = "remove it to have it written again (finished sweeps are kept)"
    try:
        record = files.read_json(path)
        if isinstance(record, list):  # of claims
            remedy = "accepted: another folder, as this one is a single sweep's"
        sweeps = [Sweep(**sweep) for sweep in record["sweeps"]]
        named = {name: record[name] for name in ("paper", "scale", "title", "command")}
        return named | {"sweeps": sweeps}
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; accepted: a folder that launch.reproduce "
            "wrote"
        ) from None
    except InputError as error:
        raise InputError(f"{error}; {remedy}") from None
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{path} is no reproduction's report, or damaged; {remedy}") from None


def finished(sweep: Sweep, workdir: Path, host: dict[str, Any]) -> Sweep:
    """Returns a sweep with its times, and the results of its folder, once its command is done."""
    folder = workdir / sweep.name
    results, recorded = pd.read_csv(folder / "results.csv"), files.read_record(folder)
    failed = int((results["status"] == "failed").sum())
    return sweep._replace(
        status=RUNS_FAILED if failed else DONE,
        reason=f"{failed} of {len(results)} runs failed" if failed else "",
        run_seconds=round(float(results["seconds"].sum()), 1),
        runs=len(results),
        failed_runs=failed,
        claims=files.read_json(folder / "report.json"),
        pictures=sorted(path.name for path in folder.glob("*.png")),
        machine=host | {name: recorded[name] for name in ("devices", "versions")},
    )


def wall_time(sweep: Sweep) -> str:
    """Returns a sweep's time in words; its runs' own times are a lower bound if it was stopped."""
    at_least = "at least " if sweep.partly_timed else ""
    return at_least + duration(max(sweep.wall_seconds, sweep.run_seconds))


def _cost(sweep: Sweep) -> str:
    if sweep.partly_timed:  # the processor time of stopped commands is not known
        return wall_time(sweep)
    return f"{wall_time(sweep)} ({duration(sweep.cpu_seconds)} of processor time)"


def _machine(sweep: Sweep) -> str:
    host = sweep.machine or {}
    kinds = machine.kinds(host["devices"])  # none of tasks on unknown machines
    devices = ", ".join([f"{n} x {kind}" for kind, n in kinds.items()] or host["devices"])
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    about = machine.in_words(host)
    return f"{about}; devices: {devices}; Python {host['python']}, {versions}"


def _counts(claims: list[dict[str, Any]]) -> str:
    """Returns how many claims hold; where none was run for one reason, with the reason."""
    reasons = {claim.get("note", "") * (claim["status"] == "not run") for claim in claims}
    reason = f" ({reasons.pop()})" if len(reasons) == 1 and any(reasons) else ""
    return counts_in_words(claims).removesuffix(".") + f"{reason}."


def _overview(sweeps: list[Sweep]) -> str:
    rows = []
    for sweep in sweeps:
        done = sweep.status in FINISHED
        row = {"figure or table": f"[{sweep.item}]({sweep.name}/report.md)" if done else sweep.item}
        row |= {"configuration": f"`{sweep.config}`", "status": sweep.status}
        claims, cost = (_counts(sweep.claims), _cost(sweep)) if done else ("", "")
        rows.append(row | {"claims": claims, "cost": cost})
    return markdown_table(pd.DataFrame(rows))


def _section(sweep: Sweep) -> list[str]:
    """Returns the paragraphs of one sweep."""
    about = sweep.about[:1].upper() + sweep.about[1:]
    parts = [f"## {sweep.item}", about, f"```\n{sweep.command}\n```"]
    if sweep.status not in FINISHED:
        return [*parts, f"**{sweep.status}" + (f": {sweep.reason}**" if sweep.reason else "**")]
    # Only a sweep that launch.reproduce ran has a log.
    log = f", [log](logs/{sweep.name}.log)" if sweep.wall_seconds else ""
    places = f"[Its own report]({sweep.name}/report.md){log}."
    parts.append(f"{places} Cost: {_cost(sweep)}. Runs: {sweep.runs}.")
    parts += [f"**{sweep.reason}**"] if sweep.failed_runs else []
    parts += [markdown_table(claims_table(sweep.claims))] if sweep.claims else []
    return parts + [f"![{Path(name).stem}]({sweep.name}/{name})" for name in sweep.pictures]


def markdown(title: str, command: str, sweeps: list[Sweep]) -> str:
    """Returns the report on all sweeps of a paper."""
    ran = [sweep for sweep in sweeps if sweep.status in FINISHED]
    claims = [claim for sweep in ran for claim in sweep.claims]
    wall = duration(sum(max(sweep.wall_seconds, sweep.run_seconds) for sweep in ran))
    machines = collections.Counter(map(_machine, ran))
    parts = [
        f"# {title}",
        f"```\n{command}\n```",
        f"{len(ran)} of {len(sweeps)} configurations are done, in {wall}. {_counts(claims)}",
        *(f"Machine of {count} sweep(s): {machine}." for machine, count in machines.items()),
        _overview(sweeps),
        *(part for sweep in sweeps for part in _section(sweep)),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def write(workdir: Path, record: dict[str, Any]) -> None:
    """Writes `report.json` and `report.md` of a reproduction."""
    sweeps = record["sweeps"]
    files.write_json(
        workdir / "report.json", record | {"sweeps": [sweep._asdict() for sweep in sweeps]}
    )
    files.write_text(workdir / "report.md", markdown(record["title"], record["command"], sweeps))


# --- running the sweeps --------------------------------------------------------------------------


def _wait_for_others(folder: Path) -> None:
    """Waits for a sweep in this folder, such as one whose reproduction was killed."""
    if not (folder / ".lock").exists():
        return
    try:
        with locks.alone(folder):
            return
    except locks.InUseError:
        print(f"{folder} is in use by another sweep; waiting for it", flush=True)
    with locks.alone(folder, timeout=-1):
        return


def _execute(command: list[str], log: Path) -> tuple[int, str]:
    """Runs a command of this interpreter, with its output in a file and on the terminal.

    Returns its exit status, negative for a signal, and its last line.
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
                # Read after the process was polled, so that nothing of its end is missed.
                printed = shown.read()
                print(printed, end="", flush=True)
                end = (end + printed)[-_END:]
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    return process.returncode, end.strip().rpartition("\n")[2]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Returns a key that changes when a file is written again; None where there is none."""
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def _run(sweep: Sweep, request: Request, host: dict[str, Any]) -> Sweep:
    """Runs a sweep's command, and returns the sweep with its results."""
    folder = request.workdir / sweep.name
    before = _stamp(folder / "report.md")
    start, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    log = request.workdir / "logs" / f"{sweep.name}.log"
    command = sweep_command([f"--config={sweep.config}"], folder, request.data_dir)
    code, last = _execute(command, log)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
    sweep = sweep._replace(
        wall_seconds=round(sweep.wall_seconds + time.monotonic() - start, 1),
        cpu_seconds=round(sweep.cpu_seconds + cpu, 1),
    )
    # Status 1 is of a sweep with failed runs, which ends with its report, and of a crash.
    if code == 0 or (code == 1 and _stamp(folder / "report.md") != before):
        done = finished(sweep, request.workdir, host)
        if code == 0 or done.failed_runs:
            return done
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    reason = last.removeprefix("error: ")
    if code == BAD_INPUT and reason.startswith(MISSING_DATA):
        return sweep._replace(status=NOT_RUN, reason=reason)
    if code < 0:
        reason = f"killed by {signal.Signals(-code).name}"
    return sweep._replace(status=FAILED, reason=reason or f"exit status {code}")


def run_all(sweeps: list[Sweep], request: Request, command: str) -> list[Sweep]:
    """Runs the sweeps that are not finished, and returns all with their results.

    Writes the report, with this command line, before and after each.
    """
    record = {
        "paper": request.paper,
        "scale": request.scale,
        "title": f"{papers.PAPERS[request.paper].title}, --scale={request.scale}",
        "command": command,
    }
    sweeps, host = list(sweeps), machine.describe_host()

    def store(place: int, sweep: Sweep) -> None:
        sweeps[place] = sweep
        write(request.workdir, record | {"sweeps": sweeps})

    for place, sweep in enumerate(sweeps):
        if sweep.status in FINISHED or not request.wants(sweep):
            continue
        folder = request.workdir / sweep.name
        begun = (folder / "config.json").exists() and not sweep.wall_seconds  # not by this command
        stopped = begun or sweep.status == STARTED or sweep.partly_timed
        print(f"\n[{place + 1} of {len(sweeps)}] {sweep.command}", flush=True)
        sweep = sweep._replace(status=STARTED, reason="", partly_timed=stopped)
        store(place, sweep)
        _wait_for_others(folder)
        store(place, _run(sweep, request, host))
        reason = sweeps[place].reason
        print(f"{sweep.name}: {sweeps[place].status}" + (f": {reason}" if reason else ""))
    write(request.workdir, record | {"sweeps": sweeps})
    statuses = collections.Counter(sweep.status for sweep in sweeps)
    print("\n" + ", ".join(f"{count} {status}" for status, count in statuses.items()))
    print(f"wrote {request.workdir / 'report.json'}\nwrote {request.workdir / 'report.md'}")
    return sweeps
