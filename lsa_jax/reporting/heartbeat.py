"""How far a group of runs is, left beside its folder for whoever watches it."""

import time
from pathlib import Path
from typing import Any, NamedTuple

from lsa_jax.errors import StorageError
from lsa_jax.reporting import files

_INTERVAL = 2.0  # seconds between two writings at the least
_SUFFIX = ".progress.json"  # beside the folder, in which checkpoints replace each other


class Beat(NamedTuple):
    """What a group has told of itself.

    Attributes:
        runs: the ids of its runs.
        fraction: how much of the group is done.
        first: what was told first, from which on its pace counts.
        started: when that was, in seconds since 1970.
        updated: when `fraction` was told.
    """

    runs: list[str]
    fraction: float
    first: float
    started: float
    updated: float


def _file(directory: Path) -> Path:
    return directory.with_name(directory.name + _SUFFIX)


def remove(directory: Path) -> None:
    """Removes what a group with this folder has told, once its results are stored."""
    _file(directory).unlink(missing_ok=True)


class Heartbeat:
    """Writes how far a group is, at most every few seconds; a disk that is full is let be."""

    def __init__(self, directory: Path, runs: list[str]) -> None:
        """Tells that a group with this folder and these runs is taken up."""
        self._directory, self._runs = directory, runs
        self._first: float | None = None
        self._started, self._written = time.time(), -_INTERVAL
        self._write(0.0)

    def tell(self, fraction: float) -> None:
        """Tells how much of the group is done; nothing is left of it when all is."""
        if fraction >= 1:
            remove(self._directory)
            return
        if self._first is None:  # what a checkpoint had, and the first step with its compilation
            self._first, self._started = fraction, time.time()
        if time.monotonic() - self._written >= _INTERVAL:
            self._written = time.monotonic()
            self._write(fraction)

    def _write(self, fraction: float) -> None:
        first = fraction if self._first is None else self._first
        beat = Beat(self._runs, fraction, first, self._started, time.time())
        try:
            files.write_json(_file(self._directory), beat._asdict())
        except StorageError:
            pass  # results that cannot be stored will say so


def read(workdir: Path) -> list[Beat]:
    """Returns what the groups of a sweep have told that are not done, by their folders' names."""
    found = []
    for path in sorted((workdir / "groups").glob(f"*{_SUFFIX}")):
        try:
            told: dict[str, Any] = files.read_object(path, "remove it; it is only for watching")
            found.append(Beat(**told))
        except FileNotFoundError:
            continue  # the group has ended meanwhile
        except TypeError:
            continue  # of another version
    return found
