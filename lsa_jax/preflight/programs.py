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

from lsa_jax import backend, costs, parallel
from lsa_jax.errors import InputError
from lsa_jax.preflight.dry_run import DryRun, Mapped, Matrix, Program, Solve
from lsa_jax.preflight.machines import SHARE_VARIABLE, Machine

_COLLECTIVES = (
    *("all-reduce", "all-gather", "reduce-scatter"),
    *("all-to-all", "collective-permute", "collective-broadcast"),
)


class Compiled(NamedTuple):
    """One program, compiled.

    Attributes:
        name: of the program.
        num_devices: devices of each call.
        is_tile: whether it computes tiles of a kernel's matrix, which all devices share.
        calls: in the whole sweep.
        peak: bytes of one device's memory; None where it did not compile.
        refusal: the compiler's message about a program that it refuses; empty where it compiled.
        count: operations and bytes of a call on one device.
        seconds: the least time of a call by the roofline; None where rates are not known.
        bound: "operations" or "bytes", whichever takes them.
        collectives: exchanges between devices, by name; None where the compiler's text cannot be
            read.
    """

    name: str
    num_devices: int
    is_tile: bool
    calls: float
    peak: float | None
    refusal: str
    count: costs.Count
    seconds: float | None
    bound: str
    collectives: dict[str, int] | None


def compile_programs(
    found: Sequence[tuple[Program, float]],
    devices: Sequence[Any],
    chip: costs.Chip,
    progress: Callable[[int, str], None] = lambda done, name: None,
) -> list[Compiled]:
    """Compiles the programs of a dry run, within `backend.built_for`.

    Args:
        found: from a dry run, each with its number of calls; the host's work is left out.
        devices: to compile for.
        chip: their kind.
        progress: called with the number of programs that are done, and the next one's name.
    """
    programs: list[Compiled] = []
    for program, calls in found:
        if isinstance(program, Solve):
            continue
        progress(len(programs), program.name)
        if isinstance(program, Mapped):
            programs.append(_compile_mapped(program, calls, devices, chip))
        else:  # compiled already, to choose the tile's size
            count, shape = count_tile(program), " x ".join(map(str, program.tile.shape))
            name = f"tile {shape} of {program.name}"
            peak, least = program.tile.memory, costs.roofline(count, chip)
            programs.append(Compiled(name, 1, True, calls, peak, "", count, *least, {}))
    return programs


def _compile_mapped(
    program: Mapped, calls: float, devices: Sequence[Any], chip: costs.Chip
) -> Compiled:
    count = costs.count_traced(program.traced, parts=program.num_devices)
    mapped = parallel.map_devices(
        program.function,
        devices[: program.num_devices],
        axis_name=program.axis_name,
        donate=program.donate,
    )
    peak, refusal, collectives = None, "", {}
    try:
        compiled = mapped.lower(*program.forms).compile()
    except jax.errors.JaxRuntimeError as error:  # mostly of a program that does not fit
        refusal = str(error).splitlines()[0]
    else:
        memory = compiled.memory_analysis()
        held = memory.argument_size_in_bytes + memory.output_size_in_bytes
        peak = held + memory.temp_size_in_bytes - memory.alias_size_in_bytes
        collectives = _collectives(compiled)
    about = (program.name, program.num_devices, False, calls, peak, refusal, count)
    return Compiled(*about, *costs.roofline(count, chip), collectives)


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


class Share(NamedTuple):
    """The share of the roofline's rate that programs of one kind reach.

    Attributes:
        value: from 0 to 1.
        source: "assumed", or the file and works of a benchmark.
    """

    value: float
    source: str


class Shares(NamedTuple):
    """Shares of tiles of kernels' matrices, and of all other programs."""

    tiles: Share
    others: Share


def assumed(value: float) -> Shares:
    """Returns the same share for all programs."""
    return Shares(*[Share(value, "which is assumed (--efficiency)")] * 2)


def described(work: Callable[[], Any] | None) -> dict[str, Any]:
    """Returns the columns of a benchmark's row that `measured` reads.

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


def rated(file: Path, chip: costs.Chip) -> costs.Chip:
    """Returns a chip without a data sheet, such as a CPU, with the rates that doctor measured.

    Args:
        file: written by `launch.doctor --json`; a chip is returned as it is with any other file.
        chip: of the machine that doctor examined.
    """
    if chip.flops:
        return chip
    try:
        found = json.loads(file.read_text())["chip"]
        bandwidth, flops = float(found["bandwidth"]), found["flops"]
        if not all(0 < rate < math.inf for rate in (bandwidth, *flops.values())):
            return chip
        return chip._replace(bandwidth=bandwidth, flops={n: flops[n] for n in _RATES})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return chip


_RATES = ("bfloat16", "default", "highest", "vector")


def measured(file: Path, chip: costs.Chip, efficiency: float) -> Shares:
    """Returns the shares of the roofline's rate that a benchmark reached.

    Args:
        file: written by `launch.benchmark --json` or `launch.doctor --json`.
        chip: of the machine that it has to be measured on.
        efficiency: the share of a kind of programs that the file has none of.

    Raises:
        InputError: there is no such file, it is damaged, of another device, or without counts.
    """
    accepted = f"accepted: a file of launch.benchmark or launch.doctor --json on {chip.kind}"
    found: dict[bool, list[float]] = {True: [], False: []}
    if not chip.flops:
        raise InputError(
            f"--calibrate is {str(file)!r}, and the rates of {chip.kind!r} are not known; "
            "accepted: a file of launch.doctor --json, or a --topology of GPUs or TPUs"
        )
    try:
        content = json.loads(file.read_text())
        for row in content["calibration"] if isinstance(content, dict) else content:
            if row["device"] != chip.kind:
                raise InputError(
                    f"--calibrate is {str(file)!r}, measured on {row['device']!r}; {accepted}"
                )
            if row["products"] is not None:
                count = costs.Count(row["products"], row["others"], row["bytes"], False)
                share = costs.roofline(count, chip)[0] / row["ours_s"]
                if not 0 <= share < math.inf:
                    raise ValueError("a share that is not a number")
                found[bool(row["tiles"])] += [share] if share else []
    except OSError as error:
        raise InputError(f"--calibrate is {str(file)!r}: {error.strerror}; {accepted}") from None
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"--calibrate is {str(file)!r}, which is damaged ({reason}); {accepted}"
        ) from None
    if not any(found.values()):
        raise InputError(f"--calibrate is {str(file)!r}, which counts no operations; {accepted}")
    return Shares(*(_median(found[kind], file, efficiency) for kind in (True, False)))


def _median(shares: Sequence[float], file: Path, efficiency: float) -> Share:
    if not shares:
        return assumed(efficiency).tiles
    spread = f"{len(shares)} works: {min(shares):.0%} to {max(shares):.0%}"
    return Share(statistics.median(shares), f"measured ({file.name}, {spread})")


def fits(program: Compiled, machine: Machine) -> bool:
    """Whether a program compiled, and takes no more than JAX may use of a device."""
    if program.peak is None:
        return False
    return machine.memory is None or program.peak <= machine.memory


def likely_seconds(program: Compiled, shares: Shares) -> float | None:
    """Returns the time of one call at its share of the roofline's rate, if rates are known."""
    if program.seconds is None:
        return None
    return program.seconds / (shares.tiles if program.is_tile else shares.others).value


def total_seconds(programs: list[Compiled], machine: Machine, shares: Shares) -> float | None:
    """Returns the likely time of all calls, if rates are known; tiles are shared by all devices."""
    total = 0.0
    for program in programs:
        seconds = likely_seconds(program, shares)
        if seconds is None:
            return None
        total += program.calls * seconds / (machine.count if program.is_tile else 1)
    return total


def as_json(
    machine: Machine, programs: list[Compiled], solved: dict[str, float], shares: Shares, runs: int
) -> dict[str, Any]:
    """Returns the whole result as plain JSON values."""
    return {
        "topology": machine.name,
        "device": machine.chip.kind,
        "devices": machine.count,
        "memory_per_device": machine.memory,
        "programs": [
            program._asdict()
            | {
                "count": program.count._asdict(),
                "fits": fits(program, machine),
                "likely_seconds": likely_seconds(program, shares),
            }
            for program in programs
        ],
        "solved_on_the_host": [{"name": n, "calls": calls} for n, calls in solved.items()],
        "shares_of_the_roofline": {n: s._asdict() for n, s in shares._asdict().items()},
        "runs": runs,
        "sweep_seconds": total_seconds(programs, machine, shares),
        "fits": all(fits(program, machine) for program in programs),
    }


def as_text(
    machine: Machine, programs: list[Compiled], solved: dict[str, float], shares: Shares, runs: int
) -> str:
    """Returns the result as a table and remarks for a terminal."""
    memory, whole = machine.memory, machine.chip.memory
    usable = ""
    if memory is not None and whole is not None:
        usable = f", for JAX {memory / 1e9:.1f} of {whole / 1e9:.1f} GB each"
        usable += f" ({SHARE_VARIABLE}={memory / whole:.2g})" if memory != whole else ""
    rows = [("program", "calls", "GB", "Gop", "MB moved", "least ms")]
    rows = [(*rows[0], "bound by", "precision", "exchanges"), *map(_row, programs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{machine.name}: {machine.count} x {machine.chip.kind}{usable}", ""]
    for name, *others in rows:
        cells = [name.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
        lines.append("  ".join(cells).rstrip())
    lines += ["", *(f"on the host, {calls:g} times: {name}" for name, calls in solved.items())]
    return "\n".join(
        [*lines, *_remarks(machine, programs), *_times(machine, programs, shares, runs)]
    )


def _row(program: Compiled) -> tuple[str, ...]:
    count, exchanges = program.count, program.collectives
    named = "unknown" if exchanges is None else ", ".join(f"{n} {c}" for c, n in exchanges.items())
    return (
        program.name,
        f"{program.calls:g}",
        "-" if program.peak is None else f"{program.peak / 1e9:.3f}",
        f"{count.flops / 1e9:.4g}" + ("+" if count.has_open_loop else ""),
        f"{count.bytes / 1e6:.4g}",
        "-" if program.seconds is None else f"{1e3 * program.seconds:.4g}",
        program.bound or "-",
        "+".join(sorted(count.products)) or "-",
        named or "none",
    )


def _remarks(machine: Machine, programs: list[Compiled]) -> list[str]:
    """Returns lines on programs that do not fit, on idle devices and on open loops."""
    lines = []
    for program in programs:
        if fits(program, machine):
            continue
        smaller = "a smaller tile (a lower config.kernel_memory)"
        if not program.is_tile:
            smaller = "more chips with the batch dealt out, a smaller batch, fewer replicas, or "
            smaller += "layers computed twice (config.model.remat) where there is that setting"
        if program.peak is None:
            problem = f"does not compile: {program.refusal}"
        else:
            taken, there = program.peak / 1e9, (machine.memory or 0) / 1e9
            problem = f"takes {taken:.1f} GB of {there:.1f}"
        lines.append(f"{program.name} {problem}; to save memory: {smaller}")
    used = [machine.count if program.is_tile else program.num_devices for program in programs]
    idle = machine.count - max(used, default=machine.count)
    if idle:
        lines.append(f"{idle} of {machine.count} chips would be idle")
    if any(program.count.has_open_loop for program in programs):
        lines.append("+: the number of a loop's turns depends on data; it is counted once")
    return lines


def _times(machine: Machine, programs: list[Compiled], shares: Shares, runs: int) -> list[str]:
    """Returns lines on the likely time of an epoch, a run and the sweep, and on the shares."""
    total = total_seconds(programs, machine, shares)
    if total is None:
        return ["time: the rates of this processor are not known"]
    epochs = [likely_seconds(p, shares) for p in programs if p.name == "train_epoch"]
    times = [f"an epoch {_duration(max(epochs))}"] if epochs else []
    times += [f"a run {_duration(total / runs)} (the mean of {runs})"]
    lines = [", ".join([*times, f"the sweep's programs {_duration(total)}"])]
    for name, share, is_tile in (("tiles", shares.tiles, True), ("others", shares.others, False)):
        if any(program.is_tile == is_tile for program in programs):
            lines.append(f"  {name} at {share.value:.0%} of the roofline's rate, {share.source}")
    return lines


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min"
