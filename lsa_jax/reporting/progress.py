"""How far a sweep, or another long piece of work, is, and how long it still takes."""

import sys
import time

import tqdm


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class Progress:
    """A bar on a terminal; elsewhere (a log file) a line every `interval` seconds.

    Counts points; a fraction of a group counts as that fraction of its points. The time left is
    taken from the pace so far.
    """

    def __init__(
        self, total: int, interval: float = 15.0, unit: str = "run", *, shown: bool = True
    ) -> None:
        """Starts the clock on `total` points, called `unit`s, and shows nothing if not `shown`."""
        self._shown = shown
        self._total, self._interval, self._units = total, interval, f"{unit}s"
        self._done = 0.0
        self._start = self._last_line = time.monotonic()
        self._bar = tqdm.tqdm(
            total=total,
            unit=unit,
            disable=None if shown else True,  # None: where there is no terminal
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}",
            desc=f"0 {self._units}",
        )

    def advance_to(self, done: float, doing: str) -> None:
        """Tells that `done` points of the total are finished, and what is going on."""
        self._bar.set_description_str(f"{int(done)} of {self._total} {self._units}", refresh=False)
        self._bar.set_postfix_str(doing, refresh=False)
        self._bar.update(done - self._done)
        self._done = done
        now = time.monotonic()
        if (
            self._shown
            and self._bar.disable
            and now - self._last_line >= self._interval
            and done > 0
        ):
            self._last_line = now
            spent = now - self._start
            left = spent / done * (self._total - done)
            print(
                f"{done:.1f} of {self._total} {self._units}, {_clock(spent)} spent, "
                f"about {_clock(left)} left: {doing}",
                file=sys.stderr,
                flush=True,
            )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()
