"""Gram matrices of any size, computed in tiles that fit memory."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Shaped

from lsa_jax.errors import InputError, NumericalError

# Examples a side of the largest tile that is tried. An accelerator wants more work at a time.
_LARGEST_SIDE = {"cpu": 256}
_LARGEST_SIDE_ELSEWHERE = 1024

# Bytes of a CPU's cache that a tile aims for. A kernel that holds many numbers for each pair
# (infinite width) runs up to twice as fast within it, measured on 2 cores that share 32 MB.
_CACHE = 8e6


class Place(NamedTuple):
    """Where a tile starts in the matrix."""

    row: int
    column: int


class TileProgram(NamedTuple):
    """The kernel compiled for tiles of one shape.

    Attributes:
        sides: rows and columns of a tile.
        run: `(x1 [rows, ...], x2 [columns, ...]) -> [rows, columns]`.
        memory: bytes of its arguments, temporaries and result together.
    """

    sides: tuple[int, int]
    run: Callable[[np.ndarray, np.ndarray], Array]
    memory: int


def gram(
    kernel: Callable[[Array, Array], Array],
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    memory_limit: float = 1e9,
    tile: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Float[np.ndarray, "n1 n2"]:
    """Computes a kernel of all pairs of inputs, tile by tile.

    All tiles have one shape, so one program serves all: a tile that sticks out is filled up with
    copies of the last example, whose values are thrown away. Without `x2` only the tiles on and
    above the diagonal are computed, and the matrix is exactly symmetric.

    Time for n1 n2 pairs, without `x2` for little more than half of them. On the device, memory for
    one tile; on the host, 4 n1 n2 bytes.

    Args:
        kernel: symmetric, `(x1 [t1, ...], x2 [t2, ...]) -> [t1, t2]`; a pure function that jax can
            trace. It is compiled once for each function object: pass the same one again.
        x1: first inputs.
        x2: second inputs; None means x1 against itself.
        memory_limit: bytes that computing a tile may take. The tile is chosen so that the compiled
            program's own account of arguments, temporaries and result stays within it.
        tile: examples a side of a tile, instead of the size chosen from `memory_limit`.
        progress: called with the fraction of tiles done, after each.

    Returns:
        The matrix, in float32.

    Raises:
        InputError: shapes, limit or tile are not accepted, or the tile does not fit the limit.
        NumericalError: the kernel of some pair is not finite.
    """
    symmetric = x2 is None
    x1 = _as_numpy("x1", x1)
    x2 = x1 if symmetric else _as_numpy("x2", x2)
    _check(x1, x2, memory_limit, tile)
    if tile is None:
        program = _choose_program(kernel, x1, x2, memory_limit)
    else:
        program = _compile(kernel, x1, x2, (tile, tile))
        _check_memory(program, memory_limit, "a smaller tile or a higher limit")
    result = np.empty((len(x1), len(x2)), np.float32)
    places = _places(result.shape, program.sides, symmetric=symmetric)
    for done, place in enumerate(places, start=1):
        _fill(result, place, program, x1, x2, symmetric=symmetric)
        if progress is not None:
            progress(done / len(places))
    return result


def _as_numpy(name: str, x: Any) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim == 0 or len(x) == 0:
        raise InputError(f"{name} is {x.shape}; accepted: [n, ...] with one example or more")
    return x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False)


def _check(x1: np.ndarray, x2: np.ndarray, memory_limit: float, tile: int | None) -> None:
    if x1.shape[1:] != x2.shape[1:]:
        raise InputError(
            f"x1 is {x1.shape} and x2 is {x2.shape}; accepted: equal shapes but for the first axis"
        )
    if not memory_limit > 0:
        raise InputError(f"memory_limit is {memory_limit!r}; accepted: bytes, more than 0")
    if tile is not None and not (isinstance(tile, int) and tile >= 1):
        raise InputError(f"tile is {tile!r}; accepted: None or a whole number, 1 or more")


def _choose_program(
    kernel: Callable, x1: np.ndarray, x2: np.ndarray, memory_limit: float
) -> TileProgram:
    """Returns the kernel compiled for the largest tile that fits the memory and suits the cache."""
    longer = max(len(x1), len(x2))

    def at_most(side: int) -> TileProgram:
        # An even share of the longer axis leaves little to fill up. The other axis follows, so that
        # the tiles of a train-train and of a test-train matrix are the same program.
        side = math.ceil(longer / math.ceil(longer / side))
        return _compile(kernel, x1, x2, (min(side, len(x1)), min(side, len(x2))))

    on_cpu = jax.default_backend() == "cpu"
    program = at_most(_LARGEST_SIDE["cpu"] if on_cpu else _LARGEST_SIDE_ELSEWHERE)
    while program.memory > memory_limit:
        if program.sides == (1, 1):
            _check_memory(program, memory_limit, "a higher limit")
        # At least halved, so that few programs are compiled where memory grows less than pairs do.
        program = at_most(min(max(program.sides) // 2, _side_for(memory_limit, program)))
    if on_cpu and program.memory > _CACHE:
        smaller = at_most(_side_for(_CACHE, program))
        # Where memory grows like the side (Jacobians of a finite network: exponent 1/2 in pairs)
        # rather than like the pairs (exponent 1), what a tile sets up is used by all of its pairs,
        # and a large tile is worth more than the cache.
        share_of_pairs = math.prod(smaller.sides) / math.prod(program.sides)
        if smaller.memory / program.memory < share_of_pairs**0.75:
            program = smaller
    return program


def _side_for(memory: float, program: TileProgram) -> int:
    """Returns the side that takes this memory, if memory grows like the number of pairs."""
    return max(1, int(max(program.sides) * math.sqrt(memory / program.memory)))


def _check_memory(program: TileProgram, memory_limit: float, fix: str) -> None:
    if program.memory > memory_limit:
        raise InputError(
            f"memory_limit is {memory_limit:.3g} bytes, and a tile of {program.sides[0]} x "
            f"{program.sides[1]} pairs takes {program.memory:.3g}; accepted: {fix}"
        )


def _compile(
    kernel: Callable, x1: np.ndarray, x2: np.ndarray, sides: tuple[int, int]
) -> TileProgram:
    """Compiles the kernel for tiles of one shape, and reads how much memory they take."""
    block1, block2 = (
        jax.ShapeDtypeStruct((side, *x.shape[1:]), x.dtype)
        for side, x in zip(sides, (x1, x2), strict=True)
    )
    lowered = jax.jit(kernel).lower(block1, block2)
    shape = getattr(lowered.out_info, "shape", None)
    if shape != sides:
        raise InputError(
            f"kernel turns {block1.shape} and {block2.shape} into {shape}; accepted: {sides}"
        )
    compiled = lowered.compile()
    memory = compiled.memory_analysis()
    needed = (memory.argument_size_in_bytes, memory.temp_size_in_bytes, memory.output_size_in_bytes)
    return TileProgram(sides, compiled, sum(needed))


def _places(shape: tuple[int, int], sides: tuple[int, int], *, symmetric: bool) -> list[Place]:
    """Lists where tiles start; in a symmetric matrix, those on and above the diagonal."""
    return [
        Place(row, column)
        for row in range(0, shape[0], sides[0])
        for column in range(row if symmetric else 0, shape[1], sides[1])
    ]


def _fill(
    result: np.ndarray,
    place: Place,
    program: TileProgram,
    x1: np.ndarray,
    x2: np.ndarray,
    *,
    symmetric: bool,
) -> None:
    """Computes one tile, and writes it and its mirror image where they belong."""
    blocks = [
        _block(x, start, side)
        for x, start, side in zip((x1, x2), place, program.sides, strict=True)
    ]
    rows, columns = (
        slice(start, min(start + side, n))
        for start, side, n in zip(place, program.sides, result.shape, strict=True)
    )
    values = np.asarray(program.run(*blocks))[
        : rows.stop - rows.start, : columns.stop - columns.start
    ]
    _check_finite(values, place)
    if symmetric and place.row == place.column:
        values = np.triu(values) + np.triu(values, 1).T
    result[rows, columns] = values
    if symmetric and place.row != place.column:
        result[columns, rows] = values.T


def _block(x: np.ndarray, start: int, side: int) -> np.ndarray:
    """Returns `side` examples from `start` on, filled up with copies of the last one."""
    return x[np.minimum(np.arange(start, start + side), len(x) - 1)]


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
