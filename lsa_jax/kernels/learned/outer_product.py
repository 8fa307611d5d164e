"""The average gradient outer product of a kernel predictor.

The infinite-width kernel of two examples depends on their patches p and p' through the products
<u, u'> of unit vectors u = p / |p| at each position, and on each side through norms and standard
deviations before the nonlinearities. So one backward pass through a tile, with the scales of its
rows held for every pair, gives the derivatives of each pair's kernel; the predictor's gradients are
their products with unit vectors and weights, for all outputs together:

    grad f_c(u_i) = sum_j a_jc dK_ij / d<u_i, u_j> u_j, and sum_j a_jc dK_ij / dscales_i.

No more is held than for one tile, and of its rows the gradients themselves.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from lsa_jax import arrays, backend, parallel
from lsa_jax.errors import InputError, NumericalError
from lsa_jax.kernels.infinite import recursion, tiles
from lsa_jax.kernels.infinite.covariances import Place, covariances_of_gaps, first_layout, run
from lsa_jax.kernels.infinite.directions import gaps
from lsa_jax.kernels.infinite.kernel import InfiniteKernel
from lsa_jax.kernels.infinite.pointwise import Scale
from lsa_jax.kernels.infinite.recursion import Examples
from lsa_jax.kernels.infinite.steps import Step
from lsa_jax.kernels.matrices import memory
from lsa_jax.kernels.matrices.staged import unwrapped

# Points for each block of training examples, where a kernel is differentiated by jax.
_POINTS = 64

_HIGHEST = lax.Precision.HIGHEST


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
        total = _by_jax(kernel, rows, weights, x, points, memory_limit, progress)
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
    *how: Any,
) -> np.ndarray:
    """Sums the outer products of gradients with respect to patches."""
    steps, shape, transform = kernel.steps, x.shape[1:], kernel.transform
    size = kernel.transform_size(shape)
    _check_fits(size)
    x, points = x.astype(np.float32, copy=False), points.astype(np.float32, copy=False)
    side = tiles.even_share(len(x), tiles.largest_side())
    rows, columns = recursion.tile_sides(steps, shape, len(points), side)
    side += -side % columns
    blocks = list(_blocks(x, weights.astype(np.float32), side, filled=True))

    def of_tile(tile: np.ndarray) -> np.ndarray:
        some = np.concatenate([tile, np.repeat(tile[-1:], rows - len(tile), axis=0)])
        total = zeros(steps, some, weights.shape[1])
        for block in blocks:
            total = add_block(steps, get, columns, transform, some, *block, total)
        return np.asarray(outer_product(steps, transform, some, len(tile), total), float)

    total = _sum_over(of_tile, points, rows, *how)
    if transform is not None:
        total = transform.astype(float) @ total @ transform.T.astype(float)
    return recursion.patch_scale(steps, size) ** 2 * total


def _by_jax(
    kernel: Callable, rows: bool, weights: np.ndarray, x: np.ndarray, points: np.ndarray, *how: Any
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

    return _sum_over(of_tile, points, _POINTS, *how)


def _blocks(
    x: np.ndarray, weights: np.ndarray, size: int, *, filled: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields examples and their weights; `filled` up with copies of an example of weight 0."""
    for start in range(0, len(x), size):
        some, own = x[start : start + size], weights[start : start + size]
        if filled and (more := size - len(some)):  # a whole block is no copy
            some = np.concatenate([some, np.repeat(some[-1:], more, axis=0)])
            own = np.concatenate([own, np.zeros((more, own.shape[1]), own.dtype)])
        yield some, own


def _sum_over(
    function: Callable[[np.ndarray], np.ndarray],
    points: np.ndarray,
    size: int,
    memory_limit: float | None,
    progress: Callable[[float], None],
) -> np.ndarray:
    """Sums over tiles, in their order; the cores of a CPU work side by side."""
    parts = [points[start : start + size] for start in range(0, len(points), size)]
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


class Gradients(NamedTuple):
    """Sums over training examples, for the rows of a tile and every output.

    Attributes:
        vectors: [*positions, rows, k, c], with respect to unit vectors.
        norms: [*positions, rows, c], with respect to norms.
        scales: [*positions, rows, c], with respect to standard deviations, by their place.
    """

    vectors: Float[Array, "*positions rows k c"]
    norms: Float[Array, "*positions rows c"]
    scales: dict[Place, Scale]


def zeros(steps: tuple[Step, ...], points: np.ndarray, outputs: int) -> Gradients:
    """Returns the gradients before the first block."""
    form = jax.eval_shape(partial(recursion.examples, steps), points)
    *positions, size, rows = form.directions.vectors.shape
    return Gradients(
        np.zeros((*positions, rows, size, outputs), np.float32),
        *jax.tree.map(
            lambda a: np.zeros((*a.shape, outputs), np.float32), (form.norms, form.scales)
        ),
    )


@partial(jax.jit, static_argnames=("steps", "get", "columns"))
def add_block(
    steps: tuple[Step, ...],
    get: str,
    columns: int,
    transform: Float[Array, "k k"] | None,
    points: Float[Array, "rows ..."],
    x: Float[Array, "n ..."],
    weights: Float[Array, "n c"],
    before: Gradients,
) -> Gradients:
    """Adds the part of one block of training examples to the gradients at a tile's points.

    The n examples x, with their weights for each output, are processed `columns` at a time, which
    divides n. Patches are multiplied by the transform, if any. `before` is the sum over earlier
    blocks; `zeros` for the first.
    """
    rows = recursion.examples(steps, points, transform)
    others = recursion.examples(steps, x, transform)

    def split(array: Array) -> Array:
        array = array.reshape(*array.shape[:-1], -1, columns)
        return jnp.moveaxis(array, -2, 0)

    def add(total: Gradients, part: tuple) -> tuple[Gradients, None]:
        own = parallel.not_inlined(partial(_of_tile, steps, get))(rows, *part)
        return jax.tree.map(jnp.add, total, own), None

    parts = jax.tree.map(split, others), weights.reshape(-1, columns, weights.shape[1])
    return lax.scan(add, before, parts)[0]


def _of_tile(
    steps: Sequence[Step], get: str, rows: Examples, columns: Examples, weights: Array
) -> Gradients:
    """Returns the gradients of one tile."""
    layout = first_layout(steps, rows.directions.vectors)
    gap = gaps(rows.directions, columns.directions, layout)
    size, width = columns.directions.vectors.shape[-2:]

    def kernel(gap: Array, norms: Array, scales: dict[Place, Scale]) -> Array:
        state = covariances_of_gaps(steps, get, layout, gap, (norms, columns.norms), size)
        state = run(steps, state, lambda place, *_: (scales[place], columns.scales[place]))
        return state.covariance() if get == "nngp" else state.tangents()

    def for_each_pair(scale: Array) -> Array:
        return jnp.broadcast_to(scale[..., None], (*scale.shape, width))

    values, pull = jax.vjp(kernel, gap, *jax.tree.map(for_each_pair, (rows.norms, rows.scales)))
    by_gap, *by_scales = pull(jnp.ones_like(values))
    vectors = columns.directions.whole()
    weighted = jnp.einsum("...kb,bc->...bkc", vectors, weights, precision=_HIGHEST)
    return Gradients(
        layout.weigh(-by_gap, weighted),
        *jax.tree.map(
            lambda a: jnp.einsum("...ab,bc->...ac", a, weights, precision=_HIGHEST), by_scales
        ),
    )


@partial(jax.jit, static_argnames="steps")
def outer_product(
    steps: tuple[Step, ...],
    transform: Float[Array, "k k"] | None,
    points: Float[Array, "rows ..."],
    count: Any,
    gradients: Gradients,
) -> Float[Array, "k k"]:
    """Sums the outer products of gradients over points, positions and outputs.

    They are with respect to patches as the network scales them, after their transform. The first
    `count` points count; the others only fill the tile.
    """
    features = recursion.scaled_patches(steps, points, transform)

    def of(features: Array) -> tuple:
        examples = recursion.examples_of(steps, features)
        return examples.directions.whole(), examples.norms, examples.scales

    _, pull = jax.vjp(of, features)
    vectors = jnp.swapaxes(gradients.vectors, -3, -2)
    by_each = (vectors, gradients.norms, gradients.scales)
    total = jax.vmap(lambda parts: pull(parts)[0], -1, -1)(by_each)
    total = jnp.swapaxes(total, -3, -2)
    total = jnp.moveaxis(total, -2, 0)  # [k, *positions, rows, c]
    total = jnp.where(lax.broadcasted_iota(int, total.shape, total.ndim - 2) < count, total, 0)
    total = total.reshape(len(total), -1)
    return jnp.matmul(total, total.T, precision=_HIGHEST)
