"""One report on all sweeps of a paper: every figure and table, the paper's number, ours, the cost.

A reproduction's folder holds `report.json`, `report.md`, `logs/` with what each sweep printed, and
each sweep's own folder. `report.json` has the keys `paper`, `scale`, `title`, `command` and
`sweeps`, a list of what `Sweep` holds. It is also the record that a reproduction goes on from.
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
        config: what follows `--config=`.
        item: the figure, table or theorem, as the configuration's docstring begins.
        about: how that first line goes on.
        command: what runs the sweep.
        status: "not run", "started, not finished" (also while it runs), "failed", "done", or
            "done, some runs failed".
        reason: one line, why it was not run or failed.
        wall_seconds: by the clock, of all commands that came to their end.
        cpu_seconds: processor time likewise, of all cores.
        partly_timed: whether commands were stopped whose time is not in these two.
        run_seconds: the sum of its runs' own times; 0 before there are any.
        runs: how many runs the results have.
        failed_runs: how many of them failed.
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
    """Returns what a reproduction's `report.json` holds, its sweeps as `Sweep`s.

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
    """Returns a sweep with what its folder tells, once its command is done.

    Args:
        sweep: how it was started, with its times.
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
    """Returns how long a sweep took; its runs' own times are the least where it was stopped."""
    at_least = "at least " if sweep.partly_timed else ""
    return at_least + duration(max(sweep.wall_seconds, sweep.run_seconds))


def _cost(sweep: Sweep) -> str:
    if sweep.status not in FINISHED:
        return ""
    if sweep.partly_timed:  # of the call that finished it, the processor's time alone is known
        return wall_time(sweep)
    return f"{wall_time(sweep)} ({duration(sweep.cpu_seconds)} of processor time)"


def _machine(sweep: Sweep) -> str:
    if sweep.machine is None:
        return ""
    host = sweep.machine
    versions = ", ".join(f"{name} {version}" for name, version in host["versions"].items())
    kinds = collections.Counter(re.sub(r":\d+", "", device) for device in host["devices"])
    devices = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    return (
        f"{host['cpu']}, {cores(host['cores'])}, {host['memory_gib']:g} GiB; devices: {devices}; "
        f"Python {host['python']}, {versions}"
    )


def counts(claims: list[dict[str, Any]]) -> str:
    """Returns how many claims are shown, of those that can be and were run, and how many others."""
    count = collections.Counter(claim["status"] for claim in claims)
    if not claims:
        return "no claims"
    decided = count["shown"] + count["not shown"]
    words = [f"{count['shown']} of {decided} shown"] if decided else []
    others = [status for status in STATUSES if status not in ("shown", "not shown")]
    words += [f"{count[status]} {status}" for status in others if count[status]]
    return ", ".join(words)


def _outcome(sweep: Sweep) -> str:
    return sweep.status + (f": {sweep.reason}" if sweep.reason else "")


def _overview(sweeps: list[Sweep]) -> str:
    rows = [
        {
            "figure or table": f"[{sweep.item}]({sweep.name}/report.md)"
            if sweep.status in FINISHED
            else sweep.item,
            "configuration": f"`{sweep.config}`",
            "claims": counts(sweep.claims) if sweep.status in FINISHED else "",
            "cost": _cost(sweep),
            "status": sweep.status,
        }
        for sweep in sweeps
    ]
    return markdown_table(pd.DataFrame(rows))


def _section(sweep: Sweep, machine: str) -> str:
    """Returns the part of one sweep; its machine is told where it is not the one of all."""
    about = sweep.about[:1].upper() + sweep.about[1:]
    parts = [f"## {sweep.item}", about, f"```\n{sweep.command}\n```"]
    if sweep.status not in FINISHED:
        return "\n\n".join([*parts, f"**{_outcome(sweep)}**"])
    places = f"[Its own report]({sweep.name}/report.md), [log](logs/{sweep.name}.log)."
    parts.append(f"{places} Cost: {_cost(sweep)}. Runs: {sweep.runs}.")
    if sweep.failed_runs:
        parts.append(f"**{sweep.reason}**")
    if _machine(sweep) != machine:
        parts.append(f"On {_machine(sweep)}.")
    if sweep.claims:
        parts.append(markdown_table(claims_table(sweep.claims)))
    parts += [f"![{Path(name).stem}]({sweep.name}/{name})" for name in sweep.pictures]
    return "\n\n".join(part for part in parts if part)


def markdown(title: str, command: str, sweeps: list[Sweep]) -> str:
    """Returns the report on all sweeps of a paper."""
    ran = [sweep for sweep in sweeps if sweep.status in FINISHED]
    machines = collections.Counter(_machine(sweep) for sweep in ran)
    machine = machines.most_common(1)[0][0] if machines else ""
    claims = [claim for sweep in ran for claim in sweep.claims]
    wall = duration(sum(max(sweep.wall_seconds, sweep.run_seconds) for sweep in ran))
    parts = [
        f"# {title}",
        f"```\n{command}\n```",
        f"{len(ran)} of {len(sweeps)} configurations are done, in {wall}; of their claims "
        f"{counts(claims)}.",
        f"Machine: {machine}." if machine else "",
        _overview(sweeps),
        *(_section(sweep, machine) for sweep in sweeps),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def write(workdir: Path, record: dict[str, Any]) -> None:
    """Writes `report.json` and `report.md` of a reproduction."""
    sweeps = record["sweeps"]
    files.write_json(
        workdir / "report.json", record | {"sweeps": [sweep._asdict() for sweep in sweeps]}
    )
    files.write_text(workdir / "report.md", markdown(record["title"], record["command"], sweeps))
