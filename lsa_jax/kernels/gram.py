"""Gram matrices in tiles that fit the memory, chosen before the work begins."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax.errors import InputError, NumericalError

# Larger tiles fall out of a CPU's cache, and save nothing that smaller ones do not.
_LARGEST_TILE = 128


@functools.lru_cache(maxsize=32)
def _compiled_tile(
    kernel: Callable, shape1: tuple[int, ...], shape2: tuple[int, ...], tile: int
) -> jax.stages.Compiled:
    """Compiles `(x1, x2, row, column) -> kernel of tile x tile pairs`, once for equal arguments."""

    def compute(x1: Array, x2: Array, row: Array, column: Array) -> Array:
        rows = lax.dynamic_slice_in_dim(x1, row, tile)
        return kernel(rows, lax.dynamic_slice_in_dim(x2, column, tile))

    example = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in (shape1, shape2)]
    start = jax.ShapeDtypeStruct((), jnp.int32)
    return jax.jit(compute).lower(*example, start, start).compile()


def _needed_bytes(program: jax.stages.Compiled) -> int:
    memory = program.memory_analysis()
    return memory.temp_size_in_bytes + memory.output_size_in_bytes


def _padded_shape(x: Array, tile: int) -> tuple[int, ...]:
    return (-(-len(x) // tile) * tile, *x.shape[1:])


def _choose_tile(
    kernel: Callable, x1: Array, x2: Array, tile: int | None, memory_limit: float
) -> tuple[int, jax.stages.Compiled]:
    """Returns the largest tile whose program stays within the memory, and the program.

    Raises:
        InputError: the tile that was asked for, or one of 1 x 1, needs more.
    """
    candidate = tile or min(_LARGEST_TILE, 1 << (max(len(x1), len(x2)) - 1).bit_length())
    while True:
        shapes = _padded_shape(x1, candidate), _padded_shape(x2, candidate)
        program = _compiled_tile(kernel, *shapes, candidate)
        needed = _needed_bytes(program)
        if needed <= memory_limit:
            return candidate, program
        if tile is not None or candidate == 1:
            raise InputError(
                f"a tile of {candidate} x {candidate} pairs needs {needed:.3g} bytes and "
                f"memory_limit is {memory_limit:.3g}; accepted: a smaller tile or a larger limit"
            )
        candidate //= 2


def _pad(x: Array, length: int) -> Array:
    """Fills up with the first example, which is as valid an input as any."""
    filling = jnp.broadcast_to(x[:1], (length - len(x), *x.shape[1:]))
    return jnp.concatenate([x, filling])


def gram(
    kernel: Callable,
    x1: Float[Array, "n1 ..."],
    x2: Float[Array, "n2 ..."] | None = None,
    *,
    memory_limit: float = 1e9,
    tile: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Float[np.ndarray, "n1 n2"]:
    """Returns the kernel of every pair, computed tile by tile.

    All tiles have one shape, so there is one compilation; the last tiles are filled up and cut, and
    no size has to divide another. With x2=None each tile above the diagonal serves both halves.

    Args:
        kernel: `(x1 [t, ...], x2 [t, ...]) -> [t, t]`. The same function object compiles once.
        x1: examples.
        x2: other examples; None means x1 against itself.
        memory_limit: bytes that the computation of one tile may take, beside inputs and result.
        tile: examples a side of a tile; None takes the largest power of two, up to 128, that fits.
        progress: called with the fraction done.

    Returns:
        float32 [n1, n2] in the host's memory.

    Raises:
        InputError: no examples, examples of different shapes, or no tile fits the memory.
        NumericalError: an entry is not finite; the message says which.
    """
    symmetric = x2 is None
    x1 = jnp.asarray(x1, jnp.float32)
    x2 = x1 if symmetric else jnp.asarray(x2, jnp.float32)
    if not len(x1) or not len(x2):
        raise InputError(f"there are {len(x1)} and {len(x2)} examples; accepted: 1 or more")
    if x1.shape[1:] != x2.shape[1:]:
        raise InputError(
            f"examples have shapes {x1.shape[1:]} and {x2.shape[1:]}; accepted: equal shapes"
        )
    size, program = _choose_tile(kernel, x1, x2, tile, memory_limit)
    rows, columns = range(0, len(x1), size), range(0, len(x2), size)
    tiles = [(row, column) for row in rows for column in columns if column >= row or not symmetric]

    result = np.empty((len(x1), len(x2)), np.float32)
    padded1, padded2 = (_pad(x, _padded_shape(x, size)[0]) for x in (x1, x2))
    for done, (row, column) in enumerate(tiles, start=1):
        values = np.asarray(program(padded1, padded2, np.int32(row), np.int32(column)))
        values = values[: len(x1) - row, : len(x2) - column]
        if not np.isfinite(values).all():
            raise NumericalError(
                f"the kernel is not finite at rows {row} to {row + values.shape[0] - 1}, columns "
                f"{column} to {column + values.shape[1] - 1}; check the scale of the inputs"
            )
        result[row : row + size, column : column + size] = values
        if symmetric:
            result[column : column + size, row : row + size] = values.T
        if progress:
            progress(done / len(tiles))
    return result
