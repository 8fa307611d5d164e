"""Tiles of a matrix, computed in rounds: one on each device, the next while one is fetched."""

import collections
import math
from collections.abc import Callable, Iterable, Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Array, PyTree

from lsa_jax.errors import NumericalError
from lsa_jax.kernels.matrices import programs as tile_programs
from lsa_jax.kernels.matrices.file import Place, Tile
from lsa_jax.kernels.matrices.programs import DevicePrograms, TileProgram
from lsa_jax.kernels.matrices.staged import Stages
from lsa_jax.processes import ProcessGroup

# Rounds of tiles that devices may compute while the host takes care of an earlier one.
_AHEAD = 1


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
    programs = tile_programs.on_devices(stages, program, own)
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
