"""Weights, inputs and gradients of the dense layers of any network.

A convolution of images is a dense layer at the positions of its windows. See `dense_layers` for how
layers are found in the program that jax traces a network to, whatever library it is of.
"""

import collections
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, PyTree

from lsa_jax import costs
from lsa_jax.errors import InputError
from lsa_jax.kernels.finite import arguments
from lsa_jax.kernels.finite.arguments import Apply, Examples, Params
from lsa_jax.kernels.finite.dense_layers import Scaled, acting_weights, dense_layers, run, trace
from lsa_jax.kernels.finite.layerwise import factors_of_one
from lsa_jax.kernels.matrices import memory


class LayerGradients(NamedTuple):
    """A dense layer, and how the network's outputs depend on its inputs.

    Attributes:
        name: where its weight is among the parameters, such as "Conv_0/weight".
        weight: [fan_in, fan_out], as it acts: with the factors that the network gives it.
        outer_product: [fan_in, fan_in], sum over outputs and positions and mean over examples of
            df_c/da df_c/da^T, where a is the layer's input at a position.
    """

    name: str
    weight: Float[Array, "k f"]
    outer_product: Float[Array, "k k"]


def leaf_names(params: PyTree[Any]) -> list[str]:
    """Returns a name of every leaf: its place in the tree, such as "Conv_0/weight"."""
    paths, _ = jax.tree_util.tree_flatten_with_path(params)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in paths]


@jax.default_matmul_precision("highest")
def layer_gradients(apply: Apply, params: Params, x: Examples) -> list[LayerGradients]:
    """Computes each dense layer's average gradient outer product with respect to its inputs.

    Costs a forward pass and c backward ones an example, and keeps [fan_out, fan_out] a layer: with
    y = a W, df/da = df/dy W^T, so only the outer products of df/dy are summed over examples.

    Args:
        apply: `(params, x [n, ...]) -> outputs [n, c]`, each example by itself.
        params: where to differentiate.
        x: the examples.

    Returns:
        The layers, in the order in which the network computes them.

    Raises:
        InputError: the layers' outer products do not fit the memory.

    Source: Radhakrishnan, Beaglehole, Pandit and Belkin, Science 2024 (arXiv 2212.13881), which
    calls it AGOP; over positions: Beaglehole et al. (arXiv 2309.00570).
    """
    params, x, _ = arguments.checked(apply, params, x, empty=False)
    example = jax.ShapeDtypeStruct(x.shape[1:], x.dtype)
    layers, _ = dense_layers(apply, params, example)
    weights = acting_weights(apply, params, example)
    needed = 3 * x.dtype.itemsize * sum(layer.fan_in**2 for layer in layers)
    widest = max((layer.fan_in for layer in layers), default=0)
    what = f"outer products of layers with {widest} inputs and fewer"
    instead = "a network whose layers have fewer inputs"
    memory.check_fits_device(what, needed, lambda: needed, instead)
    factors_of = factors_of_one(apply, params, layers, layers, x, by_output=True)

    def add(sums: list[Array], example: Array) -> tuple[list[Array], None]:
        pairs = factors_of(example).pairs
        products = [jnp.einsum("pof,pog->fg", g, g) for _, g in pairs]
        return [s + product for s, product in zip(sums, products, strict=True)], None

    forms = jax.eval_shape(factors_of, x[0]).pairs
    empty = [jnp.zeros(2 * g.shape[-1:], g.dtype) for _, g in forms]
    sums, _ = lax.scan(add, empty, jnp.asarray(x))
    names = leaf_names(params)
    return [
        LayerGradients(names[layer.leaf], w := weights[layer.leaf], w @ (s / len(x)) @ w.T)
        for layer, s in zip(layers, sums, strict=True)
    ]


def last_layer_inputs(apply: Apply, params: Params, x: Examples) -> Float[Array, "n k"]:
    """Returns the last dense layer's inputs: the features, flattened over positions.

    Raises:
        InputError: those of all examples do not fit the memory.
    """
    return _layer_inputs(apply, params, x, lambda seen: list(seen.values())[-1])


def layer_inputs(apply: Apply, params: Params, x: Examples) -> dict[str, Float[Array, "n k"]]:
    """Returns the inputs of each dense layer, flattened over positions, by its weight's name.

    The activations of a network of any library. A layer that is used again is "name (2)".

    Raises:
        InputError: those of all examples do not fit the memory.
    """
    return _layer_inputs(apply, params, x, lambda seen: seen)


@jax.default_matmul_precision("highest")
def _layer_inputs(
    apply: Apply, params: Params, x: Examples, keep: Callable[[dict[str, Array]], Any]
) -> Any:
    params, x, _ = arguments.checked(apply, params, x)
    program, _ = trace(apply, params, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    names = leaf_names(params)

    def of_one(example: Array) -> Any:
        seen: dict[str, Array] = {}
        uses: collections.Counter = collections.Counter()

        def note(scaled: Scaled, data: Array, weight: Array, result: Array) -> Array:
            del weight
            uses[name := names[scaled.leaf]] += 1
            seen[name if uses[name] == 1 else f"{name} ({uses[name]})"] = data.reshape(-1)
            return result

        run(program, jax.tree.leaves(params), example[None], note, lambda leaf: None)
        if not seen:
            raise InputError("apply has no dense layer; accepted: a network with one or more")
        return keep(seen)

    found = functools.partial(lax.map, of_one)
    needed = costs.size_in_bytes(jax.eval_shape(found, x))
    what = f"x is {x.shape}: keeping the inputs of layers"
    memory.check_fits_device(what, needed, lambda: needed, "fewer examples at a time")
    return found(jnp.asarray(x))
