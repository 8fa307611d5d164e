"""A kernel compiled for tiles of one shape, chosen by memory and cache, and run in rounds.

A round is one tile on each device; the next one is computed while one is fetched.
"""

import collections
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from lsa_jax import arrays, backend, parallel
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.kernels.matrices.staged import Stages
from lsa_jax.processes import ProcessGroup

# Examples a side of the largest tile that is tried. An accelerator needs more work at a time.
_LARGEST_SIDE = {"cpu": 256, "gpu": 1024, "tpu": 1024}

# Examples a side below which a tile is not cut just to give every device some.
_SMALLEST_SHARE = 64

# Bytes of a CPU's cache that a tile aims for. A kernel that holds many numbers for each pair
# (infinite width) runs up to twice as fast within it, measured on 2 cores that share 32 MB.
_CACHE = 8e6

# XLA halves the vectors of processors that have 512 bits, as some of them then slow down. The
# infinite-width recursion gained a third with whole ones on an AMD EPYC; results are the same bits.
_CPU_OPTIONS = {"xla_cpu_prefer_vector_width": 512}


# Rounds of tiles that devices may compute while the host takes care of an earlier one.
_AHEAD = 1


class TileProgram(NamedTuple):
    """The kernel's stages compiled for tiles of one shape, on one device.

    Attributes:
        shape: rows and columns of a tile.
        prepare: `(*given, x [side, ...]) -> tree`, for rows and for columns.
        between: `(*given, tree of rows, tree of columns) -> [rows, columns]`.
        memory: bytes of the rows and columns, prepared, and of either stage's own needs.
        held: bytes of a side, prepared, for rows and for columns.
        spare: bytes that the limit leaves.
    """

    shape: tuple[int, int]
    prepare: tuple[Callable[..., PyTree], Callable[..., PyTree]]
    between: Callable[..., Array]
    memory: int
    held: tuple[int, int]
    spare: float = 0.0


def choose(
    stages: Stages,
    x1: np.ndarray,
    x2: np.ndarray,
    dtype: np.dtype,
    memory_limit: float,
    num_devices: int,
) -> TileProgram:
    """Returns the kernel compiled for the largest tile that fits the memory and suits the cache.

    Raises:
        InputError: as in `lower`, or one pair is over the limit.
    """
    longer = max(len(x1), len(x2))

    def at_most(side: int) -> TileProgram:
        """Compiles for the side, or for a quarter of it where the compiler finds no memory."""
        # An even share of the longer axis leaves little to fill up. The other axis follows, so that
        # a train-train and a test-train matrix share one program.
        side = math.ceil(longer / math.ceil(longer / side))
        try:
            return compile_tile(stages, x1, x2, dtype, (min(side, len(x1)), min(side, len(x2))))
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error) or side == 1:
                raise
        return at_most(max(1, side // 4))

    on_cpu = backend.is_cpu()
    program = at_most(min(largest_side(longer), _share(longer, num_devices)))
    while program.memory > memory_limit:
        if program.shape == (1, 1):
            check_memory(program, memory_limit, "a higher limit")
        # At least halved, so that few programs are compiled where memory grows less than pairs do.
        program = at_most(min(max(program.shape) // 2, _side_for(memory_limit, program)))
    if on_cpu and program.memory > _CACHE:
        smaller = at_most(_side_for(_CACHE, program))
        # Where memory grows like the side (Jacobians of a finite network: exponent 1/2 in pairs)
        # rather than like the pairs (exponent 1), all pairs of a tile share its work on examples,
        # and a large tile is worth more than the cache.
        share_of_pairs = math.prod(smaller.shape) / math.prod(program.shape)
        if smaller.memory / program.memory < share_of_pairs**0.75:
            program = smaller
    return program


def largest_side(longer: int) -> int:
    """Returns the side of the largest tile that is tried, for `longer` examples."""
    return min(longer, _LARGEST_SIDE[backend.platform()])


def _share(longer: int, num_devices: int) -> int:
    """Returns the side that leaves tiles for every device, several on and above the diagonal."""
    parts = 1 if num_devices == 1 else 2 * math.ceil(math.sqrt(num_devices))
    return max(math.ceil(longer / parts), _SMALLEST_SHARE)


def _side_for(memory: float, program: TileProgram) -> int:
    """Returns the side that takes this memory, if memory grows like the number of pairs."""
    return max(1, int(max(program.shape) * math.sqrt(memory / program.memory)))


def check_memory(program: TileProgram, memory_limit: float, fix: str) -> None:
    """Raises InputError where a tile takes more than the limit; `fix` is the remedy."""
    if program.memory > memory_limit:
        raise InputError(
            f"memory_limit is {memory_limit:.3g} bytes, and a tile of {program.shape[0]} x "
            f"{program.shape[1]} pairs takes {program.memory:.3g}; accepted: {fix}"
        )


def lower(
    stages: Stages, x1: np.ndarray, x2: np.ndarray, dtype: np.dtype, tile_shape: tuple[int, int]
) -> list[jax.stages.Lowered]:
    """Returns the programs for tiles of one shape, not yet compiled: of rows, columns and pairs.

    Raises:
        InputError: the result is not [rows, columns] of real numbers, or has fewer digits than
            float64 holds where that is the dtype.
    """
    blocks = [
        backend.form(jax.ShapeDtypeStruct((side, *x.shape[1:]), x.dtype))
        for side, x in zip(tile_shape, (x1, x2), strict=True)
    ]
    compiled_with = functools.partial(
        jax.jit, compiler_options=_CPU_OPTIONS if backend.is_cpu() else None
    )
    given = jax.tree.map(backend.form, stages.given)
    once = functools.cache(functools.partial(compiled_with(stages.prepare).lower, *given))
    with arrays.call_errors("kernel", *blocks):
        prepare = [once(block) for block in blocks]
        prepared = (jax.tree.map(backend.form, side.out_info) for side in prepare)
        between = compiled_with(stages.between).lower(*given, *prepared)
    shape = getattr(between.out_info, "shape", None)
    if shape != tile_shape:
        raise InputError(
            f"kernel turns {blocks[0].shape} and {blocks[1].shape} into {shape}; accepted: "
            f"{tile_shape}"
        )
    found = between.out_info.dtype
    if jnp.issubdtype(found, jnp.complexfloating):
        raise InputError(f"kernel turns inputs of {x1.dtype} into {found}; accepted: real numbers")
    if dtype == np.float64 and jnp.issubdtype(found, jnp.floating) and found != np.float64:
        raise InputError(
            f"dtype is 'float64', and kernel turns inputs of {x1.dtype} into {found}; accepted: "
            "'float32', or a kernel in float64 (of a finite network: parameters in float64, and an "
            "apply that does not cast, as that of models.network does)"
        )
    return [*prepare, between]


def compile_tile(
    stages: Stages, x1: np.ndarray, x2: np.ndarray, dtype: np.dtype, tile_shape: tuple[int, int]
) -> TileProgram:
    """Compiles the kernel for tiles of one shape, and reads how much memory they take.

    Raises:
        InputError: as in `lower`.
    """
    compiled = functools.cache(jax.stages.Lowered.compile)
    *prepare, between = map(compiled, lower(stages, x1, x2, dtype, tile_shape))
    *examples, pairs = (_memory_of(program.runtime_executable()) for program in (*prepare, between))
    held = tuple(memory.output_size_in_bytes for memory in examples)
    # Arrays that the stages are given are not counted.
    needs = [
        memory.temp_size_in_bytes + side * x[:1].nbytes
        for memory, side, x in zip(examples, tile_shape, (x1, x2), strict=True)
    ]
    needs.append(pairs.temp_size_in_bytes + pairs.output_size_in_bytes)
    return TileProgram(tile_shape, tuple(prepare), between, sum(held) + max(needs), held)


# A matrix of a few hundred examples takes some 200 ms, and XLA 2 to report a program's memory.
@functools.lru_cache(maxsize=16)
def _memory_of(executable: Any) -> Any:
    return executable.get_compiled_memory_stats()


_Prepare = Callable[[Sequence[np.ndarray]], list[PyTree]]


class DevicePrograms(NamedTuple):
    """The programs for as many tiles as there are devices.

    `prepare`, for rows and for columns, turns blocks [side, ...] into a tree of each, on one of the
    devices. `between`, of one tree a device for either side, returns a function that waits for the
    result [devices, rows, columns].
    """

    devices: Sequence[jax.Device]
    prepare: tuple[_Prepare, _Prepare]
    between: Callable[[Sequence[PyTree], Sequence[PyTree]], Callable[[], Array | np.ndarray]]


def _on_devices(
    stages: Stages, program: TileProgram, devices: Sequence[jax.Device]
) -> DevicePrograms:
    """Returns the programs for these devices.

    They may be the first one of this process several times: each stands for a thread then.
    """
    if set(devices) == {jax.local_devices()[0]}:  # for which they were compiled
        given = jax.device_put(stages.given, devices[0])
        bound = [functools.partial(run, *given) for run in (*program.prepare, program.between)]
        return _in_threads(program._replace(prepare=tuple(bound[:2]), between=bound[2]), devices)
    return _mapped(stages, devices)


# Kept from call to call, as the C library keeps memory for a thread: with new ones, a matrix of a
# few hundred examples took some 3 % longer.
@functools.cache
def _threads(count: int) -> futures.Executor:
    return futures.ThreadPoolExecutor(count)


def _in_threads(program: TileProgram, devices: Sequence[jax.Device]) -> DevicePrograms:
    """Returns the programs for threads of one device. None of them waits for the others."""
    pool = _threads(len(devices))
    wide = jax.config.jax_enable_x64

    def start(function: Callable, *arguments: Any) -> futures.Future[PyTree]:
        def run() -> PyTree:
            with jax.enable_x64(wide):  # each thread has its own
                # A thread's operations run in order on a CPU, so the thread has to wait.
                return jax.block_until_ready(function(*arguments))

        return pool.submit(run)

    def prepare_each(prepare: Callable, blocks: Sequence[np.ndarray]) -> list[PyTree]:
        started = [start(prepare, block) for block in blocks]
        return [one.result() for one in started]

    def between_each(
        rows: Sequence[PyTree], columns: Sequence[PyTree]
    ) -> Callable[[], Array | np.ndarray]:
        started = [start(program.between, *both) for both in zip(rows, columns, strict=True)]
        if len(started) == 1:  # it may stay on its device on the way to other processes
            return lambda: started[0].result()[None]
        return lambda: np.stack([one.result() for one in started])

    rows, columns = (functools.partial(prepare_each, prepare) for prepare in program.prepare)
    return DevicePrograms(devices, (rows, columns), between_each)


def _mapped(stages: Stages, devices: Sequence[jax.Device]) -> DevicePrograms:
    """Returns the programs for several devices."""
    given = parallel.copy_to_each(stages.given, devices)
    prepare, between = (
        functools.partial(_map_stage(stage, tuple(devices)), *given) for stage in stages[:2]
    )

    def prepare_each(blocks: Sequence[np.ndarray]) -> list[PyTree]:
        found: list[PyTree] = []
        for first in range(0, len(blocks), len(devices)):
            some = list(blocks[first : first + len(devices)])
            filled = some + some[-1:] * (len(devices) - len(some))
            found += parallel.split_devices(prepare(np.stack(filled)))[: len(some)]
        return found

    def between_each(rows: Sequence[PyTree], columns: Sequence[PyTree]) -> Callable[[], Array]:
        values = between(*(parallel.join_devices(side, devices) for side in (rows, columns)))
        return lambda: values

    return DevicePrograms(devices, (prepare_each, prepare_each), between_each)


# A train-train and a test-train matrix are computed one after the other by the same programs.
@functools.lru_cache(maxsize=8)
def _map_stage(stage: Callable, devices: tuple[jax.Device, ...]) -> Callable:
    return parallel.map_devices(jax.jit(stage), devices)


class PreparedBlocks:
    """Prepares blocks of the inputs on demand, and keeps the last used ones on the devices."""

    def __init__(
        self, x: np.ndarray, side: int, axis: int, programs: DevicePrograms, room: int
    ) -> None:
        """Keeps up to `room` blocks of `side` examples of x on each device."""
        self.side, self.room = side, room
        self._x = x
        self._devices, self._prepare = programs.devices, programs.prepare[axis]
        self._kept: list[collections.OrderedDict[int, PyTree]] = [
            collections.OrderedDict() for _ in self._devices
        ]

    @property
    def holds_all(self) -> bool:
        """Whether there is room for all blocks."""
        return self.room * self.side >= len(self._x)

    def fill(self, starts: Iterable[int]) -> None:
        """Prepares these blocks for every device, if there is room for all.

        Before the first tile: later, blocks would wait for the tiles that are being computed.
        """
        if self.holds_all:
            missing = sorted(set(starts).difference(self._kept[0]))
            for start, block in self._prepared(missing).items():
                for kept, device in zip(self._kept, self._devices, strict=True):
                    kept[start] = _on(device, block)

    def on_each(self, starts: Sequence[int]) -> list[PyTree]:
        """Returns the blocks that begin at these examples, one on each device."""
        found = {start: kept[start] for kept in self._kept for start in starts if start in kept}
        for kept, start in zip(self._kept, starts, strict=True):
            if start in kept:
                kept.move_to_end(start)
            elif len(kept) == self.room:  # freed before others are prepared
                kept.popitem(last=False)
        found |= self._prepared([start for start in dict.fromkeys(starts) if start not in found])
        for kept, device, start in zip(self._kept, self._devices, starts, strict=True):
            if start not in kept:
                kept[start] = _on(device, found[start])
        return [kept[start] for kept, start in zip(self._kept, starts, strict=True)]

    def _prepared(self, starts: Sequence[int]) -> dict[int, PyTree]:
        blocks = self._prepare([self._block(start) for start in starts])
        return dict(zip(starts, blocks, strict=True))

    def _block(self, start: int) -> np.ndarray:
        """Returns a side's examples; a last block is filled up with copies of the last one."""
        if start + self.side <= len(self._x):
            return self._x[start : start + self.side]
        return self._x[np.minimum(np.arange(start, start + self.side), len(self._x) - 1)]


def _on(device: jax.Device, block: PyTree) -> PyTree:
    """Returns the block on a device: a copy where it is on another one."""
    there = all(leaf.devices() == {device} for leaf in jax.tree.leaves(block))
    return block if there else jax.device_put(block, device)


def rows_and_columns(
    x1: np.ndarray, x2: np.ndarray | None, program: TileProgram, programs: DevicePrograms
) -> tuple[PreparedBlocks, PreparedBlocks]:
    """Returns the blocks of both axes, which are the same without `x2` if there is room for all.

    Otherwise most of the room is for rows. Tiles are to be computed column by column over as many
    rows, so that only columns are prepared again.
    """
    tile_shape, held = program.shape, program.held
    columns = x1 if x2 is None else x2
    counts = [math.ceil(len(x) / side) for x, side in zip((x1, columns), tile_shape, strict=True)]
    needed = [count * size for count, size in zip(counts, held, strict=True)]
    available = program.spare + sum(held)
    if x2 is None and needed[0] <= available:
        blocks = PreparedBlocks(x1, tile_shape[0], 0, programs, counts[0])
        return blocks, blocks
    if sum(needed) > available:
        # One column more, as the next one comes while the last one is still in use.
        counts[1] = 2 if program.spare >= held[1] else 1
        counts[0] = max(1, int((available - counts[1] * held[1]) // held[0]))
    return (
        PreparedBlocks(x1, tile_shape[0], 0, programs, counts[0]),
        PreparedBlocks(columns, tile_shape[1], 1, programs, counts[1]),
    )


def in_order(places: Sequence[Place], rows: PreparedBlocks, columns: PreparedBlocks) -> list[Place]:
    """Returns places of tiles in the order in which few columns are prepared again.

    Where none is, tiles on the diagonal come last: they can take less time, and devices that work
    at the same time should have equal work.
    """
    if columns.holds_all:
        return sorted(places, key=lambda place: rows is columns and place.row == place.column)
    height = rows.room * rows.side
    return sorted(places, key=lambda place: (place.row // height, place.column, place.row))


def tiles(
    stages: Stages,
    x1: np.ndarray,
    x2: np.ndarray | None,
    program: TileProgram,
    places: list[Place],
    devices: Sequence[jax.Device],
    team: ProcessGroup,
) -> Iterator[Tile]:
    """Computes tiles in rounds, one on each own device, and yields them in order.

    `x2` is None where the columns are the rows; the team's processes compute the same tiles
    together.
    """
    own = devices[: math.ceil(len(places) / team.size)]
    width, first = len(own) * team.size, len(own) * team.index
    programs = _on_devices(stages, program, own)
    rows, columns = rows_and_columns(x1, x2, program, programs)
    places = in_order(places, rows, columns)
    rows.fill(place.row for place in places)
    columns.fill(place.column for place in places)
    shape = len(x1), len(x1 if x2 is None else x2)

    def fetch(places: list[Place], values: Callable[[], Array]) -> Iterator[Tile]:
        """Yields the tiles of a round, of all processes, without entries outside of the matrix."""
        found = team.gather_devices(values())
        for place, one in zip(places, found.reshape(-1, *found.shape[2:]), strict=False):
            one = one[: shape[0] - place.row, : shape[1] - place.column]
            _check_finite(one, place)
            yield Tile(place, one)

    running: collections.deque[tuple[list[Place], Callable[[], Array]]] = collections.deque()
    for start in range(0, len(places), width):
        some = places[start : start + width]
        # The last round may be short: its last tile is computed by all devices that are left.
        padded = (some + some[-1:] * (width - len(some)))[first : first + len(own)]
        blocks1 = rows.on_each([place.row for place in padded])
        blocks2 = columns.on_each([place.column for place in padded])
        running.append((some, programs.between(blocks1, blocks2)))
        if len(running) > _AHEAD:
            yield from fetch(*running.popleft())
    while running:
        yield from fetch(*running.popleft())


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
