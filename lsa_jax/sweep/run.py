"""Runs a sweep's missing points, group by group, and reports on all of them.

A point is done when its `result.json` exists. A group is a fixed set of points that run together;
it runs again, from its last checkpoint, as long as one of its points is missing. So a sweep that
was killed at any moment resumes with the same command and ends with the same numbers.

Either one process runs all groups, alone in the folder, or several run different groups at once, as
the tasks of a cluster's array do. Processes that work together (see `processes`) count as one: they
run every group together, and the first of them alone sees the folder.
"""

import contextlib
import functools
import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax import processes, user_files
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.reporting import files, heartbeat
from lsa_jax.reporting import outcomes as kept_outcomes
from lsa_jax.reporting.heartbeat import Heartbeat
from lsa_jax.reporting.logs import UNWATCHED, Watch
from lsa_jax.reporting.machine import describe_host
from lsa_jax.reporting.progress import Progress
from lsa_jax.sweep import conditions, locks
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome
from lsa_jax.sweep.fields import flatten
from lsa_jax.sweep.points import Point
from lsa_jax.sweep.registry import load_experiment
from lsa_jax.sweep.reports import Show, report_sweep


def _identity(config: ml_collections.ConfigDict, points: list[Point]) -> dict[str, Any]:
    """Returns the settings that make two sweeps the same, as JSON stores them.

    Of settings that name an object of a Python file they include a hash of the file.
    """
    settings = {**flatten(config), **{n: v for p in points for n, v in p.settings.items()}}
    named = {n: user_files.digest(f"config.{n}", v) for n, v in settings.items()
             if user_files.is_named(v)}  # fmt: skip
    found = {"config": config.to_dict(), "sweep": [p.settings for p in points]}
    return files.plain(found | ({"files": named} if named else {}))


def _difference(found: dict[str, Any], identity: dict[str, Any]) -> str:
    """Returns the first setting that differs from a recorded sweep's, in words."""
    there, here = flatten(found.get("config") or {}), flatten(identity["config"])
    for name in {**here, **there}:
        values = [repr(side[name]) if name in side else "no setting" for side in (there, here)]
        if values[0] != values[1]:
            return f"config.{name} is {values[0]} there, {values[1]} here"
    if found.get("files") != identity.get("files"):
        return f"the file of config.{next(iter(identity['files']))} has changed since"
    return "its points are others, see config.json there"


def _is_new(workdir: Path, identity: dict[str, Any]) -> bool:
    """Whether no sweep is recorded in the folder; raises unless it can hold this sweep."""
    if not workdir.exists():
        return True
    if not workdir.is_dir():
        raise InputError(f"--workdir {workdir} is a file; accepted: a folder, or a new name")
    record = workdir / "config.json"
    if record.exists():
        found = files.read_record(workdir)
        if {name: found.get(name) for name in identity} != identity:
            raise InputError(
                f"--workdir {workdir} holds a sweep with other settings "
                f"({_difference(found, identity)}); accepted: the same command, or another folder"
            )
        return False
    ours = (".lock", files.partial(record).name)  # written before the record
    if any(entry.name not in ours for entry in workdir.iterdir()):
        raise InputError(
            f"--workdir {workdir} holds files but no config.json; accepted: a new or empty folder"
        )
    return True


def _result(
    point: Point, outcome: Outcome, seconds: float, columns: dict[str, Any]
) -> dict[str, Any]:
    settings = {name.split(".")[-1]: value for name, value in point.settings.items()}
    status = {"status": outcome.status, "message": outcome.message}
    timings = {"seconds": seconds, **outcome.timings}
    return {"id": point.id, **settings, **columns, **outcome.metrics, **timings, **status}


def _remove_scratch(directory: Path) -> None:
    """Removes the files that a group needs only until its results are stored."""
    with contextlib.suppress(FileNotFoundError):  # of none, or removed by another process too
        shutil.rmtree(directory / SCRATCH)


def _is_missing(group: list[Point], workdir: Path) -> bool:
    return any(files.read_result(workdir, point.id) is None for point in group)


def _store(
    experiment: Experiment,
    group: list[Point],
    outcomes: list[Outcome],
    seconds: float,
    workdir: Path,
    watch: Watch,
) -> None:
    for point, outcome in zip(group, outcomes, strict=True):
        if outcome.outcomes is not None:  # before the result, which marks the run as done
            kept_outcomes.write(workdir, point.id, outcome.outcomes)
        result = _result(point, outcome, seconds, experiment.columns(point.config))
        files.write_run(workdir, point.id, result, outcome.history)
    for point in group:  # after all of them: a log that fails leaves no result unwritten
        watch.stored(point.id)
    _remove_scratch(workdir / "groups" / group[0].id)


def _run_group(
    experiment: Experiment,
    group: list[Point],
    data: Any,
    workdir: Path,
    watch: Watch,
    advance: Callable[[float, str], None],
) -> None:
    """Runs a group and stores its outcomes; `advance` is called with the points that are done."""
    everyone, ids = processes.everyone(), [point.id for point in group]
    directory, doing = workdir / "groups" / ids[0], ids[0] + " and others" * (len(ids) > 1)
    # The other processes may not see the folder.
    heart = Heartbeat(directory, ids) if everyone.is_first else None

    def progress(fraction: float) -> None:
        advance(fraction * len(group), doing)
        if heart is not None:
            heart.report(fraction)
        watch.reported()

    start = time.monotonic()
    try:
        outcomes = experiment.run(group, data, directory, progress)
    except NumericalError as error:
        outcomes = [Outcome({}, [], "failed", str(error)) for _ in group]
    seconds = round((time.monotonic() - start) / len(group), 3)
    store = functools.partial(_store, experiment, group, outcomes, seconds, workdir, watch)
    everyone.on_first(store)
    # A part of a kernel matrix, on hosts that do not see the folder.
    everyone.in_each(functools.partial(_remove_scratch, directory))
    progress(1.0)


def _missing(groups: list[list[Point]], workdir: Path, watch: Watch) -> list[int]:
    """Returns the numbers of groups with a missing point, and tidies up after the others."""
    for point in itertools.chain(*groups):
        if files.read_result(workdir, point.id) is not None:
            watch.stored(point.id)
    numbers = []
    for number, group in enumerate(groups):
        if _is_missing(group, workdir):
            numbers.append(number)
        else:
            _remove_scratch(workdir / "groups" / group[0].id)
            heartbeat.remove(workdir / "groups" / group[0].id)
    return numbers


def _run_missing(
    experiment: Experiment,
    groups: list[list[Point]],
    load: Callable[[], Any],
    workdir: Path,
    watch: Watch,
) -> None:
    """Runs the groups with a missing point; reads the data only if there are any."""
    everyone = processes.everyone()
    missing = everyone.from_first(lambda: _missing(groups, workdir, watch))
    if missing:
        data = load()
        conditions.warn_of_changes(workdir, data)
        total, before = sum(len(groups[number]) for number in missing), 0
        with Progress(total, shown=everyone.is_first) as bar:
            for number in missing:

                def advance(done: float, doing: str, before: int = before) -> None:
                    bar.advance_to(before + done, doing)

                _run_group(experiment, groups[number], data, workdir, watch, advance)
                before += len(groups[number])
    elif everyone.is_first:
        print(f"all {sum(map(len, groups))} runs are done already; nothing to run")


def missing_groups(
    config: ml_collections.ConfigDict, points: list[Point], workdir: Path
) -> list[int]:
    """Returns the numbers of the groups with a missing point; a wrong folder is refused."""
    _is_new(workdir, _identity(config, points))  # raises
    groups = load_experiment(config.experiment).groups(points)
    return [number for number, group in enumerate(groups) if _is_missing(group, workdir)]


@contextlib.contextmanager
def recorded_sweep(
    config: ml_collections.ConfigDict,
    points: list[Point],
    workdir: Path,
    *,
    load: Callable[[], Any],
    command: list[str],
    devices: list[str],
) -> Iterator[None]:
    """Holds a folder alone, with the sweep recorded in its `config.json`.

    Args:
        config: the settings that all points share.
        points: the sweep.
        workdir: the folder for all results.
        load: reads the data; called before anything is written where no sweep is recorded yet.
        command: the command line, for the record.
        devices: their names, for the record.

    Raises:
        InputError: the data are missing or damaged, or the folder cannot hold this sweep; raised
            before anything is written.
    """
    identity = _identity(config, points)
    data = conditions.digest(load()) if _is_new(workdir, identity) else None
    with locks.alone(workdir):
        if _is_new(workdir, identity):  # again: another one may have been recorded meanwhile
            record = {"command": command, "versions": conditions.versions(), "devices": devices}
            record |= {"host": describe_host(), "data": data}
            files.write_json(workdir / "config.json", {**record, **identity})
        yield


def run_sweep(
    config: ml_collections.ConfigDict,
    points: list[Point],
    workdir: Path,
    *,
    data_dir: Path | None,
    command: list[str],
    watch: Watch = UNWATCHED,
    show: Show = print,
) -> pd.DataFrame:
    """Runs the missing points of a sweep and writes the report.

    Args:
        config: the settings that all points share.
        points: the sweep.
        workdir: the folder for all results.
        data_dir: folder of data sets; None means the environment's or the cache.
        command: the command line, for the record.
        watch: callbacks; the first process alone calls them when results are stored.
        show: receives the report's text.

    Returns:
        One row a point: its settings, metrics, `seconds` (its share of its group's time, since the
        last resumption), `status`.

    Raises:
        InputError: the data are missing or damaged, or the folder cannot hold this sweep; raised
            before anything is written.
    """
    experiment = load_experiment(config.experiment)
    everyone = processes.everyone()
    load = functools.cache(lambda: everyone.in_each(lambda: experiment.load(points, data_dir)))
    devices = conditions.devices()
    if everyone.from_first(lambda: _is_new(workdir, _identity(config, points))):
        load()  # here by all processes: the next lines are for the first alone
    with contextlib.ExitStack() as stack:
        held = recorded_sweep(config, points, workdir, load=load, command=command, devices=devices)
        everyone.on_first(lambda: stack.enter_context(held))
        _run_missing(experiment, experiment.groups(points), load, workdir, watch)
        return everyone.from_first(lambda: report_sweep(config, points, workdir, show))


def run_groups(
    config: ml_collections.ConfigDict,
    points: list[Point],
    workdir: Path,
    numbers: list[int],
    *,
    data_dir: Path | None,
) -> pd.DataFrame:
    """Runs the missing points of some groups of a recorded sweep; other processes run others.

    Args:
        config: the settings that all points share.
        points: the whole sweep, as its data and its groups are functions of all points.
        workdir: the folder with the sweep's record.
        numbers: of the groups, from 0.
        data_dir: folder of data sets; None means the environment's or the cache.

    Returns:
        One row a point of these groups, as `run_sweep`.

    Raises:
        InputError: there is no such group, the data are missing or damaged, or another process
            holds one of the groups or the whole folder.
    """
    experiment = load_experiment(config.experiment)
    groups = experiment.groups(points)
    unknown = [number for number in numbers if not 0 <= number < len(groups)]
    if unknown:
        raise InputError(f"--groups has {unknown[0]}; accepted: 0 to {len(groups) - 1}")
    chosen = [groups[number] for number in numbers]
    with locks.holding(workdir, [group[0].id for group in chosen]):
        load = functools.partial(experiment.load, points, data_dir)
        _run_missing(experiment, chosen, load, workdir, UNWATCHED)
        return files.read_results(workdir, [point.id for group in chosen for point in group])
