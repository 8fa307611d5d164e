"""Progress of a sweep, or of other long work, and the time that is left."""

import sys
import time

import tqdm


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def _shows_bars() -> bool:
    """Whether errors go to a terminal, or to a notebook, where a line can be written again."""
    return sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel")


class Progress:
    """A bar on a terminal or in a notebook; elsewhere a line every `interval` seconds.

    Counts points; a fraction of a group counts as that fraction of its points. The time left comes
    from the pace since the first report: before it programs are compiled, and a checkpoint can have
    a part of the work.
    """

    def __init__(
        self, total: int, interval: float = 15.0, unit: str = "run", *, shown: bool = True
    ) -> None:
        """Starts the clock on `total` points, called `unit`s, and shows nothing if not `shown`."""
        self._shown = shown
        self._total, self._interval, self._units = total, interval, f"{unit}s"
        self._start = self._last_line = time.monotonic()
        self._done, self._first = 0.0, (0.0, 0.0)  # points at the first report, and its time
        self._bar = tqdm.tqdm(
            total=total,
            unit=unit,
            disable=not shown or not _shows_bars(),
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}",
            desc=f"0 {self._units}",
        )

    def advance_to(self, done: float, doing: str) -> None:
        """Reports that `done` points of the total are finished, and the current work."""
        now = time.monotonic()
        if not self._done:
            self._first = done, now
        gained, spent = done - self._first[0], now - self._first[1]
        about = []
        if gained > 0 or done >= self._total:
            left = (self._total - done) * spent / gained if done < self._total else 0.0
            about = [f"about {_clock(left)} left"]
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
