"""Networks of other libraries as `Model`s: a line each, for training, finite kernels, measures.

They have no infinite-width kernel. Networks whose examples act on one another through state that is
kept beside the parameters (batch normalisation's running statistics) are refused.
"""

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from lsa_jax.errors import InputError
from lsa_jax.models.model import Model, NoKernel

_NO_KERNEL = NoKernel("its layers are another library's")


def _library(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(f"{name} is not installed; pip install {package}") from error


def _one_example(input_shape: tuple[int, ...]) -> Float[Array, "1 ..."]:
    return jnp.zeros((1, *input_shape))


def _only_params(found: Any, kept: Any) -> Any:
    if kept:
        raise InputError(
            f"the network keeps {', '.join(sorted(map(str, kept)))} beside its parameters; "
            "accepted: networks of parameters alone"
        )
    return found


def from_flax_linen(module: Any) -> Model:
    """Returns a flax.linen module as a model.

    Args:
        module: called with inputs [n, ...], returns outputs [n, c].

    Raises:
        InputError: when drawn: it has collections beside "params".
    """

    def init(key: Key[Array, ""], input_shape: tuple[int, ...]) -> Any:
        variables = module.init(key, _one_example(input_shape))
        return _only_params(variables["params"], set(variables) - {"params"})

    return Model(init, lambda params, x: module.apply({"params": params}, x), _NO_KERNEL)


def from_nnx(make: Callable[[Any], Any]) -> Model:
    """Returns a flax.nnx module as a model.

    Args:
        make: `(rngs: nnx.Rngs) -> module`, whose module takes inputs [n, ...].

    Raises:
        InputError: when drawn: it has variables that are not `nnx.Param`.
    """
    nnx = _library("flax.nnx", "flax")
    graph, shapes, _ = nnx.split(nnx.eval_shape(lambda: make(nnx.Rngs(0))), nnx.Param, ...)

    def init(key: Key[Array, ""], input_shape: tuple[int, ...]) -> Any:
        del input_shape
        _, params, rest = nnx.split(make(nnx.Rngs(params=key)), nnx.Param, ...)
        kept = {type(v).__name__ for _, v in nnx.to_flat_state(rest)} - {"RngCount", "RngKey"}
        return _only_params(nnx.to_pure_dict(params), kept)

    def apply(params: Any, x: Array) -> Array:
        state = jax.tree.map(lambda leaf: leaf, shapes)
        nnx.replace_by_pure_dict(state, params)
        return nnx.merge(graph, state)(x)

    return Model(init, apply, _NO_KERNEL)


def from_equinox(make: Callable[[Array], Any]) -> Model:
    """Returns an equinox module, which acts on one example, as a model.

    Args:
        make: `(key) -> module`, whose module takes one input [...] and returns [c].

    Raises:
        InputError: equinox is not installed.
    """
    equinox = _library("equinox", "equinox")

    def parts(key: Array) -> tuple[Any, Any]:
        return equinox.partition(make(key), equinox.is_inexact_array)

    _, static = parts(jax.random.key(0))

    def init(key: Key[Array, ""], input_shape: tuple[int, ...]) -> Any:
        del input_shape
        return parts(key)[0]

    return Model(init, lambda params, x: jax.vmap(equinox.combine(params, static))(x), _NO_KERNEL)


def from_haiku(function: Callable[[Array], Array]) -> Model:
    """Returns a Haiku network as a model.

    Args:
        function: `(inputs [n, ...]) -> outputs [n, c]`, which makes its modules when called.

    Raises:
        InputError: dm-haiku is not installed, or, when drawn, the network has state.
    """
    haiku = _library("haiku", "dm-haiku")
    network = haiku.transform_with_state(function)

    def init(key: Key[Array, ""], input_shape: tuple[int, ...]) -> Any:
        return _only_params(*network.init(key, _one_example(input_shape)))

    return Model(init, lambda params, x: network.apply(params, {}, None, x)[0], _NO_KERNEL)
