"""Networks of flax, equinox and Haiku as `Model`s, for training, finite kernels and measures.

They have no infinite-width kernel. `apply(params, inputs)` evaluates: dropout is off. With a third
argument, `key`, which `training.train` passes, masks are drawn as in the library's training mode.
Arguments of a network named train, training, is_training, deterministic or inference are set
accordingly. Inputs keep their type, so tokens stay integers; booleans and floats of 16 bits become
float32, as do outputs of 16 bits.

A network with state, such as batch normalisation's running statistics, has parameters {"params":
trained ones, "state": ...}; of flax.linen they are its variables, {"params": ..., "batch_stats":
...}. Evaluation uses the state and has no derivative with respect to it; training uses the batch,
and `Model.next_state` returns the state after a step. In a batch that is filled up, the examples
that fill it count in the statistics. State is stored as float32.
"""

import contextlib
import functools
import importlib
import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Shaped

from lsa_jax.arrays import random_key, real_array, warn_channels_first
from lsa_jax.errors import InputError, one_line
from lsa_jax.models._convolutions import with_own_convolutions
from lsa_jax.models.model import Model, NoKernel, batch_of_one

_NO_KERNEL = NoKernel("its layers are another library's")

# Arguments that switch a network to training, and to evaluation.
_TRAINED = ("train", "training", "is_training")
_EVALUATED = ("deterministic", "inference")

# Patterns of the libraries' error messages, and advice for each.
_WAYS_OUT = (
    (
        r"use_running_average|immutable",
        "give the network an argument `train` and its BatchNorm use_running_average=not train",
    ),
    (
        r"missing \d+ required|unexpected keyword|takes .* positional argument",
        "pass a network that needs nothing but its inputs: a module or a lambda around it, with "
        "its further arguments filled in",
    ),
    (
        r"integer|inexact|finfo",
        "give tokens as whole numbers, x.astype('int32'), init an example of them in place of a "
        "shape, model.init(key, x[0]), and other inputs as float32",
    ),
    (
        r"(?i)rng|\bkeys?\b|deterministic|fold_in",
        "draw only in training: by an argument `train` or `deterministic` of the network (of "
        "equinox: `key`), or turn masks off, by deterministic=True (flax) or "
        "equinox.nn.inference_mode(network)",
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
        text = one_line(error)
        way = next((f"; {way}" for found, way in _WAYS_OUT if re.search(found, text)), "")
        raise InputError(
            f"{doing}: {type(error).__name__}: {text[:200]}; accepted: {accepted}{way}"
        ) from error


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


class Parts(NamedTuple):
    """Parameters of a network, and its state by name; {} where it has none."""

    params: Any
    state: dict[str, Any]


def _together(parts: Parts) -> Any:
    """Returns parameters and state as a model has them, the state as floats."""
    if not jax.tree.leaves(parts.state):
        return parts.params
    return {"params": parts.params} | _float_state(parts.state)


def _float_state(state: dict[str, Any]) -> dict[str, Any]:
    """Returns counters and flags as floats, so that derivatives accept them."""

    def as_float(path: Any, leaf: Any) -> Array:
        if not (jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool) or (
            jnp.issubdtype(leaf.dtype, jnp.complexfloating)
        ):
            raise InputError(
                f"state {jax.tree_util.keystr(path)} is of type {leaf.dtype}; accepted: state of "
                "real numbers, such as running statistics; draw from keys that are passed in"
            )
        return jnp.asarray(leaf, jnp.float32)

    return jax.tree_util.tree_map_with_path(as_float, state)


def _check_shapes(state: dict[str, Any], after: dict[str, Any]) -> None:
    """Raises InputError where a training step changes the shapes of the state."""
    if jax.tree.map(np.shape, state) != jax.tree.map(np.shape, after):
        raise InputError(
            f"the network's {', '.join(after)} change their shapes in training; accepted: state "
            "of constant shapes, such as running statistics"
        )


def _model(
    draw: Callable[[Key[Array, ""], Array], Parts],
    run: Callable[[Parts, Array, Key[Array, ""] | None], tuple[Any, dict[str, Any]]],
    accepted: str,
) -> Model:
    """Returns a model whose errors are one line each, with the accepted networks.

    `draw(key, inputs [1, ...])` returns parts, and `run(parts, inputs [n, ...], key or None)`
    outputs [n, c] and the state after it.
    """
    own = with_own_convolutions(lambda parts, x, key=None: run(parts, x, key))

    @functools.lru_cache(maxsize=16)
    def state_of(shape: tuple[int, ...], dtype: Any) -> dict[str, Any]:
        """Returns the forms of the state; inputs decide them."""
        one = jax.ShapeDtypeStruct((1, *shape), dtype)
        params, state = jax.eval_shape(draw, jax.random.key(0), one)
        filters = [leaf.shape for leaf in jax.tree.leaves(params) if leaf.ndim == 4]
        if any(filter_shape[2] == shape[-1] for filter_shape in filters):  # [h, w, channels, c]
            warn_channels_first("inputs", shape)
        return state if jax.tree.leaves(state) else {}

    def both(params: Any, inputs: Any, key: Any) -> tuple[Float[Array, "n c"], dict[str, Any]]:
        x = jnp.asarray(real_array("inputs", inputs, "n ...", empty=True))
        key = None if key is None else random_key("key", key)
        mode = "evaluation" if key is None else "training"
        with _in_one_line(f"in {mode} the network fails on inputs {x.dtype} {x.shape}", accepted):
            forms = state_of(x.shape[1:], x.dtype)
            state = {name: params[name] for name in forms}
            state = jax.tree.map(
                lambda form, a: jax.lax.stop_gradient(a).astype(form.dtype), forms, state
            )
            parts = Parts(params["params"] if forms else params, state)
            outputs, after = own(*((parts, x) if key is None else (parts, x, key)))
        return _checked_outputs(outputs, x, accepted), after if forms else {}

    def apply(
        params: Any, inputs: Shaped[Array | np.ndarray, "n ..."], key: Key[Array, ""] | None = None
    ) -> Float[Array, "n c"]:
        return both(params, inputs, key)[0]

    def next_state(
        params: Any, inputs: Shaped[Array | np.ndarray, "n ..."], key: Key[Array, ""]
    ) -> dict[str, Any]:
        inputs = jnp.asarray(real_array("inputs", inputs, "n ...", empty=True))
        if not state_of(inputs.shape[1:], inputs.dtype):
            return {}
        return _float_state(both(params, inputs, key)[1])

    def init(key: Key[Array, ""], input_shape: Any) -> Any:
        key, one = random_key("key", key), batch_of_one(input_shape)
        x = jnp.asarray(real_array("input_shape", np.zeros(one.shape, one.dtype)))
        with _in_one_line(f"no network is drawn for inputs {x.dtype} {x.shape}", accepted):
            drawn = draw(key, x)
        params = _together(drawn._replace(params=_checked_params(drawn.params)))
        for masks in (None, key):
            jax.eval_shape(apply, params, x, masks)
        after = jax.eval_shape(next_state, params, x, key)
        _check_shapes({name: params[name] for name in after}, after)
        return params

    return Model(init, apply, _NO_KERNEL, next_state=next_state)


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
        InputError: no instance of a module, or, when drawn or run: the network fails on the
            inputs, or returns no outputs [n, c].
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

    def draw(key: Key[Array, ""], x: Array) -> Parts:
        with linen.intercept_methods(without_masks):
            variables = dict(module.init(key, x, **_mode(type(module).__call__, None)))
        return Parts(variables.pop("params", {}), variables)

    def run(parts: Parts, x: Array, key: Key[Array, ""] | None) -> tuple[Any, dict[str, Any]]:
        given = _mode(type(module).__call__, key)
        variables = {"params": parts.params, **parts.state}
        if key is None:
            with linen.intercept_methods(without_masks):
                return module.apply(variables, x, **given), parts.state
        given |= {"rngs": {"params": key}}  # other streams than "params" draw from it too
        if not parts.state:
            return module.apply(variables, x, **given), {}
        return module.apply(variables, x, mutable=list(parts.state), **given)

    return _model(draw, run, accepted)


def from_nnx(make: Callable[[Any], Any]) -> Model:
    """Returns a flax.nnx module as a model.

    Args:
        make: `(rngs: nnx.Rngs) -> module`, or the module's class, whose module takes inputs
            [n, ...], and perhaps `rngs`. Its variables that are neither `nnx.Param` nor random
            streams are state; its arrays that are no `nnx.Variable` are constants, drawn once for
            all keys.

    Raises:
        InputError: make makes no module of random numbers alone, or, when drawn or run, the module
            fails on the inputs, or returns no outputs [n, c].
    """
    nnx = _library("flax.nnx", "flax")
    accepted = "a function (rngs) -> flax.nnx module that turns [n, ...] into [n, c]"

    def is_state(path: Any, leaf: Any) -> bool:
        no_state = (nnx.Param, nnx.RngState, nnx.Intermediate)
        return isinstance(leaf, nnx.Variable) and not isinstance(leaf, no_state)

    def split(key: Key[Array, ""]) -> Any:
        module = _make(make, "rngs", nnx.Rngs(key), nnx.Module)
        if not isinstance(module, nnx.Module):
            raise InputError(f"make returns {type(module).__name__}; accepted: {accepted}")
        return nnx.split(module, nnx.Param, is_state, ...)

    graph, *drawn, rest = split(jax.random.key(0))
    _checked_params(nnx.to_pure_dict(drawn[0]))
    forms = jax.eval_shape(lambda: drawn)

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

    def draw(key: Key[Array, ""], x: Array) -> Parts:
        params, state = map(nnx.to_pure_dict, split(key)[1:3])
        return Parts(params, {"state": state} if jax.tree.leaves(state) else {})

    def run(parts: Parts, x: Array, key: Key[Array, ""] | None) -> tuple[Any, dict[str, Any]]:
        filled = [jax.tree.map(lambda leaf: leaf, form) for form in forms]
        given = parts.params, parts.state.get("state", {})
        for form, values in zip(filled, given, strict=True):
            nnx.replace_by_pure_dict(form, values)
        module = nnx.merge(graph, *filled, streams(key))
        if key is None:
            module.eval()
        mode = _mode(type(module).__call__, key)
        if "rngs" in inspect.signature(type(module).__call__).parameters:
            mode["rngs"] = None if key is None else nnx.Rngs(key)
        outputs = module(x, **mode)
        return outputs, {"state": nnx.to_pure_dict(nnx.state(module, is_state))}

    return _model(draw, run, accepted)


def from_equinox(make: Callable[[Array], Any]) -> Model:
    """Returns an equinox module, which acts on one example, as a model.

    Args:
        make: `(key) -> module`, or the module's class, whose module takes one input [...] and
            returns [c]; with state it takes (input, state) and returns both, and make may return
            the two, as `equinox.nn.make_with_state` does. An argument `key` of the module is given
            in training. Its arrays of whole numbers are constants, drawn once for all keys.

    Raises:
        InputError: equinox is not installed, make makes no module of a key alone, or, when drawn
            or run, the module fails on one example, or returns no outputs [c].
    """
    equinox = _library("equinox", "equinox")
    accepted = (
        "a module that takes one example [...] and returns [c], without jax.vmap over the batch, "
        "in whose Sequential functions are equinox.nn.Lambda"
    )

    def made(key: Array) -> tuple[Any, Any, Any]:
        """Returns the module's parameters, the rest of it, and its state."""
        found = _make(make, "key", key, equinox.Module)
        if not (isinstance(found, tuple) and isinstance(found[-1], equinox.nn.State)):
            found = equinox.nn.make_with_state(lambda: found)()
        module, state = found
        if not callable(module):
            raise InputError(f"make returns {type(module).__name__}; accepted: {accepted}")
        return *equinox.partition(module, equinox.is_inexact_array), state

    _, static, first = made(jax.random.key(0))
    names = _axis_names(equinox, static)
    if len(names) > 1:
        raise InputError(
            f"the module's BatchNorm have the axis names {', '.join(sorted(names))}; accepted: one "
            "name, the batch's"
        )

    def draw(key: Key[Array, ""], x: Array) -> Parts:
        params, _, state = made(key)
        return Parts(params, {"state": jax.tree.leaves(state)} if jax.tree.leaves(state) else {})

    def run(parts: Parts, x: Array, key: Key[Array, ""] | None) -> tuple[Any, dict[str, Any]]:
        module = equinox.combine(parts.params, static)
        if key is None:
            module = equinox.nn.inference_mode(module)
        given, keyed = _mode(module, key), "key" in inspect.signature(module).parameters
        keys = None if key is None else jax.random.split(key, len(x))
        state = jax.tree.unflatten(jax.tree.structure(first), parts.state.get("state", []))

        def one(example: Array, key: Array | None) -> Any:
            own = given | ({"key": key} if keyed else {})
            return module(example, state, **own) if parts.state else (module(example, **own), state)

        outputs, state = jax.vmap(one, out_axes=(0, None), axis_name=next(iter(names), None))(
            x, keys
        )
        return outputs, {"state": jax.tree.leaves(state)}

    return _model(draw, run, accepted)


def _axis_names(equinox: Any, module: Any) -> set[str]:
    """Returns the axes over which a module's batch normalisation takes means."""
    kind = equinox.nn.BatchNorm
    layers = jax.tree.leaves(module, is_leaf=lambda leaf: isinstance(leaf, kind))
    found = [layer.axis_name for layer in layers if isinstance(layer, kind)]
    return {str(n) for name in found for n in ([name] if isinstance(name, str) else name)}


def from_haiku(function: Callable[[Array], Array]) -> Model:
    """Returns a Haiku network as a model.

    Args:
        function: `(inputs [n, ...]) -> outputs [n, c]`, which makes its modules when called. It may
            draw (`hk.next_rng_key`) only in training, by an argument `is_training`.

    Raises:
        InputError: dm-haiku is not installed, no function, or, when drawn or run: the network
            fails on the inputs, or returns no outputs [n, c].
    """
    haiku = _library("haiku", "dm-haiku")
    accepted = "a function (x) -> outputs [n, c] that makes its modules, lambda x: Net()(x)"
    if not callable(function) or isinstance(function, type):
        given = "transformed already" if hasattr(function, "apply") else repr(function)
        raise InputError(f"function is {given[:80]}; accepted: {accepted}")
    with _in_one_line("the function is refused", accepted):
        network = haiku.transform_with_state(function)

    def draw(key: Key[Array, ""], x: Array) -> Parts:
        params, state = network.init(key, x, **_mode(function, key))  # state is made in training
        return Parts(params, {"state": state} if state else {})

    def run(parts: Parts, x: Array, key: Key[Array, ""] | None) -> tuple[Any, dict[str, Any]]:
        state = parts.state.get("state", {})
        outputs, state = network.apply(parts.params, state, key, x, **_mode(function, key))
        return outputs, {"state": state}

    return _model(draw, run, accepted)
