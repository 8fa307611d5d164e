"""The finite NTK layer by layer, without the Jacobian of a dense layer.

A dense layer y = a W has df/dW = a (x) df/dy, so its part of the kernel is a product of two small
Gram matrices, <a, a'> <df/dy, df'/dy'>, and the gradient in W is never formed. Where it is used at
so many positions that its Jacobian is cheaper (a convolution), that is one product of its inputs
and its cotangents for each example. Whatever else the network does with its parameters (biases, a
parameter used twice) is contracted from Jacobians as usual.

The network may be any function; see `dense_layers` for how its dense layers are found.

Source: Novak, Sohl-Dickstein and Schoenholz, Fast finite width neural tangent kernel, 2022, section
3.4 (structured derivatives); the search for dense layers is ours.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree

from lsa_jax import backend, costs
from lsa_jax.kernels.finite.arguments import Apply, Examples, Params
from lsa_jax.kernels.finite.dense_layers import DenseLayer, Scaled, dense_layers, run, trace
from lsa_jax.kernels.infinite import tiles as _tiles
from lsa_jax.kernels.matrices.staged import Stages

# Examples a side of a tile of the dense layers' parts. On an accelerator a tile of `gram` is one of
# these, and `gram` halves it where its program takes more memory than there is.
_SIDE = {"cpu": 256, "gpu": 1024, "tpu": 1024}

# Examples that are differentiated at a time. Activations, for each output, then stay in a CPU's
# cache. An accelerator, which two would leave idle, takes as many as this share of its memory
# holds, up to a number that fills it with the smallest networks too.
_BATCH_ON_CPU = 2
_SHARE_OF_MEMORY = 1 / 16
_LARGEST_BATCH = 256

# Entries from which a parameter's Jacobian is a matrix of its own.
_LARGE = 1000

# Numbers an example of a Jacobian that is formed piece by piece, about.
_PIECE = 50_000


# Of products of matrices with their own transposes: side of the blocks on the diagonal, and columns
# that go into all blocks before the next ones do. So many stay in a CPU's cache, and let its
# products run at the rate of large ones. An accelerator has no such cache: its products are at
# their rate from about 1,000 rows, and so many columns of them are 270 MB.
_BLOCK = {"cpu": 256, "gpu": 1024, "tpu": 1024}
_CHUNK = {"cpu": 4000, "gpu": 65_536, "tpu": 65_536}

# Of fewer rows, blocks that leave out a quarter of the products, where they are not too small.
_SMALLEST_BLOCK = 100


class Pieces(NamedTuple):
    """A matrix in so many pieces, `index -> [n, columns]`, never held as a whole."""

    count: int
    piece: Callable[[Array], Float[Array, "n _"]]


class Factors(NamedTuple):
    """The derivatives of some examples that the kernel is made of.

    Attributes:
        pairs: for each dense layer that is kept in two, its inputs a [n, positions, fan_in] and
            its cotangents df/dy [n, positions, c, fan_out].
        jacobian: of all other parameters, [n, ...]: of each other dense layer's, of each large
            parameter's and of all small ones' together. By output, they are [n, c, parameters].
    """

    pairs: tuple[tuple[Array, Array], ...]
    jacobian: tuple[Array, ...]


def layerwise_ntk(
    apply: Apply, params: Params, x1: Examples, x2: Examples | None = None, *, full: bool = False
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"]:
    """Computes the NTK of a network layer by layer; see `empirical_ntk` for the arguments.

    For a dense layer of k inputs and f outputs a pair costs k + c f operations (k + c^2 f for the
    full kernel), against c k f (c^2 k f) from Jacobians. Without `x2` little more than half of the
    pairs are computed.
    """
    example = jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)
    prepare, between, _ = layerwise_stages(apply, params, example, full=full)
    return between(*(prepare(x) for x in (x1, x2) if x is not None))


def layerwise_stages(
    apply: Apply, params: Params, example: jax.ShapeDtypeStruct, *, full: bool = False
) -> Stages:
    """Returns the two stages of `layerwise_ntk`: derivatives of examples, and their products.

    The second, of one side only, is the kernel of all pairs on it.
    """
    layers, c = dense_layers(apply, params, example)
    by_grams = [d for d in layers if _is_cheaper_by_grams(d, c * c if full else c)]
    kept = [d for d in layers if d in by_grams or is_smaller_in_two(d, c)]

    def prepare(x: Examples) -> Factors:
        of_one = factors_of_one(apply, params, layers, kept, x, by_output=full)
        return lax.map(of_one, x, batch_size=examples_at_once(apply, params, x, c))

    def between(*operands: Factors) -> Array:
        parts = []
        if by_grams:
            pairs = [[f.pairs[kept.index(d)] for d in by_grams] for f in operands]
            parts.append(_from_pairs(pairs, full=full))
        jacobians = [_matrices(f, [d not in by_grams for d in kept], full=full) for f in operands]
        if jacobians[0]:
            # Of rows alone, products of these with themselves.
            found = sum_of_grams(*jacobians) if len(operands) == 1 else sum_of_products(*jacobians)
            if full:
                found = found.reshape(len(found) // c, c, -1, c).transpose(0, 2, 1, 3)
            parts.append(found)
        kernel = sum(parts)
        return kernel if full else kernel / c

    return Stages(prepare, between)


def examples_at_once(
    apply: Apply, params: PyTree[Any], x: Examples, outputs: int, *, on_cpu: int = _BATCH_ON_CPU
) -> int:
    """Returns how many examples are differentiated at a time, in each of the outputs."""
    if backend.is_cpu():
        return on_cpu
    memory = backend.memory()
    if memory is None:
        return _LARGEST_BATCH
    one, two = (
        costs.bytes_for_gradient(apply, params, jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype))
        for n in (1, 2)
    )
    # A derivative in each parameter, and the memory for it that examples do not share.
    each = outputs * (costs.size_in_bytes(params) + two - one)
    return max(1, min(_LARGEST_BATCH, int(_SHARE_OF_MEMORY * memory / each)))


def layerwise_cost(
    apply: Apply, params: PyTree[Any], example: jax.ShapeDtypeStruct, *, full: bool
) -> int:
    """Returns how many multiplications one pair of examples takes."""
    layers, c = dense_layers(apply, params, example)
    pairs_of_outputs = c * c if full else c
    costs = [leaf.size * pairs_of_outputs for leaf in jax.tree.leaves(params)]
    for layer in layers:
        costs[layer.leaf] = min(costs[layer.leaf], _gram_cost(layer, pairs_of_outputs))
    return sum(costs)


def _gram_cost(layer: DenseLayer, pairs_of_outputs: int) -> int:
    """Returns how many multiplications a pair of examples takes by two Gram matrices."""
    return layer.positions**2 * (layer.fan_in + pairs_of_outputs * layer.fan_out)


def _is_cheaper_by_grams(layer: DenseLayer, pairs_of_outputs: int) -> bool:
    return _gram_cost(layer, pairs_of_outputs) < pairs_of_outputs * layer.fan_in * layer.fan_out


def is_smaller_in_two(layer: DenseLayer, outputs: int, times: int = 1) -> bool:
    """Whether a layer's inputs and cotangents are so many times fewer numbers than its Jacobian."""
    in_two = layer.positions * (layer.fan_in + outputs * layer.fan_out)
    return times * in_two < outputs * layer.fan_in * layer.fan_out


def others(leaves: Sequence[Any], layers: Sequence[DenseLayer]) -> list[Any]:
    """Returns the parameters that are not weights of these layers."""
    found = {layer.leaf for layer in layers}
    return [leaf for i, leaf in enumerate(leaves) if i not in found]


def factors_of_one(
    apply: Apply,
    params: PyTree[Array | np.ndarray],
    layers: Sequence[DenseLayer],
    kept: Sequence[DenseLayer],
    x: Examples,
    *,
    by_output: bool,
) -> Callable[[Array], Factors]:
    """Returns a function that runs an example forward once, and backward once an output.

    Of all dense layers, `kept` are the ones that stay inputs and cotangents. If `by_output`,
    outputs have an axis of their own in Jacobians, which takes a copy.
    """
    program, c = trace(apply, params, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    leaves = jax.tree.leaves(params)
    order = {layer.leaf: i for i, layer in enumerate(layers)}
    rest_of = others(range(len(leaves)), layers)
    product = "pk,pof->okf" if by_output else "pk,pof->kof"

    def tapped(taps: list[Array], rest: list[Array], example: Array) -> tuple[Array, list[Array]]:
        """Adds taps (zeros) to outputs of dense layers; returns the layers' inputs as well."""
        inputs: list[Any] = [None] * len(layers)

        def tap(scaled: Scaled, data: Array, weight: Array, result: Array) -> Array:
            del weight
            if scaled.leaf not in order:
                return result
            inputs[order[scaled.leaf]] = data.astype(leaves[scaled.leaf].dtype)
            return result + taps[order[scaled.leaf]].astype(result.dtype)

        merged = list(leaves)
        for i, leaf in zip(rest_of, rest, strict=True):
            merged[i] = leaf
        (outputs,) = run(program, merged, example[None], tap, lambda leaf: None)
        return outputs[0], inputs

    def of_one(example: Array) -> Factors:
        taps = [jnp.zeros((d.positions, d.fan_out), leaves[d.leaf].dtype) for d in layers]
        rest = [leaves[i] for i in rest_of]
        outputs, pull, inputs = jax.vjp(
            lambda taps, rest: tapped(taps, rest, example), taps, rest, has_aux=True
        )
        unit = jnp.eye(c, dtype=outputs.dtype)
        cotangents, gradients = jax.vmap(pull, out_axes=(1, 0))(unit)
        pairs, jacobians = [], []
        for layer, data, cotangent in zip(layers, inputs, cotangents, strict=True):
            if layer in kept:
                pairs.append((layer.scale * data, cotangent))
            else:
                jacobian = jnp.einsum(product, layer.scale * data, cotangent)
                jacobians.append(jacobian.reshape((c, -1) if by_output else -1))
        return Factors(tuple(pairs), (*jacobians, *joined(gradients, 1)))

    return of_one


def joined(
    leaves: Sequence[Array | np.ndarray], before: int
) -> tuple[Float[Array | np.ndarray, "... parameters"], ...]:
    """Flattens all but the first axes; keeps large parameters apart, which saves a copy."""
    flat = [a.reshape(*a.shape[:before], math.prod(a.shape[before:])) for a in leaves]
    small = [a for a in flat if a.shape[-1] < _LARGE]
    large = [a for a in flat if a.shape[-1] >= _LARGE]
    return (*large, *([jnp.concatenate(small, axis=-1)] if small else []))


def _matrices(factors: Factors, selected: Sequence[bool], *, full: bool) -> list[Array | Pieces]:
    """Returns Jacobians, of the selected pairs too, as matrices whose products are the kernel.

    If `full`, each output has a row of its own; else all outputs of an example are one row.
    """
    chosen = itertools.compress(factors.pairs, selected)
    formed = [a.reshape(a.shape[0] * a.shape[1] if full else len(a), -1) for a in factors.jacobian]
    return [_in_pieces(*pair, full=full) for pair in chosen] + formed


def _in_pieces(inputs: Array, cotangents: Array, *, full: bool) -> Pieces:
    """Returns the Jacobian of a dense layer kept in two, for some of its inputs at a time."""
    n, _, c, fan_out = cotangents.shape
    width = _tiles.even_share(inputs.shape[2], max(1, _PIECE // (c * fan_out)))
    inputs = jnp.pad(inputs, ((0, 0), (0, 0), (0, -inputs.shape[2] % width)))

    def piece(at: Array) -> Array:
        some = lax.dynamic_slice_in_dim(inputs, at * width, width, axis=2)
        jacobian = jnp.einsum("npk,npof->nokf" if full else "npk,npof->nkof", some, cotangents)
        return jacobian.reshape(n * c if full else n, -1)

    return Pieces(inputs.shape[2] // width, piece)


def _from_pairs(operands: Sequence[Sequence[tuple[Array, Array]]], *, full: bool) -> Array:
    """Sums dense layers' parts of the kernel, tile by tile: each has several numbers a pair.

    Operands are inputs and cotangents of the rows, and of the columns where these differ.
    """
    side, sides = _SIDE[backend.platform()], (operands[0], operands[-1])
    shape = tuple(len(some[0][0]) for some in sides)
    parts = (
        _tiles.in_tiles(some, _tiles.even_share(n, side), axis=0)
        for some, n in zip(sides, shape, strict=True)
    )
    return _tiles.all_pairs(
        functools.partial(_contract, full), *parts, shape, symmetric=len(operands) == 1
    )


def _contract(
    full: bool, part1: Sequence[tuple[Array, Array]], part2: Sequence[tuple[Array, Array]]
) -> Array:
    """Sums the dense layers' parts of all pairs of two tiles, each of inputs and cotangents."""
    parts = []
    for (inputs1, cotangents1), (inputs2, cotangents2) in zip(part1, part2, strict=True):
        # Axes: examples a and b, their positions s and t, outputs o and q, features k and f.
        by_inputs = jnp.einsum("ask,btk->asbt", inputs1, inputs2)
        subscripts = "asof,btqf->aosbqt" if full else "asof,btof->asbt"
        by_outputs = jnp.einsum(subscripts, cotangents1, cotangents2)
        subscripts = "asbt,aosbqt->aboq" if full else "asbt,asbt->ab"
        parts.append(jnp.einsum(subscripts, by_inputs, by_outputs))
    return sum(parts)


def _first_columns(factor: Array | Pieces) -> Array:
    return factor.piece(jnp.array(0)) if isinstance(factor, Pieces) else factor


def sum_of_products(
    rows: Sequence[Float[Array, "n1 _"] | Pieces], columns: Sequence[Float[Array, "n2 _"] | Pieces]
) -> Float[Array, "n1 n2"]:
    """Computes the sum of J @ K.T over some pairs of matrices. Derivatives go through."""

    def product(pair: tuple[Array | Pieces, Array | Pieces]) -> Array:
        row, column = pair
        if not isinstance(row, Pieces):
            return row @ column.T

        @jax.checkpoint
        def step(total: Array, at: Array) -> tuple[Array, None]:
            return total + row.piece(at) @ column.piece(at).T, None

        first = _first_columns(row) @ _first_columns(column).T
        return lax.scan(step, first, jnp.arange(1, row.count))[0]

    return functools.reduce(jnp.add, map(product, zip(rows, columns, strict=True)))


def sum_of_grams(factors: Sequence[Float[Array, "n _"] | Pieces]) -> Float[Array, "n n"]:
    """Computes the sum of J @ J.T over some matrices, with little more than half of the products.

    Blocks on and above the diagonal are computed, and mirrored. Derivatives go through.
    """
    form = jax.eval_shape(lambda: _first_columns(factors[0]))
    n = form.shape[0]
    side, chunk = _BLOCK[backend.platform()], _CHUNK[backend.platform()]
    places = _upper_blocks(0, n, min(side, max(_SMALLEST_BLOCK, math.ceil(n / 2))))

    @jax.checkpoint
    def add(blocks: list[Array], some: Array) -> list[Array]:
        return [
            block + some[rows] @ some[columns].T
            for block, (rows, columns) in zip(blocks, places, strict=True)
        ]

    def add_matrix(blocks: list[Array], matrix: Array) -> list[Array]:
        whole, rest = divmod(matrix.shape[1], chunk)

        def step(blocks: list[Array], at: Array) -> tuple[list[Array], None]:
            return add(blocks, lax.dynamic_slice_in_dim(matrix, at * chunk, chunk, axis=1)), None

        if whole:
            blocks, _ = lax.scan(step, blocks, jnp.arange(whole))
        return add(blocks, matrix[:, whole * chunk :]) if rest else blocks

    def add_factor(blocks: list[Array], factor: Array | Pieces) -> list[Array]:
        if not isinstance(factor, Pieces):
            return add_matrix(blocks, factor)

        @jax.checkpoint
        def step(blocks: list[Array], at: Array) -> tuple[list[Array], None]:
            return add_matrix(blocks, factor.piece(at)), None

        return lax.scan(step, blocks, jnp.arange(factor.count))[0]

    matrix = jnp.zeros((n, n), form.dtype)
    blocks = functools.reduce(add_factor, factors, [matrix[place] for place in places])
    for block, (rows, columns) in zip(blocks, places, strict=True):
        matrix = lax.dynamic_update_slice(matrix, block, (rows.start, columns.start))
    return _tiles.mirrored(matrix)


def _upper_blocks(start: int, stop: int, side: int) -> list[tuple[slice, slice]]:
    """Covers a square's diagonal and all above it: halves, and halves of those on the diagonal.

    Few of the blocks are small: large ones are multiplied at a higher rate.
    """
    whole = slice(start, stop)
    if stop - start <= side:
        return [(whole, whole)]
    middle = (start + stop) // 2
    halves = _upper_blocks(start, middle, side) + _upper_blocks(middle, stop, side)
    return [(slice(start, middle), slice(middle, stop)), *halves]
