"""The state of a running sweep from its folder: finished runs, time left, failures.

Nothing is written there and no lock is taken: read access is enough.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lsa_jax.reporting import files
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.progress import Beat, read_heartbeats

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


def read(workdir: Path, run_ids: list[str], now: float) -> SweepState:
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


def _summary(state: SweepState) -> str:
    """Returns in one line how many runs are done and failed, and how long the others take."""
    parts = [f"{len(state.results)} of {state.total} runs are done"]
    if state.failed:
        parts.append(f"{len(state.failed)} of them failed")
    if state.left is not None:
        parts.append(f"about {duration(state.left)} left")
    return ", ".join(parts)


def _running(state: SweepState) -> list[str]:
    """Returns a line on each group that is not done."""
    lines = []
    for beat in [*state.beats, *state.silent]:
        others = f" and {len(beat.runs) - 1} more" if len(beat.runs) > 1 else ""
        heard = f"reported {duration(max(state.now - beat.updated, 0))} ago"
        if beat in state.silent:
            heard += ", so it may have been stopped; the same command of the sweep goes on with it"
        lines.append(f"{beat.runs[0]}{others}: {100 * beat.fraction:.0f} %, {heard}")
    if not lines and not state.done:
        lines.append("no group reports that it runs")
    return lines


def text(state: SweepState) -> str:
    """Returns the state as text for a terminal."""
    filled = round(len(state.results) / state.total * _BAR)
    lines = [f"[{'#' * filled}{'-' * (_BAR - filled)}] {_summary(state)}"]
    lines += [f"running  {line}" for line in _running(state)]
    lines += [f"failed   {result['id']}: {result.get('message', '')}" for result in state.failed]
    return "\n".join(lines)
