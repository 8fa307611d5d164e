"""A Cholesky factor of K + shift I in a file, in float32: a preconditioner for large matrices.

U with U^T U = K + shift I is computed a panel of rows after the other. Of a panel, which starts at
row s, columns from s on are kept; it is

    U_s = D^-T (K_s - sum over earlier panels p of U_p[:, rows of s]^T U_p[:, s:]),

where D^T D is its square part. So memory holds one panel, and each panel reads the earlier ones
once from the file: n^3 / 3 operations and n^3 / (6 rows) entries read in all. A panel that is in
the file is journalled, so a call that was killed goes on behind it, with the same bits.
"""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from jaxtyping import Float

from lsa_jax.checks import integer, optional
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.matrices import file as tile_file
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.packed import PackedMatrix, pick

# What computing a factor holds at a time takes this share of the memory that is free.
_SHARE_OF_MEMORY = 1 / 5

# Rows of earlier panels in one product, and columns that are solved for at a time.
_SLAB = 512

_ENTRY = 4  # bytes of a float32


class Panels(NamedTuple):
    """How the factor of n rows lies in its file: one panel of so many rows after the other."""

    n: int
    rows: int

    @property
    def starts(self) -> range:
        """First row of each panel."""
        return range(0, self.n, self.rows)

    @property
    def size(self) -> int:
        """Entries of all panels."""
        return self._before(self.n)

    def shape(self, start: int) -> tuple[int, int]:
        """Returns the shape of a panel."""
        return min(self.rows, self.n - start), self.n - start

    def place(self, start: int) -> slice:
        """Returns where the entries of a panel are."""
        first = self._before(start)
        return slice(first, first + int(np.prod(self.shape(start))))

    def _before(self, end: int) -> int:
        return sum(int(np.prod(self.shape(start))) for start in range(0, end, self.rows))

    @property
    def held(self) -> int:
        """Bytes of memory that computing it takes: a panel, its square part twice, two slabs."""
        return _ENTRY * (self.rows * self.n + 2 * self.rows**2 + 2 * _SLAB * self.n)


def choose_rows(n: int, available: float) -> int:
    """Returns how many rows a panel should have, of n, with so many bytes of free memory.

    As many as make `held` a fifth of these, but not fewer than a slab.
    """
    entries = _SHARE_OF_MEMORY * available / _ENTRY - 2 * _SLAB * n
    rows = (math.sqrt(n**2 + 8 * max(entries, 0.0)) - n) / 4  # of rows n + 2 rows^2 = entries
    return min(n, max(_SLAB, int(rows)))


class DiskFactor:
    """(K + shift I)^{-1} to float32's accuracy, by substitution in a factor that a file keeps."""

    def __init__(self, entries: Float[np.ndarray, " e"], panels: Panels) -> None:
        """Takes the panels, one after the other."""
        self._entries, self._panels = entries, panels

    def __call__(self, vectors: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
        """Multiplies columns; reads the file twice, and takes 8 n c bytes."""
        sizes = np.linalg.norm(vectors, axis=0)
        sizes[sizes == 0] = 1.0
        left = (vectors / sizes).astype(np.float32)
        for start, panel in self._read(self._panels.starts):
            here, later = slice(start, start + len(panel)), slice(start + len(panel), None)
            left[here] = _solve(panel[:, : len(panel)], left[here], transposed=True)
            left[later] -= panel[:, len(panel) :].T @ left[here]
        for start, panel in self._read(reversed(self._panels.starts)):
            here, later = slice(start, start + len(panel)), slice(start + len(panel), None)
            left[here] -= panel[:, len(panel) :] @ left[later]
            left[here] = _solve(panel[:, : len(panel)], left[here])
        return left * sizes

    def _read(self, starts: Any) -> Iterator[tuple[int, np.ndarray]]:
        for start in starts:
            yield start, _panel(self._entries, self._panels, start)


def _recorded_rows(path: Path, record: dict[str, Any] | None) -> int | None:
    """Returns the rows of a panel with which a file was begun; None where there is none."""
    rows = (record or {}).get("rows")
    if not optional(integer(1)).accepts(rows):
        raise InputError(
            f"path is {path}, whose record has panels of {rows!r} rows; accepted: another path, or "
            f"remove it and {path.name}.json to have the factor computed again"
        )
    return rows


def make(
    gram_train: np.ndarray | PackedMatrix, shift: float, path: Path, rows: int | None = None
) -> DiskFactor:
    """Returns the factor of K + shift I in a file, which is computed as far as it is not there.

    Args:
        gram_train: K, of this process alone.
        shift: added to its diagonal.
        path: the file, a name that ends in .npy; beside it a record and a journal.
        rows: of a panel; None chooses by the free memory, and goes on as a file was begun.

    Raises:
        InputError: the path is not accepted, holds another factor, or its disk is too small.
        NumericalError: K + shift I is not positive definite in float32.
    """
    tile_file.check_path(path)
    n, found = len(gram_train), tile_file.read_record(path)
    rows = rows or _recorded_rows(path, found) or choose_rows(n, memory.host_available())
    panels = Panels(n, rows)
    told = hashlib.sha256()
    for part in (gram_train.diagonal(), pick(gram_train, np.array([0, n - 1])), np.float64(shift)):
        told.update(np.ascontiguousarray(part).tobytes())
    identity = {
        "what": "Cholesky factor",
        "system": told.hexdigest(),
        "rows": rows,
        "shape": [n, n],
        "stored": [panels.size],
        "dtype": "float32",
        "symmetric": False,
    }
    memory.check_fits_disk(path, (n, n), float(_ENTRY * panels.size))

    def put(entries: np.ndarray, tile: tile_file.Tile) -> None:
        entries[panels.place(tile.place.row)] = tile.values.ravel()

    with tile_file.opened(path, identity, 0, 1, put) as target:
        entries, done = np.load(path, mmap_mode="r"), target.done()
        for start in panels.starts:
            place = tile_file.Place(start, start)
            if place not in done:
                target.add(
                    tile_file.Tile(place, _factorise(gram_train, shift, entries, panels, start))
                )
                target.flush()
    return DiskFactor(entries, panels)


def _factorise(
    gram_train: np.ndarray | PackedMatrix,
    shift: float,
    entries: np.ndarray,
    panels: Panels,
    start: int,
) -> Float[np.ndarray, "r w"]:
    """Returns a panel, where those before it are known."""
    panel = _right_of(gram_train, start, panels.shape(start))
    count, width = panel.shape
    panel[:, :count][np.diag_indices(count)] += np.float32(shift)
    for earlier in panels.starts:
        if earlier == start:
            break
        known = _panel(entries, panels, earlier)[:, start - earlier :]
        for first in range(0, len(known), _SLAB):
            some = np.ascontiguousarray(known[first : first + _SLAB]).T
            # In the panel's own memory, whose transpose lies as BLAS wants it.
            panel = scipy.linalg.blas.sgemm(
                -1.0, some, some[:count], 1.0, panel.T, trans_b=True, overwrite_c=True
            ).T
    try:
        square = scipy.linalg.cholesky(panel[:, :count], check_finite=False)
    except np.linalg.LinAlgError:
        raise NumericalError(
            f"the kernel matrix of {panels.n} examples is not positive definite in float32 with "
            f"{shift:.3g} on its diagonal; use a larger ridge, or no factor on disk"
        ) from None
    panel[:, :count] = square
    for first in range(count, width, _SLAB):
        some = slice(first, first + _SLAB)
        panel[:, some] = _solve(square, panel[:, some], transposed=True)
    return panel


def _right_of(
    matrix: np.ndarray | PackedMatrix, start: int, shape: tuple[int, int]
) -> Float[np.ndarray, "r w"]:
    """Returns rows of a matrix from the diagonal on, in float32, a few at a time."""
    found = np.empty(shape, np.float32)
    for first in range(0, shape[0], _SLAB):
        some = np.arange(first, min(first + _SLAB, shape[0]))
        found[some] = pick(matrix, start + some)[:, start:]
    return found


def _panel(entries: np.ndarray, panels: Panels, start: int) -> Float[np.ndarray, "r w"]:
    return entries[panels.place(start)].reshape(panels.shape(start))


def _solve(
    square: Float[np.ndarray, "r r"], right: Float[np.ndarray, "r c"], *, transposed: bool = False
) -> Float[np.ndarray, "r c"]:
    """Returns D^-1, or D^-T, times a matrix; of D the upper triangle counts."""
    return scipy.linalg.solve_triangular(square, right, trans=int(transposed), check_finite=False)
