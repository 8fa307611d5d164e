"""Networks of flax, equinox and Haiku as `Model`s, for training, finite kernels and measures.

They have no infinite-width kernel. `apply(params, inputs)` evaluates: dropout is off. With a third
argument, `key`, which `training.train` passes, masks are drawn as in the library's training mode.
Arguments of a network named train, training, is_training, deterministic or inference are set
accordingly. Networks with other state than parameters (batch normalisation's running statistics)
are refused. Inputs keep their type, so tokens stay integers; booleans and floats of 16 bits become
float32, as do outputs of 16 bits.
"""

import contextlib
import functools
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped

from lsa_jax.arrays import random_key, real_array
from lsa_jax.errors import InputError
from lsa_jax.models._convolutions import with_own_convolutions
from lsa_jax.models.model import Model, NoKernel, batch_of_one

_NO_KERNEL = NoKernel("its layers are another library's")

# Arguments that switch a network to training, and to evaluation.
_TRAINED = ("train", "training", "is_training")
_EVALUATED = ("deterministic", "inference")

# Patterns of the libraries' error messages, and advice for each.
_WAYS_OUT = (
    (
        r"missing \d+ required|unexpected keyword|takes .* positional argument",
        "pass a network that needs nothing but its inputs: a module or a lambda around it, with "
        "its further arguments filled in",
    ),
    (
        r"integer|inexact|finfo",
        "for tokens give init an example in place of a shape, model.init(key, inputs[0]), and give "
        "other inputs as float32",
    ),
    (
        r"(?i)rng|\bkeys?\b|deterministic|fold_in",
        "draw only in training: by an argument `train` or `deterministic` of the network, or turn "
        "masks off, by deterministic=True (flax) or equinox.nn.inference_mode(network)",
    ),
)


def _library(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise InputError(f"{name} is not installed; pip install {package}") from error


@contextlib.contextmanager
def _in_one_line(doing: str, accepted: str) -> Iterator[None]:
    """Raises InputError, in one line and with advice, for an error of another library."""
    try:
        yield
    except (InputError, MemoryError, FloatingPointError, jax.errors.JaxRuntimeError):
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        way = next((f"; {way}" for found, way in _WAYS_OUT if re.search(found, text)), "")
        raise InputError(
            f"{doing}: {type(error).__name__}: {text[:200]}; accepted: {accepted}{way}"
        ) from error


def _refuse_state(kept: Any) -> None:
    if kept:
        raise InputError(
            f"the network has {', '.join(sorted(map(str, kept)))} in addition to parameters; "
            "accepted: networks of parameters alone, so LayerNorm or GroupNorm in place of "
            "BatchNorm, or models.BatchNorm in models.network"
        )


def _checked_params(params: Any) -> Any:
    """Returns parameters as arrays; all must be real floating-point numbers."""

    def checked(path: Any, leaf: Any) -> Array:
        dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
        if not jnp.issubdtype(dtype, jnp.floating):
            raise InputError(
                f"parameter {jax.tree_util.keystr(path)} is of type {dtype}; accepted: real "
                "floating-point numbers; keep constants out of the parameters, and real and "
                "imaginary parts as two"
            )
        return jnp.asarray(leaf)

    return jax.tree_util.tree_map_with_path(checked, params)


def _checked_outputs(outputs: Any, x: Array, accepted: str) -> Float[Array, "n c"]:
    found, rows = type(outputs).__name__, None
    if isinstance(outputs, jax.Array | np.ndarray):
        found = f"{outputs.dtype} {outputs.shape}"
        if jnp.issubdtype(outputs.dtype, jnp.floating) and outputs.ndim == 2:
            rows = len(outputs)
    if rows != len(x):
        raise InputError(
            f"the network turns inputs {x.dtype} {x.shape} into {found}; accepted: one array of "
            f"real floating-point numbers with an axis of outputs, c = 1 or more: {accepted}"
        )
    return outputs.astype(jnp.promote_types(outputs.dtype, jnp.float32))


def _model(
    draw: Callable[[Key[Array, ""], Array], Any],
    run: Callable[[Any, Array, Key[Array, ""] | None], Any],
    accepted: str,
) -> Model:
    """Returns a model whose errors are one line each.

    Args:
        draw: `(key, inputs [1, ...]) -> params`.
        run: `(params, inputs [n, ...], key or None) -> outputs [n, c]`.
        accepted: the accepted networks, for messages.
    """
    own = with_own_convolutions(lambda params, x, key=None: run(params, x, key))

    def apply(
        params: Any,
        inputs: Shaped[Array | np.ndarray, "n ..."],
        key: Key[Array, ""] | None = None,
    ) -> Float[Array, "n c"]:
        x = jnp.asarray(real_array("inputs", inputs, "n ...", empty=True))
        key = None if key is None else random_key("key", key)
        mode = "evaluation" if key is None else "training"
        with _in_one_line(f"in {mode} the network fails on inputs {x.dtype} {x.shape}", accepted):
            outputs = own(*((params, x) if key is None else (params, x, key)))
        return _checked_outputs(outputs, x, accepted)

    def init(key: Key[Array, ""], input_shape: Any) -> Any:
        key, one = random_key("key", key), batch_of_one(input_shape)
        x = jnp.asarray(real_array("input_shape", np.zeros(one.shape, one.dtype)))
        with _in_one_line(f"no network is drawn for inputs {x.dtype} {x.shape}", accepted):
            params = draw(key, x)
        params = _checked_params(params)
        for masks in (None, key):
            jax.eval_shape(apply, params, x, masks)
        return params

    return Model(init, apply, _NO_KERNEL)


def _mode(network: Callable, key: Key[Array, ""] | None) -> dict[str, bool]:
    """Returns the arguments that switch a network to training or evaluation."""
    names = inspect.signature(network).parameters
    trained = {name: key is not None for name in _TRAINED if name in names}
    return trained | {name: key is None for name in _EVALUATED if name in names}


def _make(make: Callable, name: str, value: Any, kind: type) -> Any:
    """Calls a factory, or a class, of modules with its random numbers."""
    accepted = f"a function ({name}) -> module, such as lambda {name}: Net({name}={name})"
    if isinstance(make, kind) or not callable(make):
        raise InputError(
            f"make is {type(make).__name__}, which is drawn already; accepted: {accepted}"
            if isinstance(make, kind)
            else f"make is {make!r:.80}; accepted: {accepted}"
        )
    made = make.func if isinstance(make, functools.partial) else make
    with _in_one_line("make fails", accepted):
        # Modules take their random numbers by keyword.
        names = inspect.signature(made.__init__ if isinstance(made, type) else made).parameters
        return make(**{name: value}) if name in names else make(value)


def from_flax_linen(module: Any) -> Model:
    """Returns a flax.linen module as a model.

    Args:
        module: called with inputs [n, ...], returns outputs [n, c]. `nn.Dropout` draws masks in
            training, unless it is deterministic, and none in evaluation.

    Raises:
        InputError: no instance of a module, or, when drawn or run: the network has collections
            other than "params", fails on the inputs, or returns no outputs [n, c].
    """
    linen = _library("flax.linen", "flax")
    accepted = "an instance of a flax.linen module, such as Net(), that turns [n, ...] into [n, c]"
    if not isinstance(module, linen.Module):
        name = module.__name__ if isinstance(module, type) else type(module).__name__
        raise InputError(f"module is {name}; accepted: {accepted}")

    def without_masks(following: Callable, args: Any, kwargs: Any, context: Any) -> Any:
        if isinstance(context.module, linen.Dropout) and context.method_name == "__call__":
            return args[0] if args else kwargs["inputs"]
        return following(*args, **kwargs)

    def draw(key: Key[Array, ""], x: Array) -> Any:
        with linen.intercept_methods(without_masks):
            variables = module.init(key, x, **_mode(type(module).__call__, None))
        _refuse_state(set(variables) - {"params"})
        return variables.get("params", {})

    def run(params: Any, x: Array, key: Key[Array, ""] | None) -> Any:
        given = _mode(type(module).__call__, key)
        if key is not None:  # other streams than "params" draw from it too
            return module.apply({"params": params}, x, rngs={"params": key}, **given)
        with linen.intercept_methods(without_masks):
            return module.apply({"params": params}, x, **given)

    return _model(draw, run, accepted)


def from_nnx(make: Callable[[Any], Any]) -> Model:
    """Returns a flax.nnx module as a model.

    Args:
        make: `(rngs: nnx.Rngs) -> module`, or the module's class, whose module takes inputs
            [n, ...]. Its arrays that are no `nnx.Variable` are constants, drawn once for all keys.

    Raises:
        InputError: make makes no module of random numbers alone, the module has variables that are
            neither `nnx.Param` nor `nnx.Rngs`, or, when drawn or run, fails on the inputs, or
            returns no outputs [n, c].
    """
    nnx = _library("flax.nnx", "flax")
    accepted = "a function (rngs) -> flax.nnx module that turns [n, ...] into [n, c]"

    def parts(key: Key[Array, ""]) -> Any:
        module = _make(make, "rngs", nnx.Rngs(key), nnx.Module)
        if not isinstance(module, nnx.Module):
            raise InputError(f"make returns {type(module).__name__}; accepted: {accepted}")
        return nnx.split(module, nnx.Param, ...)

    graph, drawn, rest = parts(jax.random.key(0))
    _checked_params(nnx.to_pure_dict(drawn))
    shapes = jax.eval_shape(lambda: drawn)
    variables = [v for _, v in nnx.to_flat_state(rest) if isinstance(v, nnx.Variable)]
    _refuse_state({type(v).__name__ for v in variables if not isinstance(v, nnx.RngState)})

    def streams(key: Key[Array, ""] | None) -> Any:
        """Returns constants and random streams; without a key, streams that raise when used."""
        count = itertools.count()

        def stream(leaf: Any) -> Any:
            if isinstance(leaf, nnx.RngKey) and key is not None:
                own = jax.random.fold_in(key, next(count))
                return leaf.replace(jax.random.split(own, leaf.shape))
            if isinstance(leaf, nnx.RngCount) and key is None:  # which fold_in refuses
                return leaf.replace(jnp.zeros((*leaf.shape, 2), leaf.dtype))
            return jax.tree.map(lambda array: array, leaf)  # a variable of this trace

        return jax.tree.map(stream, rest, is_leaf=lambda v: isinstance(v, nnx.Variable))

    def run(params: Any, x: Array, key: Key[Array, ""] | None) -> Any:
        state = jax.tree.map(lambda leaf: leaf, shapes)
        nnx.replace_by_pure_dict(state, params)
        module = nnx.merge(graph, state, streams(key))
        if key is None:
            module.eval()
        return module(x, **_mode(type(module).__call__, key))

    return _model(lambda key, x: nnx.to_pure_dict(parts(key)[1]), run, accepted)


def from_equinox(make: Callable[[Array], Any]) -> Model:
    """Returns an equinox module, which acts on one example, as a model.

    Args:
        make: `(key) -> module`, or the module's class, whose module takes one input [...] and
            returns [c]. An argument `key` of the module is given in training. Its arrays of whole
            numbers are constants, drawn once for all keys.

    Raises:
        InputError: equinox is not installed, make makes no module of a key alone, the module has
            state, or, when drawn or run, fails on one example, or returns no outputs [c].
    """
    equinox = _library("equinox", "equinox")
    accepted = (
        "a module that takes one example [...] and returns [c], without jax.vmap over the batch, "
        "in whose Sequential functions are equinox.nn.Lambda"
    )

    def parts(key: Array) -> tuple[Any, Any]:
        module = _make(make, "key", key, equinox.Module)
        stateful = (equinox.nn.StateIndex, equinox.nn.State)
        leaves = jax.tree.leaves(module, is_leaf=lambda leaf: isinstance(leaf, stateful))
        _refuse_state({type(leaf).__name__ for leaf in leaves if isinstance(leaf, stateful)})
        if not callable(module):
            raise InputError(f"make returns {type(module).__name__}; accepted: {accepted}")
        return equinox.partition(module, equinox.is_inexact_array)

    _, static = parts(jax.random.key(0))

    def run(params: Any, x: Array, key: Key[Array, ""] | None) -> Any:
        module = equinox.combine(params, static)
        if key is None:
            module = equinox.nn.inference_mode(module)
        given, keyed = _mode(module, key), "key" in inspect.signature(module).parameters
        keys = None if key is None else jax.random.split(key, len(x))

        def one(example: Array, key: Array | None) -> Any:
            return module(example, **given, **({"key": key} if keyed else {}))

        return jax.vmap(one)(x, keys)

    return _model(lambda key, x: parts(key)[0], run, accepted)


def from_haiku(function: Callable[[Array], Array]) -> Model:
    """Returns a Haiku network as a model.

    Args:
        function: `(inputs [n, ...]) -> outputs [n, c]`, which makes its modules when called. It may
            draw (`hk.next_rng_key`) only in training, by an argument `is_training`.

    Raises:
        InputError: dm-haiku is not installed, no function, or, when drawn or run: the network has
            state, fails on the inputs, or returns no outputs [n, c].
    """
    haiku = _library("haiku", "dm-haiku")
    accepted = "a function (x) -> outputs [n, c] that makes its modules, lambda x: Net()(x)"
    if not callable(function) or isinstance(function, type):
        given = "transformed already" if hasattr(function, "apply") else repr(function)
        raise InputError(f"function is {given[:80]}; accepted: {accepted}")
    with _in_one_line("the function is refused", accepted):
        network = haiku.transform_with_state(function)

    def draw(key: Key[Array, ""], x: Array) -> Any:
        params, state = network.init(key, x, **_mode(function, key))  # state is made in training
        _refuse_state(state)
        return params

    def run(params: Any, x: Array, key: Key[Array, ""] | None) -> Any:
        return network.apply(params, {}, key, x, **_mode(function, key))[0]

    return _model(draw, run, accepted)
