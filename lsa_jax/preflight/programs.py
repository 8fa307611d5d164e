"""Compiles a dry run's programs for a machine, and describes memory, time and exchanges of each."""

import collections
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

from lsa_jax import costs, parallel
from lsa_jax.preflight.dry_run import Mapped, Matrix, Program, Solve
from lsa_jax.preflight.machines import SHARE_VARIABLE, Machine
from lsa_jax.reporting.machine import duration

_COLLECTIVES = (
    *("all-reduce", "all-gather", "reduce-scatter"),
    *("all-to-all", "collective-permute", "collective-broadcast"),
)


class Compiled(NamedTuple):
    """One compiled program, with operations, bytes and times of a call on one device."""

    name: str
    num_devices: int  # of each call
    is_tile: bool  # of a kernel's matrix; all devices share its tiles
    calls: float  # in the whole sweep
    peak: float | None  # bytes of one device's memory; None where it did not compile
    refusal: str  # the compiler's message; empty where it compiled
    count: costs.Count
    seconds: float | None  # the least by the roofline; None where rates are not known
    bound: str  # "operations" or "bytes", whichever takes them
    collectives: dict[str, int] | None  # exchanges between devices; None where not readable

    def fits(self, machine: Machine) -> bool:
        """Whether it compiled, and takes no more than JAX may use of a device."""
        return self.peak is not None and (machine.memory is None or self.peak <= machine.memory)


def compile_programs(
    found: Sequence[tuple[Program, float]],
    devices: Sequence[Any],
    chip: costs.Chip,
    progress: Callable[[int, str], None] = lambda done, name: None,
) -> list[Compiled]:
    """Compiles the programs of a dry run, each with its number of calls, without the host's work.

    To be called within `backend.built_for`; `progress` is called with the number of programs that
    are done and the next one's name.
    """
    compiled: list[Compiled] = []
    for program, calls in found:
        if isinstance(program, Solve):
            continue
        progress(len(compiled), program.name)
        if isinstance(program, Mapped):
            count = costs.count_traced(program.traced, parts=program.num_devices)
            name, num_devices = program.name, program.num_devices
            peak, refusal, collectives = _compiled(program, devices[:num_devices])
        else:  # compiled already, to choose the tile's size
            count, shape = count_tile(program), " x ".join(map(str, program.tile.shape))
            name, num_devices = f"tile {shape} of {program.name}", 1
            peak, refusal, collectives = program.tile.memory, "", {}
        about = (name, num_devices, isinstance(program, Matrix), calls, peak, refusal, count)
        compiled.append(Compiled(*about, *costs.roofline(count, chip), collectives))
    return compiled


def _compiled(
    program: Mapped, devices: Sequence[Any]
) -> tuple[float | None, str, dict[str, int] | None]:
    """Compiles a program; returns its peak memory, the compiler's refusal, and its exchanges."""
    given = {"axis_name": program.axis_name, "donate": program.donate}
    mapped = parallel.map_devices(program.function, devices, **given)
    try:
        compiled = mapped.lower(*program.forms).compile()
    except jax.errors.JaxRuntimeError as error:  # mostly of a program that does not fit
        return None, str(error).splitlines()[0], {}
    memory = compiled.memory_analysis()
    held = memory.argument_size_in_bytes + memory.output_size_in_bytes
    peak = held + memory.temp_size_in_bytes - memory.alias_size_in_bytes
    return peak, "", _collectives(compiled)


def count_tile(program: Matrix) -> costs.Count:
    """Returns the operations and bytes of one tile of a kernel's matrix.

    Bytes are those of the prepared examples and of the pairs: the layers between are assumed to
    stay on the chip.
    """
    prepare, between, given = program.stages
    prepared = [jax.eval_shape(prepare, *given, form) for form in program.forms]
    pairs = math.prod(program.tile.shape)
    blocks = pairs / math.prod(form.shape[0] for form in program.forms)
    count = costs.count(between, *given, *prepared).scaled(blocks)
    return count._replace(bytes=sum(program.tile.held) + pairs * np.dtype(np.float32).itemsize)


def _collectives(compiled: Any) -> dict[str, int] | None:
    """Counts the exchanges in a compiled program's text."""
    try:
        text = compiled.as_text()
    except jax.errors.JaxRuntimeError:  # of a compiler that is younger than JAX's reader
        return None
    names = "|".join(_COLLECTIVES)
    found = re.findall(rf"^\s*(?:ROOT )?%?[\w.\-]+ = .*? ({names})(?:-start)?\(", text, re.M)
    return dict(collections.Counter(found))


class Result(NamedTuple):
    """The programs of a sweep of so many runs, compiled for a machine."""

    machine: Machine
    programs: list[Compiled]
    solved: dict[str, float]  # the host's work, and how often it is done
    efficiency: float  # the share of the roofline's rate that is assumed
    runs: int

    @property
    def fits(self) -> bool:
        """Whether every program fits the machine."""
        return all(program.fits(self.machine) for program in self.programs)

    @property
    def seconds(self) -> float | None:
        """The likely time of all calls, if rates are known; all devices share tiles."""
        least = [(one.seconds, one.calls / self._shared_by(one)) for one in self.programs]
        if any(seconds is None for seconds, _ in least):
            return None
        return sum(seconds * calls for seconds, calls in least) / self.efficiency

    def _shared_by(self, program: Compiled) -> int:
        return self.machine.count if program.is_tile else 1

    def as_json(self) -> dict[str, Any]:
        """Returns the whole result as plain JSON values."""
        programs = [
            one._asdict() | {"count": one.count._asdict(), "fits": one.fits(self.machine)}
            for one in self.programs
        ]
        return {
            "topology": self.machine.name,
            "device": self.machine.chip.kind,
            "devices": self.machine.count,
            "memory_per_device": self.machine.memory,
            "programs": programs,
            "solved_on_the_host": [{"name": n, "calls": calls} for n, calls in self.solved.items()],
            "efficiency": self.efficiency,
            "runs": self.runs,
            "sweep_seconds": self.seconds,
            "fits": self.fits,
        }

    def as_text(self) -> str:
        """Returns the result as a table and remarks for a terminal."""
        machine = self.machine
        memory, whole = machine.memory, machine.chip.memory
        usable = ""
        if memory is not None and whole is not None:
            usable = f", for JAX {memory / 1e9:.1f} of {whole / 1e9:.1f} GB each"
            usable += f" ({SHARE_VARIABLE}={memory / whole:.2g})" if memory != whole else ""
        lines = [f"{machine.name}: {machine.count} x {machine.chip.kind}{usable}", ""]
        lines += [pd.DataFrame(map(_row, self.programs)).to_string(index=False), ""]
        lines += [f"on the host, {n:g} times: {name}" for name, n in self.solved.items()]
        return "\n".join([*lines, *self._remarks(), *self._times()])

    def _remarks(self) -> list[str]:
        """Returns lines on programs that do not fit, on idle devices and on open loops."""
        machine, lines = self.machine, []
        for program in self.programs:
            if program.fits(machine):
                continue
            smaller = "a smaller tile (a lower config.kernel_memory)"
            if not program.is_tile:
                smaller = "more chips with the batch dealt out, a smaller batch, fewer replicas, or"
                smaller += " layers computed twice (config.model.remat) where there is that setting"
            problem = f"does not compile: {program.refusal}"
            if program.peak is not None:
                problem = f"takes {program.peak / 1e9:.1f} GB of {(machine.memory or 0) / 1e9:.1f}"
            lines.append(f"{program.name} {problem}; to save memory: {smaller}")
        used = [max(self._shared_by(program), program.num_devices) for program in self.programs]
        if idle := machine.count - max(used, default=machine.count):
            lines.append(f"{idle} of {machine.count} chips would be idle")
        if any(program.count.has_open_loop for program in self.programs):
            lines.append("+: the number of a loop's turns depends on data; it is counted once")
        return lines

    def _times(self) -> list[str]:
        """Returns lines on the likely time of an epoch, a run and the sweep."""
        if (total := self.seconds) is None:
            return ["time: the rates of this processor are not known"]
        epochs = [one.seconds for one in self.programs if one.name == "train_epoch"]
        times = [f"an epoch {_in_words(max(epochs) / self.efficiency)}"] if epochs else []
        times += [f"a run {_in_words(total / self.runs)} (the mean of {self.runs})"]
        times.append(f"the sweep's programs {_in_words(total)}")
        share = f"{self.efficiency:.0%} of the roofline's rate (--efficiency)"
        return [", ".join(times), f"  at {share}"]


def _row(program: Compiled) -> dict[str, str]:
    count, exchanges = program.count, program.collectives
    named = "unknown" if exchanges is None else ", ".join(f"{n} {c}" for c, n in exchanges.items())
    return {
        "program": program.name,
        "calls": f"{program.calls:g}",
        "GB": "-" if program.peak is None else f"{program.peak / 1e9:.3f}",
        "Gop": f"{count.flops / 1e9:.4g}" + ("+" if count.has_open_loop else ""),
        "MB moved": f"{count.bytes / 1e6:.4g}",
        "least ms": "-" if program.seconds is None else f"{1e3 * program.seconds:.4g}",
        "bound by": program.bound or "-",
        "precision": "+".join(sorted(count.products)) or "-",
        "exchanges": named or "none",
    }


def _in_words(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 120 else duration(seconds)
