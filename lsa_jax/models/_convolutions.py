"""Convolutions of other libraries' networks, computed as this package's own.

On a CPU, XLA's gradient of a convolution inside a loop, such as an epoch of training, takes about
fifty times as long as outside of one. `_convolution.convolve` has no such loss.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

from lsa_jax._convolution import convolve
from lsa_jax.kernels.finite.dense_layers import evaluate_equation

_CALLS = ("jit", "pjit", "closed_call")  # whose programs are evaluated in place


def with_own_convolutions(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of arrays that computes two-dimensional convolutions by `convolve`.

    Convolutions with groups or dilation, or inside of loops of the function, stay as they are.
    """

    def replaced(*arguments: Any) -> Any:
        program, out = jax.make_jaxpr(function, return_shape=True)(*arguments)
        if not _has_convolution(program.jaxpr):
            return function(*arguments)
        results = _evaluate(program, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(out), results)

    return replaced


def _inner(equation: JaxprEqn) -> ClosedJaxpr | None:
    if equation.primitive.name not in _CALLS:
        return None
    found = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
    return found if isinstance(found, ClosedJaxpr) else None


def _is_plain(equation: JaxprEqn) -> bool:
    """Whether an equation is a convolution of images without dilation, groups or cropping."""
    given = equation.params
    return (
        equation.primitive.name == "conv_general_dilated"
        and len(given["window_strides"]) == 2
        and {*given["lhs_dilation"], *given["rhs_dilation"]} == {1}
        and given["feature_group_count"] == given["batch_group_count"] == 1
        and min(np.ravel(given["padding"])) >= 0
        and all(jnp.issubdtype(atom.aval.dtype, jnp.floating) for atom in equation.invars)
    )


def _has_convolution(program: Jaxpr) -> bool:
    return any(
        _is_plain(one) or ((inner := _inner(one)) is not None and _has_convolution(inner.jaxpr))
        for one in program.eqns
    )


def _evaluate(program: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    jaxpr = program.jaxpr
    values = dict(
        zip([*jaxpr.constvars, *jaxpr.invars], [*program.consts, *arguments], strict=True)
    )

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        inputs = list(map(read, equation.invars))
        if _is_plain(equation):
            outputs = [_convolve(*inputs, equation.params)]
        elif (inner := _inner(equation)) is not None:
            outputs = _evaluate(inner, inputs)
        else:
            outputs = evaluate_equation(jaxpr, equation, inputs)
        values.update(zip(equation.outvars, outputs, strict=True))
    return list(map(read, jaxpr.outvars))


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
