"""Checks of the networks and arrays that measures are taken of."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from lsa_jax.arrays import real_array
from lsa_jax.errors import InputError
from lsa_jax.reporting.measure_names import OF_WEIGHTS
from lsa_jax.training import losses


def check_arrays(function: Callable) -> Callable:
    """Makes a measure check its arrays: `params...`, `inputs`, and two matrices of one shape."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        given = signature.bind(*arguments, **named)
        of_weights = set(given.arguments.get("names", ("",))) <= set(OF_WEIGHTS)
        for name, value in given.arguments.items():
            if name.startswith("params"):
                given.arguments[name] = _real_params(name, value)
            elif name == "inputs":
                given.arguments[name] = real_array(name, value, "n ...", empty=of_weights)
            elif name in ("first", "second"):
                given.arguments[name] = losses.floats(real_array(name, value, "n n"))
        trees = [given.arguments[name] for name in ("params_0", "params_t") if name in names]
        if len({str(jax.tree.map(np.shape, tree)) for tree in trees}) > 1:
            raise InputError(
                "params_0 and params_t differ in shapes; accepted: those of one network"
            )
        shapes = [np.shape(given.arguments[name]) for name in ("first", "second") if name in names]
        if len(set(shapes)) > 1:
            raise InputError(f"first is {shapes[0]} and second {shapes[1]}; accepted: one shape")
        return function(*given.args, **given.kwargs)

    names = signature.parameters
    return call


def _real_params(name: str, params: PyTree) -> PyTree:
    """Returns parameters as floats; those of no numbers at all, None among them, as they are."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: losses.floats(
            real_array(f"{name}{jax.tree_util.keystr(path)}", leaf, empty=True)
        ),
        params,
    )


def check_alone(apply: Callable, params: PyTree, inputs: Array | np.ndarray) -> None:
    """Raises InputError where a network's outputs for an example depend on others in its batch.

    Kernels of pairs of examples, and measures made of them, have no meaning there.
    """
    few, rng = jnp.asarray(inputs[:2]), np.random.default_rng(0)

    def moved(leaf: Any) -> Array:  # outputs that cancel at the start are nothing but rounding
        size = 0.1 * (np.sqrt(np.mean(np.square(leaf))) or 1.0)
        return jnp.asarray(leaf + size * rng.standard_normal(np.shape(leaf)), leaf.dtype)

    params = jax.tree.map(moved, params)
    together, alone = (np.asarray(apply(params, x), np.float32)[:1] for x in (few, few[:1]))
    size = float(np.nanmax(np.abs(alone), initial=0.0))
    if not np.allclose(together, alone, rtol=0.05, atol=0.05 * size, equal_nan=True):
        raise InputError(
            "apply: outputs of an example depend on the others in its batch, as with BatchNorm; "
            "accepted: networks that compute each example by itself, such as those with LayerNorm"
        )


def target_rows(
    apply: Callable, params: PyTree, inputs: Array | np.ndarray, targets: Any
) -> Array | np.ndarray:
    """Returns targets [n, k] that a network's kernels are aligned with; see `losses.rows_beside`.

    Raises:
        InputError: the targets are not as many as the inputs, or do not fit the outputs.
    """
    size = jax.eval_shape(apply, params, inputs).shape[-1]
    rows = losses.rows_beside(size, targets)
    if len(rows) != len(inputs):
        raise InputError(
            f"targets has {len(rows)} rows; accepted: as many as inputs, {len(inputs)}"
        )
    return rows
