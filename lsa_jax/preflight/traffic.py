"""Bytes that a compiled program moves through a device's memory, read in the compiler's text.

What XLA fuses is known only once it has compiled: between two fusions numbers go through memory. A
program's text names the arrays that each of its steps reads and writes, and where they lie; those
that a TPU keeps in its vector memory move nothing.
"""

import math
import re
from typing import NamedTuple

# What takes no step of its own.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}
_HEAD = re.compile(r"(?:ENTRY )?%(\S+) \(.*\{$")
_LINE = re.compile(r"\s+(?:ROOT )?%(\S+) = (\(.*?\)|\S+) ([a-z][a-z0-9-]*)\(([^)]*)\)(.*)")
_LOOP = re.compile(r" while\(.*body=%([^\s,]+)")
_ARRAY = re.compile(r"([a-z]+)(\d*)[a-z0-9]*\[([0-9,]*)\](?:\{([^}]*)\})?")
_ELSEWHERE = re.compile(r"S\([1-9]")  # an array's memory space, where it is not the device's memory


class _Step(NamedTuple):
    """A line of a computation.

    Attributes:
        shape: of what it writes.
        operation: such as "fusion".
        given: its operands' names, or the number of a parameter.
        called: the computation of a fusion.
    """

    shape: str
    operation: str
    given: list[str]
    called: str


_Steps = dict[str, _Step]


def loop_bytes(text: str) -> float | None:
    """Returns the bytes that one pass of a program's loop reads and writes in device memory.

    Args:
        text: of a compiled program, as JAX gives it.

    Returns:
        The bytes; None where the program has not just one loop.
    """
    loops = _LOOP.findall(text)
    if len(loops) != 1:
        return None
    return _of(loops[0], text)


def program_bytes(text: str) -> float | None:
    """Returns the bytes that a program without loops reads and writes in device memory.

    Args:
        text: of a compiled program, as JAX gives it.

    Returns:
        The bytes; None where the program has a loop.
    """
    entry = re.search(r"^ENTRY %(\S+) ", text, re.M)
    if entry is None or _LOOP.search(text):
        return None
    return _of(entry[1], text)


def _of(computation: str, text: str) -> float:
    computations = _computations(text)
    steps = computations[computation]
    return sum(_moved(step, steps, computations) for step in steps.values())


def _computations(text: str) -> dict[str, _Steps]:
    """Returns the steps of every computation of a program, by name."""
    found: dict[str, _Steps] = {}
    steps: _Steps = {}
    for line in text.splitlines():
        if head := _HEAD.match(line):
            steps = found.setdefault(head[1], {})
        elif parts := _LINE.match(line):
            name, shape, operation, given, attributes = parts.groups()
            called = re.search(r"calls=%([^\s,]+)", attributes)
            names = re.findall(r"[^\s,%]+", re.sub(r"/\*.*?\*/", "", given))
            steps[name] = _Step(shape, operation, names, called[1] if called else "")
    return found


def _moved(step: _Step, steps: _Steps, computations: dict[str, _Steps]) -> float:
    if step.operation in _FREE or step.operation.endswith("-done"):
        return 0
    if step.operation.endswith("-start"):  # of a copy: its result names both ends
        return _bytes(step.shape)
    # A step alone is a fusion of itself.
    alone = {name: _Step(steps[name].shape, "parameter", [str(k)], "")
             for k, name in enumerate(step.given) if name in steps}  # fmt: skip
    inner = computations.get(step.called) or alone | {"": step}
    parameters = {s.given[0]: name for name, s in inner.items() if s.operation == "parameter"}
    reads = sum(
        _read(parameters[str(k)], steps[name].shape, inner)
        for k, name in enumerate(step.given)
        if name in steps and str(k) in parameters
    )
    updates = [s.given[1] for s in inner.values() if s.operation == "dynamic-update-slice"]
    if updates and _bytes(step.shape):  # in place
        return reads + sum(_bytes(inner[name].shape, anywhere=True) for name in updates)
    return reads + _bytes(step.shape)


def _read(parameter: str, shape: str, inner: _Steps) -> float:
    """Returns what a fusion reads of an array: slices, where it asks for no more."""
    whole = _bytes(shape)
    users = [step for step in inner.values() if parameter in step.given]
    if not whole or not users:
        return 0
    first = all(step.given[0] == parameter for step in users)
    if first and all(step.operation == "dynamic-update-slice" for step in users):
        return 0
    if first and all(step.operation == "dynamic-slice" for step in users):
        return min(whole, sum(_bytes(step.shape, anywhere=True) for step in users))
    return whole


def _bytes(shape: str, *, anywhere: bool = False) -> float:
    """Returns the bytes of a shape's arrays, of those that lie in device memory or of all."""
    total = 0.0
    for _, bits, sides, layout in _ARRAY.findall(shape):
        if anywhere or not _ELSEWHERE.search(layout):
            total += math.prod(map(int, filter(None, sides.split(",")))) * int(bits or 8) / 8
    return total
