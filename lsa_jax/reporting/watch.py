"""The state of a running sweep from its folder: finished runs, curves, time left, failures.

Nothing is written there and no lock is taken: read access is enough.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lsa_jax.reporting import courses, files, write
from lsa_jax.reporting.courses import HEIGHT, Course
from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.progress import Beat, read_heartbeats

_SILENT = 600.0  # seconds after which a group counts as stopped
_BLOCKS = "▁▂▃▄▅▆▇█"
_BAR, _CURVE = 40, 24  # characters
_SHOWN = 12  # curves on a terminal


class SweepState(NamedTuple):
    """A sweep as its folder shows it at one moment."""

    title: str  # the heading of its report
    total: int  # how many runs it has
    results: pd.DataFrame  # one row a run that is done, the first to be done first
    beats: list[Beat]  # of running groups
    silent: list[Beat]  # without a recent report: of stopped groups, or in a long step
    left: float | None  # seconds until all is done at the pace so far; None where it is unknown
    metric: str | None  # of the curves
    curves: dict[str, Course]  # by run id
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
        spent = sum(beat.updated - beat.started for beat in beats)
        gained = sum((beat.fraction - beat.first) * len(beat.runs) for beat in beats)
        if gained <= 0:
            return None
        each = spent / gained
    return max(missing, 0.0) * each / max(1, len(beats))


def read(workdir: Path, run_ids: list[str], title: str, now: float) -> SweepState:
    """Reads the state of a sweep from its folder, for all its points and a time since 1970.

    Raises:
        InputError: a result is damaged.
    """
    results = files.read_results(workdir, run_ids)
    if len(results):
        ends = [
            (files.run_directory(workdir, name) / "result.json").stat().st_mtime
            for name in results["id"]
        ]
        results = results.assign(_end=ends).sort_values("_end", kind="stable").drop(columns="_end")
    done = set(results["id"]) if len(results) else set()
    # A group that was killed between its results and the removal of its heartbeat is done.
    beats = [beat for beat in read_heartbeats(workdir) if not done.issuperset(beat.runs)]
    silent = [beat for beat in beats if now - beat.updated > _SILENT]
    going = [beat for beat in beats if beat not in silent]
    rows = {name: write.metrics(workdir, name) for name in (results["id"] if len(results) else [])}
    metric, curves = courses.draw(rows)
    left = None if len(results) == len(run_ids) else _time_left(results, going, len(run_ids))
    return SweepState(title, len(run_ids), results, going, silent, left, metric, curves, now)


def summary(state: SweepState) -> str:
    """Returns in one line how many runs are done and failed, and how long the others take."""
    parts = [f"{len(state.results)} of {state.total} runs are done"]
    if state.failed:
        parts.append(f"{len(state.failed)} of them failed")
    if state.left is not None:
        parts.append(f"about {duration(state.left)} left")
    return ", ".join(parts)


def going_on(state: SweepState) -> list[str]:
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


def _blocks(course: Course) -> str:
    """Returns a curve as a line of characters."""
    heights = [float(point.partition(",")[2]) for point in course.points.split()]
    width = min(_CURVE, len(heights))
    picked = [heights[round(i * (len(heights) - 1) / max(1, width - 1))] for i in range(width)]
    return "".join(_BLOCKS[round((1 - y / HEIGHT) * (len(_BLOCKS) - 1))] for y in picked)


def text(state: SweepState) -> str:
    """Returns the state as text for a terminal."""
    share = len(state.results) / state.total
    filled = round(share * _BAR)
    lines = [state.title, f"[{'#' * filled}{'-' * (_BAR - filled)}] {summary(state)}"]
    lines += [f"running  {line}" for line in going_on(state)]
    lines += [f"failed   {result['id']}: {result.get('message', '')}" for result in state.failed]
    shown = [name for name in reversed(list(state.curves))][:_SHOWN]
    if shown:
        lines.append(f"{state.metric}, the latest of {len(state.curves)} runs first")
        width = max(map(len, shown))
        for name in shown:
            curve = state.curves[name]
            end = curve.about.partition("; ")[0].rpartition(", ")[2].partition(" at ")[0]
            lines.append(f"  {name.ljust(width)}  {_blocks(curve).ljust(_CURVE)}  {end}")
    return "\n".join(lines)


def html(state: SweepState, workdir: Path, every: float) -> str:
    """Returns a page that reloads itself every so many seconds, until all runs are done."""
    metric, columns, rows = None, [], []
    if len(state.results):
        metric, columns, rows = write.run_rows(workdir, state.results)
    return (
        write.environment()
        .get_template("watch.html")
        .render(
            title=state.title,
            summary=summary(state),
            percent=round(100 * len(state.results) / state.total),
            refresh=None if state.done else max(1, round(every)),
            going=going_on(state),
            failed=state.failed,
            metric=metric,
            columns=columns,
            rows=rows[::-1],
        )
    )
