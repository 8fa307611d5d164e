"""Progress of a sweep: a bar with the time that is left, heartbeats of groups, and its state.

The state of a running sweep is read from its folder: nothing is written there and no lock is taken,
so that read access is enough.
"""

import contextlib
import statistics
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import tqdm

from lsa_jax.checks import is_number
from lsa_jax.errors import StorageError
from lsa_jax.reporting import files
from lsa_jax.reporting.machine import duration


def _middle(paces: Iterable[float]) -> float:
    """Returns the geometric mean: paces of kinds differ by orders of magnitude."""
    return statistics.geometric_mean(max(pace, 1e-9) for pace in paces)


def _shows_bars() -> bool:
    """Whether errors go to a terminal, or to a notebook, where a line can be written again."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")


class Progress:
    """A bar on a terminal or in a notebook; elsewhere a line every `interval` seconds.

    Counts points; a fraction of a group counts as that fraction of its points. The time left comes
    from the pace of each kind of points since its first report: before it programs are compiled,
    and a checkpoint can have a part of the work. A kind with one report has the mean pace of the
    others, or that of its report where this is faster; kinds without a report have the mean.
    """

    def __init__(
        self,
        total: int,
        interval: float = 15.0,
        unit: str = "run",
        *,
        shown: bool = True,
        delay: float = 0.0,
        kinds: Mapping[str, float] | None = None,
    ) -> None:
        """Starts the clock for so many points, with a line every `interval` seconds.

        `unit` names a point; `kinds` has the points of each kind, where some take longer than
        others; nothing is printed unless `shown`, and a bar appears after `delay` seconds.
        """
        self._shown = shown
        self._total, self._interval, self._units = total, interval, f"{unit}s"
        self._start = self._last_line = self._last = time.monotonic()
        self._done = 0.0
        self._left = dict(kinds or {"": float(total)})  # points, by kind
        self._paces: dict[str, tuple[float, float]] = {}  # points and seconds, by kind
        self._first: dict[str, float] = {}  # seconds a point until the first report, by kind
        self._bar = tqdm.tqdm(
            total=total,
            unit=unit,
            disable=not shown or not _shows_bars(),
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}",
            desc=f"0 {self._units}",
            delay=delay,
        )

    def _seconds_left(self) -> float | None:
        """Returns the time left; None where no kind has a pace yet."""
        known = {k: spent / gained for k, (gained, spent) in self._paces.items() if gained > 0}
        if not known:
            return None
        mean = _middle(known.values())
        known = {kind: min(pace, mean) for kind, pace in self._first.items()} | known
        mean = _middle(known.values())
        return sum(max(left, 0.0) * known.get(kind, mean) for kind, left in self._left.items())

    def advance_to(self, done: float, doing: str, kind: str = "") -> None:
        """Reports that `done` points of the total are finished, and the current work and kind."""
        now = time.monotonic()
        gained, spent = done - self._done, now - self._last
        self._left[kind] -= gained
        if kind in self._paces:
            points, seconds = self._paces[kind]
            self._paces[kind] = points + gained, seconds + spent
        elif gained > 0:
            self._paces[kind], self._first[kind] = (0.0, 0.0), spent / gained
        self._last = now
        left = 0.0 if done >= self._total else self._seconds_left()
        about = [] if left is None else [f"about {duration(left)} left"]
        self._bar.set_description_str(f"{int(done)} of {self._total} {self._units}", refresh=False)
        self._bar.set_postfix_str(": ".join([*about, doing]), refresh=False)
        self._done = done
        is_due = self._shown and self._bar.disable and now - self._last_line >= self._interval
        with contextlib.suppress(OSError):  # a terminal that has gone does not end the work
            self._bar.update(gained)
            if is_due and done > 0:
                self._last_line = now
                parts = [f"{done:.1f} of {self._total} {self._units}"]
                parts += [f"{duration(now - self._start)} spent", *about]
                print(f"{', '.join(parts)}: {doing}", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        with contextlib.suppress(OSError):
            self._bar.close()


# --- heartbeats of groups, in files --------------------------------------------------------------

_INTERVAL = 2.0  # least seconds between two writings
_SUFFIX = ".progress.json"  # next to the folder, in which checkpoints replace each other


class Beat(NamedTuple):
    """The reported progress of a group; times are in seconds since 1970."""

    runs: list[str]  # ids
    fraction: float  # the share of the group that is done
    first: float  # the first reported share, from which its pace counts
    started: float  # time of the first report
    updated: float  # time of the last report


def _file(directory: Path) -> Path:
    return directory.with_name(directory.name + _SUFFIX)


def remove_heartbeat(directory: Path) -> None:
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
            remove_heartbeat(self._directory)
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


def read_heartbeats(workdir: Path) -> list[Beat]:
    """Returns the heartbeats of a sweep's unfinished groups, by their folders' names."""
    found = []
    for path in sorted((workdir / "groups").glob(f"*{_SUFFIX}")):
        # A group may end meanwhile, and its file may be of another version.
        with contextlib.suppress(FileNotFoundError, TypeError):
            read: dict[str, Any] = files.read_object(path, "remove it; it is only for watching")
            beat = Beat(**read)
            if isinstance(beat.runs, list) and beat.runs and all(map(is_number, beat[1:])):
                found.append(beat)
    return found


# --- the state of a sweep, from its folder -------------------------------------------------------

_SILENT = 600.0  # seconds after which a group counts as stopped
_BAR = 40  # characters


class SweepState(NamedTuple):
    """A sweep as its folder shows it at one moment."""

    total: int  # how many runs it has
    results: pd.DataFrame  # one row a run that is done
    beats: list[Beat]  # of running groups
    silent: list[Beat]  # without a recent report: of stopped groups, or in a long step
    left: float | None  # seconds until all is done at the pace so far; None where it is unknown
    now: float  # seconds since 1970

    @property
    def done(self) -> bool:
        """Whether no run is missing."""
        return len(self.results) == self.total

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The results of runs that failed."""
        if self.results.empty:
            return []
        return self.results[self.results["status"] == "failed"].to_dict("records")

    def __str__(self) -> str:
        filled = round(len(self.results) / self.total * _BAR)
        parts = [f"{len(self.results)} of {self.total} runs are done"]
        parts += [f"{len(self.failed)} of them failed"] if self.failed else []
        parts += [] if self.left is None else [f"about {duration(self.left)} left"]
        lines = [f"[{'#' * filled}{'-' * (_BAR - filled)}] {', '.join(parts)}"]
        for beat in [*self.beats, *self.silent]:
            others = f" and {len(beat.runs) - 1} more" if len(beat.runs) > 1 else ""
            heard = f"reported {duration(max(self.now - beat.updated, 0))} ago"
            if beat in self.silent:
                heard += ", so it may have been stopped; the sweep's same command goes on with it"
            lines.append(f"running  {beat.runs[0]}{others}: {100 * beat.fraction:.0f} %, {heard}")
        if len(lines) == 1 and not self.done:
            lines.append("running  no group reports that it runs")
        lines += [f"failed   {result['id']}: {result.get('message', '')}" for result in self.failed]
        return "\n".join(lines)


def _time_left(results: pd.DataFrame, beats: list[Beat], total: int) -> float | None:
    """Returns the seconds that missing runs take, shared by the running groups.

    A run takes the mean time of finished runs; before there are any, running groups give the pace.
    """
    done = set(results["id"]) if len(results) else set()
    going = [(beat, [run for run in beat.runs if run not in done]) for beat in beats]
    missing = total - len(results) - sum(beat.fraction * len(runs) for beat, runs in going)
    if len(results):
        each = float(results["seconds"].mean())
    else:
        spent = sum(max(beat.updated - beat.started, 0.0) for beat in beats)  # clocks are set back
        gained = sum((beat.fraction - beat.first) * len(beat.runs) for beat in beats)
        if gained <= 0 or spent <= 0:
            return None
        each = spent / gained
    return max(missing, 0.0) * each / max(1, len(beats))


def read_state(workdir: Path, run_ids: list[str], now: float) -> SweepState:
    """Reads the state of a sweep from its folder, for all its points and a time since 1970.

    Raises:
        InputError: a result is damaged.
    """
    results = files.read_results(workdir, run_ids)
    done = set(results["id"]) if len(results) else set()
    # A group that was killed between its results and the removal of its heartbeat is done.
    beats = [beat for beat in read_heartbeats(workdir) if not done.issuperset(beat.runs)]
    silent = [beat for beat in beats if now - beat.updated > _SILENT]
    going = [beat for beat in beats if beat not in silent]
    left = None if len(results) == len(run_ids) else _time_left(results, going, len(run_ids))
    return SweepState(len(run_ids), results, going, silent, left, now)
