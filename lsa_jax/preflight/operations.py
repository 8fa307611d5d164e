"""Operations and bytes of a program, counted on its jaxpr: the same for every machine.

XLA's own count is missing for GPUs, takes a loop's body once, and leaves out what full precision
costs. Here loops count as often as they run; of a choice the dearest branch does.
"""

import collections
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.extend.core
from jax import lax

# What no fusion can keep out of memory, beside products: sums over axes, gathers, sorts.
_READING = ("reduce_", "gather", "scatter", "sort", "cumsum", "dynamic_update_slice")
# What computes nothing: a fusion reads its operands elsewhere instead.
_PLACING = {
    *("broadcast_in_dim", "concatenate", "convert_element_type", "copy", "dynamic_slice"),
    *("dynamic_update_slice", "expand_dims", "gather", "iota", "pad", "reshape", "rev", "slice"),
    *("split", "squeeze", "transpose"),
}


class Count(NamedTuple):
    """What a program does.

    Attributes:
        products: operations of products of matrices and convolutions, by precision ("bfloat16",
            "default", "highest").
        others: operations of everything else, one a number that is computed.
        bytes: read and written by products and by what no fusion can do without.
        has_open_loop: whether a loop runs as often as the data say; it is counted once.
    """

    products: dict[str, float]
    others: float
    bytes: float
    has_open_loop: bool

    @property
    def flops(self) -> float:
        """All operations."""
        return sum(self.products.values()) + self.others

    def scaled(self, times: float) -> "Count":
        """Returns what so many times as much work does."""
        products = {name: times * total for name, total in self.products.items()}
        return Count(products, times * self.others, times * self.bytes, has_open_loop=False)


def count(function: Callable, *forms: Any) -> Count:
    """Counts a function's operations and bytes.

    Args:
        function: of arrays.
        forms: its arguments, or their shapes.
    """
    return count_traced(jax.make_jaxpr(function)(*forms))


def count_traced(traced: jax.extend.core.ClosedJaxpr, parts: int = 1) -> Count:
    """Counts the operations and bytes of a function that JAX has traced.

    Args:
        traced: mapped over an axis of parts, where there are several.
        parts: how many there are; the count is that of one.
    """
    sums: collections.Counter = collections.Counter()
    _add(traced.jaxpr, 1.0, sums)
    sums["bytes"] += sum(_size(v) for v in (*traced.jaxpr.invars, *traced.jaxpr.outvars))
    products = {
        name.removeprefix("product "): total / parts
        for name, total in sums.items()
        if name.startswith("product ")
    }
    return Count(products, sums["others"] / parts, sums["bytes"] / parts, bool(sums["open"]))


def _add(jaxpr: Any, times: float, sums: collections.Counter) -> None:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = list(_inner(equation))
        if name == "cond":
            sums.update(max((_total(branch, times) for branch in inner), key=_weight))
        elif inner:
            length = equation.params["length"] if name == "scan" else 1
            sums["open"] += name == "while"
            for part in inner:
                _add(part, times * length, sums)
        else:
            _add_equation(equation, times, sums)


def _total(jaxpr: Any, times: float) -> collections.Counter:
    sums: collections.Counter = collections.Counter()
    _add(jaxpr, times, sums)
    return sums


def _weight(sums: collections.Counter) -> float:
    return sum(total for name, total in sums.items() if name not in ("bytes", "open"))


def _inner(equation: Any) -> Iterator[Any]:
    """Yields the programs that an equation holds."""
    for value in equation.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            inner = getattr(part, "jaxpr", part)
            if hasattr(inner, "eqns"):
                yield inner


def _add_equation(equation: Any, times: float, sums: collections.Counter) -> None:
    name, (out, *_) = equation.primitive.name, (*equation.outvars, None)
    size = 0 if out is None else math.prod(getattr(out.aval, "shape", ()))
    touched = sum(map(_size, (*equation.invars, *equation.outvars)))
    if name in ("dot_general", "conv_general_dilated"):
        sums[f"product {_precision(equation)}"] += times * 2 * size * _summed(equation)
        sums["bytes"] += times * touched
        return
    if name not in _PLACING:
        sums["others"] += times * size
    if name.startswith(_READING):
        sums["bytes"] += times * touched


def _summed(equation: Any) -> float:
    """Returns how many products are added up for one number of the result."""
    left, right = (v.aval.shape for v in equation.invars[:2])
    if equation.primitive.name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return math.prod(left[axis] for axis in contracted)
    out_axis = equation.params["dimension_numbers"].rhs_spec[0]
    return math.prod(right) / right[out_axis]


def _precision(equation: Any) -> str:
    if any(v.aval.dtype.itemsize == 2 for v in equation.invars[:2]):
        return "bfloat16"
    given = equation.params.get("precision")
    both = given if isinstance(given, tuple) else (given,)
    return "highest" if lax.Precision.HIGHEST in both else "default"


def _size(variable: Any) -> int:
    aval = variable.aval
    itemsize = getattr(getattr(aval, "dtype", None), "itemsize", 0)
    return math.prod(getattr(aval, "shape", ())) * itemsize
