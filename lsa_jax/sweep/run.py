"""Runs a sweep's missing points, group by group, and reports on all of them.

A point is done when its `result.json` is there. A group is a fixed set of points that run together;
it is run again, from its last checkpoint, as long as one of its points is missing. So a sweep that
was killed at any moment goes on with the same command and ends with the same numbers.

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

from lsa_jax import processes
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
    """What makes two sweeps the same, as JSON would give it back."""
    return files.plain({"config": config.to_dict(), "sweep": [p.settings for p in points]})


def _difference(found: dict[str, Any], identity: dict[str, Any]) -> str:
    """Says in what a recorded sweep differs: a setting, or the points."""
    there, here = flatten(found.get("config") or {}), flatten(identity["config"])
    for name in {**here, **there}:
        values = [repr(side[name]) if name in side else "no setting" for side in (there, here)]
        if values[0] != values[1]:
            return f"config.{name} is {values[0]} there, {values[1]} here"
    return "its points are others, see config.json there"


def _check_workdir(workdir: Path, identity: dict[str, Any]) -> None:
    """Raises unless the folder can take this sweep: absent, empty, or holding the same sweep."""
    if not workdir.exists():
        return
    if not workdir.is_dir():
        raise InputError(f"--workdir {workdir} is a file; accepted: a folder, or a new name")
    record = workdir / "config.json"
    ours = (".lock", files.partial(record).name)  # which a sweep has before its record
    if record.exists():
        found = files.read_record(workdir)
        if {name: found.get(name) for name in identity} != identity:
            raise InputError(
                f"--workdir {workdir} holds a sweep with other settings "
                f"({_difference(found, identity)}); accepted: the same command, or another folder"
            )
    elif any(entry.name not in ours for entry in workdir.iterdir()):
        raise InputError(
            f"--workdir {workdir} holds files but no config.json; accepted: a new or empty folder"
        )


def _is_new(workdir: Path, identity: dict[str, Any]) -> bool:
    """Whether nothing is recorded in the folder; raises unless it can take this sweep."""
    _check_workdir(workdir, identity)
    return not (workdir / "config.json").exists()


def _run_group(
    experiment: Experiment, group: list[Point], data: Any, directory: Path, progress: Any
) -> list[Outcome]:
    try:
        return experiment.run(group, data, directory, progress)
    except NumericalError as error:
        return [Outcome({}, [], "failed", str(error)) for _ in group]


def _result(
    point: Point, outcome: Outcome, seconds: float, columns: dict[str, Any]
) -> dict[str, Any]:
    settings = {name.split(".")[-1]: value for name, value in point.settings.items()}
    status = {"status": outcome.status, "message": outcome.message}
    timings = {"seconds": seconds, **outcome.timings}
    return {"id": point.id, **settings, **columns, **outcome.metrics, **timings, **status}


def _group_directory(workdir: Path, group: list[Point]) -> Path:
    return workdir / "groups" / group[0].id


def _remove_scratch(directory: Path) -> None:
    """Removes what a group needs only until its results are stored."""
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
    _remove_scratch(_group_directory(workdir, group))


def _progress(
    bar: Progress, before: int, group: list[Point], watch: Watch, directory: Path | None
) -> Callable[[float], None]:
    """Returns what a group tells how much of it is done; `before` are the points of others."""
    heart = Heartbeat(directory, [point.id for point in group]) if directory else None
    doing = group[0].id if len(group) == 1 else f"{group[0].id} and others"

    def progress(fraction: float) -> None:
        bar.advance_to(before + fraction * len(group), doing)
        if heart is not None:
            heart.tell(fraction)
        watch.reported()

    return progress


def _run_groups(
    experiment: Experiment, groups: list[list[Point]], data: Any, workdir: Path, watch: Watch
) -> None:
    """Runs groups one after the other and stores what comes out."""
    done, everyone = 0, processes.everyone()
    with Progress(sum(map(len, groups)), shown=everyone.is_first) as bar:
        for group in groups:
            directory = _group_directory(workdir, group)
            seen = directory if everyone.is_first else None  # the others may not see the folder
            progress = _progress(bar, done, group, watch, seen)
            start = time.monotonic()
            outcomes = _run_group(experiment, group, data, directory, progress)
            seconds = round((time.monotonic() - start) / len(group), 3)
            store = functools.partial(_store, experiment, group, outcomes, seconds, workdir, watch)
            everyone.on_first(store)
            # What the others have kept of a kernel matrix, where they do not see the folder.
            everyone.in_each(functools.partial(_remove_scratch, directory))
            done += len(group)
            progress(1.0)


def _missing(groups: list[list[Point]], workdir: Path, watch: Watch) -> list[int]:
    """Returns the numbers of groups of which a point is missing, and tidies up after the others."""
    numbers = [number for number, group in enumerate(groups) if _is_missing(group, workdir)]
    for point in itertools.chain(*groups):
        if files.read_result(workdir, point.id) is not None:
            watch.stored(point.id)
    for number in set(range(len(groups))).difference(numbers):
        directory = _group_directory(workdir, groups[number])
        _remove_scratch(directory)
        heartbeat.remove(directory)
    return numbers


def _run_missing(
    experiment: Experiment,
    groups: list[list[Point]],
    load: Callable[[], Any],
    workdir: Path,
    watch: Watch,
) -> None:
    """Runs those of the groups of which a point is missing; reads the data only if there are."""
    everyone = processes.everyone()
    missing = everyone.from_first(lambda: _missing(groups, workdir, watch))
    if missing:
        data = load()
        conditions.warn_of_changes(workdir, data)
        chosen = [groups[number] for number in missing]
        _run_groups(experiment, chosen, data, workdir, watch)
    elif everyone.is_first:
        print(f"all {sum(map(len, groups))} runs are done already; nothing to run")


def missing_groups(
    config: ml_collections.ConfigDict, points: list[Point], workdir: Path
) -> list[int]:
    """Returns the numbers of the groups of which a point is missing; a wrong folder is refused."""
    _check_workdir(workdir, _identity(config, points))
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
        config: what all points share.
        points: the sweep.
        workdir: where everything is written.
        load: reads the data; called before anything is written where no sweep is recorded yet.
        command: the command line, for the record.
        devices: what it runs on, for the record.

    Raises:
        InputError: the data are missing or damaged, or the folder cannot take this sweep; raised
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
    """Runs what is missing of a sweep and writes the report.

    Args:
        config: what all points share.
        points: the sweep.
        workdir: where everything is written.
        data_dir: where data sets lie; None means the environment's or the cache.
        command: the command line, for the record.
        watch: what looks on; the first process alone calls it when results are stored.
        show: is given the report's text.

    Returns:
        One row a point: its settings, metrics, `seconds` (its share of its group's time, of a group
        that was stopped since it went on for the last time), `status`.

    Raises:
        InputError: the data are missing or damaged, or the folder cannot take this sweep; raised
            before anything is written.
    """
    experiment = load_experiment(config.experiment)
    everyone = processes.everyone()
    load = functools.cache(lambda: everyone.in_each(lambda: experiment.load(points, data_dir)))
    devices = conditions.devices()
    if everyone.from_first(lambda: _is_new(workdir, _identity(config, points))):
        load()  # here by all processes: what follows is done by the first alone
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
    """Runs what is missing of some groups of a recorded sweep, beside others that run other groups.

    Args:
        config: what all points share.
        points: the sweep; all of it, as its data and its groups are functions of all points.
        workdir: where the sweep is recorded.
        numbers: which of the groups, counted from 0.
        data_dir: where data sets lie; None means the environment's or the cache.

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
