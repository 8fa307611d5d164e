"""Programs compiled for devices that are not there, and what the compiler says of them."""

import collections
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from lsa_jax import parallel
from lsa_jax.preflight import operations, traffic
from lsa_jax.preflight.dry_run import Mapped, Matrix, Program
from lsa_jax.preflight.machines import Chip

_COLLECTIVES = (
    *("all-reduce", "all-gather", "reduce-scatter"),
    *("all-to-all", "collective-permute", "collective-broadcast"),
)


class Compiled(NamedTuple):
    """One program, compiled.

    Attributes:
        name: of the program.
        num_devices: on which each call runs.
        calls: in the whole sweep.
        peak: bytes of one device's memory; None where it was not compiled.
        refusal: what the compiler says of a program that it refuses, such as one that does not fit;
            empty where it compiled.
        count: operations and bytes of a call on one device.
        seconds: the least that a call takes by the roofline; None where rates are not known.
        bound: "operations" or "bytes", whichever takes them.
        collectives: exchanges between devices, by name; None where the compiler's are in a form
            that this version of JAX does not read.
    """

    name: str
    num_devices: int
    calls: float
    peak: float | None
    refusal: str
    count: operations.Count
    seconds: float | None
    bound: str
    collectives: dict[str, int] | None


def compile_programs(
    found: Sequence[tuple[Program, float]],
    devices: Sequence[Any],
    chip: Chip,
    progress: Callable[[int, str], None] = lambda done, name: None,
) -> list[Compiled]:
    """Compiles programs, within `backend.built_for`; nothing for what the host solves.

    A program of several devices that exchange nothing is each device's own: where fewer or more
    devices run the same one, it is not compiled again.

    Args:
        found: from a dry run, each with how often it runs.
        devices: to compile for.
        chip: what each of them is.
        progress: called with the programs that are done, and the next one's name.
    """
    programs: list[Compiled] = []
    alone: dict[tuple[str, bool], Compiled] = {}  # what exchanges nothing, by a device's part
    for done, (program, calls) in enumerate(found):
        progress(done, program.name)
        if isinstance(program, Mapped):
            part = _part_of_one(program), program.donate
            if part not in alone:
                programs.append(_compile_mapped(program, calls, devices, chip))
                if programs[-1].peak is not None and programs[-1].collectives == {}:
                    alone[part] = programs[-1]
            else:
                own = {"num_devices": program.num_devices, "calls": calls}
                programs.append(alone[part]._replace(**own))
        elif isinstance(program, Matrix):
            programs.append(_compile_matrix(program, calls, chip))
    return programs


def _part_of_one(program: Mapped) -> str:
    """Returns the text of what each device runs, before it is compiled."""
    forms = jax.tree.map(lambda f: jax.ShapeDtypeStruct(f.shape[1:], f.dtype), program.forms)
    axes = [(program.axis_name, program.num_devices)]
    traced = jax.make_jaxpr(program.function, axis_env=axes)(*forms)
    return re.sub("0x[0-9a-f]+", "", str(traced))  # without the places of functions in memory


def _compile_mapped(program: Mapped, calls: float, devices: Sequence[Any], chip: Chip) -> Compiled:
    count = operations.count_traced(program.traced, parts=program.num_devices)
    peak, refusal = None, ""
    collectives: dict[str, int] | None = {}
    mapped = parallel.map_devices(
        program.function,
        devices[: program.num_devices],
        axis_name=program.axis_name,
        donate=program.donate,
    )
    lowered = mapped.lower(*program.forms)
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:  # what does not fit, above all
        refusal = str(error).splitlines()[0]
    else:
        peak, collectives = _peak(compiled), _collectives(lowered, compiled)
    seconds, bound = roofline(count, chip)
    return Compiled(
        program.name,
        program.num_devices,
        calls,
        peak,
        refusal,
        count,
        seconds,
        bound,
        collectives,
    )


def _compile_matrix(program: Matrix, calls: float, chip: Chip) -> Compiled:
    """Returns a tile's program, which was compiled to choose its size."""
    count = count_tile(program)
    seconds, bound = roofline(count, chip)
    shape = " x ".join(map(str, program.tile.shape))
    name = f"tile {shape} of {program.name}"
    return Compiled(name, 1, calls, program.tile.memory, "", count, seconds, bound, {})


def count_tile(program: Matrix) -> operations.Count:
    """Returns the operations and bytes of one tile of a kernel's matrix.

    Bytes are those of the compiled program, of its loop over a tile's blocks with what the tile
    takes and gives, where it has at most one loop and its text can be read: neither what the
    compiler did not fuse is missing, nor does what it keeps from memory count.
    """
    prepared = [jax.eval_shape(program.stages.prepare, form) for form in program.forms]
    block = operations.count(program.stages.between, *prepared)
    pairs = math.prod(program.tile.shape)
    blocks = pairs / math.prod(form.shape[0] for form in program.forms)
    count = block.scaled(blocks)
    text = _text(program.tile.between) or ""
    whole, in_loop = traffic.program_bytes(text), traffic.loop_bytes(text)
    if whole is not None:  # a tile of one block
        return count._replace(bytes=whole)
    if in_loop is None:
        return count
    ends = sum(program.tile.held) + pairs * np.dtype(np.float32).itemsize
    return count._replace(bytes=in_loop * blocks + ends)


def roofline(count: operations.Count, chip: Chip) -> tuple[float | None, str]:
    """Returns the least time of a call, and what bounds it: "operations" or "bytes"."""
    if not chip.flops or chip.bandwidth is None:
        return None, ""
    by_operations = sum(total / chip.flops[kind] for kind, total in count.products.items())
    if "vector" in chip.flops:
        by_operations = max(by_operations, count.others / chip.flops["vector"])
    by_bytes = count.bytes / chip.bandwidth
    return max(by_operations, by_bytes), "operations" if by_operations > by_bytes else "bytes"


def _peak(compiled: Any) -> float:
    memory = compiled.memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes
    return held + memory.temp_size_in_bytes - memory.alias_size_in_bytes


def _text(compiled: Any) -> str | None:
    """Returns a program's text; None of a compiler that is younger than JAX's own reader."""
    try:
        return compiled.as_text()
    except jax.errors.JaxRuntimeError:
        return None


def _collectives(lowered: Any, compiled: Any) -> dict[str, int] | None:
    """Counts the exchanges in a compiled program's text; None where they are not known."""
    names = "|".join(_COLLECTIVES)
    text = _text(compiled)
    if text is None:
        before = names.replace("-", "_")  # each is written, and the compiler adds none
        return None if re.search(rf"stablehlo\.({before})\b", lowered.as_text()) else {}
    found = re.findall(rf"^\s*(?:ROOT )?%?[\w.\-]+ = .*? ({names})(?:-start)?\(", text, re.M)
    return dict(collections.Counter(found))
