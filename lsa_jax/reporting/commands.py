"""Runs the sweeps of a reproduction, each as a command of its own, and records their results."""

import collections
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import filelock

from lsa_jax.errors import BAD_INPUT, MISSING_DATA
from lsa_jax.reporting import files, machine, reproduction
from lsa_jax.reporting.papers import PAPERS, Request
from lsa_jax.reporting.reproduction import Sweep

_POLL = 0.2  # seconds between readings of a sweep's output
_END = 10_000  # characters of it in which its last line is searched for


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
    """Runs a command of this interpreter, with its output in a file and on the terminal.

    Returns:
        Its exit status, negative for a signal, and its last line.
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
    code, last = _execute(request.sweep_command(sweep.config, folder), log)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
    sweep = sweep._replace(
        wall_seconds=round(sweep.wall_seconds + time.monotonic() - start, 1),
        cpu_seconds=round(sweep.cpu_seconds + cpu, 1),
    )
    # Status 1 is of a sweep with failed runs, which ends with its report, and of a crash.
    if code == 0 or (code == 1 and _stamp(folder / "report.md") != before):
        done = reproduction.finished(sweep, request.workdir, host)
        if code == 0 or done.failed_runs:
            return done
    if code == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    reason = last.removeprefix("error: ")
    if code == BAD_INPUT and reason.startswith(MISSING_DATA):
        return sweep._replace(status=reproduction.NOT_RUN, reason=reason)
    if code < 0:
        reason = f"killed by {signal.Signals(-code).name}"
    return sweep._replace(status=reproduction.FAILED, reason=reason or f"exit status {code}")


def run_all(sweeps: list[Sweep], request: Request, command: str) -> list[Sweep]:
    """Runs the sweeps that are not finished; writes the report before and after each.

    Args:
        sweeps: all of the paper, with the results of an earlier call.
        request: the flags of this call.
        command: the command line, for the record.

    Returns:
        The sweeps with their results.
    """
    record = {
        "paper": request.paper,
        "scale": request.scale,
        "title": f"{PAPERS[request.paper].title}, --scale={request.scale}",
        "command": command,
    }
    sweeps, host = list(sweeps), machine.describe_host()

    def store(place: int, sweep: Sweep) -> None:
        sweeps[place] = sweep
        reproduction.write(request.workdir, record | {"sweeps": sweeps})

    for place, sweep in enumerate(sweeps):
        if sweep.status in reproduction.FINISHED or not request.wants(sweep):
            continue
        folder = request.workdir / sweep.name
        begun = (folder / "config.json").exists() and not sweep.wall_seconds  # not by this command
        stopped = begun or sweep.status == reproduction.STARTED
        print(f"\n[{place + 1} of {len(sweeps)}] {sweep.command}", flush=True)
        sweep = sweep._replace(
            status=reproduction.STARTED, reason="", partly_timed=sweep.partly_timed or stopped
        )
        store(place, sweep)
        _wait_for_others(folder)
        store(place, _run(sweep, request, host))
        reason = sweeps[place].reason
        print(f"{sweep.name}: {sweeps[place].status}" + (f": {reason}" if reason else ""))
    reproduction.write(request.workdir, record | {"sweeps": sweeps})
    statuses = collections.Counter(sweep.status for sweep in sweeps)
    print("\n" + ", ".join(f"{count} {status}" for status, count in statuses.items()))
    print(f"wrote {request.workdir / 'report.json'}\nwrote {request.workdir / 'report.md'}")
    return sweeps
