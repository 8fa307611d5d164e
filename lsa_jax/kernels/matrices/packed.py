"""Symmetric matrices of which only the tiles on and above the diagonal are kept: half the bytes.

The tiles are square, of one size, and lie one after the other, those of the first row of tiles
first, so that a row of tiles is one piece of a file. What sticks out of the matrix is 0. Processes
may share them: each keeps some that follow each other.
"""

import bisect
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from lsa_jax import arrays
from lsa_jax.errors import InputError
from lsa_jax.kernels.matrices.file import Tile, read_record
from lsa_jax.kernels.matrices.shards import WIDENED, Sharded, by_all, shard_of
from lsa_jax.processes import ALONE, ProcessGroup


def count_tiles(n: int, side: int) -> int:
    """Returns how many tiles of an n x n matrix are on and above the diagonal."""
    along = math.ceil(n / side)
    return along * (along + 1) // 2


def stored_shape(n: int, side: int, group: ProcessGroup) -> tuple[int, int, int]:
    """Returns the shape of a process's tiles of an n x n matrix, one after the other."""
    return len(shard_of(count_tiles(n, side), group)), side, side


def put(tiles: Float[np.ndarray, "k side side"], tile: Tile, n: int, group: ProcessGroup) -> None:
    """Writes a tile on or above the diagonal where it belongs among those of this process."""
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

    `numpy.asarray` of it is the whole matrix. The solvers that go through a matrix block by block
    (`regress_cg`) take it as it is. Of one that processes share, each has some of the tiles, and
    all of them call its methods.
    """

    def __init__(
        self, tiles: Float[np.ndarray, "k side side"], n: int, group: ProcessGroup = ALONE
    ) -> None:
        """Takes this process's tiles of an n x n matrix, as `put` has written them."""
        super().__init__(group)
        tiles = arrays.real_numbers("tiles", tiles)
        arrays.check_axes("tiles", tiles.shape, "k side side", empty=True)
        wanted = stored_shape(n, max(1, tiles.shape[1]), group)
        if tiles.shape != wanted:
            raise InputError(f"tiles has shape {tiles.shape}; accepted with n {n}: {wanted}")
        self.tiles, self._n, self._side = tiles, n, tiles.shape[1]
        self._along = math.ceil(n / self._side)
        # Numbers of the tiles on the diagonal, and of those that are here.
        self._firsts = [_first_of(row, n, self._side) for row in range(self._along)]
        self._own = shard_of(count_tiles(n, self._side), group)
        self._diagonal: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._n, self._n

    @property
    def dtype(self) -> np.dtype:
        """Of the values."""
        return self.tiles.dtype

    @property
    def nbytes(self) -> int:
        """Bytes that this process keeps."""
        return self.tiles.nbytes

    def __len__(self) -> int:
        return self._n

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
        """Returns what tiles of this process have of some rows, 0 elsewhere."""
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
    def is_finite(self) -> bool:
        """Says whether all entries are finite."""

        def bad() -> np.ndarray:
            return np.array(
                [not all(np.isfinite(some).all() for *_, some in self._pieces())], float
            )

        return not self.added_up(bad).any()

    @by_all
    def multiply(self, vectors: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Returns the product in float64; reads every tile once, for itself and its mirror image.

        O(n^2 c) time; 64 MB, or a tile if that is more, and 24 n c bytes beside the matrix. Of
        processes that share it, each in its share of the time sends and gets twice 8 n c bytes.
        """
        return self.added_up(lambda: self._own_product(vectors))

    def _own_product(self, vectors: np.ndarray) -> np.ndarray:
        """Returns what tiles of this process add to the product."""
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
        return self.tiles[number - self._own.start]

    def _pieces(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yields tiles of a row that follow each other, with the row and the first one's column."""
        most = max(1, int(WIDENED / (8 * self._side**2)))
        number = self._own.start
        while number < self._own.stop:
            row = bisect.bisect_right(self._firsts, number) - 1
            column = row + number - self._firsts[row]
            count = min(most, self._along - column, self._own.stop - number)
            start = number - self._own.start
            yield row, column, self.tiles[start : start + count]
            number += count


def load(path: Path, group: ProcessGroup) -> PackedMatrix:
    """Maps a packed matrix from the file that `gram` has written, of this process's share."""
    return PackedMatrix(np.load(path, mmap_mode="r"), read_record(path)["shape"][0], group)


def pick(matrix: np.ndarray | PackedMatrix, indices: Int[np.ndarray, " r"]) -> np.ndarray:
    """Returns some rows of a matrix of either kind."""
    return matrix.rows(indices) if isinstance(matrix, PackedMatrix) else np.asarray(matrix[indices])
