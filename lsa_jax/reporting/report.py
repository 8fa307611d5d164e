"""What an experiment reports: tables, claims and figures, before they are written to disk."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import pandas as pd

Status = Literal["shown", "not shown", "undecided", "measured", "not run"]


class Claim(NamedTuple):
    """One statement or number of the paper beside ours; a row of `report.json`.

    Attributes:
        item: what is compared, in words.
        paper: the paper's number or statement; empty where the paper gives none.
        ours: what came out here; empty where it was not run.
        spread: standard deviation over seeds; None where there is one seed or none.
        status: "shown" or "not shown"; "undecided" where an interval contains the threshold or
            there are too few seeds; "measured" where the paper says nothing that could be shown;
            "not run". `reporting.claims` decides.
        low: lower end of the 95 % interval that decided; None where none did.
        high: upper end.
        note: what an undecided claim would take; what speaks against relying on the number.
    """

    item: str
    paper: str | float
    ours: str | float
    spread: float | None
    status: Status
    low: float | None = None
    high: float | None = None
    note: str = ""

    def within(self, least: float, most: float) -> "Claim":
        """Returns the claim with an interval that ends where its number does, such as at 100 %."""
        if self.low is None or self.high is None:
            return self
        return self._replace(low=max(self.low, least), high=min(self.high, most))


class Report(NamedTuple):
    """A report before it is written.

    Attributes:
        title: first line of `report.md`.
        tables: heading and table, in order; written to `report.md` and printed.
        claims: the paper's claims and numbers beside ours.
        figures: by file name without ending, a function that draws and returns a
            `matplotlib.figure.Figure` (matplotlib is imported by that function alone).
        extra_tables: by file name without ending, tables written as CSV files of their own.
        notes: lines of text that follow the tables.
    """

    title: str
    tables: list[tuple[str, pd.DataFrame]]
    claims: list[Claim]
    figures: dict[str, Callable[[], Any]]
    extra_tables: dict[str, pd.DataFrame] = {}
    notes: list[str] = []
