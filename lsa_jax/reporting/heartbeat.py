"""Heartbeats: the progress of a group of runs, in a file next to its folder."""

import contextlib
import time
from pathlib import Path
from typing import Any, NamedTuple

from lsa_jax.errors import StorageError
from lsa_jax.reporting import files

_INTERVAL = 2.0  # least seconds between two writings
_SUFFIX = ".progress.json"  # next to the folder, in which checkpoints replace each other


class Beat(NamedTuple):
    """The reported progress of a group.

    Attributes:
        runs: the ids of its runs.
        fraction: the share of the group that is done.
        first: the first reported share, from which its pace counts.
        started: time of the first report, in seconds since 1970.
        updated: time of the last report.
    """

    runs: list[str]
    fraction: float
    first: float
    started: float
    updated: float


def _file(directory: Path) -> Path:
    return directory.with_name(directory.name + _SUFFIX)


def remove(directory: Path) -> None:
    """Removes the heartbeat of a group with this folder, once its results are stored."""
    _file(directory).unlink(missing_ok=True)


class Heartbeat:
    """Writes the progress of a group, at most every few seconds; ignores a full disk."""

    def __init__(self, directory: Path, runs: list[str]) -> None:
        """Writes that a group with this folder and these runs has started."""
        self._directory, self._runs = directory, runs
        self._first: float | None = None
        self._started, self._written = time.time(), -_INTERVAL
        self._write(0.0)

    def report(self, fraction: float) -> None:
        """Reports the share of the group that is done; at 1 the heartbeat is removed."""
        if fraction >= 1:
            remove(self._directory)
            return
        if self._first is None:  # with a checkpoint's share, or the compilation
            self._first, self._started = fraction, time.time()
        if time.monotonic() - self._written >= _INTERVAL:
            self._written = time.monotonic()
            self._write(fraction)

    def _write(self, fraction: float) -> None:
        first = fraction if self._first is None else self._first
        beat = Beat(self._runs, fraction, first, self._started, time.time())
        # On a full disk the results, which matter, will raise.
        with contextlib.suppress(StorageError):
            files.write_json(_file(self._directory), beat._asdict())


def read(workdir: Path) -> list[Beat]:
    """Returns the heartbeats of a sweep's unfinished groups, by their folders' names."""
    found = []
    for path in sorted((workdir / "groups").glob(f"*{_SUFFIX}")):
        # A group may end meanwhile, and its file may be of another version.
        with contextlib.suppress(FileNotFoundError, TypeError):
            beat: dict[str, Any] = files.read_object(path, "remove it; it is only for watching")
            found.append(Beat(**beat))
    return found
