"""The report on a sweep, from its folder."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, papers, reproduction
from lsa_jax.reporting.measured import with_measures
from lsa_jax.reporting.report import Report, Row, not_run
from lsa_jax.reporting.write import write_report
from lsa_jax.sweep import config_files, locks
from lsa_jax.sweep.claims import folders
from lsa_jax.sweep.points import Point, recorded_points
from lsa_jax.sweep.registry import load_experiment
from lsa_jax.sweep.variants import SIZE_FOR_TESTS

Show = Callable[[str], None]


def make_report(
    config: ml_collections.ConfigDict, points: list[Point], results: pd.DataFrame, workdir: Path
) -> Report:
    """Returns the experiment's report on results, with the measures along training."""
    failed = int((results["status"] == "failed").sum())
    if failed == len(results):
        return Report(config.title, [], [], {}, notes=["All runs failed: nothing is claimed."])
    report = load_experiment(config.experiment).report(config, results, workdir)
    report = report._replace(claims=_of_tests(report.claims, workdir))
    varying = [name.split(".")[-1] for name in points[0].settings]
    return with_measures(report, workdir, results, varying)


def _of_tests(rows: list[Row], workdir: Path) -> list[Row]:
    """Returns the claims, as not run where the size is for tests: it only checks the start."""
    record = workdir / "config.json"
    command = files.read_json(record).get("command", []) if record.exists() else []
    if not config_files.named_in(command).endswith(f":{SIZE_FOR_TESTS}"):
        return rows
    return not_run(rows, "a check that it starts")


def _written(
    config: ml_collections.ConfigDict, points: list[Point], workdir: Path, show: Show
) -> tuple[pd.DataFrame, Report]:
    """Returns the table of the points that are done, and the report on them once it is written."""
    with locks.reporting(workdir):
        results = files.read_results(workdir, [point.id for point in points])
        if results.empty:
            raise InputError(
                f"--workdir {workdir} has no finished runs; start them with launch.sweep"
            )
        report = make_report(config, points, results, workdir)
        show(write_report(workdir, results, report))
    if len(results) < len(points):
        show(f"{len(points) - len(results)} of {len(points)} runs are missing")
    return results, report


def report_sweep(
    config: ml_collections.ConfigDict, points: list[Point], workdir: Path, show: Show = print
) -> pd.DataFrame:
    """Writes and shows the report on the points that are done and returns their table.

    Raises:
        InputError: none is done, or the folder cannot be written.
    """
    return _written(config, points, workdir, show)[0]


def record_all(root: Path, sweeps: Mapping[str, list[str]], command: str) -> None:
    """Records sweeps below a folder in its `report.json`, with those of earlier commands.

    Args:
        root: the folder.
        sweeps: by the names of their folders, each its `--config=...` and the fields that are set.
        command: the command line.
    """
    path = root / "report.json"
    record: dict[str, Any] = {"paper": "", "scale": "", "title": root.name, "sweeps": []}
    record = reproduction.read(path) if path.exists() else record | {"command": command}
    known = {sweep.name: sweep for sweep in record["sweeps"]}
    for name, words in sweeps.items():
        named = words[0].partition("=")[2]
        line = shlex.join(["python", "-m", "launch.sweep", *words, f"--workdir={root / name}"])
        about = papers.item_and_claim(papers.split_config(named)[0])
        known.setdefault(name, reproduction.Sweep(name, named, *about, line))
    reproduction.write(root, record | {"sweeps": list(known.values())})


def report_all(root: Path) -> None:
    """Writes the report of a sweep, or the reports of all below a folder and one on all of them.

    Raises:
        InputError: the only sweep has no finished runs, or the folder cannot be written.
    """
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
            left = len(points) - len(report_sweep(config, points, folder))
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


def remake(workdir: Path) -> Report:
    """Writes a folder's report again, from its record alone, prints nothing, and returns it.

    Raises:
        InputError: its record cannot be read by this code, or none of its points is done.
    """
    config, points = recorded_points(workdir)
    return _written(config, points, workdir, show=lambda text: None)[1]
