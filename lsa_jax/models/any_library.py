"""Any library's network as a `Model`, recognised by its type."""

import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from lsa_jax import models
from lsa_jax.errors import InputError, one_line
from lsa_jax.models.model import Model, NoKernel

ACCEPTED = (
    "a models.Model; (init, apply), functions of (key, input_shape) and (params, inputs [n, ...]); "
    "a flax.linen module; a flax.nnx module, its class or a factory (rngs) of it; an equinox "
    "module, its class or a factory (key) of it; a Haiku function by models.from_haiku(function)"
)


def as_model(network: Any) -> Model:
    """Returns a network as a model.

    Args:
        network: see `ACCEPTED`. Of an instance of flax.nnx or equinox the parameters that it has
            are the start of every seed, which then differ in the order of examples alone.

    Raises:
        InputError: none of these.
    """
    if isinstance(network, Model):
        return network
    if _is_a("haiku", "Transformed", network) or _is_a("haiku", "TransformedWithState", network):
        return models.from_haiku(network)  # raises, with the way out
    if isinstance(network, tuple) and len(network) == 2 and all(map(callable, network)):
        init, apply = network
        return Model(init, apply, NoKernel("it is a pair of functions"))
    if _is_a("flax.linen", "Module", network):
        return models.from_flax_linen(network)
    if _is_of_equinox(network) and isinstance(network, tuple):
        raise InputError(
            "model is a module of equinox with its state; accepted: its class, or a factory (key)"
        )
    if _is_a("flax.nnx", "Module", network) or _is_of_equinox(network):
        return _of_instance(network)
    if isinstance(network, type):
        return _from_class(network)
    if inspect.isfunction(network) or inspect.ismethod(network) or type(network) is partial:
        return _from_factory(network)
    raise InputError(f"model is a {type(network).__name__}; accepted: {ACCEPTED}")


def _library(name: str) -> Any:
    """Returns a library that is imported already: a network of it cannot exist otherwise."""
    return sys.modules.get(name)


def _is_a(library: str, kind: str, network: Any) -> bool:
    found = _library(library)
    return found is not None and isinstance(network, getattr(found, kind))


def _from_class(network: type) -> Model:
    linen, nnx, equinox = map(_library, ("flax.linen", "flax.nnx", "equinox"))
    if linen is not None and issubclass(network, linen.Module):
        try:
            return models.from_flax_linen(network())
        except TypeError as error:
            raise InputError(
                f"model is the class {network.__name__}, which needs arguments ({error}); "
                f"accepted: an instance, {network.__name__}(...)"
            ) from None
    if nnx is not None and issubclass(network, nnx.Module):
        return models.from_nnx(network)
    if equinox is not None and issubclass(network, equinox.Module):
        return models.from_equinox(network)
    raise InputError(f"model is the class {network.__name__}; accepted: {ACCEPTED}")


def _from_factory(make: Callable) -> Model:
    """Recognises a factory by its only argument without a default: rngs of nnx, key of equinox."""
    needed = [
        name
        for name, parameter in inspect.signature(make).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if not needed:
        try:
            made = make()
        except Exception as error:  # of a user's function
            reason = one_line(error)
            raise InputError(
                f"model is a function that fails ({type(error).__name__}: {reason:.200}); "
                "accepted: a factory of a network"
            ) from error
        return as_model(made)
    if needed == ["rngs"]:
        return models.from_nnx(make)
    if needed == ["key"]:
        return models.from_equinox(make)
    raise InputError(
        f"model is a function of ({', '.join(needed)}); accepted: a factory without arguments, of "
        "(rngs) for flax.nnx or of (key) for equinox; models.from_haiku(function) for a Haiku "
        "function of the inputs"
    )


def _of_instance(network: Any) -> Model:
    if _is_of_equinox(network):
        return models.from_equinox(lambda key: network)
    return models.from_nnx(lambda rngs: _library("flax.nnx").clone(network))


def _is_of_equinox(network: Any) -> bool:
    """Whether it is an equinox module, or one with its state."""
    with_state = isinstance(network, tuple) and len(network) == 2
    if with_state and not _is_a("equinox.nn", "State", network[1]):
        return False
    return _is_a("equinox", "Module", network[0] if with_state else network)


def params_of(model: Model, network: Any, example: Any) -> Any:
    """Returns parameters in the structure in which a model of `as_model` has them.

    They may be its parameters, the variables of a flax.linen module, or a trained module of
    flax.nnx or equinox; the example's shape and type are as `Model.init` takes them.

    Raises:
        InputError: they have another structure, or arrays of other shapes.
    """
    expected = jax.eval_shape(lambda key: model.init(key, example), jax.random.key(0))
    given = network
    if _is_a("flax.nnx", "Module", network) or _is_of_equinox(network):
        given = _of_instance(network).init(jax.random.key(0), example)
    elif isinstance(network, dict) and list(network) == ["params"] and "params" not in expected:
        given = network["params"]
    leaves, forms = jax.tree.leaves(given), jax.tree.leaves(expected)
    if list(map(np.shape, leaves)) != [form.shape for form in forms] or (
        jax.tree.structure(given) != jax.tree.structure(expected)
        # Functions that a module of equinox holds are a part of its structure.
        and not _is_of_equinox(network)
    ):
        raise InputError(
            f"params has {_outline(given)}; accepted for this model: {_outline(expected)}"
        )
    return jax.tree.unflatten(jax.tree.structure(expected), leaves)


def _outline(params: Any) -> str:
    """Returns names and shapes of parameters, in one line."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    text = ", ".join(f"{jax.tree_util.keystr(path)} {np.shape(leaf)}" for path, leaf in leaves)
    return text if len(text) <= 200 else f"{text[:200]}... ({len(leaves)} arrays)"
