"""The report of an experiment: claims as stated and as decided, tables and figures."""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, get_args

import pandas as pd

from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Statistic

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


@dataclass(frozen=True)
class Condition:
    """A statement that must hold before a claim says anything about the paper.

    `unmet` returns the numbers of the runs that contradict it; "" where it holds.
    """

    words: str
    unmet: Callable[[Runs], str]


@dataclass(frozen=True)
class Claim:
    """A claim, stated before the runs.

    Attributes:
        item: the quantity, in words.
        statistic: `(runs) -> Sample`, see `reporting.statistics`.
        paper: the paper's statement, or with `within` its number.
        above: lower end of the range.
        below: upper end of the range.
        within: margin around the paper's number; the range of a claim of agreement.
        seed_sd: expected standard deviation over seeds of a claim of agreement. The claim is only
            measured where the planned seeds and test examples, or an interval as wide as the
            range, could not show it.
        paper_error: standard error of the paper's number, where it can be computed.
        every: whether each value must be 1: the claim is about all runs. A value is 1 where a run
            holds, 0 where it does not, and NaN where that is undecided.
        luck: of `every`: the probability that a run holds without anything being learned.
        conditions: under which the claim is decided.
        refutable: of `every`: whether one exception refutes it, whatever the conditions.
        primary: whether it is one of the work's main claims.
        ours: words in place of our number, computed from the runs.
        digits: decimal places of our number, more where its interval is narrower; None means 2 of
            percentages and 4 of others. On a logarithmic scale it has 4 significant ones.
    """

    item: str
    statistic: Statistic
    _: KW_ONLY
    paper: str | float = ""
    above: float = -math.inf
    below: float = math.inf
    within: float | None = None
    seed_sd: float | None = None
    paper_error: float = 0.0
    every: bool = False
    luck: float = 0.0
    conditions: tuple[Condition, ...] = ()
    refutable: bool = False
    primary: bool = False
    ours: Callable[[Runs], str] | None = None
    digits: int | None = None

    def __post_init__(self) -> None:
        if self.within is None:
            if not isinstance(self.paper, str):
                raise ValueError(f"{self.item}: a number of the paper needs a margin, `within`")
        elif self.seed_sd is None or isinstance(self.paper, str):
            raise ValueError(f"{self.item}: agreement needs a number and the expected `seed_sd`")
        low, high = self.range
        if not (low < high and 0 <= self.luck <= 1):
            raise ValueError(
                f"{self.item}: the range is {low:g} to {high:g} and luck {self.luck:g}; accepted: "
                "a lower end below the upper one, and luck from 0 to 1"
            )

    @property
    def range(self) -> tuple[float, float]:
        """Lower and upper end of the range, in natural units."""
        if self.within is None:
            return self.above, self.below
        return self.paper - self.within, self.paper + self.within

    @property
    def tail(self) -> float:
        """Probability outside of the interval on either side."""
        return TAIL if self.within is None else 2 * TAIL

    @property
    def statement(self) -> str | float:
        """The paper's cell of the report: what the claim tests."""
        low, high = self.range
        if self.paper != "" or self.within is not None or self.every:
            return self.paper
        bounds = [f"above {low:g}"] * (low > -math.inf) + [f"below {high:g}"] * (high < math.inf)
        return ", ".join(bounds)


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


def not_run(rows: Iterable[Row], note: str) -> list[Row]:
    """Returns the claims of a sweep that shows nothing about them, as not run."""
    return [Row(row.item, row.paper, "", None, "not run", note=note) for row in rows]


class Report(NamedTuple):
    """A report before it is written.

    Attributes:
        title: first line of `report.md`; the configuration's where it is empty.
        tables: heading and table, in order; written to `report.md` and printed.
        claims: the paper's claims and numbers, and ours. An experiment states them as
            `Claim`, which the sweep decides.
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
