"""The report of an experiment: tables, claims and figures, before they are written."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd

from lsa_jax.reporting.runs import Runs

Status = Literal[
    "shown",
    "shown of one seed",
    "not shown",
    "undecided",
    "condition not met",
    "measured",
    "not run",
]


STATUSES: tuple[str, ...] = get_args(Status)


class Row(NamedTuple):
    """A decided claim: the paper's statement or number, and ours; a row of `report.json`.

    Attributes:
        item: the quantity, in words.
        paper: the paper's number or statement; empty where the paper gives none.
        ours: our number; empty where it was not run.
        spread: standard deviation over seeds; None where there is one seed or none.
        status: see `reporting.claims`.
        low: lower end of the interval that decided; None where none did.
        high: upper end.
        note: for an undecided claim, the runs that would decide it.
        condition: the conditions of the claim, and for "condition not met" the one that fails.
        primary: whether it is one of the work's main claims.
        p: one-sided p-value; None where there is none.
        holm: whether a primary claim also holds after Holm's correction; None for all others.
    """

    item: str
    paper: str | float
    ours: str | float
    spread: float | None
    status: Status
    low: float | None = None
    high: float | None = None
    note: str = ""
    condition: str = ""
    primary: bool = False
    p: float | None = None
    holm: bool | None = None

    def within(self, least: float, most: float) -> "Row":
        """Returns the claim with an interval that ends where its number does, such as at 100 %."""
        if self.low is None or self.high is None:
            return self
        return self._replace(low=max(self.low, least), high=min(self.high, most))


def not_run(rows: Iterable[Row], note: str) -> list[Row]:
    """Returns the claims of a sweep that shows nothing about them, as not run."""
    return [Row(row.item, row.paper, "", None, "not run", note=note) for row in rows]


class Report(NamedTuple):
    """A report before it is written.

    Attributes:
        title: first line of `report.md`; the configuration's where it is empty.
        tables: heading and table, in order; written to `report.md` and printed.
        claims: the paper's claims and numbers, and ours. An experiment states them as
            `reporting.claims.Claim`, which the sweep decides.
        figures: by file name without ending, a function that draws and returns a
            `matplotlib.figure.Figure` (matplotlib is imported by that function alone). The first
            line of its docstring is the figure's caption.
        extra_tables: by file name without ending, tables written as CSV files of their own.
        notes: lines of text that follow the tables.
        runs: that decide the claims, where they are not the sweep's own.
    """

    title: str = ""
    tables: list[tuple[str, pd.DataFrame]] = []
    claims: list[Any] = []
    figures: dict[str, Callable[[], Any]] = {}
    extra_tables: dict[str, pd.DataFrame] = {}
    notes: list[str] = []
    runs: Runs | None = None

    @property
    def captions(self) -> dict[str, str]:
        """The figures' captions by name, from the docstrings of the functions that draw them."""
        words = {name: _caption(name, draw) for name, draw in self.figures.items()}
        repeated = [text for text in words.values() if list(words.values()).count(text) > 1]
        return {
            name: f"{text.rstrip('.')} ({name.replace('_', ' ')})." if text in repeated else text
            for name, text in words.items()
        }


def _caption(name: str, draw: Callable[[], Any]) -> str:
    while isinstance(draw, functools.partial):
        draw = draw.func
    first, *_ = (draw.__doc__ or name.replace("_", " ")).splitlines()
    words = first.removeprefix("Draws ")
    return words[:1].upper() + words[1:]
