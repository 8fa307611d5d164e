"""Matrices that processes share: rows, or the upper tiles of a symmetric matrix.

All processes call the methods of such a matrix with the same arguments and get the same result:
each goes through its own share, and the shares are added up. A solver, which decides as it goes,
runs in the first process alone (`led`); the others do their share of each product until it ends, so
rounding that differs between processes cannot make them decide differently.

A packed matrix keeps the tiles on and above the diagonal: half the bytes. They are square, of one
size, and lie one after the other, those of the first row of tiles first, so that a row of tiles is
one piece of a file. Entries of a tile outside of the matrix are 0.
"""

import bisect
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float, Int, Shaped

from lsa_jax import arrays
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices.file import Tile
from lsa_jax.processes import ALONE, ProcessGroup

Value = TypeVar("Value")

# Bytes of the entries that are widened to float64 at a time: little memory next to the matrix. Many
# at once make one long product, which took less than a tenth of the time of as many short ones.
_WIDENED = 64e6


def shard_of(count: int, group: ProcessGroup) -> range:
    """Returns the indices, of `count`, of this process's share: about as many in each."""
    return range(count * group.index // group.size, count * (group.index + 1) // group.size)


def own_path(path: Path, group: ProcessGroup) -> Path:
    """Returns the file of this process's share, `NAME.01of04.npy`; in a group of one `NAME.npy`."""
    if group.size == 1:
        return path
    return path.with_stem(f"{path.stem}.{group.index:02}of{group.size:02}")


def by_all(method: Callable) -> Callable:
    """Makes the other processes take part in a method that the first one calls within `led`."""

    @functools.wraps(method)
    def call(self: "Sharded", *arguments: Any) -> Any:
        if self.ask is not None:
            self.ask(method.__name__, arguments)
        return method(self, *arguments)

    return call


class Sharded:
    """A matrix that processes may share.

    Attributes:
        group: the processes, each with its share; a process that has all of it is alone.
        shape: rows and columns, of all processes together.
        dtype: of the entries.
        kept: the entries of this process.
        ask: makes the others call a method, within `led`.
    """

    ndim = 2

    def __init__(self, kept: np.ndarray, shape: tuple[int, int], group: ProcessGroup) -> None:
        """Takes the entries of this process, the shape of the whole, and the processes."""
        self.group, self.shape, self.kept, self.dtype = group, shape, kept, kept.dtype
        self.ask: Callable[[str, tuple], Any] | None = None

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes that this process keeps."""
        return self.kept.nbytes

    def added_up(self, own: Callable[[], np.ndarray]) -> np.ndarray:
        """Returns the sum of a function's results over processes; if one fails, all raise."""
        return self.group.add_up(self.group.in_each(own))

    @by_all
    def is_finite(self) -> bool:
        """Returns whether all entries are finite."""
        return not self.added_up(lambda: np.array([not is_finite(self.kept)], float)).any()


def led(function: Callable[[], Value], *matrices: Any) -> Value:
    """Calls a function in the first process that shares matrices; all get its result.

    It may call the methods of these matrices, and no others that processes call together; its
    result or exception goes to all, by pickle. Where no matrix is sharded it is just called.
    """
    sharded = [one for one in matrices if isinstance(one, Sharded) and one.group.size > 1]
    if not sharded:
        return function()
    group, value, failure = sharded[0].group, None, None
    if group.is_first:
        for number, matrix in enumerate(sharded):
            matrix.ask = lambda *method, number=number: group.from_first(lambda: (number, *method))
        try:
            value = function()
        except Exception as error:
            failure = error
        finally:
            for matrix in sharded:
                matrix.ask = None
        group.from_first(lambda: None)
    else:
        while (asked := group.from_first(lambda: None)) is not None:
            number, method, arguments = asked
            getattr(sharded[number], method)(*arguments)

    def outcome() -> Value:
        if failure is not None:
            raise failure
        return value

    return group.from_first(outcome)


def by_first(function: Callable) -> Callable:
    """Runs a function of sharded matrices in the first process alone: see `led`."""

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        return led(lambda: function(*arguments, **named), *arguments, *named.values())

    return call


class ShardedRows(Sharded):
    """A matrix whose rows are split over processes, as `gram(x1, x2, sharded=True)` returns it."""

    def __init__(
        self, own: Float[np.ndarray, "own_rows n"], count: int, group: ProcessGroup
    ) -> None:
        """Takes this process's rows, of `count` in all."""
        checked = arrays.real_numbers("own", own)
        own = own if isinstance(own, np.ndarray) else checked
        arrays.check_axes("own", own.shape, "m n", empty=True)
        rows = len(shard_of(count, group))
        if len(own) != rows or not own.shape[1]:
            raise InputError(f"own has shape {own.shape}; accepted: ({rows}, n), n 1 or more")
        super().__init__(own, (count, own.shape[1]), group)

    @by_all
    def multiply(self, vectors: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "m c"]:
        """Returns the product in float64."""

        def product() -> np.ndarray:
            found, own = np.zeros((len(self), vectors.shape[1])), shard_of(len(self), self.group)
            found[own.start : own.stop] = multiply(self.kept, vectors)
            return found

        return self.added_up(product)


def count_tiles(n: int, side: int) -> int:
    """Returns how many tiles of an n x n matrix are on and above the diagonal."""
    along = math.ceil(n / side)
    return along * (along + 1) // 2


def stored_shape(n: int, side: int, group: ProcessGroup) -> tuple[int, int, int]:
    """Returns the shape of a process's tiles of an n x n matrix, one after the other."""
    return len(shard_of(count_tiles(n, side), group)), side, side


def put(tiles: Float[np.ndarray, "k side side"], tile: Tile, n: int, group: ProcessGroup) -> None:
    """Writes a tile on or above the diagonal to its place among those of this process."""
    (row, column), values = tile
    side = tiles.shape[1]
    if row == column:
        values = np.triu(values) + np.triu(values, 1).T
    number = _first_of(row // side, n, side) + (column - row) // side
    number -= shard_of(count_tiles(n, side), group).start
    tiles[number, : values.shape[0], : values.shape[1]] = values


def _first_of(row: int, n: int, side: int) -> int:
    """Returns the number of the tile on the diagonal, of a row of tiles."""
    along = math.ceil(n / side)
    return row * along - row * (row - 1) // 2


class PackedMatrix(Sharded):
    """A symmetric matrix whose tiles on and above the diagonal are in memory or mapped from a file.

    `numpy.asarray` makes the whole matrix of it. Solvers that go through a matrix block by block
    (`regress_cg`) take it as it is. Processes that share one have some of the tiles each.
    """

    def __init__(
        self, tiles: Float[np.ndarray, "k side side"], n: int, group: ProcessGroup = ALONE
    ) -> None:
        """Takes this process's tiles of an n x n matrix, as `put` has written them."""
        tiles = arrays.real_numbers("tiles", tiles)
        arrays.check_axes("tiles", tiles.shape, "k side side", empty=True)
        wanted = stored_shape(n, max(1, tiles.shape[1]), group)
        if tiles.shape != wanted:
            raise InputError(f"tiles has shape {tiles.shape}; accepted with n {n}: {wanted}")
        super().__init__(tiles, (n, n), group)
        self._n, self._side = n, tiles.shape[1]
        self._along = math.ceil(n / self._side)
        # Numbers of the tiles on the diagonal, and of this process's tiles.
        self._firsts = [_first_of(row, n, self._side) for row in range(self._along)]
        self._own = shard_of(count_tiles(n, self._side), group)
        self._diagonal: np.ndarray | None = None

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a packed matrix is not an array: copy=False cannot be had")
        return self.rows(range(self._n)).astype(dtype or self.dtype, copy=False)

    @by_all
    def diagonal(self) -> Float[np.ndarray, " n"]:
        """Returns the entries on the diagonal."""
        if self._diagonal is None:
            found = self.added_up(self._own_diagonal)
            self._diagonal = found.reshape(-1)[: self._n].astype(self.dtype)
        return self._diagonal

    def _own_diagonal(self) -> np.ndarray:
        """Returns the entries on the diagonal by rows of tiles, 0 where others have them."""
        found = np.zeros((self._along, self._side))
        for row, number in enumerate(self._firsts):
            if number in self._own:
                found[row] = np.diagonal(self._tile(number))
        return found

    @by_all
    def rows(self, indices: Sequence[int] | Int[np.ndarray, " r"]) -> Float[np.ndarray, "r n"]:
        """Returns some rows; goes through the tiles that they lie in once."""
        return self.added_up(lambda: self._own_rows(np.asarray(indices))).astype(
            self.dtype, copy=False
        )

    def _own_rows(self, indices: np.ndarray) -> np.ndarray:
        """Returns some rows, with 0 where other processes have the tiles."""
        alone = self.group.size == 1
        found = np.zeros((len(indices), self._n), self.dtype if alone else float)
        blocks, inside = np.divmod(indices, self._side)
        for block in np.unique(blocks).tolist():
            mine = np.flatnonzero(blocks == block)
            local = inside[mine]
            for other in range(self._along):
                # Below the diagonal: the mirror image.
                low, high = min(block, other), max(block, other)
                if (number := self._firsts[low] + high - low) not in self._own:
                    continue
                tile, start = self._tile(number), other * self._side
                values = tile[local] if block <= other else tile[:, local].T
                found[mine, start : start + self._side] = values[:, : self._n - start]
        return found

    @by_all
    def multiply(self, vectors: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Returns the product in float64; reads every tile once, for itself and its mirror image.

        O(n^2 c) time; 64 MB, or a tile if that is more, and 24 n c bytes in addition to the matrix.
        """
        return self.added_up(lambda: self._own_product(vectors))

    def _own_product(self, vectors: np.ndarray) -> np.ndarray:
        """Returns the part of the product that tiles of this process make."""
        n, side = self._n, self._side
        filled = np.zeros((self._along * side, vectors.shape[1]))
        filled[:n] = vectors
        product = np.zeros_like(filled)
        for row, column, some in self._pieces():
            # Side by side, as they lie in the matrix.
            wide = some.transpose(1, 0, 2).astype(float, order="C").reshape(side, -1)
            rows = slice(row * side, (row + 1) * side)
            start = column * side
            product[rows] += wide @ filled[start : start + wide.shape[1]]
            if row == column:  # the tile on the diagonal is its own mirror image
                wide, start = wide[:, side:], start + side
            product[start : start + wide.shape[1]] += wide.T @ filled[rows]
        return product[:n]

    def _tile(self, number: int) -> np.ndarray:
        return self.kept[number - self._own.start]

    def _pieces(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yields tiles of a row that follow each other, with the row and the first one's column."""
        most = max(1, int(_WIDENED / (8 * self._side**2)))
        number = self._own.start
        while number < self._own.stop:
            row = bisect.bisect_right(self._firsts, number) - 1
            column = row + number - self._firsts[row]
            count = min(most, self._along - column, self._own.stop - number)
            start = number - self._own.start
            yield row, column, self.kept[start : start + count]
            number += count


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Yields the rows of each block of a matrix, or the tiles."""
    size = max(1, int(_WIDENED / (8 * max(1, math.prod(shape[1:])))))
    for start in range(0, shape[0], size):
        yield slice(start, min(start + size, shape[0]))


def multiply(
    matrix: Shaped[np.ndarray, "m n"] | Sharded, vectors: Float[np.ndarray, "n c"]
) -> Float[np.ndarray, "m c"]:
    """Returns the product in float64, without a copy of the matrix in float64."""
    if isinstance(matrix, Sharded):
        return matrix.multiply(vectors)
    product = np.empty((len(matrix), vectors.shape[1]))
    for rows in _blocks(matrix.shape):
        product[rows] = np.asarray(matrix[rows], dtype=float) @ vectors
    return product


def is_finite(matrix: Shaped[np.ndarray, "m ..."] | Sharded) -> bool:
    """Returns whether all entries are finite."""
    if isinstance(matrix, Sharded):
        return matrix.is_finite()
    return all(np.isfinite(matrix[rows]).all() for rows in _blocks(matrix.shape))


def pick(matrix: np.ndarray | PackedMatrix, indices: Int[np.ndarray, " r"]) -> np.ndarray:
    """Returns some rows of a matrix of either kind."""
    return matrix.rows(indices) if isinstance(matrix, PackedMatrix) else np.asarray(matrix[indices])
