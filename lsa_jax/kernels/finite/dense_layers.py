"""The dense layers of a network, found in the program that jax traces it to.

The network may be any function of its parameters. A parameter counts as the weight of a dense layer
where it is used once, in a product with data, perhaps scaled and with its axes rearranged before. A
convolution of images is a dense layer at the positions of its windows, and computed as such: on a
CPU, XLA's own is slow inside a compiled loop.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, jaxpr_as_fun
from jaxtyping import Array, Float, PyTree

from lsa_jax import backend
from lsa_jax._convolution import gather
from lsa_jax.kernels.finite.arguments import Apply

# Programs inside the program, and primitives that only move a parameter's entries around.
_NESTED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
_PERMUTING = ("reshape", "transpose", "convert_element_type", "squeeze", "expand_dims", "copy")


class Scaled(NamedTuple):
    """A value that is a parameter times a number, its entries perhaps in another arrangement."""

    leaf: int
    scale: float


class DenseLayer(NamedTuple):
    """A parameter (`leaf`) whose one use is as the weight of a dense layer, times `scale`.

    It is used at so many positions of an example, with so many inputs to one output (`fan_in`) and
    outputs at one place (`fan_out`).
    """

    leaf: int
    scale: float
    positions: int
    fan_in: int
    fan_out: int


def dense_layers(
    apply: Apply, params: PyTree[Any], example: jax.ShapeDtypeStruct
) -> tuple[list[DenseLayer], int]:
    """Returns all dense layers, and the network's number of outputs."""
    program, outputs = trace(apply, params, example)
    uses: dict[int, list[DenseLayer | None]] = {}

    def record(leaf: int, layer: DenseLayer | None) -> None:
        uses.setdefault(leaf, []).append(layer)

    def visit(leaves: Sequence[Array], x: Array) -> None:
        def note(scaled: Scaled, data: Array, weight: Array, result: Array) -> Array:
            del weight
            positions, fan_in = data.shape
            fan_out = result.size // positions
            record(scaled.leaf, DenseLayer(*scaled, positions, fan_in, fan_out))
            return result

        run(program, leaves, x, note, lambda leaf: record(leaf, None))

    jax.eval_shape(visit, jax.tree.leaves(params), _batch_of(example))
    alone = [layers[0] for layers in uses.values() if len(layers) == 1]
    return [layer for layer in alone if layer is not None], outputs


def acting_weights(
    apply: Apply, params: PyTree[Array | np.ndarray], example: jax.ShapeDtypeStruct
) -> dict[int, Float[Array, "fan_in fan_out"]]:
    """Returns dense layers' weights by leaf, as they act: with the network's factors."""
    program, _ = trace(apply, params, example)
    weights = {}

    def note(scaled: Scaled, data: Array, weight: Array, result: Array) -> Array:
        del data
        weights[scaled.leaf] = weight
        return result

    # The program's other results are not used, and not compiled.
    zeros = jnp.zeros((1, *example.shape), example.dtype)
    run(program, jax.tree.leaves(params), zeros, note, lambda leaf: None)
    return weights


def trace(
    apply: Apply, params: PyTree[Any], example: jax.ShapeDtypeStruct
) -> tuple[ClosedJaxpr, int]:
    """Returns the program of one example, given its form, and its number of outputs."""
    forms = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    program = jax.make_jaxpr(apply)(forms, _batch_of(example))
    return program, program.out_avals[0].shape[1]


def _batch_of(example: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((1, *example.shape), example.dtype)


def run(
    program: ClosedJaxpr,
    leaves: Sequence[Array | np.ndarray],
    x: Array,
    on_dense: Callable[[Scaled, Array, Array, Array], Array],
    on_other: Callable[[int], None],
) -> list[Array]:
    """Evaluates a traced `apply` of (*leaves, x [1, ...]), and reports every use of a parameter.

    `on_dense(which parameter is the weight, inputs [positions, fan_in], weight [fan_in, fan_out],
    their product)` returns the result to continue with, of the product's shape; `on_other` gets
    each parameter that is used in another way.
    """

    def step(around: Jaxpr, equation: JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
        """Evaluates one equation, some of whose inputs may be marked as scaled parameters."""
        marks = [one.mark if isinstance(one, _Marked) else None for one in inputs]
        present = [mark for mark in marks if mark is not None]
        branch = nested(equation) or _branch_of_this_platform(equation)
        if present and branch is not None:  # a choice's first input is the platform
            given = inputs[len(inputs) - len(branch.jaxpr.invars) :]
            return interpret(branch.jaxpr, branch.consts, given, step)
        values = [one.value if isinstance(one, _Marked) else one for one in inputs]
        name, results = equation.primitive.name, evaluate_equation(around, equation, values)
        if not present:
            return results
        (mark, *others), factor = present, _factor(equation, marks)
        if name in _PERMUTING and jnp.issubdtype(results[0].dtype, jnp.floating):
            return [_Marked(results[0], mark)]
        if factor is not None:
            return [_Marked(results[0], mark._replace(scale=mark.scale * factor))]
        # The second of the dimension numbers are the axes of batches.
        if name == "dot_general" and not (others or any(equation.params["dimension_numbers"][1])):
            return [_report_dense(equation, values, marks, results[0], on_dense)]
        if is_plain_convolution(equation) and marks[0] is None:
            return [_report_convolution(equation, *values, mark, on_dense)]
        for mark in present:
            on_other(mark.leaf)
        return results

    parameters = [_Marked(leaf, Scaled(i, 1.0)) for i, leaf in enumerate(leaves)]
    results = interpret(program.jaxpr, program.consts, [*parameters, x], step)
    for one in results:
        if isinstance(one, _Marked):
            on_other(one.mark.leaf)
    return [one.value if isinstance(one, _Marked) else one for one in results]


class _Marked(NamedTuple):
    """A value within a program that is a scaled parameter."""

    value: Any
    mark: Scaled


def interpret(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    arguments: Sequence[Any],
    step: Callable[[Jaxpr, JaxprEqn, Sequence[Any]], list[Any]],
) -> list[Any]:
    """Evaluates a program, each equation by `step(program, equation, inputs) -> outputs`."""
    values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for equation in jaxpr.eqns:
        outputs = step(jaxpr, equation, list(map(read, equation.invars)))
        values.update(zip(equation.outvars, outputs, strict=True))
    return list(map(read, jaxpr.outvars))


def nested(equation: JaxprEqn) -> ClosedJaxpr | None:
    """Returns the program inside of an equation that only calls one; None of all else."""
    found = equation.params.get(_NESTED.get(equation.primitive.name))
    return found if isinstance(found, ClosedJaxpr) else None


def _branch_of_this_platform(equation: JaxprEqn) -> ClosedJaxpr | None:
    """Returns the branch for this platform of `lax.platform_dependent`; None of all else.

    Its branches are one function computed in several ways, so any of them will do elsewhere.
    """
    names = equation.params.get("branches_platforms")
    if names is None:
        return None
    for platforms, branch in zip(names, equation.params["branches"], strict=True):
        if platforms is None or backend.is_this(platforms):
            return branch
    return None


def _factor(equation: JaxprEqn, marks: Sequence[Scaled | None]) -> float | None:
    """Returns the number that an equation multiplies a parameter by; None if it does not."""
    name = equation.primitive.name
    if name not in ("mul", "div") or None not in marks or (name == "div" and marks[0] is None):
        return None
    other = equation.invars[marks.index(None)]
    if not isinstance(other, Literal) or np.ndim(other.val) > 0:
        return None
    return float(other.val) if name == "mul" else 1 / float(other.val)


def evaluate_equation(around: Jaxpr, equation: JaxprEqn, inputs: Sequence[Any]) -> list[Any]:
    """Evaluates an equation as a program of its own: the public way, the same in all versions."""
    atoms = zip(equation.invars, inputs, strict=True)
    given = {atom: value for atom, value in atoms if not isinstance(atom, Literal)}
    alone = around.replace(
        constvars=[],
        invars=list(given),
        outvars=list(equation.outvars),
        eqns=[equation],
        debug_info=around.debug_info.with_unknown_names(),
    )
    return jaxpr_as_fun(ClosedJaxpr(alone, ()))(*given.values())


def _report_dense(
    equation: JaxprEqn,
    inputs: Sequence[Array | np.ndarray],
    marks: Sequence[Scaled | None],
    result: Array,
    on_dense: Callable,
) -> Array:
    """Reports the product of data and a weight; positions come first in the report."""
    side = 0 if marks[0] is None else 1  # of the data
    data, weight = inputs[side], inputs[1 - side]
    contracted = equation.params["dimension_numbers"][0]
    matrix = _as_matrix(data, contracted[side])
    matrix_weight = _as_matrix(weight, contracted[1 - side]).T
    fan_in = matrix.shape[1]
    # The result's axes are those of the left operand, then those of the right one.
    if side == 0:
        rows = result.reshape(len(matrix), weight.size // fan_in)
        return on_dense(marks[1], matrix, matrix_weight, rows).reshape(result.shape)
    columns = result.reshape(weight.size // fan_in, len(matrix))
    return on_dense(marks[0], matrix, matrix_weight, columns.T).T.reshape(result.shape)


def is_plain_convolution(equation: JaxprEqn) -> bool:
    """Whether it is a convolution of images, without groups, holes or windows that are cut off."""
    settings = equation.params
    return (
        equation.primitive.name == "conv_general_dilated"
        and len(settings["window_strides"]) == 2
        and settings["feature_group_count"] == settings["batch_group_count"] == 1
        and {*settings["lhs_dilation"], *settings["rhs_dilation"]} == {1}
        and min(itertools.chain(*settings["padding"])) >= 0
    )


def _report_convolution(
    equation: JaxprEqn, data: Array, weight: Array, scaled: Scaled, on_dense: Callable
) -> Array:
    """Reports the product of windows and filters."""
    settings = equation.params
    (images, channels, *sides), (features, depth, *window), out = settings["dimension_numbers"]
    data = lax.transpose(data, [images, *sides, channels])
    weight = lax.transpose(weight, [*window, depth, features])
    windows = gather(data, weight.shape[:2], settings["window_strides"], settings["padding"])
    rows = windows.reshape(-1, windows.shape[-1])
    matrix = weight.reshape(windows.shape[-1], weight.shape[-1])
    product = jnp.matmul(rows, matrix, preferred_element_type=settings["preferred_element_type"])
    result = on_dense(scaled, rows, matrix, product)
    result = result.reshape(*windows.shape[:-1], weight.shape[-1])
    # From images, height, width and features to where the equation has them.
    order = np.argsort([out[0], *out[2:], out[1]])
    return lax.transpose(result, order.tolist())


def _as_matrix(operand: Array | np.ndarray, contracted: Sequence[int]) -> Array:
    """Lays an operand out with the axes that a product sums over last."""
    free = [axis for axis in range(operand.ndim) if axis not in contracted]
    fan_in = math.prod(operand.shape[axis] for axis in contracted)
    transposed = lax.transpose(operand, [*free, *contracted])
    return transposed.reshape(operand.size // fan_in, fan_in)
