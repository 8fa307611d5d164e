"""Checks of the arguments that functions of finite networks share."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Real, Shaped

from lsa_jax import arrays
from lsa_jax.errors import InputError

# A network, `(params, x [n, ...]) -> outputs [n, c]`, its parameters, and examples.
Apply = Callable[[Any, Array], Array]
Params = PyTree[Float[Array | np.ndarray, "..."]]
Examples = Shaped[Array | np.ndarray, "_ ..."]

# The remedy for parameters of integers, where all parameters are differentiated in.
_CAST = "cast them, with leaf.astype('float32'), or make them constants of apply"


def checked(
    apply: Apply, params: PyTree[Any], x: Any, *, empty: bool = True
) -> tuple[PyTree[Array], Real[Array | np.ndarray, "n ..."], int]:
    """Returns parameters and inputs as arrays, and the network's number of outputs.

    Raises InputError where params, inputs or outputs are not accepted.
    """
    params, x = floating(params), arrays.unsharded(arrays.inputs("x", x, empty=empty))
    (x,) = arrays.floats_if_taken(functools.partial(apply, params), x)
    return params, x, count_outputs(apply, params, x, "x")


def floating(params: PyTree[Any]) -> PyTree[Array]:
    """Returns parameters as floating point arrays, or raises InputError."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: floating_leaf(path, leaf, _CAST), params
    )


def floating_leaf(path: Any, leaf: Any, instead: str) -> Array:
    """Returns a floating point parameter as an array; 16 bits become float32.

    Raises InputError, with the remedy `instead`, where it does not hold floating point numbers.
    """
    name = f"params{jax.tree_util.keystr(path)}"
    numbers = arrays.real_numbers(name, leaf)
    if not jnp.issubdtype(numbers.dtype, jnp.floating):
        raise InputError(
            f"{name} holds {numbers.dtype}; accepted: floating point, to differentiate in; "
            f"{instead}"
        )
    return jnp.asarray(arrays.real_array(name, numbers, empty=True))


def step_between(params: PyTree[Any], new_params: Any) -> PyTree[Array]:
    """Returns new parameters minus those of an expansion, in the expansion's types.

    Raises InputError where the trees or their shapes differ, or leaves are not real numbers.
    """
    if jax.tree.structure(new_params) != jax.tree.structure(params):
        raise InputError(
            f"params has the structure {jax.tree.structure(new_params)}; accepted: that of the "
            f"expansion, {jax.tree.structure(params)}"
        )

    def step(path: Any, old: Array, new: Any) -> Array:
        name = f"params{jax.tree_util.keystr(path)}"
        new = arrays.real_array(name, new, empty=True)
        if new.shape != old.shape:
            raise InputError(f"{name} has shape {new.shape}; accepted: {old.shape}")
        return jnp.asarray(new - old, old.dtype)

    return jax.tree_util.tree_map_with_path(step, params, new_params)


def pair_seen(
    apply: Apply, params: PyTree[Any], x1: Examples, x2: Examples | None
) -> tuple[Examples | None, ...]:
    """Returns two sets of inputs with integers as floats, unless the network needs tokens."""
    if x2 is None:
        return *arrays.floats_if_taken(functools.partial(apply, params), x1), None
    return arrays.floats_if_taken(lambda a, b: (apply(params, a), apply(params, b)), x1, x2)


def count_outputs(apply: Apply, params: PyTree[Any], x: Any, name: str) -> int:
    """Returns the number of outputs of one example, from inputs or their form.

    Raises InputError where apply refuses them, or its outputs are not real numbers [n, c].
    """
    with arrays.call_errors("apply(params, x)", x):
        outputs = jax.eval_shape(apply, params, x)
    if getattr(outputs, "ndim", None) != 2 or outputs.shape[0] != x.shape[0]:
        raise InputError(
            f"apply turns {name} {x.shape} into {getattr(outputs, 'shape', type(outputs))}; "
            "accepted: outputs [n, c]"
        )
    if not jnp.issubdtype(outputs.dtype, jnp.floating):
        raise InputError(
            f"apply turns {name} into outputs of {outputs.dtype}; accepted: floating point, as "
            "outputs.astype('float32') gives of integers, and real and imaginary parts as separate "
            "outputs"
        )
    if not outputs.shape[1]:
        raise InputError(
            f"apply turns {name} {x.shape} into {outputs.shape}; accepted: c 1 or more"
        )
    return outputs.shape[1]
