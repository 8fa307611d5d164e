"""Shares of the roofline's rate: assumed, or measured on a real machine by `launch.benchmark`.

A benchmark's row says which device it ran on, the operations and bytes of what it computed, counted
as a preflight counts them, and the seconds that they took. The least time by the roofline over
these seconds is the share that was reached.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from lsa_jax import backend
from lsa_jax.checks import Kind, boolean, number, require, text
from lsa_jax.errors import InputError
from lsa_jax.preflight import compiled, operations
from lsa_jax.preflight.dry_run import DryRun, Matrix
from lsa_jax.preflight.machines import Chip


class Share(NamedTuple):
    """Of the roofline's rate, what programs of a kind reach.

    Attributes:
        value: from 0 to 1.
        measured: the shares of which it is the median; empty where it is assumed.
        source: the file that they are from.
    """

    value: float
    measured: tuple[float, ...] = ()
    source: str = ""

    def __str__(self) -> str:
        """Says it with where it is from."""
        if not self.measured:
            return f"{self.value:.0%} of the roofline's rate, which is assumed (--efficiency)"
        low, high, number = min(self.measured), max(self.measured), len(self.measured)
        works = "one work" if number == 1 else f"{number} works: {low:.0%} to {high:.0%}"
        return f"{self.value:.0%} of the roofline's rate, measured ({self.source}, {works})"


class Shares(NamedTuple):
    """Of tiles of kernels' matrices, and of all other programs."""

    tiles: Share
    others: Share


def assumed(value: float) -> Shares:
    """Returns the same share for all programs."""
    return Shares(Share(value), Share(value))


def described(work: Callable[[], Any] | None) -> dict[str, Any]:
    """Returns what a benchmark's row says for a calibration.

    Args:
        work: what is measured: as JAX can trace it, or by `kernels.gram`; None where the host
            computes it.

    Returns:
        device: its kind, as JAX names it. tiles: whether a kernel's tiles are computed. products,
        others and bytes: of one device, as `operations.Count` has them; None where nothing is
        counted.
    """
    row = {"device": jax.devices()[0].device_kind, "tiles": False}
    if work is None:
        return row | dict.fromkeys(("products", "others", "bytes"))
    recorder = DryRun(without_data=False)
    with backend.noted_by(recorder):
        count = operations.count(work)
    products, others, total = dict(count.products), count.others, count.bytes
    for program, calls in recorder.found:
        if isinstance(program, Matrix):
            of_all = compiled.count_tile(program).scaled(calls / backend.device_count())
            for name, number in of_all.products.items():
                products[name] = products.get(name, 0.0) + number
            others, total, row["tiles"] = others + of_all.others, total + of_all.bytes, True
    return row | {"products": products, "others": others, "bytes": total}


def measured(file: Path, chip: Chip, efficiency: float) -> Shares:
    """Returns the shares that a benchmark reached.

    Args:
        file: what `launch.benchmark --json` wrote.
        chip: on which it is to have run.
        efficiency: of a kind of programs that the file has none of.

    Raises:
        InputError: there is no such file, it is damaged or of another device, or has nothing to
            tell.
    """
    if not chip.flops:
        raise InputError(
            f"--calibrate is {str(file)!r}, and the rates of {chip.kind!r} are not known; "
            "accepted: with a --topology of GPUs or TPUs"
        )
    rows = _rows(file)
    _check(rows, file, chip)
    others = sorted({row["device"] for row in rows} - {chip.kind})
    if others:
        raise InputError(
            f"--calibrate is {str(file)!r}, measured on {', '.join(others)}; accepted: on "
            f"{chip.kind}, as --topology has it"
        )
    found: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        if row["products"] is not None:
            done = row["products"], row["others"], row["bytes"]
            count = operations.Count(*done, has_open_loop=False)
            least, _ = compiled.roofline(count, chip)
            if least:  # a work without operations and bytes has no rate
                found[row["tiles"]].append(least / row["ours_s"])
    if not any(found.values()):
        raise InputError(
            f"--calibrate is {str(file)!r}, in which no work's operations are counted; accepted: a "
            "file with works of kernels or training"
        )
    return Shares(*(_median(found[kind], file, efficiency) for kind in (True, False)))


def _median(shares: Sequence[float], file: Path, efficiency: float) -> Share:
    if not shares:
        return Share(efficiency)
    return Share(statistics.median(shares), tuple(shares), file.name)


def _rows(file: Path) -> list[dict[str, Any]]:
    accepted = "accepted: what launch.benchmark --json wrote"
    try:
        rows = json.loads(file.read_text())
    except OSError as error:
        raise InputError(f"--calibrate is {str(file)!r}: {error.strerror}; {accepted}") from None
    except ValueError:
        raise InputError(f"--calibrate is {str(file)!r}, which is not JSON; {accepted}") from None
    needed = {"device", "tiles", "products", "others", "bytes", "ours_s"}
    if not isinstance(rows, list) or not all(
        isinstance(r, dict) and needed <= set(r) for r in rows
    ):
        raise InputError(
            f"--calibrate is {str(file)!r}, in which not every row has "
            f"{', '.join(sorted(needed))}; {accepted}"
        )
    return rows


def _check(rows: list[dict[str, Any]], file: Path, chip: Chip) -> None:
    """Raises unless rows are of the kind that a benchmark writes."""

    def is_counted(value: Any) -> bool:
        return isinstance(value, dict) and all(
            name in chip.flops and number(0).accepts(total) for name, total in value.items()
        )

    precisions = ", ".join(name for name in chip.flops if name != "vector")
    counted = {
        "products": Kind(is_counted, f"operations by precision ({precisions})", dict),
        "others": number(0),
        "bytes": number(0),
        "ours_s": number(0, above=True),
    }
    for place, row in enumerate(rows):
        kinds = {"device": text(), "tiles": boolean()}
        for name, kind in (kinds | counted if row["products"] is not None else kinds).items():
            require(
                f"--calibrate is {str(file)!r}, in which {name} of row {place}", row[name], kind
            )
