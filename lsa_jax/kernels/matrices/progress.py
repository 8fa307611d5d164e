"""Progress of a kernel matrix, and the expected time of a long one."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from lsa_jax.reporting.machine import duration
from lsa_jax.reporting.progress import Progress

# A function of the fraction done, or whether to show a bar; None shows one where it takes long.
Report = Callable[[float], None] | bool | None

# Expected seconds from which a matrix is long.
_LONG = 10.0


@contextlib.contextmanager
def reporter(
    progress: Report, shape: tuple[int, int], shown: bool, devices: int, before: int, total: int
) -> Iterator[Callable[[int], None]]:
    """Yields a function that reports how many tiles this call has computed.

    Args:
        progress: as `gram` takes it.
        shape: of the matrix.
        shown: whether this process shows a bar.
        devices: tiles that are computed at the same time.
        before: tiles that are there already.
        total: tiles in all.
    """
    if callable(progress):
        yield lambda done: progress((before + done) / total)
    elif progress:
        with Progress(total - before, unit="tile", shown=shown) as bar:
            yield lambda done: bar.advance_to(done, f"of {total} in all")
    elif progress is None and shown and sys.stderr.isatty():
        with contextlib.ExitStack() as stack:
            yield _if_long(shape, min(devices, total - before), total - before, stack)
    else:
        yield lambda done: None


def _if_long(
    shape: tuple[int, int], first: int, total: int, stack: contextlib.ExitStack
) -> Callable[[int], None]:
    """Returns a function that starts a bar where the first tiles show that the matrix is long."""
    begun, bars = time.monotonic(), []

    def report(done: int) -> None:
        if done == first:
            expected = (time.monotonic() - begun) * total / done
            if expected > _LONG:
                words = f"kernel matrix {shape[0]} x {shape[1]}: about {duration(expected)}"
                print(words, file=sys.stderr, flush=True)
                bars.append(stack.enter_context(Progress(total, unit="tile")))
        if bars:
            bars[0].advance_to(done, f"of {shape[0]} x {shape[1]}")

    return report
