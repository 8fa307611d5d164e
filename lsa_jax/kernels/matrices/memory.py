"""Free memory and disk space, checked before work starts."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import jax

from lsa_jax.errors import InputError
from lsa_jax.reporting.machine import count_cores

# Bytes that computing a matrix may take on the host in addition to the matrix, by default.
_HOST_LIMIT = 1e9

# Bytes that a thread should have: small tiles repeat much work for few pairs.
_THREAD_MEMORY = 1e8

# Share of free memory that a tile may take. An accelerator holds two tiles' arguments and results,
# and the compiler's account leaves out the allocator's losses.
_SHARE = 0.5

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUPS = Path("/proc/self/cgroup")


def host_available() -> float:
    """Returns the bytes that are free on the host, or left of a job's share."""
    return min(_free(), _left_of_share())


def _free() -> float:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    values = dict(line.split(":") for line in lines)
    return 1024.0 * int(values["MemAvailable"].split()[0])


def _left_of_share() -> float:
    """Returns the bytes left by control groups (a container, a cluster's job), or infinity."""
    try:
        lines = _OWN_GROUPS.read_text().splitlines()
    except OSError:
        return float("inf")
    left = [float("inf")]
    for _, controllers, group in (line.split(":", 2) for line in lines):
        own = PurePosixPath(group.lstrip("/"))
        # A limit binds all groups within the one that it is set on; Slurm sets it on the job.
        for place in (own, *own.parents):
            if not controllers:  # version 2
                left.append(_left_of_group(_CGROUPS / place, "memory.max", "anon"))
            elif "memory" in controllers.split(","):
                folder = _CGROUPS / "memory" / place
                left.append(_left_of_group(folder, "memory.limit_in_bytes", "total_rss"))
    return min(left)


def _left_of_group(folder: Path, limit: str, used: str) -> float:
    """Returns the bytes left by one control group, given the names of its two files."""
    if not (folder / limit).exists():
        return float("inf")
    most = (folder / limit).read_text().strip()
    statistics = dict(map(str.split, (folder / "memory.stat").read_text().splitlines()))
    return float("inf") if most == "max" else float(most) - float(statistics[used])


def num_threads(memory_limit: float | None) -> int:
    """Returns how many tiles a CPU computes at a time: one on each core, if memory is enough."""
    return max(1, min(count_cores(), int((memory_limit or _HOST_LIMIT) // _THREAD_MEMORY)))


def _free_on(device: jax.Device) -> float | None:
    """Returns the bytes that are free on an accelerator; None for a CPU, which has the host's."""
    statistics = device.memory_stats()
    return None if statistics is None else statistics["bytes_limit"] - statistics["bytes_in_use"]


def device_available() -> float:
    """Returns the bytes that are free on a device; on a CPU, of the host."""
    free = _free_on(jax.local_devices()[0])
    return host_available() if free is None else free


def tile_limit(device: jax.Device, num_devices: int, output: float) -> float:
    """Returns the bytes that one tile may take on each of several devices like this one.

    Devices of a CPU share the host's memory; the matrix takes `output` bytes of it.
    """
    if (free := _free_on(device)) is not None:
        return _SHARE * free
    return min(_HOST_LIMIT, _SHARE * max(host_available() - output, 0.0)) / num_devices


def check_fits_host(what: str, needed: float, instead: str) -> None:
    """Raises InputError where so many bytes do not fit the host's memory; see `_check_fits`."""
    _check_fits(what, needed, host_available(), instead)


def _check_fits(what: str, needed: float, available: float, instead: str) -> None:
    """Raises InputError where something takes more bytes than there are, with alternatives."""
    if needed > available:
        raise InputError(
            f"{what} takes {needed:.3g} bytes of memory, and {available:.3g} are available; "
            f"accepted: {instead}"
        )


def check_fits_device(what: str, at_most: float, needed: Callable[[], float], instead: str) -> None:
    """Raises InputError where a call does not fit a device's free memory.

    `at_most` is an upper bound in bytes that takes no work, or infinity; `needed` computes the
    bytes where that does not fit. The message has `what` takes them, and the accepted alternatives.
    """
    if at_most > (available := device_available()):
        _check_fits(what, needed(), available, instead)


def check_pairs_fit(
    sides: Sequence[Any],
    at_most: float,
    needed: Callable[[], float],
    by_tiles: str,
    given: Sequence[Any] = (),
) -> None:
    """Raises InputError where a kernel of all pairs at once does not fit a device.

    Not where one of both sides (the second may be None) or `given` is traced by `jax.jit`, whose
    caller can read the compiled program's memory. `at_most` and `needed` are as in
    `check_fits_device`; `by_tiles` names the kernel for `gram`.
    """
    sides = [x for x in sides if x is not None]
    if not any(isinstance(array, jax.core.Tracer) for array in (*given, *sides)):
        check_fits_device(
            f"the kernel of all examples of {' and '.join(str(x.shape) for x in sides)} at once",
            at_most,
            needed,
            f"fewer examples at a time, or {by_tiles} in `kernels.gram`, which goes by tiles",
        )


def check_fits_disk(path: Path, shape: tuple[int, ...], output: float) -> None:
    """Raises InputError where a matrix of `output` bytes does not fit the disk of `path`."""
    # An existing file has some of its blocks already.
    held = 512 * path.stat().st_blocks if path.exists() else 0
    free = shutil.disk_usage(path.parent).free
    if output - held > free:
        raise InputError(
            f"path is {path}: the matrix {shape} takes {output:.3g} bytes, and its disk has "
            f"{free:.3g} left; accepted: a path on a larger disk, or fewer examples"
        )
