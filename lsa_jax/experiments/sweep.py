"""Runs a sweep's missing points, group by group, and reports on all of them.

A point is done when its `result.json` is there. A group is a fixed set of points that run together;
it is run again, from its last checkpoint, as long as one of its points is missing. So a sweep that
was killed at any moment goes on with the same command and ends with the same numbers.
"""

import contextlib
import shutil
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import filelock
import jax
import ml_collections
import pandas as pd

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.experiments import load_experiment
from lsa_jax.experiments.experiment import SCRATCH, Experiment, Outcome
from lsa_jax.reporting import files
from lsa_jax.reporting.progress import Progress
from lsa_jax.reporting.write import write_report
from lsa_jax.settings.points import Point

_PACKAGES = ("lsa_jax", "jax", "jaxlib", "flax", "optax", "neural-tangents", "numpy", "scipy")


def _identity(config: ml_collections.ConfigDict, points: list[Point]) -> dict[str, Any]:
    """What makes two sweeps the same, as JSON would give it back."""
    return files.plain({"config": config.to_dict(), "sweep": [p.settings for p in points]})


def _check_workdir(workdir: Path, identity: dict[str, Any]) -> None:
    """Raises unless the folder can take this sweep: absent, empty, or holding the same sweep."""
    if not workdir.exists():
        return
    if not workdir.is_dir():
        raise InputError(f"--workdir {workdir} is a file; accepted: a folder, or a new name")
    record = workdir / "config.json"
    if record.exists():
        found = files.read_json(record)
        if {name: found.get(name) for name in identity} != identity:
            raise InputError(
                f"--workdir {workdir} holds a sweep with other settings (see config.json there); "
                "accepted: the same command, or another folder"
            )
    elif any(entry.name != ".lock" for entry in workdir.iterdir()):
        raise InputError(
            f"--workdir {workdir} holds files but no config.json; accepted: a new or empty folder"
        )


@contextlib.contextmanager
def _locked(workdir: Path) -> Iterator[None]:
    """Holds the folder's lock, which the system frees even if this process is killed."""
    try:
        workdir.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(workdir / ".lock", timeout=0):
            yield
    except filelock.Timeout:
        raise InputError(f"--workdir {workdir} is in use by another sweep; wait for it") from None
    except (PermissionError, NotADirectoryError, FileExistsError) as error:
        raise InputError(f"--workdir {workdir} cannot be written: {error.strerror}") from None


def _run_group(
    experiment: Experiment, group: list[Point], data: Any, directory: Path, progress: Any
) -> list[Outcome]:
    try:
        return experiment.run(group, data, directory, progress)
    except NumericalError as error:
        return [Outcome({}, [], "failed", str(error)) for _ in group]


def _result(point: Point, outcome: Outcome, seconds: float) -> dict[str, Any]:
    settings = {name.split(".")[-1]: value for name, value in point.settings.items()}
    status = {"status": outcome.status, "message": outcome.message}
    timings = {"seconds": seconds, **outcome.timings}
    return {"id": point.id, **settings, **outcome.metrics, **timings, **status}


def _group_directory(workdir: Path, group: list[Point]) -> Path:
    return workdir / "groups" / group[0].id


def _remove_scratch(directory: Path) -> None:
    """Removes what a group needs only until its results are stored."""
    if (directory / SCRATCH).exists():
        shutil.rmtree(directory / SCRATCH)


def _run_missing(experiment: Experiment, points: list[Point], data: Any, workdir: Path) -> None:
    groups = []
    for group in experiment.groups(points):
        if any(files.read_result(workdir, point.id) is None for point in group):
            groups.append(group)
        else:
            _remove_scratch(_group_directory(workdir, group))
    done = 0
    with Progress(sum(map(len, groups))) as bar:
        for group in groups:
            before, doing = done, group[0].id if len(group) == 1 else f"{group[0].id} and others"
            start = time.monotonic()
            outcomes = _run_group(
                experiment,
                group,
                data,
                _group_directory(workdir, group),
                lambda fraction: bar.advance_to(before + fraction * len(group), doing),  # noqa: B023
            )
            seconds = round((time.monotonic() - start) / len(group), 3)
            for point, outcome in zip(group, outcomes, strict=True):
                result = _result(point, outcome, seconds)
                files.write_run(workdir, point.id, result, outcome.history)
            _remove_scratch(_group_directory(workdir, group))
            done += len(group)
            bar.advance_to(done, doing)


def run_sweep(
    config: ml_collections.ConfigDict,
    points: list[Point],
    workdir: Path,
    *,
    data_dir: Path | None,
    command: list[str],
) -> pd.DataFrame:
    """Runs what is missing of a sweep and writes the report.

    Args:
        config: what all points share.
        points: the sweep.
        workdir: where everything is written.
        data_dir: where data sets lie; None means the environment's or the cache.
        command: the command line, for the record.

    Returns:
        One row a point: its settings, metrics, `seconds` (its share of its group's time), `status`.

    Raises:
        InputError: the data are missing or damaged, or the folder cannot take this sweep; raised
            before anything is written.
    """
    experiment = load_experiment(config.experiment)
    identity = _identity(config, points)
    _check_workdir(workdir, identity)
    # A folder that is not there yet is made only once the data have proved to be good.
    data = None if workdir.exists() else experiment.load(points, data_dir)
    with _locked(workdir):
        missing = [p for p in points if files.read_result(workdir, p.id) is None]
        if missing and data is None:
            data = experiment.load(points, data_dir)
        if not (workdir / "config.json").exists():
            record = {
                "command": command,
                "versions": {name: metadata.version(name) for name in _PACKAGES},
                "devices": [str(device) for device in jax.devices()],
            }
            files.write_json(workdir / "config.json", {**record, **identity})
        if missing:
            _run_missing(experiment, points, data, workdir)
        else:
            print(f"all {len(points)} runs are done already; nothing to run")
        return report_sweep(config, points, workdir)


def report_sweep(
    config: ml_collections.ConfigDict, points: list[Point], workdir: Path
) -> pd.DataFrame:
    """Writes and prints the report on the points that are done and returns their table.

    Raises:
        InputError: none is done.
    """
    results = files.read_results(workdir, [point.id for point in points])
    if results.empty:
        raise InputError(f"--workdir {workdir} has no finished runs; start them with launch.sweep")
    report = load_experiment(config.experiment).report(config, results, workdir)
    print(write_report(workdir, results, report))
    return results
