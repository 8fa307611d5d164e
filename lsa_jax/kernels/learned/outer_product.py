"""The average gradient outer product of a kernel predictor."""

from collections.abc import Callable, Iterator
from concurrent import futures
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import arrays, backend
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.infinite import gradients, recursion, tiles
from lsa_jax.kernels.infinite.kernel import InfiniteKernel
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.staged import unwrapped

# Points for each block of training examples, where a kernel is differentiated by jax.
_POINTS = 64


class _Block(NamedTuple):
    """Training examples and their weights, filled up with examples of no weight."""

    x: np.ndarray
    weights: np.ndarray


def average_gradient_outer_product(
    kernel: Callable[[Array, Array], Array],
    weights: Float[Array | np.ndarray, "_n c"],
    x: Float[Array | np.ndarray, "n ..."],
    points: Float[Array | np.ndarray, "m ..."] | None = None,
    *,
    rows: bool = False,
    memory_limit: float | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Float[np.ndarray, "k k"]:
    """Averages the outer products of a kernel predictor's gradients.

    Of f(z) = sum_j K(z, x_j) a_j, which may have several outputs c, it is

        (1/m) sum_i sum_p sum_c g_ipc g_ipc^T,  g_ipc = grad of f_c at point i,

    with respect to the input, flattened: then there is no sum over p; or with `rows` with respect
    to its last axis, and p are the places along the others. The kernel of an `InfiniteKernel`
    (`model.kernel`, `model.kernel.transformed(T)`) whose network begins with a convolution has
    gradients with respect to the first layer's patches instead, before the transform, and the sum
    goes over the positions p of patches.

    Infinite-width kernels go through the recursion once for all outputs, tile by tile, in about
    three times the time of the kernel of m n pairs; where examples coincide and the kernel of a
    ReLU network has a cusp, the side of it that is without a direction counts 0. Other kernels are
    differentiated by jax, an output at a time. Gradients of all points are never held.

    Args:
        kernel: `(z [m, ...], x [n, ...]) -> [m, n]`, that jax can differentiate by z.
        weights: a.
        x: training examples.
        points: where gradients are taken; None means all training examples.
        rows: inputs are lists of vectors, or images of them, each a row; infinite kernels take
            patches in any case.
        memory_limit: bytes; on a CPU it sets how many cores share the work, as in `gram`.
        progress: called with the fraction of points done.

    Returns:
        A symmetric matrix, with sums over points in float64.

    Raises:
        InputError: shapes or memory that do not fit, no points, or inputs the kernel refuses.
        NumericalError: the gradients are not finite.

    Source: Radhakrishnan et al. (2024), Mechanism for feature learning in neural networks;
    Beaglehole et al. (2023), Mechanism of feature learning in convolutional networks, section 3.
    """
    pair = arrays.input_pair(x, points, names=("x", "points"), whole=False, empty=False)
    x, points = (None if some is None else np.asarray(some) for some in pair)
    points = x if points is None else points
    weights = np.asarray(arrays.real_array("weights", weights, "n c"))
    if len(weights) != len(x):
        raise InputError(
            f"weights are {weights.shape} and x is {x.shape}; accepted: (n, c) and (n, ...)"
        )
    inner, settings = unwrapped(kernel)
    if isinstance(inner, InfiniteKernel) and inner.steps:
        get = settings.get("get", "ntk")
        total = _by_recursion(inner, get, weights, x, points, memory_limit, progress)
    else:
        total = _by_jax(kernel, weights, x, points, memory_limit, progress, rows=rows)
    if not np.isfinite(total).all():
        why = "look for weights or inputs that are not, or are too large for float32"
        raise NumericalError(f"the predictor's gradients are not finite; {why}")
    return total / len(points)


def _check_fits(size: int) -> None:
    """Raises InputError where outer products of gradients of this size do not fit the memory."""
    needed = 2 * 8 * size**2
    what = f"the outer product of gradients of {size} numbers"
    memory.check_fits_device(what, needed, lambda: needed, "smaller inputs, or rows=True")


def _by_recursion(
    kernel: InfiniteKernel,
    get: str,
    weights: np.ndarray,
    x: np.ndarray,
    points: np.ndarray,
    memory_limit: float | None,
    progress: Callable[[float], None],
) -> np.ndarray:
    """Sums the outer products of gradients with respect to patches."""
    steps, shape, transform = kernel.steps, x.shape[1:], kernel.transform
    size = kernel.transform_size(shape)
    _check_fits(size)
    x, points = x.astype(np.float32, copy=False), points.astype(np.float32, copy=False)
    side = tiles.even_share(len(x), tiles.largest_side())
    rows, columns = recursion.tile_sides(steps, shape, len(points), side)
    side += -side % columns
    blocks = [_filled(block, side) for block in _blocks(x, weights.astype(np.float32), side)]

    def of_tile(tile: np.ndarray) -> np.ndarray:
        some = np.concatenate([tile, np.repeat(tile[-1:], rows - len(tile), axis=0)])
        total = gradients.zeros(steps, some, weights.shape[1])
        for block in blocks:
            total = gradients.add_block(steps, get, columns, transform, some, *block, total)
        found = gradients.outer_product(steps, transform, some, len(tile), total)
        return np.asarray(found, float)

    parts = [points[start : start + rows] for start in range(0, len(points), rows)]
    total = _sum_over(of_tile, parts, memory_limit, progress)
    if transform is not None:
        total = transform.astype(float) @ total @ transform.T.astype(float)
    return recursion.patch_scale(steps, size) ** 2 * total


def _by_jax(
    kernel: Callable,
    weights: np.ndarray,
    x: np.ndarray,
    points: np.ndarray,
    memory_limit: float | None,
    progress: Callable[[float], None],
    *,
    rows: bool,
) -> np.ndarray:
    """Sums the outer products of gradients with respect to inputs, or their rows."""
    _check_fits(points.shape[-1] if rows else points[0].size)

    @jax.jit
    def gradients_at(tile: Array, x: Array, weights: Array) -> Array:
        values, pull = jax.vjp(lambda z: kernel(z, x) @ weights, tile)
        outputs = jnp.eye(values.shape[1], dtype=values.dtype)
        grads = jax.vmap(lambda e: pull(jnp.broadcast_to(e[None], values.shape))[0])(outputs)
        return grads.reshape(-1, tile.shape[-1]) if rows else grads.reshape(-1, tile[0].size)

    blocks = list(_blocks(x, weights.astype(jnp.result_type(x)), tiles.largest_side()))

    def of_tile(tile: np.ndarray) -> np.ndarray:
        total = np.asarray(sum(gradients_at(tile, *block) for block in blocks), float)
        return total.T @ total

    parts = [points[start : start + _POINTS] for start in range(0, len(points), _POINTS)]
    return _sum_over(of_tile, parts, memory_limit, progress)


def _blocks(x: np.ndarray, weights: np.ndarray, size: int) -> Iterator[_Block]:
    for start in range(0, len(x), size):
        yield _Block(x[start : start + size], weights[start : start + size])


def _filled(block: _Block, size: int) -> _Block:
    """Fills a block up with copies of an example of weight 0; a whole block is no copy."""
    more = size - len(block.x)
    if not more:
        return block
    zeros = np.zeros((more, block.weights.shape[1]), block.weights.dtype)
    return _Block(
        np.concatenate([block.x, np.repeat(block.x[-1:], more, axis=0)]),
        np.concatenate([block.weights, zeros]),
    )


def _sum_over(
    function: Callable[[np.ndarray], np.ndarray],
    parts: list[np.ndarray],
    memory_limit: float | None,
    progress: Callable[[float], None],
) -> np.ndarray:
    """Sums over tiles, in their order; the cores of a CPU work side by side."""
    workers = memory.num_threads(memory_limit) if backend.is_cpu() else 1
    wide = jax.config.jax_enable_x64

    def of(tile: np.ndarray) -> np.ndarray:
        with jax.enable_x64(wide):  # each thread has its own
            return function(tile)

    # The first alone: side by side, each would compile the program.
    total = of(parts[0])
    progress(1 / len(parts))
    with futures.ThreadPoolExecutor(workers) as pool:
        for done, part in enumerate(pool.map(of, parts[1:]), start=2):
            total += part
            progress(done / len(parts))
    return total
