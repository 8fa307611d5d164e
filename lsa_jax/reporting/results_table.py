"""The table of results in a Markdown file, made from the reports of reproductions.

It lies between two lines that mark its place, one row a configuration and size.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from lsa_jax.errors import InputError
from lsa_jax.reporting import files, reproduction
from lsa_jax.reporting.machine import cores
from lsa_jax.reporting.reproduction import FINISHED, Sweep, counts, wall_time
from lsa_jax.reporting.write import cell, markdown_table

_BEGIN, _END = "<!-- results -->", "<!-- /results -->"
_COLUMNS = ("item", "`--config=`", "cost", "paper", "ours", "status")
_CELL_END = re.compile(r"(?<!\\)\|")
_CONFIGURATION = re.compile(r"`([^`]+\.py(?::\w+)?)")


class _Table(NamedTuple):
    """What a file holds before its table, the table's rows by configuration, and what follows."""

    before: str
    rows: dict[str, list[str]]
    after: str


def read(path: Path) -> _Table:
    """Reads a Markdown file with a table of results.

    Raises:
        InputError: it cannot be read, it has not one of each mark, in order, or the table has a row
            without a configuration.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise InputError(f"--results_table={path} cannot be read: {error.strerror}") from None
    before, begin, rest = text.partition(_BEGIN)
    table, end, after = rest.partition(_END)
    if not begin or not end or text.count(_BEGIN) + text.count(_END) != 2:
        raise InputError(
            f"--results_table={path} lacks a place for the table; accepted: a file with the lines "
            f"{_BEGIN} and {_END}, once each"
        )
    return _Table(before, _earlier(path, table), after)


class Published(NamedTuple):
    """What a table says of a configuration and size, cell by cell; empty where it says nothing."""

    item: str
    cost: str
    paper: str
    ours: str
    status: str


def published(path: Path) -> dict[str, Published]:
    """Returns the first row of every configuration and size in a file's table of results.

    Raises:
        InputError: as `read`.
    """
    found = {}
    for config, lines in read(path).rows.items():
        cells = [cell.strip().replace("\\|", "|") for cell in _CELL_END.split(lines[0])[1:-1]]
        if len(cells) != len(_COLUMNS):
            raise InputError(
                f"--results_table={path} has the row {lines[0]!r} of {len(cells)} cells; accepted: "
                f"{len(_COLUMNS)}, {', '.join(_COLUMNS)}"
            )
        found[config] = Published(cells[0], *cells[2:])
    return found


def read_reports(folders: Iterable[str | Path]) -> list[dict[str, Any]]:
    """Returns the reports of reproductions, by their folders.

    Raises:
        InputError: a folder holds none.
    """
    return [reproduction.read(Path(folder) / "report.json") for folder in folders]


def update(path: Path, reports: list[dict[str, Any]]) -> None:
    """Puts the results of reproductions into the table of a Markdown file.

    A row names one claim, and its status says how many of the configuration's claims are shown.
    Rows of configurations and sizes that the reports have no result of stay as they are.

    Args:
        path: the file.
        reports: from `_reproduction.read`; of the same configuration and size the last counts.

    Raises:
        InputError: as `read`.
    """
    before, rows, after = read(path)
    for sweep in (sweep for report in reports for sweep in report["sweeps"]):
        known = map(_without_size, rows)
        if sweep.status in FINISHED or _without_size(sweep.config) not in known:
            rows[sweep.config] = _lines([_row(sweep)])[2:]
    lines = [*_lines([])[:2], *(line for config in _in_order(rows) for line in rows[config])]
    files.write_text(path, "\n".join([before + _BEGIN, *lines, _END + after]))


def _earlier(path: Path, table: str) -> dict[str, list[str]]:
    """Returns a table's rows by configuration and size."""
    rows: dict[str, list[str]] = {}
    for line in table.strip().splitlines()[2:]:
        found = _CONFIGURATION.search(line)
        if not found:
            raise InputError(
                f"--results_table={path} has the row {line!r}; accepted: rows that name a "
                "configuration, as `configs/lsa/fig6_mnist.py:small`"
            )
        rows.setdefault(found[1], []).append(line)
    return rows


def _in_order(configs: Iterable[str]) -> list[str]:
    """Returns configurations with sizes of the same one, and others of its folder, side by side."""
    configurations = list(dict.fromkeys(map(_without_size, configs)))
    folders = list(dict.fromkeys(Path(name).parent for name in configurations))

    def place(config: str) -> tuple[int, int]:
        name = _without_size(config)
        return folders.index(Path(name).parent), configurations.index(name)

    return sorted(configs, key=place)


def _without_size(config: str) -> str:
    return config.partition(":")[0]


def _lines(rows: list[tuple[Any, ...]]) -> list[str]:
    """Returns the lines of a table: two of its head, and one a row."""
    return markdown_table(pd.DataFrame(rows, columns=_COLUMNS), aligned=False).splitlines()


def _row(sweep: Sweep) -> tuple[Any, ...]:
    """Returns a sweep's row."""
    config = f"`{sweep.config}`"
    if sweep.status not in FINISHED:
        return sweep.item, config, "", "", "", sweep.status
    cost = f"{wall_time(sweep)} on {cores(sweep.machine['cores'])}"
    failed = f"; {sweep.reason}" if sweep.failed_runs else ""
    # Reports give their main claim first.
    claim = next((claim for claim in sweep.claims if claim["status"] != "not run"), None)
    if claim is None:
        return sweep.item, config, cost, "", "", counts(sweep.claims) + failed
    item, ours, spread = f"{sweep.item}: {claim['item']}", claim["ours"], claim["spread"]
    if spread is not None:
        ours = f"{cell(ours)} ± {spread:.2g}"
    others = f"; claims: {counts(sweep.claims)}" if len(sweep.claims) > 1 else ""
    return item, config, cost, claim["paper"], ours, claim["status"] + others + failed
