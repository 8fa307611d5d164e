"""The finite NTK layer by layer, without the Jacobian of a dense layer.

A dense layer y = a W has df/dW = a (x) df/dy, so its part of the kernel is a product of two small
Gram matrices, <a, a'> <df/dy, df'/dy'>, and the gradient in W is never formed. Whatever else the
network does with its parameters (biases, convolutions, a parameter used twice) is contracted from
Jacobians as usual, and so is a dense layer used at so many positions that this is cheaper.

The network may be any function; see `dense_layers` for how its dense layers are found.

Source: Novak, Sohl-Dickstein and Schoenholz, Fast finite width neural tangent kernel, 2022, section
3.4 (structured derivatives); the search for dense layers is ours.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PyTree, Shaped

from lsa_jax.kernels import _tiles
from lsa_jax.kernels._dense_layers import (
    Dense,
    Scaled,
    compact_layers,
    dense_layers,
    gram_cost,
    run,
    trace,
)

# Examples a side of a tile of the dense layers' parts.
_SIDE = 256

# Examples that are differentiated at a time. What one needs on the way (activations, for each
# output) then stays in the cache.
_BATCH = 4

# Entries from which a parameter's Jacobian is a matrix of its own.
_LARGE = 1000


class Factors(NamedTuple):
    """What the kernel needs of some examples.

    Attributes:
        inputs: for each dense layer, a [n, positions, fan_in].
        cotangents: for each dense layer, df/dy [n, c, positions, fan_out].
        jacobian: of all other parameters, [n, c, parameters]: of each large one, and of all small
            ones together.
    """

    inputs: tuple[Array, ...]
    cotangents: tuple[Array, ...]
    jacobian: tuple[Array, ...]


def layerwise_ntk(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    full: bool = False,
) -> Float[Array, "n1 n2"] | Float[Array, "n1 n2 c c"]:
    """Computes the NTK of a network layer by layer; see `finite_ntk` for the arguments.

    For a dense layer of k inputs and f outputs a pair costs k + c f operations (k + c^2 f for the
    full kernel), against c k f (c^2 k f) from Jacobians. Without `x2` little more than half of the
    pairs are computed.
    """
    dense = dense_layers(apply, params, x1.shape[1:], x1.dtype, full=full)
    factors1 = _factors(apply, params, dense, x1)
    factors2 = factors1 if x2 is None else _factors(apply, params, dense, x2)
    parts = []
    if factors1.jacobian:
        parts.append(_from_jacobians(factors1, factors2, full=full, symmetric=x2 is None))
    if dense:
        scales = [layer.scale for layer in dense]
        parts.append(_from_layers(scales, factors1, factors2, full=full, symmetric=x2 is None))
    kernel = sum(parts)
    return kernel if full else kernel / _output_count(factors1)


@jax.default_matmul_precision("highest")
def derivative_factors(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Float[Array | np.ndarray, "..."]],
    x: Array | np.ndarray,
) -> Factors:
    """Computes what `directional_derivative` needs of some examples."""
    dense = compact_layers(apply, params, x.shape[1:], x.dtype)
    return _factors(apply, params, dense, x)


@jax.default_matmul_precision("highest")
def directional_derivative(
    apply: Callable[[Any, Array], Array],
    step: PyTree[Float[Array | np.ndarray, "..."]],
    factors: Factors,
    example: jax.ShapeDtypeStruct,
) -> Float[Array, "n c"]:
    """Computes df/dparams . step for examples whose factors are known.

    Args:
        apply: of which the factors were computed.
        step: in the parameters' structure; linear, so any function of it may be differentiated.
        factors: from `derivative_factors`, or some rows of each array.
        example: shape and dtype of one example.
    """
    dense = compact_layers(apply, step, example.shape, example.dtype)
    weights = _weight_matrices(apply, step, dense, example)
    found = {layer.leaf for layer in dense}
    rest = [leaf for i, leaf in enumerate(jax.tree.leaves(step)) if i not in found]
    parts = []
    for inputs, cotangents, weight in zip(*factors[:2], weights, strict=True):
        moved = jnp.einsum("npk,kf->npf", inputs, weight)
        parts.append(jnp.einsum("nopf,npf->no", cotangents, moved))
    for jacobian, flat in zip(factors.jacobian, _joined(rest, 0), strict=True):
        parts.append(jnp.einsum("nop,p->no", jacobian, flat))
    return sum(parts)


def _weight_matrices(
    apply: Callable,
    params: PyTree[Array | np.ndarray],
    dense: Sequence[Dense],
    example: jax.ShapeDtypeStruct,
) -> list[Float[Array, "fan_in fan_out"]]:
    """Returns dense layers' weights as matrices, with the factor that the network gives them."""
    program, _ = trace(apply, params, example.shape, example.dtype)
    matrices = {}

    def note(scaled: Scaled, data: Array, weight: Array, result: Array) -> Array:
        del data
        matrices[scaled.leaf] = weight
        return result

    # What the program computes beside the matrices is not used, and not compiled.
    x = jnp.zeros((1, *example.shape), example.dtype)
    run(program, jax.tree.leaves(params), x, note, lambda leaf: None)
    return [matrices[layer.leaf] for layer in dense]


def layerwise_cost(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Any],
    example_shape: tuple[int, ...],
    dtype: Any,
    *,
    full: bool,
) -> int:
    """Returns how many multiplications one pair of examples takes."""
    outputs = jax.eval_shape(apply, params, jax.ShapeDtypeStruct((1, *example_shape), dtype))
    c = outputs.shape[1]
    dense = dense_layers(apply, params, example_shape, dtype, full=full)
    found = {layer.leaf for layer in dense}
    rest = sum(leaf.size for i, leaf in enumerate(jax.tree.leaves(params)) if i not in found)
    pairs_of_outputs = c * c if full else c
    return pairs_of_outputs * rest + sum(gram_cost(layer, pairs_of_outputs) for layer in dense)


def _factors(
    apply: Callable,
    params: PyTree[Array | np.ndarray],
    dense: Sequence[Dense],
    x: Shaped[Array | np.ndarray, "n ..."],
) -> Factors:
    """Runs every example forward once, and backward once for each output."""
    program, c = trace(apply, params, x.shape[1:], x.dtype)
    leaves = jax.tree.leaves(params)
    order = {layer.leaf: i for i, layer in enumerate(dense)}
    others = [i for i in range(len(leaves)) if i not in order]

    def tapped(taps: list[Array], rest: list[Array], example: Array) -> tuple[Array, list[Array]]:
        """Adds taps (zeros) to what dense layers give; returns what goes into them beside."""
        inputs: list[Any] = [None] * len(dense)

        def tap(scaled: Scaled, data: Array, weight: Array, result: Array) -> Array:
            del weight
            if scaled.leaf not in order:
                return result
            inputs[order[scaled.leaf]] = data.astype(leaves[scaled.leaf].dtype)
            return result + taps[order[scaled.leaf]].astype(result.dtype)

        merged = list(leaves)
        for i, leaf in zip(others, rest, strict=True):
            merged[i] = leaf
        (outputs,) = run(program, merged, example[None], tap, lambda leaf: None)
        return outputs[0], inputs

    def of_one(example: Array) -> tuple[list[Array], list[Array], tuple[Array, ...]]:
        taps = [jnp.zeros((d.positions, d.fan_out), leaves[d.leaf].dtype) for d in dense]
        rest = [leaves[i] for i in others]
        outputs, pull, inputs = jax.vjp(
            lambda taps, rest: tapped(taps, rest, example), taps, rest, has_aux=True
        )
        cotangents, gradients = jax.vmap(pull)(jnp.eye(c, dtype=outputs.dtype))
        return inputs, cotangents, _joined(gradients, 1)

    inputs, cotangents, jacobian = lax.map(of_one, x, batch_size=_BATCH)
    return Factors(tuple(inputs), tuple(cotangents), jacobian)


def _joined(
    leaves: Sequence[Array | np.ndarray], before: int
) -> tuple[Float[Array | np.ndarray, "... parameters"], ...]:
    """Flattens what follows the first axes; keeps large parameters apart, which saves a copy."""
    flat = [a.reshape(*a.shape[:before], math.prod(a.shape[before:])) for a in leaves]
    small = [a for a in flat if a.shape[-1] < _LARGE]
    large = [a for a in flat if a.shape[-1] >= _LARGE]
    return (*large, *([jnp.concatenate(small, axis=-1)] if small else []))


def _from_jacobians(
    factors1: Factors, factors2: Factors, *, full: bool, symmetric: bool
) -> Float[Array, "n1 n2 ..."]:
    """Sums the Jacobians' parts of the kernel: one product of two matrices for each."""

    def as_matrix(jacobian: Array) -> Array:
        n, c, length = jacobian.shape
        return jacobian.reshape((n * c, length) if full else (n, c * length))

    rows, columns = ([as_matrix(a) for a in f.jacobian] for f in (factors1, factors2))
    if symmetric:
        kernel = _tiles.sum_of_grams(rows)
    else:
        kernel = sum(a @ b.T for a, b in zip(rows, columns, strict=True))
    if not full:
        return kernel
    c = _output_count(factors1)
    return kernel.reshape(len(kernel) // c, c, -1, c).transpose(0, 2, 1, 3)


def _from_layers(
    scales: Sequence[float], factors1: Factors, factors2: Factors, *, full: bool, symmetric: bool
) -> Float[Array, "n1 n2 ..."]:
    """Sums the dense layers' parts of the kernel, tile by tile: each has several numbers a pair."""
    shape = tuple(len(f.inputs[0]) for f in (factors1, factors2))
    tiles = (
        _in_tiles((f.inputs, f.cotangents), _tiles.even_share(len(f.inputs[0]), _SIDE))
        for f in (factors1, factors2)
    )
    tile = partial(_contract, scales, full)
    return _tiles.all_pairs(tile, *tiles, shape, symmetric=symmetric)


def _in_tiles(arrays: PyTree[Array], size: int) -> PyTree[Array]:
    """Splits the examples into tiles, filled up with zeros."""

    def split(array: Array) -> Array:
        n = len(array)
        array = jnp.pad(array, [(0, -n % size)] + [(0, 0)] * (array.ndim - 1))
        return array.reshape(len(array) // size, size, *array.shape[1:])

    return jax.tree.map(split, arrays)


def _contract(
    scales: Sequence[float],
    full: bool,
    part1: tuple[tuple[Array, ...], ...],
    part2: tuple[tuple[Array, ...], ...],
) -> Float[Array, "rows columns ..."]:
    """Sums the dense layers' parts of all pairs of two tiles, each of inputs and cotangents."""
    parts = []
    for scale, *arrays in zip(scales, *part1, *part2, strict=True):
        inputs1, cotangents1, inputs2, cotangents2 = arrays
        # Axes: examples a and b, their positions s and t, outputs o and q, features k and f.
        by_inputs = jnp.einsum("ask,btk->asbt", inputs1, inputs2)
        subscripts = "aosf,bqtf->aosbqt" if full else "aosf,botf->asbt"
        by_outputs = jnp.einsum(subscripts, cotangents1, cotangents2)
        subscripts = "asbt,aosbqt->aboq" if full else "asbt,asbt->ab"
        parts.append(scale**2 * jnp.einsum(subscripts, by_inputs, by_outputs))
    return sum(parts)


def _output_count(factors: Factors) -> int:
    return jax.tree.leaves((factors.cotangents, factors.jacobian))[0].shape[1]
