"""Tiles of a matrix, computed in rounds: one on each device, the next while one is fetched."""

import collections
import math
from collections.abc import Callable, Iterator

import numpy as np
from jaxtyping import Array

from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import memory, prepared
from lsa_jax.kernels.matrices import programs as tile_programs
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.kernels.matrices.job import Job
from lsa_jax.kernels.matrices.packed import count_tiles
from lsa_jax.kernels.matrices.programs import TileProgram
from lsa_jax.kernels.matrices.shards import shard_of

# Rounds of tiles that devices may compute while the host takes care of an earlier one.
_AHEAD = 1


def make_program(job: Job, tile_shape: tuple[int, int] | None, *, held: int) -> TileProgram:
    """Compiles the kernel for tiles of this shape, or of one that suits the memory.

    Args:
        job: what is to be computed.
        tile_shape: None leaves the choice to the memory, unless the job has a tile.
        held: bytes of host memory that the matrix takes.
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
    """Returns the kernel compiled for a tile that suits the memory, and leaves one for each."""
    inputs = job.stages, job.x1, job.columns, job.dtype
    program = tile_programs.choose(*inputs, limit, len(job.devices) * job.shards.size)
    side = program.shape[0]
    while job.packed and side > 1 and count_tiles(len(job.x1), side) < job.shards.size:
        side -= 1
    if side == program.shape[0]:
        return program
    return tile_programs.compile_tile(*inputs, (side, side))


def places_of(job: Job, tile_shape: tuple[int, int]) -> list[Place]:
    """Lists where tiles of this process's part start; of a symmetric matrix, the upper ones."""
    shape = job.shape
    places = [
        Place(row, column)
        for row in range(0, shape[0], tile_shape[0])
        for column in range(row if job.symmetric else 0, shape[1], tile_shape[1])
    ]
    if not (job.sharded and job.symmetric):
        return places
    if len(places) < job.shards.size:
        raise InputError(
            f"sharded is True and the matrix {shape} has {len(places)} tiles of {tile_shape}; "
            f"accepted with {job.shards.size} processes: as many or more, by a smaller tile"
        )
    own = shard_of(len(places), job.shards)
    return places[own.start : own.stop]


def tiles(job: Job, program: TileProgram, places: list[Place]) -> Iterator[Tile]:
    """Computes tiles in rounds, one on each device, and yields them in order."""
    own = job.own[: math.ceil(len(places) / job.team.size)]
    width, first = len(own) * job.team.size, len(own) * job.team.index
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


def _fetch(job: Job, places: list[Place], values: Callable[[], Array]) -> Iterator[Tile]:
    """Yields the tiles of a round, of all processes, without what sticks out of the matrix."""
    found = job.team.gather_devices(values())
    for place, one in zip(places, found.reshape(-1, *found.shape[2:]), strict=False):
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
