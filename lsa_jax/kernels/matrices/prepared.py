"""Blocks of examples that lie on the devices as a kernel has prepared them."""

import collections
import math
from collections.abc import Iterable, Sequence

import jax
import numpy as np
from jaxtyping import PyTree

from lsa_jax.kernels.matrices.file import Place
from lsa_jax.kernels.matrices.programs import DevicePrograms, TileProgram


class PreparedBlocks:
    """Prepares blocks of the inputs when they are asked for, and keeps those used last."""

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
            elif len(kept) == self.room:  # made before others are prepared
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
    """Returns the block as it lies on a device: a copy where it lies on another one."""
    there = all(leaf.devices() == {device} for leaf in jax.tree.leaves(block))
    return block if there else jax.device_put(block, device)


def rows_and_columns(
    x1: np.ndarray, x2: np.ndarray | None, program: TileProgram, programs: DevicePrograms
) -> tuple[PreparedBlocks, PreparedBlocks]:
    """Returns the blocks of both axes, which are the same without `x2` if there is room for all.

    Otherwise most of the room is for rows. Tiles are to be computed column by column over as many
    rows, so that the columns alone are prepared again.
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

    Where none is, tiles on the diagonal come last: those can take less time, and devices that work
    side by side should have as much to do.
    """
    if columns.holds_all:
        return sorted(places, key=lambda place: rows is columns and place.row == place.column)
    height = rows.room * rows.side
    return sorted(places, key=lambda place: (place.row // height, place.column, place.row))
