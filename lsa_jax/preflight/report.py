"""What a preflight says: a line a program, the whole sweep's time, what would help."""

import math
from typing import Any

from lsa_jax.preflight.compiled import Compiled
from lsa_jax.preflight.dry_run import Program, Solve
from lsa_jax.preflight.machines import Machine

_COLUMNS = (
    *("program", "calls", "GB", "Gop", "MB moved"),
    *("least ms", "bound by", "precision", "exchanges"),
)


def fits(program: Compiled, machine: Machine) -> bool:
    """Whether a program compiled, and takes no more than a device has."""
    if program.peak is None:
        return False
    return machine.chip.memory is None or program.peak <= machine.chip.memory


def total_seconds(programs: list[Compiled], machine: Machine, efficiency: float) -> float | None:
    """Returns the time of all calls at a share of the roofline's rate; None where it has none.

    Programs of one device (tiles) are shared by all of them.
    """
    if any(program.seconds is None for program in programs):
        return None
    return (
        sum(
            program.calls * program.seconds * program.num_devices / _used(program, machine)
            for program in programs
            if program.seconds is not None
        )
        / efficiency
    )


def _used(program: Compiled, machine: Machine) -> int:
    """Returns how many devices work at a time on calls of a program."""
    is_tile = program.name.startswith("tile ")
    return machine.count if is_tile else program.num_devices


def as_json(
    machine: Machine,
    programs: list[Compiled],
    solved: list[tuple[Program, float]],
    efficiency: float,
) -> dict[str, Any]:
    """Returns all that was found, as JSON holds it."""
    return {
        "topology": machine.name,
        "device": machine.chip.kind,
        "devices": machine.count,
        "memory_per_device": machine.chip.memory,
        "programs": [
            program._asdict() | {"count": program.count._asdict(), "fits": fits(program, machine)}
            for program in programs
        ],
        "solved_on_the_host": [{"name": p.name, "calls": calls} for p, calls in solved],
        "efficiency_assumed": efficiency,
        "sweep_seconds": total_seconds(programs, machine, efficiency),
        "fits": all(fits(program, machine) for program in programs),
    }


def as_text(
    machine: Machine,
    programs: list[Compiled],
    solved: list[tuple[Program, float]],
    efficiency: float,
) -> str:
    """Returns the same for a person."""
    memory = machine.chip.memory
    of_each = "" if memory is None else f", {memory / 1e9:.1f} GB each"
    lines = [f"{machine.name}: {machine.count} x {machine.chip.kind}{of_each}", ""]
    rows = [_COLUMNS, *(_row(program) for program in programs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    lines += [""] + [f"on the host, {calls:g} times: {program.name}" for program, calls in solved]
    lines += _remarks(machine, programs)
    total = total_seconds(programs, machine, efficiency)
    if total is None:
        lines.append("time: the rates of this processor are not known")
    else:
        lines.append(
            f"the sweep's programs: {_duration(total)} at {efficiency:.0%} of the roofline's rate, "
            "which is assumed (--efficiency)"
        )
    return "\n".join(lines)


def _row(program: Compiled) -> tuple[str, ...]:
    count = program.count
    return (
        program.name,
        f"{program.calls:g}",
        "-" if program.peak is None else f"{program.peak / 1e9:.3f}",
        f"{count.flops / 1e9:.4g}" + ("+" if count.has_open_loop else ""),
        f"{count.bytes / 1e6:.4g}",
        "-" if program.seconds is None else f"{1e3 * program.seconds:.4g}",
        program.bound or "-",
        "+".join(sorted(count.products)) or "-",
        ", ".join(f"{n} {name}" for name, n in program.collectives.items()) or "none",
    )


def _remarks(machine: Machine, programs: list[Compiled]) -> list[str]:
    """Says what does not fit and what would help, and which chips are idle."""
    found = []
    for program in programs:
        if fits(program, machine):
            continue
        if program.refusal:
            found.append(f"{program.name} does not compile: {program.refusal}")
        else:
            assert program.peak is not None and machine.chip.memory is not None
            there, taken = machine.chip.memory, program.peak
            times = math.ceil(taken / there)
            found.append(
                f"{program.name} takes {taken / 1e9:.1f} GB of {there / 1e9:.1f}: "
                f"{times} times as many chips with the batch dealt out, a batch {times} times "
                "smaller, fewer replicas, or layers computed twice (model.remat) where there is "
                "that setting"
            )
    used = max((_used(program, machine) for program in programs), default=machine.count)
    if used < machine.count:
        found.append(f"{machine.count - used} of {machine.count} chips would be idle")
    if any(program.count.has_open_loop for program in programs):
        found.append("+: a loop runs as often as the data say; it is counted once")
    return found


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min"


def split_solves(
    found: list[tuple[Program, float]],
) -> tuple[list[tuple[Program, float]], list[tuple[Program, float]]]:
    """Returns programs that are compiled, and what the host solves."""
    solved = [one for one in found if isinstance(one[0], Solve)]
    return [one for one in found if not isinstance(one[0], Solve)], solved
