"""Symmetric matrices of which only the tiles on and above the diagonal are kept: half the bytes.

The tiles are square, of one size, and lie one after the other, those of the first row of tiles
first, so that a row of tiles is one piece of a file. What sticks out of the matrix is 0.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from lsa_jax.kernels.matrices.file import Tile, read_record

# Bytes of the tiles that are widened to float64 at a time. Many at once make one long product,
# which took less than a tenth of the time of as many short ones.
_WIDENED = 64e6


def stored_shape(n: int, side: int) -> tuple[int, int, int]:
    """Returns the shape of the tiles of an n x n matrix, one after the other."""
    along = math.ceil(n / side)
    return along * (along + 1) // 2, side, side


def put(tiles: Float[np.ndarray, "k side side"], tile: Tile, n: int) -> None:
    """Writes a tile on or above the diagonal where it belongs."""
    (row, column), values = tile
    side = tiles.shape[1]
    if row == column:
        values = np.triu(values) + np.triu(values, 1).T
    number = _first_of(row // side, n, side) + (column - row) // side
    tiles[number, : values.shape[0], : values.shape[1]] = values


def _first_of(row: int, n: int, side: int) -> int:
    """Returns the number of the tile on the diagonal, of a row of tiles."""
    along = math.ceil(n / side)
    return row * along - row * (row - 1) // 2


class PackedMatrix:
    """A symmetric matrix whose tiles on and above the diagonal are in memory or mapped from a file.

    `numpy.asarray` of it is the whole matrix. The solvers that go through a matrix block by block
    (`regress_cg`) take it as it is.
    """

    ndim = 2

    def __init__(self, tiles: Float[np.ndarray, "k side side"], n: int) -> None:
        """Takes the tiles of an n x n matrix, as `put` has written them."""
        self.tiles, self._n, self._side = tiles, n, tiles.shape[1]

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
        """Bytes that are kept."""
        return self.tiles.nbytes

    def __len__(self) -> int:
        return self._n

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a packed matrix is not an array: copy=False cannot be had")
        return self.rows(range(self._n)).astype(dtype or self.dtype, copy=False)

    def diagonal(self) -> Float[np.ndarray, " n"]:
        """Returns the entries on the diagonal."""
        firsts = [_first_of(row, self._n, self._side) for row in range(self._along)]
        return np.concatenate([np.diagonal(self.tiles[first]) for first in firsts])[: self._n]

    def rows(self, indices: Sequence[int] | Int[np.ndarray, " r"]) -> Float[np.ndarray, "r n"]:
        """Returns some rows; goes through the tiles that they lie in once."""
        indices = np.asarray(indices)
        found = np.empty((len(indices), self._along * self._side), self.dtype)
        blocks, inside = np.divmod(indices, self._side)
        for block in np.unique(blocks).tolist():
            mine = np.flatnonzero(blocks == block)
            local = inside[mine]
            for other in range(self._along):
                # Below the diagonal: the mirror image.
                low, high = min(block, other), max(block, other)
                tile = self.tiles[_first_of(low, self._n, self._side) + high - low]
                values = tile[local] if block <= other else tile[:, local].T
                found[mine, other * self._side : (other + 1) * self._side] = values
        return found[:, : self._n]

    def is_finite(self) -> bool:
        """Says whether all entries are finite."""
        return all(np.isfinite(some).all() for _, _, some in self._pieces())

    def multiply(self, vectors: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Returns the product in float64; reads every tile once, for itself and its mirror image.

        O(n^2 c) time; 64 MB, or a tile if that is more, and 24 n c bytes beside the matrix.
        """
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

    @property
    def _along(self) -> int:
        return math.ceil(self._n / self._side)

    def _pieces(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yields tiles of a row that follow each other, with the row and the first one's column."""
        most = max(1, int(_WIDENED / (8 * self._side**2)))
        for row in range(self._along):
            first = _first_of(row, self._n, self._side)
            for column in range(row, self._along, most):
                start = first + column - row
                count = min(most, self._along - column)
                yield row, column, self.tiles[start : start + count]


def load(path: Path) -> PackedMatrix:
    """Maps a packed matrix from the file that `gram` has written."""
    return PackedMatrix(np.load(path, mmap_mode="r"), read_record(path)["shape"][0])


def pick(matrix: np.ndarray | PackedMatrix, indices: Int[np.ndarray, " r"]) -> np.ndarray:
    """Returns some rows of a matrix of either kind."""
    return matrix.rows(indices) if isinstance(matrix, PackedMatrix) else np.asarray(matrix[indices])
