"""The report on a sweep, from its folder."""

from collections.abc import Callable
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting import files
from lsa_jax.reporting.measured import with_measures
from lsa_jax.reporting.report import Report, Row, not_run
from lsa_jax.reporting.write import write_report
from lsa_jax.sweep import config_files, locks
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
    # A sweep under way may lack all runs of a learner, and with them the settings of its own.
    swept = dict.fromkeys(name.split(".")[-1] for point in points for name in point.settings)
    known = results.assign(**{name: np.nan for name in swept if name not in results})
    report = load_experiment(config.experiment).report(config, known, workdir)
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


def remake(workdir: Path) -> Report:
    """Writes a folder's report again, from its record alone, prints nothing, and returns it.

    Raises:
        InputError: its record cannot be read by this code, or none of its points is done.
    """
    config, points = recorded_points(workdir)
    return _written(config, points, workdir, show=lambda text: None)[1]
