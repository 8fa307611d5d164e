"""What a preflight says: a line a program, the whole sweep's time, what would help."""

import math
from typing import Any

from lsa_jax.preflight.calibration import Shares
from lsa_jax.preflight.compiled import Compiled
from lsa_jax.preflight.dry_run import Program, Solve
from lsa_jax.preflight.machines import SHARE_VARIABLE, Machine

_COLUMNS = (
    *("program", "calls", "GB", "Gop", "MB moved"),
    *("least ms", "bound by", "precision", "exchanges"),
)


def fits(program: Compiled, machine: Machine) -> bool:
    """Whether a program compiled, and takes no more than JAX may use of a device."""
    if program.peak is None:
        return False
    return machine.memory is None or program.peak <= machine.memory


def likely_seconds(program: Compiled, shares: Shares) -> float | None:
    """Returns the time of one call at the share of the roofline's rate; None where it has none."""
    if program.seconds is None:
        return None
    return program.seconds / (shares.tiles if _is_tile(program) else shares.others).value


def total_seconds(programs: list[Compiled], machine: Machine, shares: Shares) -> float | None:
    """Returns the time of all calls, as they are likely to take; None where there is no roofline.

    Programs of one device (tiles) are shared by all of them.
    """
    total = 0.0
    for program in programs:
        seconds = likely_seconds(program, shares)
        if seconds is None:
            return None
        total += program.calls * seconds * program.num_devices / _used(program, machine)
    return total


def _is_tile(program: Compiled) -> bool:
    return program.name.startswith("tile ")


def _used(program: Compiled, machine: Machine) -> int:
    """Returns how many devices work at a time on calls of a program."""
    return machine.count if _is_tile(program) else program.num_devices


def as_json(
    machine: Machine,
    programs: list[Compiled],
    solved: list[tuple[Program, float]],
    shares: Shares,
    num_runs: int,
) -> dict[str, Any]:
    """Returns all that was found, as JSON holds it."""
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
        "solved_on_the_host": [{"name": p.name, "calls": calls} for p, calls in solved],
        "shares_of_the_roofline": {n: s._asdict() for n, s in shares._asdict().items()},
        "runs": num_runs,
        "sweep_seconds": total_seconds(programs, machine, shares),
        "fits": all(fits(program, machine) for program in programs),
    }


def as_text(
    machine: Machine,
    programs: list[Compiled],
    solved: list[tuple[Program, float]],
    shares: Shares,
    num_runs: int,
) -> str:
    """Returns the same for a person."""
    lines = [f"{machine.name}: {machine.count} x {machine.chip.kind}{_memory(machine)}", ""]
    rows = [_COLUMNS, *(_row(program) for program in programs)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]
        lines.append("  ".join(cells).rstrip())
    lines += [""] + [f"on the host, {calls:g} times: {program.name}" for program, calls in solved]
    lines += _remarks(machine, programs)
    lines += _times(machine, programs, shares, num_runs)
    return "\n".join(lines)


def _memory(machine: Machine) -> str:
    """Says what JAX may use of a device's memory."""
    if machine.memory is None or machine.chip.memory is None:
        return ""
    usable, whole = machine.memory / 1e9, machine.chip.memory / 1e9
    if usable == whole:
        return f", {whole:.1f} GB each"
    return f", for JAX {usable:.1f} of {whole:.1f} GB each ({SHARE_VARIABLE}={usable / whole:.2g})"


def _times(machine: Machine, programs: list[Compiled], shares: Shares, num_runs: int) -> list[str]:
    """Says what an epoch, a run and the sweep are likely to take, and by which shares."""
    total = total_seconds(programs, machine, shares)
    if total is None:
        return ["time: the rates of this processor are not known"]
    epochs = [likely_seconds(p, shares) for p in programs if p.name == "train_epoch"]
    times = [f"an epoch {_duration(max(epochs))}"] if epochs else []
    times += [f"a run {_duration(total / num_runs)} (the mean of {num_runs})"]
    lines = [", ".join([*times, f"the sweep's programs {_duration(total)}"])]
    kinds = {"tiles": (shares.tiles, True), "other programs": (shares.others, False)}
    for name, (share, are_tiles) in kinds.items():
        if any(_is_tile(program) == are_tiles for program in programs):
            lines.append(f"  {name} at {share}")
    return lines


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
        _exchanges(program),
    )


def _exchanges(program: Compiled) -> str:
    if program.collectives is None:
        return "not told"
    return ", ".join(f"{n} {name}" for name, n in program.collectives.items()) or "none"


def _remarks(machine: Machine, programs: list[Compiled]) -> list[str]:
    """Says what does not fit and what would help, and which chips are idle."""
    found = []
    for program in programs:
        if fits(program, machine):
            continue
        if program.refusal:
            is_memory = "RESOURCE_EXHAUSTED" in program.refusal or "memory" in program.refusal
            fix = f"; what helps: {_fix(program, 2)}" if is_memory else ""
            found.append(f"{program.name} does not compile: {program.refusal}{fix}")
        else:
            assert program.peak is not None and machine.memory is not None
            there, taken = machine.memory, program.peak
            found.append(
                f"{program.name} takes {taken / 1e9:.1f} GB of {there / 1e9:.1f}; what helps: "
                f"{_fix(program, math.ceil(taken / there))}"
            )
    used = max((_used(program, machine) for program in programs), default=machine.count)
    if used < machine.count:
        found.append(f"{machine.count - used} of {machine.count} chips would be idle")
    if any(program.count.has_open_loop for program in programs):
        found.append("+: a loop runs as often as the data say; it is counted once")
    return found


def _fix(program: Compiled, times: int) -> str:
    """Returns what makes a program that takes so many times the memory there is fit."""
    if _is_tile(program):
        return "a smaller tile (a lower config.kernel_memory)"
    return (
        f"{times} times as many chips with the batch dealt out, a batch {times} times smaller, "
        "fewer replicas, or layers computed twice (config.model.remat) where there is that setting"
    )


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
