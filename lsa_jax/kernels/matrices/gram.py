"""Gram matrices of any size, computed in tiles that fit memory, and kept if a job is killed."""

import collections
import contextlib
import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped

from lsa_jax import backend, processes
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices import memory, prepared
from lsa_jax.kernels.matrices import packed as packed_tiles
from lsa_jax.kernels.matrices import programs as tile_programs
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.kernels.matrices.packed import PackedMatrix
from lsa_jax.kernels.matrices.programs import TileProgram
from lsa_jax.kernels.matrices.staged import Stages, stages_of
from lsa_jax.reporting.progress import Progress

_DTYPES = ("float32", "float64")

# Rounds of tiles that devices may compute while the host takes care of an earlier one.
_AHEAD = 1

# Bytes of a finished matrix that the process which has the file sends to the others at a time.
_BAND = 2**26


class _Job(NamedTuple):
    """What is to be computed: the arguments of `gram`, inputs as numpy arrays."""

    kernel: Callable[[Array, Array], Array]
    x1: np.ndarray
    x2: np.ndarray | None
    dtype: np.dtype
    tile: int | None
    memory_limit: float | None
    devices: tuple[jax.Device, ...]
    crew: processes.ProcessGroup
    packed: bool = False

    @property
    def own(self) -> list[jax.Device]:
        """This process's devices."""
        return processes.own(self.devices)

    @property
    def stages(self) -> Stages:
        """The kernel's, for inputs of this form."""
        return stages_of(self.kernel, jax.ShapeDtypeStruct(self.x1.shape[1:], self.x1.dtype))

    @property
    def symmetric(self) -> bool:
        return self.x2 is None

    @property
    def columns(self) -> np.ndarray:
        return self.x1 if self.x2 is None else self.x2

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.x1), len(self.columns)

    @property
    def size(self) -> int:
        """Bytes of the matrix; for one that is packed, in the largest tiles there may be."""
        if self.packed:
            side = self.tile or tile_programs.largest_side(len(self.x1))
            return math.prod(packed_tiles.stored_shape(len(self.x1), side)) * self.dtype.itemsize
        return math.prod(self.shape) * self.dtype.itemsize


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
    devices: Sequence[jax.Device] | None = None,
    process_index: int = 0,
    process_count: int = 1,
    progress: Callable[[float], None] | bool = False,
) -> Float[np.ndarray, "n1 n2"] | PackedMatrix | None:
    """Computes a kernel of all pairs of inputs, tile by tile.

    All tiles have one shape, so one program serves all: a tile that sticks out is filled up with
    copies of the last example, whose values are thrown away. Without `x2` only the tiles on and
    above the diagonal are computed, and the matrix is exactly symmetric.

    Time for n1 n2 pairs, without `x2` for little more than half of them, shared by the devices. On
    each device, memory for a tile and for what is in flight of another; on the host, 4 or 8 n1 n2
    bytes, in memory or in the file. What a `StagedKernel` (`infinite_kernel`, `finite_kernel`)
    computes of one example alone is kept on the devices as far as the memory goes: it is computed
    once for every example if all fits, and otherwise once for as many tiles as possible.

    With `path`, a call that was killed goes on where it was, and computes again only the tiles that
    were in flight: the matrix ends bit-identical on the same kind of machine. A matrix that is
    whole is read. The file is refused where it was computed from another kernel (told by its
    program, constants included, so also by another version of jax), other inputs or options.

    The processes of jax.distributed share the work if all of them make the same call: tiles are
    computed by the devices of all, and every process gets the matrix. The first alone reads and
    writes the file; the others hold the matrix in memory.

    Processes that know nothing of each other, on hosts that share a file system or as jobs one
    after the other, share it if each passes its index and their count. A last call with one process
    finishes what any of them has left. Processes of several hosts that write at the same time need
    a file system that keeps mapped files coherent between hosts (Lustre or GPFS; not NFS).

    Args:
        kernel: symmetric, `(x1 [t1, ...], x2 [t2, ...]) -> [t1, t2]`; a pure function that jax can
            trace. It is compiled once for each function object: pass the same one again.
        x1: first inputs.
        x2: second inputs; None means x1 against itself.
        memory_limit: bytes that computing may take on a device. The tile is chosen so that the
            compiled program's own account of arguments, temporaries and result stays within it, and
            the rest is for examples that are kept.
            None takes half of what an accelerator has free; on a CPU 1e9, or half of what is
            available if that is less, divided among the devices.
        tile: examples a side of a tile, instead of the size chosen from the memory.
        dtype: "float64" computes the kernel and its sums in float64 from inputs so widened. The
            kernel must not cast to less: the `apply` of `models.network` does, so finite kernels of
            it are float32's; its infinite-width `kernel` is float64 then.
        path: file that keeps the matrix, a name that ends in .npy. Beside it lie a record of what
            it is (.json), and for each writer a journal of its tiles and a lock.
        packed: keep the tiles on and above the diagonal alone, in half the memory or disk, as a
            `PackedMatrix`, which `regress_cg` takes; without `x2` only.
        devices: where to compute; None means all there are, or this process's own where
            `process_count` is given. On a CPU None means its cores, by threads that share the
            memory limit: one for each 1e8 bytes of it at most.
        process_index: which process this is, from 0.
        process_count: how many share the work; more than one need a path.
        progress: called with the fraction of tiles done, after each; or True for a bar with the
            time left.

    Returns:
        The matrix; with `path`, mapped from the file and read-only, but in memory in the processes
        of jax.distributed after the first. None if tiles of other writers are still missing.

    Raises:
        InputError: shapes or options are not accepted; the kernel gives less than float64 where
            that is asked for; matrix or tile do not fit the memory, the disk or the limit; or the
            file is another matrix, or being written.
        NumericalError: the kernel of some pair is not finite.
    """
    if (recorder := backend.dry_run()) is not None:
        return recorder.gram(kernel, x1, x2, memory_limit, np.dtype(dtype))
    path = None if path is None else Path(path)
    _check_options(memory_limit, tile, dtype, path, process_index, process_count)
    with jax.enable_x64(True) if dtype == "float64" else contextlib.nullcontext():
        first = _as_numpy("x1", x1, dtype)
        second = None if x2 is None else _as_numpy("x2", x2, dtype)
        devices = tuple(devices or _everywhere(memory_limit, process_count))
        crew = processes.group_of(devices)
        job = _Job(
            kernel, first, second, np.dtype(dtype), tile, memory_limit, devices, crew, packed
        )
        _check_shapes(job)
        if path is None:
            return _in_memory(job, progress)
        return _in_file(job, path, process_index, process_count, progress)


def _everywhere(memory_limit: float | None, process_count: int) -> list[jax.Device]:
    """Returns the devices that tiles are computed on: those of a CPU are one, for each thread."""
    if process_count == 1 and jax.process_count() > 1:
        return jax.devices()
    first, *_ = own = jax.local_devices()
    return [first] * memory.num_threads(memory_limit) if first.platform == "cpu" else own


def _check_options(
    memory_limit: float | None,
    tile: int | None,
    dtype: str,
    path: Path | None,
    process_index: int,
    process_count: int,
) -> None:
    if memory_limit is not None and not memory_limit > 0:
        raise InputError(f"memory_limit is {memory_limit!r}; accepted: None or bytes, more than 0")
    if tile is not None and not (isinstance(tile, int) and tile >= 1):
        raise InputError(f"tile is {tile!r}; accepted: None or a whole number, 1 or more")
    if dtype not in _DTYPES:
        raise InputError(f"dtype is {dtype!r}; accepted: {', '.join(_DTYPES)}")
    if not 0 <= process_index < process_count:
        raise InputError(
            f"process_index is {process_index} and process_count is {process_count}; accepted: an "
            "index from 0 up to, not including, the count"
        )
    if process_count > 1 and path is None:
        raise InputError(f"path is None and process_count is {process_count}; accepted: a path")


def _as_numpy(name: str, x: Any, dtype: str) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim == 0 or len(x) == 0:
        raise InputError(f"{name} is {x.shape}; accepted: [n, ...] with one example or more")
    if dtype == "float64" and np.issubdtype(x.dtype, np.floating):
        return x.astype(np.float64, copy=False)
    return x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False)


def _check_shapes(job: _Job) -> None:
    if job.x1.shape[1:] != job.columns.shape[1:]:
        raise InputError(
            f"x1 is {job.x1.shape} and x2 is {job.columns.shape}; accepted: equal shapes but for "
            "the first axis"
        )
    if job.packed and not job.symmetric:
        raise InputError("packed is True and x2 is given; accepted: one of them")
    if job.packed and job.crew.size > 1:
        raise InputError(
            "packed is True in a job of several processes, which would each hold the matrix; "
            "accepted: process_index and process_count, with a path"
        )


def _in_memory(job: _Job, progress: Callable[[float], None] | bool) -> np.ndarray | PackedMatrix:
    job.crew.in_each(lambda: memory.check_fits_host(job.shape, job.size))
    program = _make_program(job, None, held=job.size)
    stored = packed_tiles.stored_shape(len(job.x1), program.sides[0])
    result = np.zeros(stored, job.dtype) if job.packed else np.empty(job.shape, job.dtype)
    put = _writer(job) or functools.partial(gram_file.put, symmetric=job.symmetric)
    places = _places(job.shape, program.sides, symmetric=job.symmetric)
    with _reporter(job, progress, 0, len(places)) as report:
        for done, tile in enumerate(_tiles(job, program, places), start=1):
            put(result, tile)
            report(done)
    return PackedMatrix(result, len(job.x1)) if job.packed else result


def _writer(job: _Job) -> Callable[[np.ndarray, Tile], None] | None:
    """Returns how tiles are put into a packed matrix; None for another."""
    return functools.partial(packed_tiles.put, n=len(job.x1)) if job.packed else None


def _in_file(
    job: _Job,
    path: Path,
    process_index: int,
    process_count: int,
    progress: Callable[[float], None] | bool,
) -> np.ndarray | PackedMatrix | None:
    crew = job.crew
    record, program = crew.from_first(lambda: _checked_record(job, path)), None
    # What the first process keeps in the file, the others hold in memory.
    crew.in_each(lambda: crew.is_first or memory.check_fits_host(job.shape, job.size))
    if record is None:
        program = _make_program(job, None, held=0)
        sides = program.sides
    elif job.tile is None:
        # Whatever memory there is now: other tiles could round otherwise.
        sides = tuple(record["tile"])
    else:
        sides = (job.tile, job.tile)
    with contextlib.ExitStack() as stack:
        file = crew.on_first(
            lambda: stack.enter_context(
                gram_file.opened(
                    path, _identity(job, sides), process_index, process_count, _writer(job)
                )
            )
        )
        places = _places(job.shape, sides, symmetric=job.symmetric)
        mine, before = places[process_index::process_count], crew.from_first(lambda: file.done())
        missing = [place for place in mine if place not in before]
        if missing:
            program = program or _make_program(job, sides, held=0)
            with _reporter(job, progress, len(mine) - len(missing), len(mine)) as report:
                for done, tile in enumerate(_tiles(job, program, missing), start=1):
                    if file is not None:
                        file.add(tile)
                    report(done)
            crew.on_first(lambda: file.flush())
        whole = crew.from_first(lambda: file.done().issuperset(places))
    if not whole:
        return None
    return packed_tiles.load(path) if job.packed else _read(job, path)


def _checked_record(job: _Job, path: Path) -> dict[str, Any] | None:
    """Returns what the file says it is, once it is known that the matrix can be kept there."""
    gram_file.check_path(path)
    memory.check_fits_disk(path, job.shape, job.size)
    return gram_file.read_record(path)


def _read(job: _Job, path: Path) -> np.ndarray:
    """Returns a whole matrix: mapped from its file, or what the process that has it sends."""
    crew = job.crew
    matrix = np.load(path, mmap_mode="r") if crew.is_first else np.empty(job.shape, job.dtype)
    rows = max(1, _BAND // (job.shape[1] * job.dtype.itemsize))
    if crew.size > 1:
        for start in range(0, len(matrix), rows):
            band = crew.from_first(lambda start=start: np.array(matrix[start : start + rows]))
            if not crew.is_first:
                matrix[start : start + rows] = band
    return matrix


def _make_program(job: _Job, sides: tuple[int, int] | None, *, held: int) -> TileProgram:
    """Compiles the kernel for tiles of these sides, or of those that suit the memory.

    Args:
        job: what is to be computed.
        sides: None leaves the choice to the memory, unless the job has a tile.
        held: bytes of host memory that the matrix takes.
    """
    crew, limit = job.crew, job.memory_limit
    if limit is None:
        limit = memory.tile_limit(job.own[0], len(job.own), held)
    else:
        limit /= job.own.count(job.own[0])
    chosen = None
    if sides is None and job.tile is None:
        # By the first process: with other memory another would choose other tiles.
        inputs = job.stages, job.x1, job.columns, job.dtype
        chosen = crew.on_first(lambda: tile_programs.choose(*inputs, limit, len(job.devices)))
        sides = crew.from_first(lambda: chosen.sides)
    sides = sides or (job.tile, job.tile)

    def compiled() -> TileProgram:
        if chosen is not None:
            return chosen
        program = tile_programs.compile_tile(job.stages, job.x1, job.columns, job.dtype, sides)
        tile_programs.check_memory(program, limit, "a smaller tile or a higher limit")
        return program

    program = crew.in_each(compiled)
    # The order of tiles depends on it, and is that of the first process in all.
    return program._replace(spare=crew.from_first(lambda: limit - program.memory))


def _identity(job: _Job, sides: tuple[int, int]) -> dict[str, Any]:
    """Returns all that decides the bits of the matrix, for a person and for the next call."""
    lowered = tile_programs.lower(job.stages, job.x1, job.columns, job.dtype, sides)
    program = "".join(stage.as_text() for stage in lowered)
    function = job.kernel.func if isinstance(job.kernel, functools.partial) else job.kernel
    stored = packed_tiles.stored_shape(len(job.x1), sides[0])
    return ({"stored": stored} if job.packed else {}) | {
        "kernel": getattr(function, "__qualname__", type(function).__qualname__),
        "program": hashlib.sha256(program.encode()).hexdigest(),
        "x1": gram_file.digest(job.x1),
        "x2": None if job.symmetric else gram_file.digest(job.columns),
        "symmetric": job.symmetric,
        "shape": job.shape,
        "dtype": job.dtype.name,
        "tile": sides,
        "device": job.devices[0].device_kind,
    }


@contextlib.contextmanager
def _reporter(
    job: _Job, progress: Callable[[float], None] | bool, before: int, total: int
) -> Iterator[Callable[[int], None]]:
    """Gives what is to be told how many tiles this call has computed."""
    if callable(progress):
        yield lambda done: progress((before + done) / total)
    elif progress:
        with Progress(total - before, unit="tile", shown=job.crew.is_first) as bar:
            yield lambda done: bar.advance_to(done, f"of {total} in all")
    else:
        yield lambda done: None


def _places(shape: tuple[int, int], sides: tuple[int, int], *, symmetric: bool) -> list[Place]:
    """Lists where tiles start; in a symmetric matrix, those on and above the diagonal."""
    return [
        Place(row, column)
        for row in range(0, shape[0], sides[0])
        for column in range(row if symmetric else 0, shape[1], sides[1])
    ]


def _tiles(job: _Job, program: TileProgram, places: list[Place]) -> Iterator[Tile]:
    """Computes tiles in rounds, one on each device, and yields them in order."""
    own = job.own[: math.ceil(len(places) / job.crew.size)]
    width, first = len(own) * job.crew.size, len(own) * job.crew.index
    programs = tile_programs.on_devices(job.stages, program, own)
    rows, columns = prepared.rows_and_columns(job.x1, job.x2, program, programs)
    places = prepared.in_order(places, rows, columns)
    rows.fill(place.row for place in places)
    columns.fill(place.column for place in places)
    running: collections.deque[tuple[list[Place], Callable[[], Array]]] = collections.deque()
    for start in range(0, len(places), width):
        some = places[start : start + width]
        # The last round may be short: its last tile is computed by all devices that are left.
        padded = (some + some[-1:] * (width - len(some)))[first : first + len(own)]
        blocks1 = rows.on_each([place.row for place in padded])
        blocks2 = columns.on_each([place.column for place in padded])
        running.append((some, programs.between(blocks1, blocks2)))
        if len(running) > _AHEAD:
            yield from _fetch(job, *running.popleft())
    while running:
        yield from _fetch(job, *running.popleft())


def _fetch(job: _Job, places: list[Place], values: Callable[[], Array]) -> Iterator[Tile]:
    """Yields the tiles of a round, of all processes, without what sticks out of the matrix."""
    tiles = job.crew.gather(values())
    for place, one in zip(places, tiles.reshape(-1, *tiles.shape[2:]), strict=False):
        one = one[: job.shape[0] - place.row, : job.shape[1] - place.column]
        _check_finite(one, place)
        yield Tile(place, one)


def _check_finite(values: np.ndarray, place: Place) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        rows, columns = np.flatnonzero(bad.any(1)), np.flatnonzero(bad.any(0))
        raise NumericalError(
            f"the kernel is not finite for {bad.sum()} pairs, in rows "
            f"{_name(rows + place.row)} and columns {_name(columns + place.column)}; look for "
            "values that are not finite, or too large for float32, in these inputs and in the "
            "parameters"
        )


def _name(indices: np.ndarray, most: int = 10) -> str:
    """Writes indices out, the first few of them where there are many."""
    shown = ", ".join(map(str, indices[:most]))
    return shown if len(indices) <= most else f"{shown}, ... ({len(indices)} in all)"
