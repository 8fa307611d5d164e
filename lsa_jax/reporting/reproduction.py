"""The report on all sweeps of a paper: every figure and table, the paper's number, ours, the cost.

A reproduction's folder holds `report.json`, `report.md`, `logs/` with each sweep's output, and each
sweep's own folder. `report.json` has the keys `paper`, `scale`, `title`, `command` and `sweeps`, a
list of `Sweep`s; a reproduction resumes from it.
"""

import collections
import re
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting import files
from lsa_jax.reporting.machine import cores, duration
from lsa_jax.reporting.report import STATUSES
from lsa_jax.reporting.write import claims_table, markdown_table

NOT_RUN, STARTED, FAILED, RUNS_FAILED, DONE = (
    *("not run", "started, not finished", "failed"),
    *("done, some runs failed", "done"),
)
FINISHED = (DONE, RUNS_FAILED)
WITH_FAILURES = (FAILED, RUNS_FAILED)


class Sweep(NamedTuple):
    """One configuration's part of a reproduction.

    Attributes:
        name: of the configuration, and of its folder below the reproduction's.
        config: the value of `--config`.
        item: the figure, table or theorem, as the configuration's docstring begins.
        about: the rest of that first line.
        command: the sweep's command line.
        status: "not run", "started, not finished" (also while it runs), "failed", "done", or
            "done, some runs failed".
        reason: one line, why it was not run or failed.
        wall_seconds: by the clock, of all commands that ended by themselves.
        cpu_seconds: processor time likewise, of all cores.
        partly_timed: whether commands were stopped, whose time is not in these two.
        run_seconds: the sum of its runs' own times; 0 before there are any.
        runs: number of runs in the results.
        failed_runs: number of failed runs.
        claims: the rows of the sweep's own `report.json`.
        pictures: names of the figures in its folder.
        machine: host, devices and package versions; None before it is finished.
    """

    name: str
    config: str
    item: str
    about: str
    command: str
    status: str = NOT_RUN
    reason: str = "not started yet"
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    partly_timed: bool = False
    run_seconds: float = 0.0
    runs: int = 0
    failed_runs: int = 0
    claims: list[dict[str, Any]] = []
    pictures: list[str] = []
    machine: dict[str, Any] | None = None


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
        return {name: record[name] for name in ("paper", "scale", "title", "command")} | {
            "sweeps": sweeps
        }
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
    """Returns a sweep with the results of its folder, once its command is done.

    Args:
        sweep: as it was started, with its times.
        workdir: the reproduction's folder.
        host: the machine that it ran on.
    """
    folder = workdir / sweep.name
    results, recorded = pd.read_csv(folder / "results.csv"), files.read_json(folder / "config.json")
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
    if sweep.status not in FINISHED:
        return ""
    if sweep.partly_timed:  # the processor time of stopped commands is not known
        return wall_time(sweep)
    return f"{wall_time(sweep)} ({duration(sweep.cpu_seconds)} of processor time)"


def _machine(sweep: Sweep) -> str:
    host = sweep.machine or {}
    kinds = collections.Counter(re.sub(r":\d+", "", device) for device in host["devices"])
    devices = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    return (
        f"{host['cpu']}, {cores(host['cores'])}, {host['memory_gib']:g} GiB; devices: {devices}; "
        f"Python {host['python']}, {versions}"
    )


def counts(claims: list[dict[str, Any]]) -> str:
    """Returns the numbers of claims by status, in words: first those shown, of all decided."""
    count = collections.Counter(claim["status"] for claim in claims)
    if not claims:
        return "no claims"
    decided = count["shown"] + count["not shown"]
    words = [f"{count['shown']} of {decided} shown"] if decided else []
    others = [status for status in STATUSES if status not in ("shown", "not shown")]
    words += [f"{count[status]} {status}" for status in others if count[status]]
    return ", ".join(words)


def _overview(sweeps: list[Sweep]) -> str:
    rows = []
    for sweep in sweeps:
        done = sweep.status in FINISHED
        row = {"figure or table": f"[{sweep.item}]({sweep.name}/report.md)" if done else sweep.item}
        row |= {"configuration": f"`{sweep.config}`", "status": sweep.status}
        rows.append(row | {"claims": counts(sweep.claims) if done else "", "cost": _cost(sweep)})
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
        f"{len(ran)} of {len(sweeps)} configurations are done, in {wall}; of their claims "
        f"{counts(claims)}.",
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
