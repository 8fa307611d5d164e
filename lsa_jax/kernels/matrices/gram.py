"""Gram matrices of any size, computed in tiles that fit memory, and kept if a job is killed.

All tiles have one shape, so one program serves all: a tile at the edge is filled up with copies of
the last example, whose values are dropped. For a kernel that has stages (of a `Model`, or a
`finite_kernel`) the work on single examples is kept on the devices as far as the memory goes: done
once for every example if all fit, and otherwise once for as many tiles as possible.

The processes of jax.distributed share the work if all of them make the same call: tiles are
computed by the devices of all, and every process gets the matrix. Only the first reads and writes
the file. Independent processes, on hosts that share a file system or as jobs one after the other,
share the work if each is given its number as one of the `Workers`; a last call without them
computes the missing tiles. Hosts that write at the same time need a file system that keeps mapped
files coherent (Lustre or GPFS; not NFS).
"""

import contextlib
import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped

from lsa_jax import arrays, backend, processes
from lsa_jax.checks import integer, is_integer, number, one_of, optional, require
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices import programs as tile_programs
from lsa_jax.kernels.matrices import sharded as shares
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.kernels.matrices.programs import TileProgram
from lsa_jax.kernels.matrices.progress import Report, reporter
from lsa_jax.kernels.matrices.sharded import PackedMatrix, ShardedRows, own_path, shard_of
from lsa_jax.kernels.matrices.staged import Stages, stages_of

Value = TypeVar("Value")
_Matrix = np.ndarray | PackedMatrix | ShardedRows

# How often processes that compute shards synchronise.
_MEETINGS = 100

# Bytes of a finished matrix that the process which has the file sends to the others at a time.
_BAND = 2**26


class Workers(NamedTuple):
    """The devices and processes that compute the tiles of a matrix.

    Attributes:
        devices: None means all, or this process's own where `process_count` is given. On a CPU None
            means threads that share the memory limit: one a core, and for each 1e8 bytes of it.
        process_index: number of this process, from 0, among independent processes.
        process_count: how many of them share the work; more than one need a path.
    """

    devices: Sequence[jax.Device] | None = None
    process_index: int = 0
    process_count: int = 1

    def found(self, memory_limit: float | None, *, sharded: bool) -> list[jax.Device]:
        """Returns the devices; a CPU counts once for each of its threads."""
        if self.devices:  # the first one several times stands for threads
            several = set(self.devices) != {jax.local_devices()[0]}
            return list(dict.fromkeys(self.devices) if several else self.devices)
        if self.process_count == 1 and jax.process_count() > 1 and not sharded:
            return jax.devices()
        first, *_ = own = jax.local_devices()
        return [first] * memory.num_threads(memory_limit) if first.platform == "cpu" else own


EVERYWHERE = Workers()


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
    progress: Report = None,
) -> Float[np.ndarray, "n1 n2"] | PackedMatrix | ShardedRows | None:
    """Computes a kernel of all pairs of inputs, tile by tile.

    Without `x2` only tiles on and above the diagonal are computed, in little more than half of the
    time, and the matrix is exactly symmetric. On the host or in the file, 4 or 8 n1 n2 bytes.

    With `path`, a call that was killed is resumed, and the matrix ends bit-identical on the same
    kind of machine; a whole one is read. A file is refused where it was computed from another
    kernel (as its parameters and its program show, so also by another version of jax), inputs or
    options.

    Args:
        kernel: symmetric, `(x1 [t1, ...], x2 [t2, ...]) -> [t1, t2]`, which jax can trace and
            compiles once for each function object.
        x1: first inputs; integers become floats, as sums of them overflow. Those of 32 bits or more
            stay integers where the kernel takes no floats, as with tokens.
        x2: second inputs; None means x1 against itself.
        memory_limit: bytes that computing may take on a device: a tile, as the compiled program
            reports it, and kept examples. None takes half of an accelerator's free memory; on a CPU
            1e9, or half of the free memory if that is less, shared by the devices.
        tile: examples a side of a tile; None chooses by the memory.
        dtype: "float64" widens the inputs and computes in float64; not for finite kernels of
            `models.network`, which cast to less.
        path: file that keeps the matrix, a name that ends in .npy; next to it a record (.json), and
            for each writer a journal and a lock.
        packed: without `x2`, keep the upper tiles alone, as a `PackedMatrix` for `regress_cg`.
        sharded: of several processes of jax.distributed, each computes and keeps a part alone, in
            a file of its own: tiles of a matrix that is `packed`, or rows of one with `x2`.
        workers: devices, and independent processes that share the work.
        progress: called with the fraction of tiles done; or whether to show a bar with the time
            left. None shows one on a terminal, for a matrix of more than 10 seconds.

    Returns:
        The matrix; with `path`, mapped from the file and read-only, but in memory in the processes
        of jax.distributed after the first. None if tiles of other writers are still missing.

    Raises:
        InputError: shapes or options are not accepted; the kernel does not return float64; matrix
            or tile do not fit memory, disk or limit; or the file is another's.
        NumericalError: the kernel of some pair is not finite.
    """
    if not callable(kernel):
        none = " (a network with batch normalisation has none)" if kernel is None else ""
        raise InputError(f"kernel is {kernel!r}{none}; accepted: a function of two batches")
    if (recorder := backend.dry_run()) is not None:
        return recorder.gram(kernel, x1, x2, memory_limit, np.dtype(dtype))
    path = None if path is None else Path(path)
    check_options(memory_limit, dtype, tile, path, workers)
    with _in_precision(dtype):
        job = make_job(kernel, x1, x2, dtype, tile, memory_limit, workers, packed, sharded)
        if path is None:
            return _in_memory(job, progress)
        return _in_file(job, own_path(path, job.shards), workers, progress)


class Job(NamedTuple):
    """The arguments of `gram`, checked; inputs as numpy arrays.

    Of a matrix that is sharded by rows, x1 is this process's part, of `num_rows` in all.
    """

    kernel: Callable[[Array, Array], Array]
    x1: np.ndarray
    x2: np.ndarray | None
    dtype: np.dtype
    tile: int | None
    memory_limit: float | None
    devices: tuple[jax.Device, ...]
    group: processes.ProcessGroup
    packed: bool
    sharded: bool
    num_rows: int

    @property
    def team(self) -> processes.ProcessGroup:
        """The processes that compute the same tiles together: of a shard, this one alone."""
        return processes.ALONE if self.sharded else self.group

    @property
    def shards(self) -> processes.ProcessGroup:
        """The processes that have a part of the tiles each."""
        return self.group if self.sharded else processes.ALONE

    def keep(self, function: Callable[[], Value]) -> Value | None:
        """Runs a file operation in each process that has a file; if one fails, all do."""
        return self.group.in_each(function) if self.sharded else self.group.on_first(function)

    def look(self, function: Callable[[], Value]) -> Value:
        """Reads in each process that has a file; the others get the first one's result."""
        return self.group.in_each(function) if self.sharded else self.group.from_first(function)

    @property
    def own(self) -> list[jax.Device]:
        """This process's devices."""
        return processes.own(self.devices)

    @property
    def stages(self) -> Stages:
        """Stages of the kernel, for inputs of this form."""
        return stages_of(self.kernel, jax.ShapeDtypeStruct(self.x1.shape[1:], self.x1.dtype))

    @property
    def columns(self) -> np.ndarray:
        """Inputs of the columns."""
        return self.x1 if self.x2 is None else self.x2

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return len(self.x1), len(self.columns)

    @property
    def size(self) -> int:
        """Bytes that this process keeps; of a packed matrix, in the largest tiles possible."""
        side = self.tile or tile_programs.largest_side(len(self.x1))
        return math.prod(self.stored(side)) * self.dtype.itemsize

    def stored(self, side: int) -> tuple[int, ...]:
        """Returns the shape of the array that this process keeps, in tiles of this side."""
        packed = shares.stored_shape(len(self.x1), side, self.shards)
        return packed if self.packed else self.shape


def check_options(
    memory_limit: float | None,
    dtype: str,
    tile: int | None = None,
    path: Path | None = None,
    workers: Workers = EVERYWHERE,
) -> None:
    """Raises InputError where an option of `gram` is not accepted."""
    require("memory_limit", memory_limit, optional(number(0, above=True)))
    require("tile", tile, optional(integer(1)))
    require("dtype", dtype, one_of("float32", "float64"))
    devices, index, count = workers if isinstance(workers, Workers) else (workers, 0, 1)
    some = devices if isinstance(devices, Sequence) else [devices]
    if devices is not None and not all(isinstance(one, jax.Device) for one in some):
        raise InputError(
            f"workers is {workers!r}; accepted: Workers of None or a list of jax.devices()"
        )
    if not (is_integer(index) and is_integer(count) and 0 <= index < count):
        raise InputError(
            f"process_index is {index} and process_count is {count}; accepted: 0 to count - 1"
        )
    if count > 1 and path is None:
        raise InputError(f"path is None and process_count is {count}; accepted: a path")


def make_job(
    kernel: Callable,
    x1: Any,
    x2: Any,
    dtype: str,
    tile: int | None = None,
    memory_limit: float | None = None,
    workers: Workers = EVERYWHERE,
    packed: bool = False,
    sharded: bool = False,
) -> Job:
    """Returns the job of these arguments, or raises InputError where they are not accepted."""
    first, second = arrays.input_pair(x1, x2, dtype=dtype, empty=False)
    first, columns = map(
        np.asarray, arrays.floats_if_taken(kernel, first, first if second is None else second)
    )
    second = None if second is None else columns
    if packed and second is not None:
        raise InputError("packed is True and x2 is given; accepted: one of them")
    if sharded and second is None and not packed:
        raise InputError("sharded is True without x2; accepted: packed=True as well")
    # In a single process a shard is the whole.
    sharded, num_rows = sharded and processes.everyone().size > 1, len(first)
    devices = tuple(workers.found(memory_limit, sharded=sharded))
    group = processes.everyone() if sharded else processes.group_of(devices)
    if sharded and (workers.process_count > 1 or processes.group_of(devices).size > 1):
        raise InputError(
            f"sharded is True and workers is {workers}; accepted: the default, or own devices"
        )
    if packed and group.size > 1 and not sharded:
        raise InputError("packed is True in several processes; accepted: sharded=True as well")
    if sharded and second is not None:
        rows = shard_of(num_rows, group)
        first = first[rows.start : rows.stop]
        if num_rows < group.size:
            raise InputError(
                f"sharded is True and x1 has {num_rows} examples; accepted: {group.size} or more"
            )
    inputs = kernel, first, second, np.dtype(dtype)
    return Job(*inputs, tile, memory_limit, devices, group, packed, sharded, num_rows)


def tile_side(kernel: Callable, x: Any, *, dtype: str, memory_limit: float | None) -> int:
    """Returns how many examples a side the tiles have that `gram` would choose."""
    with _in_precision(dtype):
        job = make_job(kernel, x, None, dtype, memory_limit=memory_limit)
        return make_program(job, None, held=0).shape[0]


def _in_precision(dtype: str) -> contextlib.AbstractContextManager:
    return jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext()


def _identity(job: Job, tile_shape: tuple[int, int]) -> dict[str, Any]:
    """Returns everything that decides the bits of the matrix, for its record."""
    lowered = tile_programs.lower(job.stages, job.x1, job.columns, job.dtype, tile_shape)
    program = "".join(stage.as_text() for stage in lowered)
    function = job.kernel.func if isinstance(job.kernel, functools.partial) else job.kernel
    given = [gram_file.digest(np.asarray(leaf)) for leaf in jax.tree.leaves(job.stages.given)]
    params = {"params": hashlib.sha256("".join(given).encode()).hexdigest()} if given else {}
    stored = {"stored": job.stored(tile_shape[0])} if job.packed else {}
    shard = {"shard": [job.group.index, job.group.size]} if job.sharded else {}
    return {
        **stored,
        **shard,
        **params,
        "kernel": getattr(function, "__qualname__", type(function).__qualname__),
        "program": hashlib.sha256(program.encode()).hexdigest(),
        "x1": gram_file.digest(job.x1),
        "x2": None if job.x2 is None else gram_file.digest(job.columns),
        "symmetric": job.x2 is None,
        "shape": job.shape,
        "dtype": job.dtype.name,
        "tile": tile_shape,
        "device": job.devices[0].device_kind,
    }


def make_program(job: Job, tile_shape: tuple[int, int] | None, *, held: int) -> TileProgram:
    """Compiles the kernel for tiles of this shape; None takes the job's, or chooses by the memory.

    The matrix takes `held` bytes of host memory.
    """
    group, limit = job.group, job.memory_limit
    if limit is None:
        limit = memory.tile_limit(job.own[0], len(job.own), held)
    else:
        limit /= job.own.count(job.own[0])
    chosen = None
    if tile_shape is None and job.tile is None:
        # By the first process: with other memory another would choose other tiles.
        chosen = group.on_first(lambda: _chosen(job, limit))
        tile_shape = group.from_first(lambda: chosen.shape)
    tile_shape = tile_shape or (job.tile, job.tile)

    def compiled() -> TileProgram:
        if chosen is not None:
            return chosen
        program = tile_programs.compile_tile(job.stages, job.x1, job.columns, job.dtype, tile_shape)
        tile_programs.check_memory(program, limit, "a smaller tile or a higher limit")
        return program

    program = group.in_each(compiled)
    # The order of tiles depends on it, and is that of the first process in all.
    return program._replace(spare=group.from_first(lambda: limit - program.memory))


def _chosen(job: Job, limit: float) -> TileProgram:
    """Compiles for a tile that suits the memory, small enough to leave a tile for each shard."""
    inputs = job.stages, job.x1, job.columns, job.dtype
    program = tile_programs.choose(*inputs, limit, len(job.devices) * job.shards.size)
    side = program.shape[0]
    while job.packed and side > 1 and shares.count_tiles(len(job.x1), side) < job.shards.size:
        side -= 1
    if side == program.shape[0]:
        return program
    return tile_programs.compile_tile(*inputs, (side, side))


def _places(job: Job, tile_shape: tuple[int, int]) -> list[Place]:
    """Lists the places of this process's tiles; of a symmetric matrix, the upper ones."""
    shape = job.shape
    places = [
        Place(row, column)
        for row in range(0, shape[0], tile_shape[0])
        for column in range(row if job.x2 is None else 0, shape[1], tile_shape[1])
    ]
    if not (job.sharded and job.x2 is None):
        return places
    if len(places) < job.shards.size:
        raise InputError(
            f"sharded is True and the matrix {shape} has {len(places)} tiles of {tile_shape}; "
            f"accepted: a smaller tile, as there are {job.shards.size} processes"
        )
    own = shard_of(len(places), job.shards)
    return places[own.start : own.stop]


def _in_memory(job: Job, progress: Report) -> _Matrix:
    job.group.in_each(lambda: _check_fits_host(job))
    program = make_program(job, None, held=job.size)
    shape = job.stored(program.shape[0])
    result = np.zeros(shape, job.dtype) if job.packed else np.empty(shape, job.dtype)
    put = _writer(job)
    places = _places(job, program.shape)
    _compute(job, program, places, len(places), progress, lambda tile: put(result, tile))
    return _matrix(job, result)


def _check_fits_host(job: Job) -> None:
    instead = "a path (it is then kept in a file), fewer examples, or more memory"
    memory.check_fits_host(f"the matrix {job.shape}", job.size, instead)


def _writer(job: Job) -> Callable[[np.ndarray, Tile], None]:
    """Returns the function that puts a tile into the matrix."""
    if job.packed:
        return functools.partial(shares.put, n=len(job.x1), group=job.shards)
    return functools.partial(gram_file.put, symmetric=job.x2 is None)


def _matrix(job: Job, values: np.ndarray) -> _Matrix:
    """Returns the matrix whose entries, or share of them, this process keeps."""
    if job.packed:
        return PackedMatrix(values, len(job.x1), job.shards)
    return ShardedRows(values, job.num_rows, job.group) if job.sharded else values


def _in_file(job: Job, path: Path, workers: Workers, progress: Report) -> _Matrix | None:
    group = job.group
    record, program = job.look(lambda: _checked_record(job, path)), None
    if not job.sharded:
        # The first process has the file; the others hold the matrix in memory.
        group.in_each(lambda: group.is_first or _check_fits_host(job))
    tile_shape = _recorded_tile(job, record)
    if job.shards.in_any(record is None):  # before there is a file
        program = make_program(job, tile_shape, held=0)
        tile_shape = program.shape
    places = _places(job, tile_shape)
    with contextlib.ExitStack() as stack:
        file = job.keep(
            lambda: stack.enter_context(
                gram_file.opened(path, _identity(job, tile_shape), *workers[1:], _writer(job))
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
    """Returns the given tile, or that of the files, as others could round differently; or None."""
    if job.tile is not None:
        return job.tile, job.tile
    found = job.shards.gather(np.array(record["tile"] if record else (0, 0))).tolist()
    known = {tuple(tile) for tile in found if any(tile)}
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
    progress: Report,
    take: Callable[[Tile], None],
) -> None:
    """Computes the tiles at some places, of `total`, and calls `take` with each."""
    # Processes with shards synchronise now and then: one that waits long for another gives up, and
    # all shall fail together.
    most = int(job.shards.gather(np.array(len(places))).max())
    at_a_time = math.ceil(most / _MEETINGS) if job.sharded else most
    shown, before = job.group.is_first, total - len(places)
    with reporter(progress, job.shape, shown, before, total) as report:
        found = tile_programs.tiles(job.stages, job.x1, job.x2, program, places, job.own, job.team)
        computed = enumerate(found if places else (), start=1)

        def some() -> None:
            for done, tile in itertools.islice(computed, at_a_time):
                take(tile)
                report(done)

        for _ in range(0, most, at_a_time):
            job.shards.in_each(some)


def _checked_record(job: Job, path: Path) -> dict[str, Any] | None:
    """Returns the record of the file, once it is known that the matrix can be kept there."""
    gram_file.check_path(path)
    memory.check_fits_disk(path, job.shape, job.size)
    return gram_file.read_record(path)


def _read(job: Job, path: Path) -> np.ndarray:
    """Returns a whole matrix: mapped from its file, or sent by the process that has it."""
    group = job.group
    matrix = np.load(path, mmap_mode="r") if group.is_first else np.empty(job.shape, job.dtype)
    rows = max(1, _BAND // (job.shape[1] * job.dtype.itemsize))
    if group.size > 1:
        for start in range(0, len(matrix), rows):
            band = group.from_first(lambda start=start: np.array(matrix[start : start + rows]))
            if not group.is_first:
                matrix[start : start + rows] = band
    return matrix
