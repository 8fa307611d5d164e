"""Any library's network as a `Model`, recognised by its type."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.models.model import Model, NoKernel

ACCEPTED = (
    "a models.Model; (init, apply), functions of (key, input_shape) and (params, inputs [n, ...]); "
    "a flax.linen module; the class or a factory (rngs) of a flax.nnx module; the class or a "
    "factory (key) of an equinox module; a Haiku function by models.from_haiku(function)"
)


def as_model(network: Any) -> Model:
    """Returns a network as a model.

    Args:
        network: see `ACCEPTED`. Of a flax.nnx instance the parameters that it has are the start of
            every seed, which then differ in the order of examples alone.

    Raises:
        InputError: none of these.
    """
    if isinstance(network, Model):
        return network
    if isinstance(network, tuple) and len(network) == 2 and all(map(callable, network)):
        init, apply = network
        return Model(init, apply, NoKernel("it is a pair of functions"))
    if _is_a("flax.linen", "Module", network):
        return models.from_flax_linen(network)
    if _is_a("flax.nnx", "Module", network):
        return _from_nnx_instance(network)
    if isinstance(network, type):
        return _from_class(network)
    if inspect.isfunction(network) or inspect.ismethod(network):
        return _from_factory(network)
    raise InputError(f"model is {_named(network)}; accepted: {ACCEPTED}")


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
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if not needed:
        return as_model(make())
    if needed == ["rngs"]:
        return models.from_nnx(make)
    if needed == ["key"]:
        return models.from_equinox(make)
    raise InputError(
        f"model is a function of ({', '.join(needed)}); accepted: a factory without arguments, of "
        "(rngs) for flax.nnx or of (key) for equinox; models.from_haiku(function) for a Haiku "
        "function of the inputs"
    )


def _from_nnx_instance(network: Any) -> Model:
    import jax
    from flax import nnx

    made = models.from_nnx(lambda rngs: nnx.clone(network))
    start = nnx.to_pure_dict(nnx.state(network, nnx.Param))

    def init(key: Any, input_shape: Any) -> Any:
        made.init(key, input_shape)  # which checks the network on such inputs
        return jax.tree.map(lambda leaf: leaf, start)

    return made._replace(init=init)


def _named(network: Any) -> str:
    equinox = _library("equinox")
    if equinox is not None and isinstance(network, equinox.Module):
        return f"an instance of {type(network).__name__}, which is drawn already"
    return f"a {type(network).__name__}"
