"""The sweeps of one command: their folders, and their groups as tasks of a cluster."""

import contextlib
import functools
import itertools
import math
import shlex
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_collections

from launch import _cli
from lsa_jax.errors import InputError
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.write import command_line
from lsa_jax.sweep import catalog, config_files, work
from lsa_jax.sweep.points import Point

_GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"


class Planned(NamedTuple):
    """A sweep of this command; its name is that of its folder below --workdir.

    The name is empty where it is the command's only sweep. `words` are its --config and
    --config.FIELD=VALUE, `config` the settings that all points share.
    """

    name: str
    words: list[str]
    config: ml_collections.ConfigDict
    points: list[Point]
    workdir: Path


class Group(NamedTuple):
    """A group with missing runs: its sweep, its number from 0, its runs.

    `seconds` is the published time of these runs; None where there is none.
    """

    sweep: Planned
    number: int
    runs: int
    seconds: float | None

    @property
    def name(self) -> str:
        """Its name for `launch.groups --groups`."""
        return f"{self.sweep.name}:{self.number}".removeprefix(":")


def planned(*, sweep: bool = True) -> list[Planned]:
    """Returns the sweeps of the command line: of --config, which can name several.

    Without `sweep` each is the one point that its configuration describes. Raises where there is
    none, one is invalid, or two would have the same folder.
    """
    root, named = _cli.workdir().absolute(), _cli.CONFIG.value or [_cli.config_name()]
    lines = [line for one in named for line in config_files.expand(one)]
    if lines == [named]:  # one configuration as it is
        return [Planned("", _cli.configured(), *_cli.configured_points(sweep=sweep), root)]
    if (root / "config.json").exists():
        raise InputError(f"--workdir {root} holds a single sweep; accepted: another folder")
    found: dict[str, Planned] = {}
    for config, *fields in lines:
        name, words = config_files.folder(config, fields), [*_cli.configured(config), *fields]
        if name in found:
            raise InputError(
                f"--config has {config!r}, whose folder {name} another configuration has already; "
                "accepted: each once, in files of different names"
            )
        try:
            points = _cli.configured_points(words, sweep=sweep)
        except InputError as error:
            raise InputError(f"{shlex.join([config, *fields])}: {error}") from None
        found[name] = Planned(name, words, *points, root / name)
    return list(found.values())


def missing(sweeps: Sequence[Planned]) -> list[Group]:
    """Returns the groups with missing runs, or raises where a folder holds another sweep."""
    from lsa_jax.sweep.run import missing_groups

    found = []
    for sweep in sweeps:
        groups = missing_groups(*sweep[2:])
        times = catalog.published_seconds(sweep.words, _GALLERY) if groups else {}
        for number, group in groups.items():
            known = [times[point.id] for point in group if point.id in times]
            seconds = math.fsum(known) if len(known) == len(group) else None
            found.append(Group(sweep, number, len(group), seconds))
    return found


def _costs(groups: Sequence[Group]) -> list[float]:
    """Returns published times, and for other groups that of as many average runs."""
    known = [group for group in groups if group.seconds]
    pace = sum(g.seconds or 0 for g in known) / sum(g.runs for g in known) if known else 1.0
    return [group.seconds or pace * group.runs for group in groups]


def tasks(groups: Sequence[Group], size: int) -> list[list[Group]]:
    """Cuts groups into tasks, each of about the cost of `size` average groups.

    Neighbours stay together, as they often have the same compiled programs. The costliest task
    comes first.
    """
    costs, count = _costs(groups), math.ceil(len(groups) / size)
    cut: dict[int, list[tuple[Group, float]]] = {}
    for group, cost, end in zip(groups, costs, itertools.accumulate(costs), strict=True):
        place = len(cut) if size == 1 else int(count * (end - cost / 2) / sum(costs))
        cut.setdefault(place, []).append((group, cost))
    ordered = sorted(cut.values(), key=lambda task: -sum(cost for _, cost in task))
    return [[group for group, _ in task] for task in ordered]


def describe(of_tasks: Sequence[Sequence[Group]], gpus: int) -> str:
    """Returns the numbers of runs, groups and tasks, the expected time of a task and GPU hours."""
    groups = [group for task in of_tasks for group in task]
    runs, unknown = sum(group.runs for group in groups), [g for g in groups if not g.seconds]
    if not groups:
        return "all runs are done already; nothing to run"
    text = f"{runs} runs in {len(groups)} groups, {len(of_tasks)} tasks"
    if len(unknown) == len(groups):
        words = shlex.join(unknown[0].sweep.words)
        return (
            f"{text}; no time is published for them; an estimate: "
            f"python -m launch.preflight {words} --topology={'h100:1' if gpus else 'cpu'}"
        )
    costs = iter(_costs(groups))
    times = [sum(itertools.islice(costs, len(task))) for task in of_tasks]
    guess = f" ({len(unknown)} groups by the average of the others)" if unknown else ""
    return (
        f"{text}; about {duration(sum(times) / len(times))} a task, {duration(max(times))} the "
        f"longest, {gpus * sum(times) / 3600:.1f} GPU hours in all, as published{guess}"
    )


@contextlib.contextmanager
def recorded(
    sweeps: Sequence[Planned], groups: Sequence[Group], data_dir: Path | None, devices: list[str]
) -> Iterator[None]:
    """Holds the folders of sweeps alone, with the sweeps recorded in them.

    The data of sweeps with one of the groups are read first. `devices` are names for the record.
    Raises where data are missing, or a folder is in use or cannot hold its sweep.
    """
    from lsa_jax.sweep.experiment import load_experiment
    from lsa_jax.sweep.run import recorded_sweep

    with contextlib.ExitStack() as stack:
        for sweep in sweeps:
            experiment, own = load_experiment(sweep.config.experiment), sweep[2:]
            load = functools.cache(functools.partial(experiment.load, sweep.points, data_dir))
            if any(group.sweep.name == sweep.name for group in groups):
                load()
            command = _cli.command(sweep.words)
            stack.enter_context(recorded_sweep(*own, load=load, command=command, devices=devices))
            load.cache_clear()  # the data of one sweep at a time
        if sweeps and sweeps[0].name:
            words = {sweep.name: sweep.words for sweep in sweeps}
            work.record_all(sweeps[0].workdir.parent, words, command_line(sys.argv), data_dir)
        yield
