"""Times two ways of computing one thing by turns, with the memory that each of them takes."""

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

# Before a run that is measured, a pause of this share of the run before it, and at most so many
# seconds: after a peer that had freed 11 GB, the same run took a tenth to a half longer at once.
_PAUSE = 0.15
_LONGEST_PAUSE = 10.0


class Contest(NamedTuple):
    """One thing to compute, by us and by a peer.

    Attributes:
        work: what is computed.
        size: of how much.
        count: how many of what the rates are about (pairs, steps) one call computes.
        ours: computes it.
        peer: name of the other way.
        peers: other ways by the name of their setting (batch size, method); the fastest one counts.
        traced: the same as `ours` where JAX can trace it, or by `kernels.gram`, so that its
            operations can be counted; None where the host computes it.
    """

    work: str
    size: str
    count: int
    ours: Callable[[], Any]
    peer: str
    peers: dict[str, Callable[[], Any]]
    traced: Callable[[], Any] | None = None


class Skipped(NamedTuple):
    """One thing that cannot be measured here.

    Attributes:
        work: what would be computed.
        reason: what is missing.
    """

    work: str
    reason: str


def measure(contest: Contest, rounds: int) -> dict[str, Any]:
    """Runs a contest.

    Every way runs once unmeasured, to compile, and once for its memory. The peer that is fastest in
    that is then run by turns with ours, each after a pause in which the system can take back what
    the other one has freed; rates are from the medians.

    Args:
        contest: what to run.
        rounds: turns of each.

    Returns:
        One row: work, size, ours_s, ours_per_s, peer (with its best setting), peer_per_s, ratio,
        max_rel_diff (largest difference over the largest value; the peer's float32 errors count
        as well, which reach some 1e-4 on the diagonal of neural-tangents' ReLU kernels),
        ours_peak_mb and peer_peak_mb (growth of the process while computing; None where the system
        does not tell).

    Raises:
        NumericalError: the two results are not both finite.
    """
    own = _run(contest.ours)
    peers = {name: _run(run) for name, run in contest.peers.items()}
    best = min(peers, key=lambda name: peers[name].seconds)
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    *_, last = peers.values()
    before = last.seconds
    for _ in range(rounds):
        for side, run in (("ours", contest.ours), ("peer", contest.peers[best])):
            time.sleep(min(_PAUSE * before, _LONGEST_PAUSE))
            before = _seconds(run)
            times[side].append(before)
    ours_s, peer_s = (statistics.median(values) for values in times.values())
    return {
        "work": contest.work,
        "size": contest.size,
        "ours_s": ours_s,
        "ours_per_s": contest.count / ours_s,
        "peer": f"{contest.peer}, {best}",
        "peer_per_s": contest.count / peer_s,
        "ratio": peer_s / ours_s,
        "max_rel_diff": _difference(contest.work, own.result, peers[best].result),
        "ours_peak_mb": own.peak_mb,
        "peer_peak_mb": peers[best].peak_mb,
    }


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


class _Run(NamedTuple):
    """What a run gave, how long it took, and how far the resident memory grew, in MB."""

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
    """Sets the high-water mark to the memory in use, which it returns; None beside Linux."""
    _give_back_freed()
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return None
    return _resident("VmRSS")


def _give_back_freed() -> None:
    """Has the C library give back what was freed, which a run would use before it grew."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
    if trim is not None:
        trim(0)


def _resident(name: str) -> float:
    lines = _STATUS.read_text().splitlines()
    return float(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


def _difference(work: str, ours: np.ndarray, expected: np.ndarray) -> float:
    difference = float(np.abs(ours - expected).max() / np.abs(expected).max())
    if not np.isfinite(difference):
        raise NumericalError(f"{work}: the results are not all finite")
    return difference
