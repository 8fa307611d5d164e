"""Compiles a dry run's programs for a machine, and describes memory, time and exchanges of each."""

import collections
import json
import math
import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pandas as pd

from lsa_jax import backend, costs, parallel
from lsa_jax.errors import InputError
from lsa_jax.preflight.dry_run import DryRun, Mapped, Matrix, Program, Solve
from lsa_jax.preflight.machines import SHARE_VARIABLE, Machine
from lsa_jax.reporting.machine import duration

_COLLECTIVES = (
    *("all-reduce", "all-gather", "reduce-scatter"),
    *("all-to-all", "collective-permute", "collective-broadcast"),
)


class Share(NamedTuple):
    """The share of the roofline's rate that programs of one kind reach, and its source."""

    value: float
    source: str


class Shares(NamedTuple):
    """Shares of tiles of kernels' matrices, and of all other programs."""

    tiles: Share
    others: Share


def assumed(value: float) -> Shares:
    """Returns the same share for all programs."""
    return Shares(*[Share(value, "which is assumed (--efficiency)")] * 2)


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
    likely_seconds: float | None  # at its share of the roofline's rate
    collectives: dict[str, int] | None  # exchanges between devices; None where not readable

    def fits(self, machine: Machine) -> bool:
        """Whether it compiled, and takes no more than JAX may use of a device."""
        return self.peak is not None and (machine.memory is None or self.peak <= machine.memory)


def compile_programs(
    found: Sequence[tuple[Program, float]],
    devices: Sequence[Any],
    chip: costs.Chip,
    shares: Shares,
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
            name, num_devices, share = program.name, program.num_devices, shares.others
            peak, refusal, collectives = _compiled(program, devices[:num_devices])
        else:  # compiled already, to choose the tile's size
            count, shape = count_tile(program), " x ".join(map(str, program.tile.shape))
            name, num_devices, share = f"tile {shape} of {program.name}", 1, shares.tiles
            peak, refusal, collectives = program.tile.memory, "", {}
        seconds, bound = costs.roofline(count, chip)
        likely = None if seconds is None else seconds / share.value
        about = (name, num_devices, isinstance(program, Matrix), calls, peak, refusal, count)
        compiled.append(Compiled(*about, seconds, bound, likely, collectives))
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


def described(work: Callable[[], Any] | None) -> dict[str, Any]:
    """Returns the columns of a benchmark's row that `calibrated` reads.

    Args:
        work: the measured function, without arguments; None where the host computes it.

    Returns:
        device: its kind in JAX. tiles: whether a kernel's tiles are computed. products, others and
        bytes: of one device, as in `costs.Count`; None where nothing is counted.
    """
    row = {"device": jax.devices()[0].device_kind, "tiles": False}
    if work is None:
        return row | dict.fromkeys(("products", "others", "bytes"))
    recorder = DryRun(without_data=False)
    with backend.noted_by(recorder):
        count = costs.count(work)
    products, others, total = collections.Counter(count.products), count.others, count.bytes
    for program, calls in recorder.found:
        if isinstance(program, Matrix):
            tiles = count_tile(program).scaled(calls / backend.device_count())
            products.update(tiles.products)
            others, total, row["tiles"] = others + tiles.others, total + tiles.bytes, True
    return row | {"products": dict(products), "others": others, "bytes": total}


_RATES = ("bfloat16", "default", "highest", "vector")


def calibrated(file: Path, chip: costs.Chip, efficiency: float) -> tuple[costs.Chip, Shares]:
    """Returns a chip with its rates, and the shares of the roofline's rate that it reached.

    A chip without a data sheet, such as a CPU, has the rates that launch.doctor measured. Programs
    of a kind that the file of launch.benchmark or launch.doctor lacks have `efficiency`.

    Raises:
        InputError: there is no such file, it is damaged, of another device, or without counts.
    """
    named = f"--calibrate is {str(file)!r}"
    accepted = f"accepted: a file of launch.benchmark or launch.doctor --json on {chip.kind}"
    try:
        content = json.loads(file.read_text())
        rows = content["calibration"] if isinstance(content, dict) else content
        if not chip.flops:
            if not isinstance(content, dict):
                raise InputError(
                    f"{named}, and the rates of {chip.kind!r} are not known; accepted: a file of "
                    "launch.doctor --json, or a --topology of GPUs or TPUs"
                )
            flops = {name: _positive(content["chip"]["flops"][name]) for name in _RATES}
            bandwidth = _positive(content["chip"]["bandwidth"])
            chip = chip._replace(bandwidth=bandwidth, flops=flops)
        if others := [row["device"] for row in rows if row["device"] != chip.kind]:
            raise InputError(f"{named}, measured on {others[0]!r}; {accepted}")
        found: dict[bool, list[float]] = {True: [], False: []}
        for row in (row for row in rows if row["products"] is not None):
            count = costs.Count(row["products"], row["others"], row["bytes"], False)
            if share := costs.roofline(count, chip)[0] / row["ours_s"]:
                found[bool(row["tiles"])].append(_positive(share))
    except OSError as error:
        raise InputError(f"{named}: {error.strerror}; {accepted}") from None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{named}, which is damaged ({reason}); {accepted}") from None
    if not any(found.values()):
        raise InputError(f"{named}, which counts no operations; {accepted}")
    return chip, Shares(*(_median(found[kind], file, efficiency) for kind in (True, False)))


def _positive(value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{value} is no rate")
    return value


def _median(shares: Sequence[float], file: Path, efficiency: float) -> Share:
    if not shares:
        return assumed(efficiency).tiles
    spread = f"{len(shares)} works: {min(shares):.0%} to {max(shares):.0%}"
    return Share(statistics.median(shares), f"measured ({file.name}, {spread})")


class Result(NamedTuple):
    """The programs of a sweep of so many runs, compiled for a machine."""

    machine: Machine
    programs: list[Compiled]
    solved: dict[str, float]  # the host's work, and how often it is done
    shares: Shares  # of the roofline's rate
    runs: int

    @property
    def fits(self) -> bool:
        """Whether every program fits the machine."""
        return all(program.fits(self.machine) for program in self.programs)

    @property
    def seconds(self) -> float | None:
        """The likely time of all calls, if rates are known; all devices share tiles."""
        total = 0.0
        for program in self.programs:
            if program.likely_seconds is None:
                return None
            total += program.calls * program.likely_seconds / self._shared_by(program)
        return total

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
            "shares_of_the_roofline": {n: s._asdict() for n, s in self.shares._asdict().items()},
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
        """Returns lines on the likely time of an epoch, a run and the sweep, and on the shares."""
        if (total := self.seconds) is None:
            return ["time: the rates of this processor are not known"]
        epochs = [
            program.likely_seconds for program in self.programs if program.name == "train_epoch"
        ]
        times = [f"an epoch {_in_words(max(epochs))}"] if epochs else []
        times += [f"a run {_in_words(total / self.runs)} (the mean of {self.runs})"]
        lines = [", ".join([*times, f"the sweep's programs {_in_words(total)}"])]
        for name, share in self.shares._asdict().items():
            if any(program.is_tile == (name == "tiles") for program in self.programs):
                reached = f"{share.value:.0%} of the roofline's rate"
                lines.append(f"  {name} at {reached}, {share.source}")
        return lines


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
