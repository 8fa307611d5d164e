"""Gram matrices of any size, computed in tiles that fit memory, and kept if a job is killed.

All tiles have one shape, so one program serves all: a tile that sticks out is filled up with copies
of the last example, whose values are thrown away. What a kernel that has stages (those of a `Model`
and `finite_kernel`) computes of one example alone is kept on the devices as far as the memory goes:
it is computed once for every example if all fits, and otherwise once for as many tiles as possible.

The processes of jax.distributed share the work if all of them make the same call: tiles are
computed by the devices of all, and every process gets the matrix. The first alone reads and writes
the file; the others hold the matrix in memory. Processes that know nothing of each other, on hosts
that share a file system or as jobs one after the other, share it if each says which of the
`Workers` it is. A last call without them finishes what any of them has left. Processes of several
hosts that write at the same time need a file system that keeps mapped files coherent between hosts
(Lustre or GPFS; not NFS).
"""

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped

from lsa_jax import backend
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices import packed as packed_tiles
from lsa_jax.kernels.matrices.file import Tile
from lsa_jax.kernels.matrices.job import (
    EVERYWHERE,
    Job,
    Workers,
    check_options,
    identity,
    make_job,
)
from lsa_jax.kernels.matrices.packed import PackedMatrix
from lsa_jax.kernels.matrices.rounds import make_program, places_of, tiles
from lsa_jax.reporting.progress import Progress

# Bytes of a finished matrix that the process which has the file sends to the others at a time.
_BAND = 2**26


def gram(
    kernel: Callable[[Array, Array], Array],
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    memory_limit: float | None = None,
    tile: int | None = None,
    dtype: Literal["float32", "float64"] = "float32",
    path: Path | str | None = None,
    packed: bool = False,
    workers: Workers = EVERYWHERE,
    progress: Callable[[float], None] | bool = False,
) -> Float[np.ndarray, "n1 n2"] | PackedMatrix | None:
    """Computes a kernel of all pairs of inputs, tile by tile.

    Without `x2` only the tiles on and above the diagonal are computed, and the matrix is exactly
    symmetric: little more than half of the time, which the devices share. Memory of each device for
    a tile and what is in flight of another; on the host or in the file, 4 or 8 n1 n2 bytes.

    With `path`, a call that was killed goes on where it was, and computes again only the tiles that
    were in flight: the matrix ends bit-identical on the same kind of machine. A matrix that is
    whole is read. The file is refused where it was computed from another kernel (told by its
    program, constants included, so also by another version of jax), other inputs or options.

    Args:
        kernel: symmetric, `(x1 [t1, ...], x2 [t2, ...]) -> [t1, t2]`, which jax can trace. It is
            compiled once for each function object: pass the same one again.
        x1: first inputs.
        x2: second inputs; None means x1 against itself.
        memory_limit: bytes that computing may take on a device: a tile, by the compiled program's
            own account, and examples that are kept. None takes half of what an accelerator has
            free; on a CPU 1e9, or half of what is available if that is less, shared by the devices.
        tile: examples a side of a tile, instead of the size chosen from the memory.
        dtype: "float64" widens the inputs and computes in float64; not for finite kernels of
            `models.network`, which cast to less.
        path: file that keeps the matrix, a name that ends in .npy. Beside it lie a record of what
            it is (.json), and for each writer a journal of its tiles and a lock.
        packed: keep the tiles on and above the diagonal alone, in half the memory or disk, as a
            `PackedMatrix`, which `regress_cg` takes; without `x2` only.
        workers: on which devices, and with which processes that know nothing of each other.
        progress: called with the fraction of tiles done; or True for a bar with the time left.

    Returns:
        The matrix; with `path`, mapped from the file and read-only, but in memory in the processes
        of jax.distributed after the first. None if tiles of other writers are still missing.

    Raises:
        InputError: shapes or options are not accepted; float64 is not what the kernel gives; matrix
            or tile do not fit the memory, the disk or the limit; or the file is another's.
        NumericalError: the kernel of some pair is not finite.
    """
    if (recorder := backend.dry_run()) is not None:
        return recorder.gram(kernel, x1, x2, memory_limit, np.dtype(dtype))
    path = None if path is None else Path(path)
    check_options(memory_limit, tile, dtype, path, workers)
    with jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext():
        job = make_job(kernel, x1, x2, dtype, tile, memory_limit, workers, packed=packed)
        if path is None:
            return _in_memory(job, progress)
        return _in_file(job, path, workers, progress)


def _in_memory(job: Job, progress: Callable[[float], None] | bool) -> np.ndarray | PackedMatrix:
    job.group.in_each(lambda: memory.check_fits_host(job.shape, job.size))
    program = make_program(job, None, held=job.size)
    stored = packed_tiles.stored_shape(len(job.x1), program.shape[0])
    result = np.zeros(stored, job.dtype) if job.packed else np.empty(job.shape, job.dtype)
    put = _writer(job) or functools.partial(gram_file.put, symmetric=job.symmetric)
    places = places_of(job.shape, program.shape, symmetric=job.symmetric)
    with _reporter(job, progress, 0, len(places)) as report:
        for done, tile in enumerate(tiles(job, program, places), start=1):
            put(result, tile)
            report(done)
    return PackedMatrix(result, len(job.x1)) if job.packed else result


def _writer(job: Job) -> Callable[[np.ndarray, Tile], None] | None:
    """Returns how tiles are put into a packed matrix; None for another."""
    return functools.partial(packed_tiles.put, n=len(job.x1)) if job.packed else None


def _in_file(
    job: Job, path: Path, workers: Workers, progress: Callable[[float], None] | bool
) -> np.ndarray | PackedMatrix | None:
    group = job.group
    record, program = group.from_first(lambda: _checked_record(job, path)), None
    # What the first process keeps in the file, the others hold in memory.
    group.in_each(lambda: group.is_first or memory.check_fits_host(job.shape, job.size))
    if record is None:
        program = make_program(job, None, held=0)
        tile_shape = program.shape
    elif job.tile is None:
        # Whatever memory there is now: other tiles could round otherwise.
        tile_shape = tuple(record["tile"])
    else:
        tile_shape = (job.tile, job.tile)
    with contextlib.ExitStack() as stack:
        file = group.on_first(
            lambda: stack.enter_context(
                gram_file.opened(path, identity(job, tile_shape), *workers[1:], _writer(job))
            )
        )
        places = places_of(job.shape, tile_shape, symmetric=job.symmetric)
        mine = places[workers.process_index :: workers.process_count]
        before = group.from_first(lambda: file.done())
        missing = [place for place in mine if place not in before]
        if missing:
            program = program or make_program(job, tile_shape, held=0)
            with _reporter(job, progress, len(mine) - len(missing), len(mine)) as report:
                for done, tile in enumerate(tiles(job, program, missing), start=1):
                    if file is not None:
                        file.add(tile)
                    report(done)
            group.on_first(lambda: file.flush())
        whole = group.from_first(lambda: file.done().issuperset(places))
    if not whole:
        return None
    return packed_tiles.load(path) if job.packed else _read(job, path)


def _checked_record(job: Job, path: Path) -> dict[str, Any] | None:
    """Returns what the file says it is, once it is known that the matrix can be kept there."""
    gram_file.check_path(path)
    memory.check_fits_disk(path, job.shape, job.size)
    return gram_file.read_record(path)


def _read(job: Job, path: Path) -> np.ndarray:
    """Returns a whole matrix: mapped from its file, or what the process that has it sends."""
    group = job.group
    matrix = np.load(path, mmap_mode="r") if group.is_first else np.empty(job.shape, job.dtype)
    rows = max(1, _BAND // (job.shape[1] * job.dtype.itemsize))
    if group.size > 1:
        for start in range(0, len(matrix), rows):
            band = group.from_first(lambda start=start: np.array(matrix[start : start + rows]))
            if not group.is_first:
                matrix[start : start + rows] = band
    return matrix


@contextlib.contextmanager
def _reporter(
    job: Job, progress: Callable[[float], None] | bool, before: int, total: int
) -> Iterator[Callable[[int], None]]:
    """Gives what is to be told how many tiles this call has computed."""
    if callable(progress):
        yield lambda done: progress((before + done) / total)
    elif progress:
        with Progress(total - before, unit="tile", shown=job.group.is_first) as bar:
            yield lambda done: bar.advance_to(done, f"of {total} in all")
    else:
        yield lambda done: None
