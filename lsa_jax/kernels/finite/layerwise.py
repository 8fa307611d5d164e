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

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax import backend
from lsa_jax.kernels.finite import products
from lsa_jax.kernels.finite.dense_layers import DenseLayer, Scaled, dense_layers, run, trace
from lsa_jax.kernels.infinite import tiles as _tiles
from lsa_jax.kernels.matrices.staged import Stages

# Examples a side of a tile of the dense layers' parts. Elsewhere a tile of `gram` is one, and that
# is halved where its program takes more memory than there is.
_SIDE = {"cpu": 256}
_SIDE_ELSEWHERE = 1024

# Examples that are differentiated at a time. What one needs on the way (activations, for each
# output) then stays in a CPU's cache. An accelerator, which two would leave idle, takes as many as
# this share of its memory holds, up to a number that fills it with the smallest networks too.
_BATCH_ON_CPU = 2
_SHARE_OF_MEMORY = 1 / 16
_LARGEST_BATCH = 256

# Entries from which a parameter's Jacobian is a matrix of its own.
_LARGE = 1000

# Numbers an example of a Jacobian that is formed piece by piece, about.
_PIECE = 50_000


class Factors(NamedTuple):
    """What the kernel needs of some examples.

    Attributes:
        pairs: for each dense layer that is kept in two, its inputs a [n, positions, fan_in] and
            its cotangents df/dy [n, positions, c, fan_out].
        jacobian: of all other parameters, [n, ...]: of each other dense layer's, of each large
            parameter's and of all small ones' together. By output, they are [n, c, parameters].
    """

    pairs: tuple[tuple[Array, Array], ...]
    jacobian: tuple[Array, ...]


def layerwise_ntk(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    full: bool = False,
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"]:
    """Computes the NTK of a network layer by layer; see `empirical_ntk` for the arguments.

    For a dense layer of k inputs and f outputs a pair costs k + c f operations (k + c^2 f for the
    full kernel), against c k f (c^2 k f) from Jacobians. Without `x2` little more than half of the
    pairs are computed.
    """
    example = jax.ShapeDtypeStruct(x1.shape[1:], x1.dtype)
    prepare, between = layerwise_stages(apply, params, example, full=full)
    return between(*(prepare(x) for x in (x1, x2) if x is not None))


def layerwise_stages(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    example: jax.ShapeDtypeStruct,
    *,
    full: bool = False,
) -> Stages:
    """Returns the two stages of `layerwise_ntk`: derivatives of examples, and their products.

    Of one side alone the second gives the kernel of all pairs on it.
    """
    layers, c = dense_layers(apply, params, example.shape, example.dtype)
    by_grams = [d for d in layers if _is_cheaper_by_grams(d, c * c if full else c)]
    kept = [d for d in layers if d in by_grams or is_smaller_in_two(d, c)]

    def prepare(x: Shaped[Array | np.ndarray, "n ..."]) -> Factors:
        of_one = factors_of_one(apply, params, layers, kept, x, by_output=full)
        return lax.map(of_one, x, batch_size=examples_at_once(apply, params, x, c))

    def between(*operands: Factors) -> Array:
        parts = []
        if by_grams:
            pairs = [[f.pairs[kept.index(d)] for d in by_grams] for f in operands]
            parts.append(_from_pairs(pairs, full=full))
        jacobians = [_matrices(f, [d not in by_grams for d in kept], full=full) for f in operands]
        if jacobians[0]:
            parts.append(_from_jacobians(jacobians, c if full else None))
        kernel = sum(parts)
        return kernel if full else kernel / c

    return Stages(prepare, between)


def examples_at_once(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Any],
    x: Shaped[Array | np.ndarray, "n ..."],
    outputs: int,
    *,
    on_cpu: int = _BATCH_ON_CPU,
) -> int:
    """Returns how many examples are differentiated at a time, in each of so many outputs."""
    if backend.is_cpu():
        return on_cpu
    memory = backend.memory()
    if memory is None:
        return _LARGEST_BATCH
    one, two = (
        backend.bytes_for_gradient(apply, params, jax.ShapeDtypeStruct((n, *x.shape[1:]), x.dtype))
        for n in (1, 2)
    )
    # A derivative in each parameter, and what is kept for it but for what examples share.
    each = outputs * (backend.size_in_bytes(params) + two - one)
    return max(1, min(_LARGEST_BATCH, int(_SHARE_OF_MEMORY * memory / each)))


def layerwise_cost(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Any],
    example_shape: tuple[int, ...],
    dtype: Any,
    *,
    full: bool,
) -> int:
    """Returns how many multiplications one pair of examples takes."""
    layers, c = dense_layers(apply, params, example_shape, dtype)
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
    apply: Callable,
    params: PyTree[Array | np.ndarray],
    layers: Sequence[DenseLayer],
    kept: Sequence[DenseLayer],
    x: Shaped[Array | np.ndarray, "n ..."],
    *,
    by_output: bool,
) -> Callable[[Array], Factors]:
    """Returns what runs an example forward once, and backward once for each output.

    Args:
        apply: the network.
        params: its parameters.
        layers: all its dense layers.
        kept: those kept in two.
        x: some examples, of which the shape counts.
        by_output: whether outputs have an axis of their own in Jacobians, which takes a copy.
    """
    program, c = trace(apply, params, x.shape[1:], x.dtype)
    leaves = jax.tree.leaves(params)
    order = {layer.leaf: i for i, layer in enumerate(layers)}
    rest_of = others(range(len(leaves)), layers)
    product = "pk,pof->okf" if by_output else "pk,pof->kof"

    def tapped(taps: list[Array], rest: list[Array], example: Array) -> tuple[Array, list[Array]]:
        """Adds taps (zeros) to what dense layers give; returns what goes into them beside."""
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
    """Flattens what follows the first axes; keeps large parameters apart, which saves a copy."""
    flat = [a.reshape(*a.shape[:before], math.prod(a.shape[before:])) for a in leaves]
    small = [a for a in flat if a.shape[-1] < _LARGE]
    large = [a for a in flat if a.shape[-1] >= _LARGE]
    return (*large, *([jnp.concatenate(small, axis=-1)] if small else []))


def _matrices(
    factors: Factors, selected: Sequence[bool], *, full: bool
) -> list[Float[Array, "rows _"] | products.Pieces]:
    """Returns Jacobians as matrices whose products are the kernel.

    Args:
        factors: of some examples.
        selected: the pairs of which to take the Jacobian.
        full: whether each output has a row of its own, or all those of an example are one row.
    """
    chosen = itertools.compress(factors.pairs, selected)
    formed = [a.reshape(a.shape[0] * a.shape[1] if full else len(a), -1) for a in factors.jacobian]
    return [_in_pieces(*pair, full=full) for pair in chosen] + formed


def _in_pieces(
    inputs: Float[Array, "n p k"], cotangents: Float[Array, "n p c f"], *, full: bool
) -> products.Pieces:
    """Returns the Jacobian of a dense layer kept in two, for some of its inputs at a time."""
    n, _, c, fan_out = cotangents.shape
    width = _tiles.even_share(inputs.shape[2], max(1, _PIECE // (c * fan_out)))
    inputs = jnp.pad(inputs, ((0, 0), (0, 0), (0, -inputs.shape[2] % width)))

    def piece(at: Array) -> Array:
        some = lax.dynamic_slice_in_dim(inputs, at * width, width, axis=2)
        jacobian = jnp.einsum("npk,npof->nokf" if full else "npk,npof->nkof", some, cotangents)
        return jacobian.reshape(n * c if full else n, -1)

    return products.Pieces(inputs.shape[2] // width, piece)


def _from_jacobians(
    operands: Sequence[Sequence[Float[Array, "_ _"] | products.Pieces]], outputs: int | None
) -> Float[Array, "n1 n2 ..."]:
    """Sums the Jacobians' parts of the kernel: one product of two matrices for each.

    Args:
        operands: the matrices of the rows, and of the columns where those are others.
        outputs: rows of an example, to be told apart; None for one row, of all outputs.
    """
    kernel = (
        products.sum_of_grams(*operands)
        if len(operands) == 1
        else products.sum_of_products(*operands)
    )
    if outputs is None:
        return kernel
    return kernel.reshape(len(kernel) // outputs, outputs, -1, outputs).transpose(0, 2, 1, 3)


def _from_pairs(
    operands: Sequence[Sequence[tuple[Array, Array]]], *, full: bool
) -> Float[Array, "n1 n2 ..."]:
    """Sums dense layers' parts of the kernel, tile by tile: each has several numbers a pair.

    Args:
        operands: inputs and cotangents of the rows, and of the columns where those are others.
        full: whether outputs are told apart.
    """
    side = _SIDE.get(backend.platform(), _SIDE_ELSEWHERE)
    shape = tuple(len(some[0][0]) for some in (operands[0], operands[-1]))
    tiles = (
        _in_tiles(some, _tiles.even_share(n, side))
        for some, n in zip((operands[0], operands[-1]), shape, strict=True)
    )
    return _tiles.all_pairs(partial(_contract, full), *tiles, shape, symmetric=len(operands) == 1)


def _in_tiles(arrays: PyTree[Array], size: int) -> PyTree[Array]:
    """Splits the examples into tiles, filled up with zeros."""

    def split(array: Array) -> Array:
        n = len(array)
        array = jnp.pad(array, [(0, -n % size)] + [(0, 0)] * (array.ndim - 1))
        return array.reshape(len(array) // size, size, *array.shape[1:])

    return jax.tree.map(split, arrays)


def _contract(
    full: bool, part1: Sequence[tuple[Array, Array]], part2: Sequence[tuple[Array, Array]]
) -> Float[Array, "rows columns ..."]:
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
