"""Progress of a kernel matrix."""

import contextlib
import sys
from collections.abc import Callable, Iterator

from lsa_jax.reporting.progress import Progress

# A function of the fraction done, or whether to show a bar; None shows one where it takes long.
Report = Callable[[float], None] | bool | None

# Seconds after which a matrix is long.
_LONG = 10.0


@contextlib.contextmanager
def reporter(
    progress: Report, shape: tuple[int, int], shown: bool, before: int, total: int
) -> Iterator[Callable[[int], None]]:
    """Yields a function that reports how many tiles this call has computed.

    `before` of the `total` tiles are there already; only a process that is `shown` shows a bar.
    """
    if callable(progress):
        yield lambda done: progress((before + done) / total)
        return
    shown &= sys.stderr.isatty() if progress is None else progress
    delay = _LONG if progress is None else 0.0
    with Progress(total - before, unit="tile", shown=shown, delay=delay) as bar:
        yield lambda done: bar.advance_to(done, f"of {shape[0]} x {shape[1]}")
