"""How far a sweep, or another long piece of work, is, and how long it still takes."""

import math
import sys
import time
from typing import NamedTuple

import tqdm


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


class _Work(NamedTuple):
    """Points that are done, and the seconds that they took."""

    done: float
    seconds: float

    @property
    def pace(self) -> float:
        """Points a second."""
        return self.done / self.seconds if self.seconds > 0 else math.inf

    def since(self, earlier: "_Work") -> "_Work":
        """Returns what was done after an earlier moment."""
        return _Work(self.done - earlier.done, self.seconds - earlier.seconds)


class _Pace:
    """How fast points are done here, without what a checkpoint had of a group.

    What a group tells first may be from a checkpoint, or its first step. So a group counts in full,
    or from what it told first on, whichever is slower: with what a checkpoint had the one would be
    far too fast, and the other leaves out what was compiled. One that told its end alone counts in
    full, once it is over.
    """

    def __init__(self) -> None:
        self._clock = time.monotonic()
        self._before = _Work(0.0, 0.0)  # of the groups that are over, what counts
        self._group = ""
        self._begun = self._now = _Work(0.0, 0.0)  # all that there was then, of the group, and now
        self._first: _Work | None = None  # what there was when the group told something first

    def tell(self, done: float, group: str) -> None:
        """Tells that so many points are done, the last of them in this group."""
        now = _Work(done, time.monotonic() - self._clock)
        if self._first is None or group != self._group:
            self._before, self._begun = self._counted(over=True), self._now
            self._group, self._first = group, now
        self._now = now

    def left(self, total: float) -> float | None:
        """Returns the seconds that the rest takes; None where nothing was seen to be done yet."""
        if self._now.done >= total:
            return 0.0
        counted = self._counted(over=False)
        return (total - self._now.done) / counted.pace if counted.done > 0 else None

    def _counted(self, *, over: bool) -> _Work:
        """Returns the work that counts, with that of the last group, which may be over."""
        if self._first is None:
            return self._before
        whole, rest = self._now.since(self._begun), self._now.since(self._first)
        own = min(whole, rest, key=lambda work: work.pace) if rest.done > 0 else whole
        if rest.done <= 0 and not over:
            return self._before
        return _Work(self._before.done + own.done, self._before.seconds + own.seconds)


class Progress:
    """A bar on a terminal; elsewhere (a log file) a line every `interval` seconds.

    Counts points; a fraction of a group counts as that fraction of its points. The time left is
    taken from the pace so far, of what is computed here.
    """

    def __init__(
        self, total: int, interval: float = 15.0, unit: str = "run", *, shown: bool = True
    ) -> None:
        """Starts the clock on `total` points, called `unit`s, and shows nothing if not `shown`."""
        self._shown = shown
        self._total, self._interval, self._units = total, interval, f"{unit}s"
        self._done, self._pace = 0.0, _Pace()
        self._start = self._last_line = time.monotonic()
        self._bar = tqdm.tqdm(
            total=total,
            unit=unit,
            disable=None if shown else True,  # None: where there is no terminal
            bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}{postfix}",
            desc=f"0 {self._units}",
        )

    def advance_to(self, done: float, doing: str) -> None:
        """Tells that `done` points of the total are finished, and what is going on."""
        self._pace.tell(done, doing)
        left = self._pace.left(self._total)
        about = [] if left is None else [f"about {_clock(left)} left"]
        self._bar.set_description_str(f"{int(done)} of {self._total} {self._units}", refresh=False)
        self._bar.set_postfix_str(": ".join([*about, doing]), refresh=False)
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
            parts = [f"{done:.1f} of {self._total} {self._units}"]
            parts += [f"{_clock(now - self._start)} spent", *about]
            print(f"{', '.join(parts)}: {doing}", file=sys.stderr, flush=True)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()
