"""A kernel compiled for tiles of one shape, which memory and cache decide."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from lsa_jax import parallel
from lsa_jax.errors import InputError

# Examples a side of the largest tile that is tried. An accelerator wants more work at a time.
_LARGEST_SIDE = {"cpu": 256}
_LARGEST_SIDE_ELSEWHERE = 1024

# Examples a side below which a tile is not cut just to give every device some.
_SMALLEST_SHARE = 64

# Bytes of a CPU's cache that a tile aims for. A kernel that holds many numbers for each pair
# (infinite width) runs up to twice as fast within it, measured on 2 cores that share 32 MB.
_CACHE = 8e6


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


def choose(
    kernel: Callable,
    x1: np.ndarray,
    x2: np.ndarray,
    dtype: np.dtype,
    memory_limit: float,
    num_devices: int,
) -> TileProgram:
    """Returns the kernel compiled for the largest tile that fits the memory and suits the cache.

    Raises:
        InputError: what `lower` refuses, or one pair is over the limit.
    """
    longer = max(len(x1), len(x2))

    def at_most(side: int) -> TileProgram:
        # An even share of the longer axis leaves little to fill up. The other axis follows, so that
        # the tiles of a train-train and of a test-train matrix are the same program.
        side = math.ceil(longer / math.ceil(longer / side))
        return compile_tile(kernel, x1, x2, dtype, (min(side, len(x1)), min(side, len(x2))))

    on_cpu = jax.default_backend() == "cpu"
    largest = _LARGEST_SIDE["cpu"] if on_cpu else _LARGEST_SIDE_ELSEWHERE
    program = at_most(min(largest, _share(longer, num_devices)))
    while program.memory > memory_limit:
        if program.sides == (1, 1):
            check_memory(program, memory_limit, "a higher limit")
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


def _share(longer: int, num_devices: int) -> int:
    """Returns the side that leaves tiles for every device, several on and above the diagonal."""
    parts = 1 if num_devices == 1 else 2 * math.ceil(math.sqrt(num_devices))
    return max(math.ceil(longer / parts), _SMALLEST_SHARE)


def _side_for(memory: float, program: TileProgram) -> int:
    """Returns the side that takes this memory, if memory grows like the number of pairs."""
    return max(1, int(max(program.sides) * math.sqrt(memory / program.memory)))


def check_memory(program: TileProgram, memory_limit: float, fix: str) -> None:
    """Raises InputError where a tile takes more than the limit; `fix` says what to change."""
    if program.memory > memory_limit:
        raise InputError(
            f"memory_limit is {memory_limit:.3g} bytes, and a tile of {program.sides[0]} x "
            f"{program.sides[1]} pairs takes {program.memory:.3g}; accepted: {fix}"
        )


def lower(
    kernel: Callable, x1: np.ndarray, x2: np.ndarray, dtype: np.dtype, sides: tuple[int, int]
) -> jax.stages.Lowered:
    """Returns the kernel's program for tiles of one shape, not yet compiled.

    Raises:
        InputError: its result is not [rows, columns], or has fewer digits than float64 holds where
            that is the dtype.
    """
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
    found = lowered.out_info.dtype
    if dtype == np.float64 and jnp.issubdtype(found, jnp.inexact) and found != np.float64:
        raise InputError(
            f"dtype is 'float64', and kernel turns inputs of {x1.dtype} into {found}; accepted: "
            "'float32', or a kernel in float64 (of a finite network: parameters in float64, and an "
            "apply that does not cast, as that of models.network does)"
        )
    return lowered


def compile_tile(
    kernel: Callable, x1: np.ndarray, x2: np.ndarray, dtype: np.dtype, sides: tuple[int, int]
) -> TileProgram:
    """Compiles the kernel for tiles of one shape, and reads how much memory they take.

    Raises:
        InputError: what `lower` refuses.
    """
    compiled = lower(kernel, x1, x2, dtype, sides).compile()
    memory = compiled.memory_analysis()
    needed = (memory.argument_size_in_bytes, memory.temp_size_in_bytes, memory.output_size_in_bytes)
    return TileProgram(sides, compiled, sum(needed))


def on_devices(
    kernel: Callable, program: TileProgram, devices: Sequence[jax.Device]
) -> Callable[[np.ndarray, np.ndarray], Array]:
    """Returns the program for as many tiles as there are devices.

    Returns:
        `(x1 [devices, rows, ...], x2 [devices, columns, ...]) -> [devices, rows, columns]`.
    """
    if list(devices) != jax.local_devices()[:1]:
        return _mapped(kernel, tuple(devices))
    return lambda x1, x2: program.run(x1[0], x2[0])[None]


# A train-train and a test-train matrix are computed one after the other by one program.
@functools.lru_cache(maxsize=4)
def _mapped(kernel: Callable, devices: tuple[jax.Device, ...]) -> Callable:
    return parallel.map_devices(jax.jit(kernel), devices)
