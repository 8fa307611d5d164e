"""Costs of a program: operations, bytes and memory counted on its jaxpr, and rates of devices.

The count is the same for every machine. XLA's own is missing for GPUs, takes a loop's body once,
and leaves out the cost of full precision. Here a loop counts as often as it runs, and a choice as
its dearest branch.
"""

import collections
import math
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.extend.core
from jax import lax
from jax.extend.core import jaxprs_in_params

from lsa_jax import backend

# Operations outside products that no fusion keeps out of memory: sums over axes, gathers, sorts.
_READING = ("reduce_", "gather", "scatter", "sort", "cumsum", "dynamic_update_slice")
# Operations that compute nothing: a fusion reads its operands elsewhere instead.
_PLACING = {
    *("broadcast_in_dim", "concatenate", "convert_element_type", "copy", "dynamic_slice"),
    *("dynamic_update_slice", "expand_dims", "gather", "iota", "pad", "reshape", "rev", "slice"),
    *("split", "squeeze", "transpose"),
}


class Chip(NamedTuple):
    """One kind of device, by its maker's data sheet: dense rates of one JAX device.

    Operations a second are those of products, by precision: "bfloat16" (of bfloat16 numbers),
    "default" (of float32 numbers in JAX's default precision: TF32 or bfloat16) and "highest" (of
    float32 numbers in full); and "vector" outside products, one a lane and cycle.
    """

    platform: str  # "cpu", "gpu" or "tpu"
    kind: str  # its name in JAX
    memory: float | None  # bytes; None on a CPU, which has the host's
    bandwidth: float | None  # bytes a second of that memory; None where it is not known
    flops: dict[str, float]  # operations a second; empty where none are known


_FOUR_SMALL_UNITS = ("TPU v4", "TPU v5 lite", "TPU v5")


def _tpu(kind: str, memory: float, bandwidth: float, bfloat16: float) -> Chip:
    # Full precision takes six passes of the matrix unit.
    flops = {"bfloat16": bfloat16, "default": bfloat16, "highest": bfloat16 / 6}
    if kind in _FOUR_SMALL_UNITS:  # each of 128 x 128 products, next to 4 x 8 x 128 lanes
        flops["vector"] = bfloat16 * (4 * 8 * 128) / (4 * 2 * 128**2)
    return Chip("tpu", kind, memory, bandwidth, flops)


def _gpu(kind: str, memory: float, bandwidth: float, bfloat16: float, float32: float) -> Chip:
    # A float32 product counts twice, as it multiplies and adds in a cycle.
    flops = {"bfloat16": bfloat16, "default": bfloat16 / 2, "highest": float32}
    flops["vector"] = float32 / 2
    return Chip("gpu", kind, memory, bandwidth, flops)


# By the name of a machine for `launch.preflight`.
CHIPS: dict[str, Chip] = {
    "cpu": Chip("cpu", "cpu", None, None, {}),
    "a100": _gpu("NVIDIA A100-SXM4-80GB", 85.1e9, 2039e9, 312e12, 19.5e12),
    "h100": _gpu("NVIDIA H100 80GB HBM3", 84.9e9, 3352e9, 989e12, 66.9e12),
    "v4": _tpu("TPU v4", 34.4e9, 1228e9, 275e12),
    "v5e": _tpu("TPU v5 lite", 16.9e9, 819e9, 197e12),
    "v5p": _tpu("TPU v5", 102e9, 2765e9, 459e12),
    "v6e": _tpu("TPU v6 lite", 33.5e9, 1640e9, 918e12),
}


# Rates of bfloat16 and of float32 in the default precision, by the beginning of other kinds of
# devices. Half a chip of TPU v2 or v3 is a device.
_OTHER_KINDS = {
    "NVIDIA A100": (312e12, 156e12),
    "NVIDIA H100 PCIe": (756e12, 378e12),
    "NVIDIA H200": (989e12, 494.5e12),
    "TPU v2": (22.5e12, 22.5e12),
    "TPU v3": (61.5e12, 61.5e12),
}


def peak_flops(kind: str) -> dict[str, float] | None:
    """Returns a device's dense operations a second by type; None for an unknown kind."""
    rates = {
        chip.kind: (chip.flops["bfloat16"], chip.flops["default"])
        for chip in CHIPS.values()
        if chip.flops
    }
    for beginning, peaks in (rates | _OTHER_KINDS).items():
        if kind.startswith(beginning):
            return dict(zip(("bfloat16", "float32"), peaks, strict=True))
    return None


class Count(NamedTuple):
    """Operations and bytes of a program."""

    products: dict[str, float]  # operations of products and convolutions, by precision
    others: float  # operations of everything else, one a number that is computed
    bytes: float  # read and written by products, sums, gathers and sorts, and at the ends
    has_open_loop: bool  # whether a loop's turns depend on data; it is counted once

    @property
    def flops(self) -> float:
        """All operations."""
        return sum(self.products.values()) + self.others

    def scaled(self, times: float) -> "Count":
        """Returns the count of so many times as much work."""
        products = {name: times * total for name, total in self.products.items()}
        return Count(products, times * self.others, times * self.bytes, has_open_loop=False)


def count(function: Callable, *forms: Any) -> Count:
    """Counts a function's operations and bytes, for arrays or their shapes."""
    return count_traced(jax.make_jaxpr(function)(*forms))


def count_traced(traced: jax.extend.core.ClosedJaxpr, parts: int = 1) -> Count:
    """Counts the operations and bytes of a function that JAX has traced.

    It may be mapped over an axis of so many parts: the count is that of one part.
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


def roofline(count: Count, chip: Chip) -> tuple[float | None, str]:
    """Returns the least seconds of a call, and its bound: "operations" or "bytes"."""
    if not chip.flops or chip.bandwidth is None:
        return None, ""
    by_operations = sum(total / chip.flops[kind] for kind, total in count.products.items())
    if "vector" in chip.flops:
        by_operations = max(by_operations, count.others / chip.flops["vector"])
    by_bytes = count.bytes / chip.bandwidth
    return max(by_operations, by_bytes), "operations" if by_operations > by_bytes else "bytes"


def _add(jaxpr: Any, times: float, sums: collections.Counter) -> None:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = list(jaxprs_in_params(equation.params))
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
    # Of a strided convolution's gradient: zeros between inputs are not multiplied.
    zeros = math.prod(equation.params["lhs_dilation"])
    return math.prod(right) / right[out_axis] / zeros


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


def timed(work: Callable[[], Any]) -> float:
    """Returns the median seconds of three calls, after one that compiles."""
    jax.block_until_ready(work())
    times = []
    for _ in range(3):
        start = time.perf_counter()
        jax.block_until_ready(work())
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def count_flops(function: Callable, *forms: Any) -> float | None:
    """Returns the operations of a function of arrays, as XLA counts them before it optimises.

    Counted on the program for a CPU: the clients of GPUs and TPUs do not count, and choices that
    depend on the count are the same on all of them. None where JAX_PLATFORMS leaves the CPU out.
    """
    try:
        counting = jax.local_devices(backend="cpu")[0]
    except RuntimeError:  # the CPU backend is not available
        return None
    with backend.built_for("cpu"), jax.default_device(counting):
        counted = jax.jit(function).lower(*forms).cost_analysis()
    return counted.get("flops", 0.0)  # a program without any operation has no such entry


def bytes_for_gradient(function: Callable, *forms: Any) -> int:
    """Returns the bytes that a function keeps for its derivative in the first of its arrays.

    It is an upper bound for XLA's.
    """

    def kept(first: Any, *others: Any) -> Any:
        return jax.vjp(lambda first: function(first, *others), first)[1]

    return size_in_bytes(jax.eval_shape(kept, *forms))


def bytes_one_by_one(function: Callable, *forms: Any) -> int:
    """Returns the bytes of arrays that live together when a function's operations run one by one.

    That is a call outside of `jax.jit`; workspace of the operations is not counted.
    """
    return _most_alive(jax.make_jaxpr(function)(*forms).jaxpr)


def _most_alive(program: Any) -> int:
    """Returns the most bytes of arrays that live together in a traced program."""
    last = {name: at for at, step in enumerate(program.eqns) for name in map(id, step.invars)}
    last |= dict.fromkeys(map(id, program.outvars), len(program.eqns))
    alive = {id(one): size_in_bytes(one.aval) for one in program.invars + program.constvars}
    most = sum(alive.values())
    for at, step in enumerate(program.eqns):
        alive |= {id(one): size_in_bytes(one.aval) for one in step.outvars}
        own = sum(size_in_bytes(one.aval) for one in step.invars + step.outvars)
        within = max(map(_most_alive, jaxprs_in_params(step.params)), default=0)
        most = max(most, sum(alive.values()) + max(0, within - own))
        alive = {name: size for name, size in alive.items() if last.get(name, -1) > at}
    return most


def size_in_bytes(tree: Any) -> int:
    """Returns the bytes of a tree of arrays, or of their shapes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
