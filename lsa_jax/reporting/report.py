"""What an experiment reports: tables, claims and figures, before they are written to disk."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd


def exceeds(values: pd.Series, bound: float = 0.0) -> bool:
    """Tells whether a difference counts as shown: one value a seed, missing ones left out.

    Its mean has to exceed the bound by twice its standard error over seeds; one seed's value by
    itself has to exceed it. None at all is False.
    """
    values = values.dropna()
    error = values.std() / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return bool(values.mean() - bound > 2 * error)


class Claim(NamedTuple):
    """One statement or number of the paper beside ours; a row of `report.json`.

    Attributes:
        item: what is compared, in words.
        paper: the paper's number or statement; empty where the paper gives none.
        ours: what came out here; empty where it was not run.
        spread: standard deviation over seeds; None where there is one seed or none.
        status: "shown", "not shown" or "not run"; "measured" where the paper says nothing that
            could be shown.
    """

    item: str
    paper: str | float
    ours: str | float
    spread: float | None
    status: Literal["shown", "not shown", "not run", "measured"]


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
    extra_tables: dict[str, pd.DataFrame]
    notes: list[str]
