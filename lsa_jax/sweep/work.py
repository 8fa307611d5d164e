"""Groups of recorded sweeps, each run by the process that holds its lock, and one report on all.

Nothing here imports jax before a group is held, so that many processes can look for work in one
folder.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, locks, papers, reproduction
from lsa_jax.sweep.points import recorded_points


def recorded_groups(workdir: Path) -> list[list[str]]:
    """Returns the ids of the runs of each group.

    Raises:
        InputError: no sweep is recorded there.
    """
    recorded_points(workdir)  # raises
    return files.read_record(workdir)["groups"]


def folders(root: Path) -> list[Path]:
    """Returns the folders of the sweeps that are recorded in a folder, or below it.

    Raises:
        InputError: its record cannot be read.
    """
    if (root / "config.json").exists() or not (root / "report.json").exists():
        return [root]
    named = [root / sweep.name for sweep in reproduction.read(root / "report.json")["sweeps"]]
    return [folder for folder in named if (folder / "config.json").exists()]


def run(
    workdir: Path,
    numbers: Sequence[int],
    data_dir: Path | None,
    *,
    wait: bool = True,
    shown: bool = True,
) -> int | None:
    """Runs the missing runs of some groups, numbered from 0, while it holds them.

    With `wait` it waits a minute for a group that another process holds.

    Returns:
        The number of failed runs; None where another process holds a group, unless it waits.

    Raises:
        InputError: there is no such group, data are missing, or another process holds a group.
    """
    groups = recorded_groups(workdir)
    if unknown := [number for number in numbers if number >= len(groups)]:
        raise InputError(f"--groups has {unknown[0]}; accepted: 0 to {len(groups) - 1}")
    ids = [run_id for number in numbers for run_id in groups[number]]
    try:
        with locks.holding(workdir, [groups[number][0] for number in numbers], wait=wait):
            if files.is_missing(workdir, ids):
                from lsa_jax.sweep.run import run_groups

                config, points = recorded_points(workdir)
                run_groups(config, points, workdir, numbers, data_dir=data_dir, shown=shown)
    except locks.InUseError:
        if wait:
            raise
        return None
    return int((files.read_results(workdir, ids)["status"] == "failed").sum())


def run_free(root: Path, data_dir: Path | None) -> int:
    """Runs all groups that no other process holds, one after the other; returns failed runs."""
    failed, ran = 0, True
    while ran:  # again, as another process may have been killed meanwhile
        ran = False
        for folder in folders(root):
            for number, ids in enumerate(recorded_groups(folder)):
                if files.is_missing(folder, ids):
                    found = run(folder, [number], data_dir, wait=False)
                    failed, ran = failed + (found or 0), ran or found is not None
    return failed


def record_all(
    root: Path, sweeps: Mapping[str, list[str]], command: str, data_dir: Path | None = None
) -> None:
    """Records sweeps below a folder in its `report.json`, with those of earlier commands.

    `sweeps` has for the name of each one's folder its --config=... and the fields that are set;
    `command` is the command line.
    """
    path = root / "report.json"
    record: dict[str, Any] = {"paper": "", "scale": "", "title": root.name, "sweeps": []}
    record = reproduction.read(path) if path.exists() else record | {"command": command}
    known = {sweep.name: sweep for sweep in record["sweeps"]}
    for name, words in sweeps.items():
        named = words[0].partition("=")[2]
        line = shlex.join(["python", *reproduction.sweep_command(words, root / name, data_dir)])
        about = papers.item_and_claim(papers.split_config(named)[0])
        known.setdefault(name, reproduction.Sweep(name, named, *about, line))
    reproduction.write(root, record | {"sweeps": list(known.values())})


def report_all(root: Path) -> None:
    """Writes the report of a sweep, or the reports of all below a folder and one on all of them.

    Raises:
        InputError: the only sweep has no finished runs, or the folder cannot be written.
    """
    from lsa_jax.sweep.run import report_sweep

    if folders(root) == [root]:
        report_sweep(*recorded_points(root), root)
        return
    with locks.reporting(root):
        record = reproduction.read(root / "report.json")
        for place, sweep in enumerate(record["sweeps"]):
            folder = root / sweep.name
            if not any(folder.glob("runs/*/result.json")):
                continue
            config, points = recorded_points(folder)
            left = len(points) - len(report_sweep(config, points, folder)[0])
            if left:
                reason = f"{left} of {len(points)} runs are missing"
                sweep = sweep._replace(status=reproduction.STARTED, reason=reason)
            else:
                host = files.read_record(folder).get("host", {})
                sweep = reproduction.finished(sweep._replace(partly_timed=True), root, host)
            record["sweeps"][place] = sweep
        reproduction.write(root, record)
    done = sum(sweep.status in reproduction.FINISHED for sweep in record["sweeps"])
    print(f"{done} of {len(record['sweeps'])} sweeps are done; wrote {root / 'report.md'}")
