"""Progress of a sweep, or of other long work, and the time that is left."""

import statistics
import sys
import time
from collections.abc import Mapping

import tqdm


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class Progress:
    """A bar on a terminal; elsewhere (a log file) a line every `interval` seconds.

    Counts points; a fraction of a group counts as that fraction of its points. The time left comes
    from the pace of each kind of points since its first report: before it programs are compiled,
    and a checkpoint can have a part of the work. Kinds without a pace have the mean of the others.
    """

    def __init__(
        self,
        total: int,
        interval: float = 15.0,
        unit: str = "run",
        *,
        shown: bool = True,
        kinds: Mapping[str, float] | None = None,
    ) -> None:
        """Starts the clock.

        Args:
            total: number of points.
            interval: seconds between two lines.
            unit: name of a point.
            shown: whether anything is printed.
            kinds: points of each kind, where some take longer than others.
        """
        self._shown = shown
        self._total, self._interval, self._units = total, interval, f"{unit}s"
        self._start = self._last_line = self._last = time.monotonic()
        self._done = 0.0
        self._left = dict(kinds or {"": float(total)})  # points, by kind
        self._paces: dict[str, tuple[float, float]] = {}  # points and seconds, by kind
        self._bar = tqdm.tqdm(
            total=total,
            unit=unit,
            disable=None if shown else True,  # None: where there is no terminal
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}",
            desc=f"0 {self._units}",
        )

    def _seconds_left(self) -> float | None:
        """Returns the time left; None where no kind has a pace yet."""
        known = {k: spent / gained for k, (gained, spent) in self._paces.items() if gained > 0}
        if not known:
            return None
        # Of times that differ by orders of magnitude the geometric mean is in the middle.
        mean = statistics.geometric_mean(max(pace, 1e-9) for pace in known.values())
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
            self._paces[kind] = 0.0, 0.0
        self._last = now
        left = 0.0 if done >= self._total else self._seconds_left()
        about = [] if left is None else [f"about {_clock(left)} left"]
        self._bar.set_description_str(f"{int(done)} of {self._total} {self._units}", refresh=False)
        self._bar.set_postfix_str(": ".join([*about, doing]), refresh=False)
        self._bar.update(done - self._done)
        self._done = done
        is_due = self._shown and self._bar.disable and now - self._last_line >= self._interval
        if is_due and done > 0:
            self._last_line = now
            parts = [f"{done:.1f} of {self._total} {self._units}"]
            parts += [f"{_clock(now - self._start)} spent", *about]
            print(f"{', '.join(parts)}: {doing}", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()
