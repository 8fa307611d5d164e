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
import itertools
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped

from lsa_jax import backend
from lsa_jax.checks import integer
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices import packed as packed_tiles
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.kernels.matrices.job import (
    EVERYWHERE,
    Job,
    Workers,
    check_options,
    identity,
    make_job,
)
from lsa_jax.kernels.matrices.packed import PackedMatrix
from lsa_jax.kernels.matrices.programs import TileProgram
from lsa_jax.kernels.matrices.rounds import make_program, places_of, tiles
from lsa_jax.kernels.matrices.shards import ShardedRows, own_path
from lsa_jax.reporting.progress import Progress

_Matrix = np.ndarray | PackedMatrix | ShardedRows

# How often processes that compute shards meet.
_MEETINGS = 100

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
    sharded: bool = False,
    workers: Workers = EVERYWHERE,
    progress: Callable[[float], None] | bool = False,
) -> Float[np.ndarray, "n1 n2"] | PackedMatrix | ShardedRows | None:
    """Computes a kernel of all pairs of inputs, tile by tile.

    Without `x2` only tiles on and above the diagonal are computed, in little more than half of the
    time, and the matrix is exactly symmetric. On the host or in the file, 4 or 8 n1 n2 bytes.

    With `path`, a call that was killed goes on where it was, and the matrix ends bit-identical on
    the same kind of machine; one that is whole is read. The file is refused where it was computed
    from another kernel (told by its program, so also by another version of jax), inputs or options.

    Args:
        kernel: symmetric, `(x1 [t1, ...], x2 [t2, ...]) -> [t1, t2]`, which jax can trace and
            compiles once for each function object.
        x1: first inputs; integers become floats, as sums of them overflow. Those of 32 bits or more
            stay integers where the kernel takes no floats, as with tokens.
        x2: second inputs; None means x1 against itself.
        memory_limit: bytes that computing may take on a device: a tile, by the compiled program's
            own account, and examples that are kept. None takes half of what an accelerator has
            free; on a CPU 1e9, or half of what is available if that is less, shared by the devices.
        tile: examples a side of a tile, instead of the size chosen from the memory.
        dtype: "float64" widens the inputs and computes in float64; not for finite kernels of
            `models.network`, which cast to less.
        path: file that keeps the matrix, a name that ends in .npy; beside it a record (.json), and
            for each writer a journal of its tiles and a lock.
        packed: without `x2`, keep the upper tiles alone, as a `PackedMatrix` for `regress_cg`.
        sharded: of several processes of jax.distributed, each computes and keeps a part alone, in
            a file of its own: tiles of a matrix that is `packed`, or rows of one with `x2`.
        workers: on which devices, and with which processes that know nothing of each other.
        progress: called with the fraction of tiles done; or True for a bar with the time left.

    Returns:
        The matrix; with `path`, mapped from the file and read-only, but in memory in the processes
        of jax.distributed after the first. None if tiles of other writers are still missing.

    Raises:
        InputError: shapes or options are not accepted; float64 is not what the kernel gives; matrix
            or tile do not fit memory, disk or limit; or the file is another's.
        NumericalError: the kernel of some pair is not finite.
    """
    if not callable(kernel):
        none = " (a network with batch normalisation has none)" if kernel is None else ""
        raise InputError(f"kernel is {kernel!r}{none}; accepted: a function of two batches")
    if (recorder := backend.dry_run()) is not None:
        return recorder.gram(kernel, x1, x2, memory_limit, np.dtype(dtype))
    path = None if path is None else Path(path)
    check_options(memory_limit, tile, dtype, path, workers)
    with jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext():
        job = make_job(kernel, x1, x2, dtype, tile, memory_limit, workers, packed, sharded)
        if path is None:
            return _in_memory(job, progress)
        return _in_file(job, own_path(path, job.shards), workers, progress)


def _in_memory(job: Job, progress: Callable[[float], None] | bool) -> _Matrix:
    job.group.in_each(lambda: memory.check_fits_host(job.shape, job.size))
    program = make_program(job, None, held=job.size)
    shape = job.stored(program.shape[0])
    result = np.zeros(shape, job.dtype) if job.packed else np.empty(shape, job.dtype)
    put = _writer(job) or functools.partial(gram_file.put, symmetric=job.symmetric)
    places = places_of(job, program.shape)
    _compute(job, program, places, len(places), progress, lambda tile: put(result, tile))
    return _matrix(job, result)


def _writer(job: Job) -> Callable[[np.ndarray, Tile], None] | None:
    """Returns how tiles are put into a packed matrix; None for another."""
    if not job.packed:
        return None
    return functools.partial(packed_tiles.put, n=len(job.x1), group=job.shards)


def _matrix(job: Job, values: np.ndarray) -> _Matrix:
    """Returns the matrix of what this process keeps."""
    if job.packed:
        return PackedMatrix(values, len(job.x1), job.shards)
    return ShardedRows(values, job.num_rows, job.group) if job.sharded else values


def _in_file(
    job: Job, path: Path, workers: Workers, progress: Callable[[float], None] | bool
) -> _Matrix | None:
    group = job.group
    record, program = job.look(lambda: _checked_record(job, path)), None
    if not job.sharded:
        # What the first process keeps in the file, the others hold in memory.
        group.in_each(lambda: group.is_first or memory.check_fits_host(job.shape, job.size))
    tile_shape = _recorded_tile(job, record)
    if job.shards.in_any(record is None):  # before there is a file
        program = make_program(job, tile_shape, held=0)
        tile_shape = program.shape
    places = places_of(job, tile_shape)
    with contextlib.ExitStack() as stack:
        file = job.keep(
            lambda: stack.enter_context(
                gram_file.opened(path, identity(job, tile_shape), *workers[1:], _writer(job))
            )
        )
        mine = places[workers.process_index :: workers.process_count]
        before = job.look(lambda: file.done())
        missing = [place for place in mine if place not in before]
        if job.shards.in_any(bool(missing)):
            program = program or make_program(job, tile_shape, held=0)
            take = (lambda tile: None) if file is None else file.add
            _compute(job, program, missing, len(mine), progress, take)
            job.keep(lambda: file.flush())
        whole = job.look(lambda: file.done().issuperset(places))
    if not whole:
        return None
    if job.packed or job.sharded:
        return _matrix(job, np.load(path, mmap_mode="r"))
    return _read(job, path)


def _recorded_tile(job: Job, record: dict[str, Any] | None) -> tuple[int, int] | None:
    """Returns the tile that is asked for or that files have; None where neither is.

    That of a file stays, whatever memory there is now: other tiles could round otherwise.
    """
    if job.tile is not None:
        return job.tile, job.tile
    found = job.shards.gather(np.array(record["tile"] if record else (0, 0)))
    known = {tuple(tile) for tile in found.tolist() if any(tile)}
    if len(known) > 1:
        raise InputError(
            f"processes have the matrix in tiles of {sorted(known)}; accepted: one for "
            "all: remove the others' files"
        )
    return known.pop() if known else None


def _compute(
    job: Job,
    program: TileProgram,
    places: list[Place],
    total: int,
    progress: Callable[[float], None] | bool,
    take: Callable[[Tile], None],
) -> None:
    """Computes tiles of a matrix of so many, and hands each over."""
    # Where each has its own, all meet now and then: one that waits long for another gives up, and
    # what one fails at, all shall hear of.
    most = int(job.shards.gather(np.array(len(places))).max())
    at_a_time = math.ceil(most / _MEETINGS) if job.sharded else most
    with _reporter(job, progress, total - len(places), total) as report:
        computed = enumerate(tiles(job, program, places) if places else (), start=1)

        def some() -> None:
            for done, tile in itertools.islice(computed, at_a_time):
                take(tile)
                report(done)

        for _ in range(0, most, at_a_time):
            job.shards.in_each(some)


def _checked_record(job: Job, path: Path) -> dict[str, Any] | None:
    """Returns what the file says it is, once it is known that the matrix can be kept there."""
    gram_file.check_path(path)
    memory.check_fits_disk(path, job.shape, job.size)
    record = gram_file.read_record(path)
    tile = record.get("tile") if record else None
    whole = isinstance(tile, list) and len(tile) == 2 and all(map(integer(1).accepts, tile))
    if record is not None and not whole:
        raise InputError(
            f"path is {path}, whose record has tiles of {tile!r}: no Gram matrix, or damaged; "
            f"accepted: another path, or remove it and {path.name}.json"
        )
    return record


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
