"""A Gram matrix in a file that outlives the process which computes it.

Next to `NAME.npy`, which numpy can read, lie `NAME.npy.json`, a record of its identity, and
`NAME.npy.<process>.journal` with a line for every tile that is done. A line is written only once
the bytes of its tile are on the disk, so every journalled tile is there, whenever a job is killed.

Writers map one file, and the rows of their tiles share pages of it. Several hosts may write at the
same time on file systems that keep such pages coherent (Lustre, GPFS). NFS does not: a host writes
whole pages back, with old bytes in place of another host's tiles.
"""

import contextlib
import hashlib
import math
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lsa_jax.checks import integer
from lsa_jax.errors import InputError
from lsa_jax.reporting import files, locks

# Tiles that may wait for the disk before the computation waits too; a kill loses about as many.
_LONGEST_QUEUE = 8

# Seconds that another process may take to lay out an empty file.
_OPENING = 60


class Place(NamedTuple):
    """Where a tile starts in the matrix."""

    row: int
    column: int


class Tile(NamedTuple):
    """Values of a tile, without entries outside of the matrix."""

    place: Place
    values: np.ndarray


def digest(x: np.ndarray) -> str:
    """Returns the SHA-256 of an array's type, shape and bytes."""
    head = hashlib.sha256(f"{x.dtype.str} {x.shape} ".encode())
    head.update(np.ascontiguousarray(x).data)
    return head.hexdigest()


def put(matrix: np.ndarray, tile: Tile, *, symmetric: bool) -> None:
    """Writes a tile, and its mirror image in a symmetric matrix, to their places."""
    (row, column), values = tile
    rows, columns = (
        slice(start, start + length) for start, length in zip(tile.place, values.shape, strict=True)
    )
    if symmetric and row == column:
        values = np.triu(values) + np.triu(values, 1).T
    matrix[rows, columns] = values
    if symmetric and row != column:
        matrix[columns, rows] = values.T


def check_path(path: Path) -> None:
    """Raises InputError unless a matrix can be kept there."""
    if path.suffix != ".npy":
        raise InputError(f"path is {path}; accepted: a name that ends in .npy")
    if path.exists() and not _beside(path, ".json").exists():
        raise InputError(
            f"path is {path}: without {_beside(path, '.json').name} next to it the matrix "
            "is unknown; accepted: a new name, or a file that gram wrote"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"path is {path}: its folder cannot be made: {error.strerror}") from None


def read_record(path: Path) -> dict[str, Any] | None:
    """Returns the record of the matrix at `path`; None where there is none yet."""
    record = _beside(path, ".json")
    if not record.exists():
        return None
    found = files.read_object(
        record, f"remove it and {path.name} to have the matrix computed again"
    )
    tile = found.get("tile")
    if not (isinstance(tile, list) and len(tile) == 2 and all(map(integer(1).accepts, tile))):
        raise InputError(
            f"path is {path}, whose record has tiles of {tile!r}: no Gram matrix, or damaged; "
            f"accepted: another path, or remove it and {record.name}"
        )
    return found


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _of_processes(path: Path, ending: str) -> list[Path]:
    """Lists the files with this ending of a matrix, one for each process that has written."""
    name = re.compile(re.escape(path.name) + r"\.\d+" + re.escape(ending))
    return sorted(file for file in path.parent.iterdir() if name.fullmatch(file.name))


@contextlib.contextmanager
def opened(
    path: Path,
    identity: dict[str, Any],
    process_index: int,
    process_count: int,
    write: Callable[[np.ndarray, Tile], None],
) -> Iterator["GramFile"]:
    """Opens a matrix to write tiles into, or lays out an empty one.

    The identity is kept as JSON; it has the `shape` and `dtype` of the matrix, and the shape that
    is `stored` where that is another. A writer that shares the work with no other must be alone.
    `write` puts a tile into the mapped array.

    Raises:
        InputError: the file there is another matrix, or another process is writing it.
    """
    mine, name = _beside(path, f".{process_index}.lock"), f"path {path}"
    with contextlib.ExitStack() as stack:
        with locks.held(name, _beside(path, ".lock"), timeout=_OPENING):
            theirs = _of_processes(path, ".lock") if process_count == 1 else ()
            stack.enter_context(locks.held(name, *sorted({mine, *theirs})))
            _lay_out(path, identity)
        file = GramFile(path, write, _beside(path, f".{process_index}.journal"))
        stack.callback(file.close)
        yield file


def _lay_out(path: Path, identity: dict[str, Any]) -> None:
    """Makes an empty matrix, unless this one is there already."""
    found, dtype = read_record(path), np.dtype(identity["dtype"])
    shape = tuple(identity.get("stored", identity["shape"]))
    if found is not None:
        wanted = files.plain(identity)
        names = [name for name in wanted if found.get(name) != wanted[name]]
        if names:
            name = names[0]
            raise InputError(
                f"path is {path}, which holds a Gram matrix of another {', '.join(names)} "
                f"({name}: {found.get(name)}, not {wanted[name]}); accepted: another path, or the "
                "same kernel, inputs and options"
            )
    else:
        files.write_json(_beside(path, ".json"), identity)
    if path.exists():
        _check_matrix(path, shape, dtype)
        return
    # A journal without its matrix is worth nothing.
    for journal in _of_processes(path, ".journal"):
        journal.unlink()
    partial = files.partial(path)
    with files.storing(path, math.prod(shape) * dtype.itemsize):
        try:
            np.lib.format.open_memmap(partial, "w+", dtype, shape).flush()
            _reserve(partial)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
        partial.replace(path)


def _reserve(path: Path) -> None:
    """Reserves all blocks: a mapped file with holes kills its process on a full disk."""
    if hasattr(os, "posix_fallocate"):  # not on macOS
        with open(path, "r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def _check_matrix(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> None:
    try:
        matrix = np.lib.format.open_memmap(path, "r")
        found = f"{matrix.shape} of {matrix.dtype}"
    except (ValueError, EOFError):
        found = "damaged"
    if found != f"{shape} of {dtype}":
        raise InputError(
            f"path is {path}, which is {found}, not {shape} of {dtype} as "
            f"{_beside(path, '.json').name} says; remove both"
        )


class GramFile:
    """A matrix on disk that takes tiles in any order and remembers which it has.

    A thread of its own writes, so that the computation does not wait for the disk. A kill loses the
    tiles that the thread has not yet journalled: at most `_LONGEST_QUEUE` that it is writing and as
    many that wait.
    """

    def __init__(
        self, path: Path, write: Callable[[np.ndarray, Tile], None], journal: Path
    ) -> None:
        """Opens the file that `_lay_out` has made; `write` puts tiles in, `journal` lists them."""
        self._path, self._put = path, write
        self._matrix = np.load(path, mmap_mode="r+")
        self._journal = open(journal, "ab", buffering=0)
        # A kill may have left the beginning of a line without its end.
        self._journal.truncate(journal.read_bytes().rfind(b"\n") + 1)
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future | None = None
        self._waiting: list[Tile] = []

    def done(self) -> set[Place]:
        """Returns the places of the tiles that any process has journalled."""
        lines: list[bytes] = []
        for journal in _of_processes(self._path, ".journal"):
            # The last line may have no end yet.
            lines += journal.read_bytes().split(b"\n")[:-1]
        pairs = [line.split() for line in lines]
        return {
            Place(int(pair[0]), int(pair[1]))
            for pair in pairs
            if len(pair) == 2 and pair[0].isdigit() and pair[1].isdigit()
        }

    def add(self, tile: Tile) -> None:
        """Takes a tile, to be written as soon as the disk is ready."""
        self._waiting.append(tile)
        full = len(self._waiting) >= _LONGEST_QUEUE
        if self._writing is None or self._writing.done() or full:
            self._start_writing()

    def _start_writing(self) -> None:
        if self._writing is not None:
            self._writing.result()
        tiles, self._waiting = self._waiting, []
        self._writing = self._thread.submit(self._write, tiles)

    def _write(self, tiles: list[Tile]) -> None:
        for tile in tiles:
            self._put(self._matrix, tile)
        lines = b"".join(b"%d %d\n" % tile.place for tile in tiles)
        with files.storing(self._path, self._matrix.nbytes):
            self._matrix.flush()
            # Only now: a journalled tile must be on the disk.
            while lines:  # a disk that is nearly full takes a part of them
                lines = lines[self._journal.write(lines) :]
            os.fsync(self._journal.fileno())

    def flush(self) -> None:
        """Waits until all tiles that were added are on the disk and journalled."""
        if self._waiting:
            self._start_writing()
        if self._writing is not None:
            self._writing.result()

    def close(self) -> None:
        """Writes the waiting tiles, and closes the files."""
        try:
            self.flush()
        finally:
            self._thread.shutdown()
            self._journal.close()
