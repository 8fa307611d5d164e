"""What `gram` is asked to compute: its arguments, checked."""

import functools
import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jaxtyping import Array

from lsa_jax import arrays, processes
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices import file as gram_file
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices import packed as packed_tiles
from lsa_jax.kernels.matrices import programs as tile_programs
from lsa_jax.kernels.matrices.shards import shard_of
from lsa_jax.kernels.matrices.staged import Stages, stages_of

Value = TypeVar("Value")

_DTYPES = ("float32", "float64")


class Workers(NamedTuple):
    """Who computes the tiles of a matrix.

    Attributes:
        devices: where; None means all there are, or this process's own where `process_count` is
            given. On a CPU None means its cores, by threads that share the memory limit: one for
            each 1e8 bytes of it at most.
        process_index: which this is, from 0, of processes that know nothing of each other.
        process_count: how many of them share the work; more than one need a path.
    """

    devices: Sequence[jax.Device] | None = None
    process_index: int = 0
    process_count: int = 1

    def found(self, memory_limit: float | None, *, sharded: bool) -> list[jax.Device]:
        """Returns the devices; a CPU is one for each of its threads."""
        if self.devices:
            return list(self.devices)
        if self.process_count == 1 and jax.process_count() > 1 and not sharded:
            return jax.devices()
        first, *_ = own = jax.local_devices()
        return [first] * memory.num_threads(memory_limit) if first.platform == "cpu" else own


EVERYWHERE = Workers()


class Job(NamedTuple):
    """What is to be computed: the arguments of `gram`, inputs as numpy arrays.

    Of a matrix that is sharded by rows it is this process's part, of `num_rows` in all.
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
        """Those of the group that compute the same tiles together: this one alone of a shard."""
        return processes.ALONE if self.sharded else self.group

    @property
    def shards(self) -> processes.ProcessGroup:
        """Those that have a part of the tiles each."""
        return self.group if self.sharded else processes.ALONE

    def keep(self, function: Callable[[], Value]) -> Value | None:
        """Does what is to be done with files in each process that has one; if one fails, all do."""
        return self.group.in_each(function) if self.sharded else self.group.on_first(function)

    def look(self, function: Callable[[], Value]) -> Value:
        """Returns what a process that has a file sees there; the others get the first one's."""
        return self.group.in_each(function) if self.sharded else self.group.from_first(function)

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
        """Whether it is one set of inputs against itself."""
        return self.x2 is None

    @property
    def columns(self) -> np.ndarray:
        """Inputs of the columns."""
        return self.x1 if self.x2 is None else self.x2

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return len(self.x1), len(self.columns)

    @property
    def size(self) -> int:
        """Bytes that this process keeps; of what is packed, in the largest tiles there may be."""
        if self.packed:
            side = self.tile or tile_programs.largest_side(len(self.x1))
            return math.prod(self.stored(side)) * self.dtype.itemsize
        return math.prod(self.shape) * self.dtype.itemsize

    def stored(self, side: int) -> tuple[int, ...]:
        """Returns the shape of the array that this process keeps, in tiles of this side."""
        if not self.packed:
            return self.shape
        return packed_tiles.stored_shape(len(self.x1), side, self.shards)


def check_options(
    memory_limit: float | None, tile: int | None, dtype: str, path: Path | None, workers: Workers
) -> None:
    """Raises InputError where an option of `gram` is not accepted."""
    if memory_limit is not None and not memory_limit > 0:
        raise InputError(f"memory_limit is {memory_limit!r}; accepted: None or bytes, more than 0")
    if tile is not None and not (isinstance(tile, int) and tile >= 1):
        raise InputError(f"tile is {tile!r}; accepted: None or a whole number, 1 or more")
    if dtype not in _DTYPES:
        raise InputError(f"dtype is {dtype!r}; accepted: {', '.join(_DTYPES)}")
    index, count = workers.process_index, workers.process_count
    if not 0 <= index < count:
        raise InputError(
            f"process_index is {index} and process_count is {count}; accepted: an index from 0 up "
            "to, not including, the count"
        )
    if count > 1 and path is None:
        raise InputError(f"path is None and process_count is {count}; accepted: a path")


def make_job(
    kernel: Callable,
    x1: Any,
    x2: Any,
    dtype: str,
    tile: int | None,
    memory_limit: float | None,
    workers: Workers,
    packed: bool = False,
    sharded: bool = False,
) -> Job:
    """Returns the job of these arguments.

    Raises:
        InputError: the inputs' shapes are not accepted.
    """
    first, second = arrays.input_pair(x1, x2, dtype=dtype, empty=False)
    first, columns = map(
        np.asarray, arrays.floats_if_taken(kernel, first, first if second is None else second)
    )
    second = None if second is None else columns
    if packed and second is not None:
        raise InputError("packed is True and x2 is given; accepted: one of them")
    if sharded and second is None and not packed:
        raise InputError("sharded is True without x2; accepted: packed=True besides")
    # In a single process a shard is the whole.
    sharded, num_rows = sharded and processes.everyone().size > 1, len(first)
    devices = tuple(workers.found(memory_limit, sharded=sharded))
    group = processes.everyone() if sharded else processes.group_of(devices)
    if sharded and (workers.process_count > 1 or processes.group_of(devices).size > 1):
        raise InputError(
            f"sharded is True and workers is {workers}; accepted: the default, or this process's "
            "own devices"
        )
    if packed and group.size > 1 and not sharded:
        raise InputError(
            "packed is True in a job of several processes, which would each hold the matrix; "
            "accepted: sharded=True besides"
        )
    if sharded and second is not None:
        rows = shard_of(num_rows, group)
        first = first[rows.start : rows.stop]
        if num_rows < group.size:
            raise InputError(
                f"sharded is True and x1 has {num_rows} examples; accepted with {group.size} "
                "processes: as many or more"
            )
    inputs = kernel, first, second, np.dtype(dtype)
    return Job(*inputs, tile, memory_limit, devices, group, packed, sharded, num_rows)


def identity(job: Job, tile_shape: tuple[int, int]) -> dict[str, Any]:
    """Returns all that decides the bits of the matrix, for a person and for the next call."""
    lowered = tile_programs.lower(job.stages, job.x1, job.columns, job.dtype, tile_shape)
    program = "".join(stage.as_text() for stage in lowered)
    function = job.kernel.func if isinstance(job.kernel, functools.partial) else job.kernel
    stored = {"stored": job.stored(tile_shape[0])} if job.packed else {}
    shard = {"shard": [job.group.index, job.group.size]} if job.sharded else {}
    return {
        **stored,
        **shard,
        "kernel": getattr(function, "__qualname__", type(function).__qualname__),
        "program": hashlib.sha256(program.encode()).hexdigest(),
        "x1": gram_file.digest(job.x1),
        "x2": None if job.symmetric else gram_file.digest(job.columns),
        "symmetric": job.symmetric,
        "shape": job.shape,
        "dtype": job.dtype.name,
        "tile": tile_shape,
        "device": job.devices[0].device_kind,
    }
