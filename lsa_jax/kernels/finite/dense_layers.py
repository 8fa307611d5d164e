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

# Programs inside the program, and primitives that only move a parameter's entries around.
_NESTED = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
_PERMUTING = ("reshape", "transpose", "convert_element_type", "squeeze", "expand_dims", "copy")


class Scaled(NamedTuple):
    """A value that is a parameter times a number, its entries perhaps in another arrangement."""

    leaf: int
    scale: float


class DenseLayer(NamedTuple):
    """A parameter whose one use is as the weight of a dense layer.

    Attributes:
        leaf: which parameter.
        scale: its factor.
        positions: at how many places of one example the layer is used.
        fan_in: inputs to one output.
        fan_out: outputs at one place.
    """

    leaf: int
    scale: float
    positions: int
    fan_in: int
    fan_out: int


def dense_layers(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Any],
    example_shape: tuple[int, ...],
    dtype: Any,
) -> tuple[list[DenseLayer], int]:
    """Returns all dense layers, and the network's number of outputs."""
    program, outputs = trace(apply, params, example_shape, dtype)
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

    jax.eval_shape(visit, jax.tree.leaves(params), jax.ShapeDtypeStruct((1, *example_shape), dtype))
    alone = [layers[0] for layers in uses.values() if len(layers) == 1]
    return [layer for layer in alone if layer is not None], outputs


def acting_weights(
    apply: Callable[[Any, Array], Array],
    params: PyTree[Array | np.ndarray],
    example_shape: tuple[int, ...],
    dtype: Any,
) -> dict[int, Float[Array, "fan_in fan_out"]]:
    """Returns dense layers' weights by leaf, as they act: with the network's factors."""
    program, _ = trace(apply, params, example_shape, dtype)
    weights = {}

    def note(scaled: Scaled, data: Array, weight: Array, result: Array) -> Array:
        del data
        weights[scaled.leaf] = weight
        return result

    # The program's other results are not used, and not compiled.
    example = jnp.zeros((1, *example_shape), dtype)
    run(program, jax.tree.leaves(params), example, note, lambda leaf: None)
    return weights


def trace(
    apply: Callable, params: PyTree[Any], example_shape: tuple[int, ...], dtype: Any
) -> tuple[ClosedJaxpr, int]:
    """Returns the program of one example, and its number of outputs."""
    example = jax.ShapeDtypeStruct((1, *example_shape), dtype)
    forms = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), params)
    program = jax.make_jaxpr(apply)(forms, example)
    return program, program.out_avals[0].shape[1]


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
    scaled = [Scaled(i, 1.0) for i in range(len(leaves))]
    results, marks = _Interpreter(on_dense, on_other).run(
        program.jaxpr, program.consts, [*leaves, x], [*scaled, None]
    )
    for mark in marks:
        if mark is not None:
            on_other(mark.leaf)
    return results


class _Interpreter(NamedTuple):
    """Evaluates programs whose arguments may be marked as scaled parameters: see `run`."""

    on_dense: Callable[[Scaled, Array, Array, Array], Array]
    on_other: Callable[[int], None]

    def run(
        self,
        jaxpr: Jaxpr,
        consts: Sequence[Any],
        arguments: Sequence[Any],
        marks: Sequence[Scaled | None],
    ) -> tuple[list[Any], list[Scaled | None]]:
        """Evaluates a program; returns its results and their marks."""
        values = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *arguments], strict=True))
        marked = {v: m for v, m in zip(jaxpr.invars, marks, strict=True) if m is not None}

        def read(atom: Any) -> Any:
            return atom.val if isinstance(atom, Literal) else values[atom]

        def mark_of(atom: Any) -> Scaled | None:
            return None if isinstance(atom, Literal) else marked.get(atom)

        for equation in jaxpr.eqns:
            inputs = [read(atom) for atom in equation.invars]
            outputs, out_marks = self.step(
                jaxpr, equation, inputs, [mark_of(atom) for atom in equation.invars]
            )
            values.update(zip(equation.outvars, outputs, strict=True))
            pairs = zip(equation.outvars, out_marks, strict=True)
            marked.update((v, m) for v, m in pairs if m is not None)
        return [read(a) for a in jaxpr.outvars], [mark_of(a) for a in jaxpr.outvars]

    def step(
        self,
        around: Jaxpr,
        equation: JaxprEqn,
        inputs: Sequence[Any],
        marks: Sequence[Scaled | None],
    ) -> tuple[list[Any], list[Scaled | None]]:
        """Evaluates one equation of the program `around` it."""
        name, present = equation.primitive.name, [m for m in marks if m is not None]
        if present and name in _NESTED:
            inner = equation.params[_NESTED[name]]
            return self.run(inner.jaxpr, inner.consts, inputs, marks)
        branch = _branch_of_this_platform(equation)
        if present and branch is not None:  # the first input is the platform
            return self.run(branch.jaxpr, branch.consts, inputs[1:], marks[1:])
        results = evaluate_equation(around, equation, inputs)
        if not present:
            return results, [None] * len(results)
        if name in _PERMUTING and jnp.issubdtype(results[0].dtype, jnp.floating):
            return results, [present[0]]
        factor = _factor(equation, marks)
        if factor is not None:
            return results, [present[0]._replace(scale=present[0].scale * factor)]
        if name == "dot_general" and len(present) == 1 and not any(_batch_axes(equation)):
            return [_report_dense(equation, inputs, marks, results[0], self.on_dense)], [None]
        if name == "conv_general_dilated" and marks[0] is None and _is_plain(equation):
            return [_report_convolution(equation, *inputs, marks[1], self.on_dense)], [None]
        for mark in present:
            self.on_other(mark.leaf)
        return results, [None] * len(results)


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


def _batch_axes(equation: JaxprEqn) -> tuple[Sequence[int], Sequence[int]]:
    return equation.params["dimension_numbers"][1]


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


def _is_plain(convolution: JaxprEqn) -> bool:
    """Whether it is one of images, without groups, holes or windows that are cut off."""
    settings = convolution.params
    return (
        len(settings["window_strides"]) == 2
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
