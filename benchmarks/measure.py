"""Times two ways of computing one result by turns, with the memory of each."""

import ctypes
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from lsa_jax.errors import NumericalError

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")

# A pause before each timed run, as a share of the run before it and at most so many seconds.
# Directly after a peer that had freed 11 GB, the same run took a tenth to a half longer.
_PAUSE = 0.15
_LONGEST_PAUSE = 10.0


class Contest(NamedTuple):
    """One work, computed by us and by a peer."""

    work: str
    size: str  # in words
    count: int  # pairs or steps of one call, for the rates
    ours: Callable[[], Any]
    peer: str  # name of the other library or way
    peers: dict[str, Callable[[], Any]]  # by setting (batch size, method); the fastest one counts
    # The same as `ours` where JAX can trace it, or by `kernels.gram`, so that its operations can be
    # counted; None where the host computes it.
    traced: Callable[[], Any] | None = None


class Skipped(NamedTuple):
    """A work that cannot be timed here, and the reason."""

    work: str
    reason: str


def measure(contest: Contest, rounds: int) -> dict[str, Any]:
    """Runs a contest.

    Each computation runs once to compile and once for its memory. The fastest peer then runs by
    turns with ours, each after a pause for the system to take back freed memory. Rates are from
    medians.

    Args:
        contest: from a suite.
        rounds: turns of each.

    Returns:
        One row: work, size, ours_s, ours_per_s, peer (with its best setting), peer_per_s, ratio,
        ours_processor_s and processor_ratio (of the least processor times, which other work on the
        machine changes little), max_rel_diff (largest difference over the largest value, with the
        peer's float32 errors: some 1e-4 on the diagonal of neural-tangents' ReLU kernels),
        ours_peak_mb and peer_peak_mb (growth of the process while computing; None where it is
        unknown).

    Raises:
        NumericalError: the two results are not both finite.
    """
    own = _run(contest.ours)
    peers = {name: _run(run) for name, run in contest.peers.items()}
    best = min(peers, key=lambda name: peers[name].seconds)
    times: dict[str, list[_Seconds]] = {"ours": [], "peer": []}
    *_, last = peers.values()
    before = last.seconds
    for _ in range(rounds):
        for side, run in (("ours", contest.ours), ("peer", contest.peers[best])):
            time.sleep(min(_PAUSE * before, _LONGEST_PAUSE))
            times[side].append(_seconds(run))
            before = times[side][-1].clock
    ours_s, peer_s = (statistics.median(t.clock for t in side) for side in times.values())
    ours_cpu, peer_cpu = (min(t.processor for t in side) for side in times.values())
    return {
        "work": contest.work,
        "size": contest.size,
        "ours_s": ours_s,
        "ours_per_s": contest.count / ours_s,
        "peer": f"{contest.peer}, {best}",
        "peer_per_s": contest.count / peer_s,
        "ratio": peer_s / ours_s,
        "ours_processor_s": ours_cpu,
        "processor_ratio": peer_cpu / ours_cpu,
        "max_rel_diff": _difference(contest.work, own.result, peers[best].result),
        "ours_peak_mb": own.peak_mb,
        "peer_peak_mb": peers[best].peak_mb,
    }


class _Seconds(NamedTuple):
    """The time of a run by the clock, and of all its threads on processors."""

    clock: float
    processor: float


def _seconds(run: Callable[[], Any]) -> _Seconds:
    start = time.perf_counter(), time.process_time()
    jax.block_until_ready(run())
    return _Seconds(time.perf_counter() - start[0], time.process_time() - start[1])


class _Run(NamedTuple):
    """The result of a run, its time, and the growth of the resident memory in MB."""

    result: np.ndarray
    seconds: float
    peak_mb: float | None


def _run(run: Callable[[], Any]) -> _Run:
    """Runs twice, once to compile."""
    jax.block_until_ready(run())
    before, start = _reset_peak(), time.perf_counter()
    result = jax.block_until_ready(run())
    seconds = time.perf_counter() - start
    peak = None if before is None else max(0.0, _resident("VmHWM") - before)
    return _Run(np.asarray(result), seconds, peak)


def _reset_peak() -> float | None:
    """Sets the high-water mark to the memory in use, which it returns; None outside Linux."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:  # freed memory would be used again without growth
        trim(0)
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return None
    return _resident("VmRSS")


def _resident(name: str) -> float:
    lines = _STATUS.read_text().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def _difference(work: str, ours: np.ndarray, expected: np.ndarray) -> float:
    difference = float(np.abs(ours - expected).max() / np.abs(expected).max())
    if not np.isfinite(difference):
        raise NumericalError(f"{work}: the results are not all finite")
    return difference
