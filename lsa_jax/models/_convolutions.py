"""Convolutions of other libraries' networks, computed as this package's own.

On a CPU, XLA's gradient of a convolution inside a loop, such as an epoch of training, takes about
fifty times as long as outside of one. `_convolution.convolve` has no such loss.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, JaxprEqn

from lsa_jax._convolution import convolve
from lsa_jax.kernels.finite.dense_layers import (
    evaluate_equation,
    interpret,
    is_plain_convolution,
    nested,
)


def with_own_convolutions(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of arrays that computes two-dimensional convolutions by `convolve`.

    Convolutions with groups or dilation, or inside of loops of the function, stay as they are.
    """

    def replaced(*arguments: Any) -> Any:
        program, out = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not _has_convolution(program.jaxpr):
            return function(*arguments)
        results = interpret(program.jaxpr, program.consts, jax.tree.leaves(arguments), _step)
        return jax.tree.unflatten(jax.tree.structure(out), results)

    return replaced


def _is_replaced(equation: JaxprEqn) -> bool:
    return is_plain_convolution(equation) and all(
        jnp.issubdtype(atom.aval.dtype, jnp.floating) for atom in equation.invars
    )


def _has_convolution(program: Jaxpr) -> bool:
    return any(
        _is_replaced(one) or ((inner := nested(one)) is not None and _has_convolution(inner.jaxpr))
        for one in program.eqns
    )


def _step(around: Jaxpr, equation: JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
    if _is_replaced(equation):
        return [_convolve(*inputs, equation.params)]
    if (inner := nested(equation)) is not None:
        return interpret(inner.jaxpr, inner.consts, inputs, _step)
    return evaluate_equation(around, equation, inputs)


def _convolve(x: Any, weight: Any, given: dict[str, Any]) -> Any:
    """Computes a plain convolution, whose axes may be in any order."""
    images, filters, outputs = given["dimension_numbers"]
    n, channels, height, width = images
    x = jnp.transpose(x, (n, height, width, channels))
    features, of_channels, down, right = filters
    weight = jnp.transpose(weight, (down, right, of_channels, features))
    dtype = given["preferred_element_type"] or jnp.promote_types(x.dtype, weight.dtype)
    x = jnp.pad(x, ((0, 0), *given["padding"], (0, 0)))
    y = convolve(x, weight.astype(x.dtype), tuple(given["window_strides"]), "VALID")
    n, features, height, width = outputs
    return jnp.transpose(y, np.argsort((n, height, width, features))).astype(dtype)
