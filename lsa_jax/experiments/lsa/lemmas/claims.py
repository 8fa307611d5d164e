"""Claims on lemmas 1 to 3, by exact numbers of the population's flow at growing k.

"Theta(1)" is a quantity that varies by less than a factor while k grows, "O(1)" one whose exponent
in k, fitted on logarithmic scales, is not above 0, and "Omega(1)" one whose exponent is not below
0. "From some k0 on" names no k0: such statements are decided in the upper half of the k of the
sweep: a k0 chosen to fit the results would assume the conclusion.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal_scaling.fits import (
    LEAST_POINTS,
    describe,
    fit_power_law,
    reached_from,
)
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import enough
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic

# "Theta(1)": a quantity that varies by less than this factor while k grows.
SAME_ORDER = 2.0
# Sizes of -grad.w*, 1/2 at the start, for which the report has the first k.
PROOF_LEAST = (0.0, 0.1, 0.25)
# Numbers of the population are exact: an exponent this near 0 is 0.
EXACT = 1e-9

_UPPER = ", upper half of the k"
_LEMMA1 = "lemma 1, H = 2 C2: "


def make_claims() -> list[Claim]:
    """Returns the lemmas' statements."""
    least, spread, exponent = _least, _spread, _exponent
    return [
        _claim("lemma 1: least -grad.w* while w.w* is small", "above 0", least("lemma1_least")),
        _claim(
            "lemma 1: largest over least -grad.w*, all k",
            "Theta(1)",
            spread("lemma1_least", "lemma1_most"),
        ),
        _claim(
            f"{_LEMMA1}least -grad.w* while w.w* is small{_UPPER}",
            "above 0",
            least("lemma1_proof_least", upper=True),
        ),
        _claim(
            f"{_LEMMA1}largest over least -grad.w*{_UPPER}",
            "Theta(1)",
            spread("lemma1_proof_least", "lemma1_proof_most", upper=True),
        ),
        _claim(
            "lemma 2: least grad.w_perp / |w_perp|^2",
            "0 or more",
            least("lemma2_least", least=-EXACT),
        ),
        _claim(
            "lemma 2: exponent in k of the largest grad.w_perp / (|w_perp|^2 log(k)^3)",
            "O(1): at most 0",
            exponent("lemma2_ratio"),
            below=EXACT,
        ),
        _claim(
            f"lemma 3: least grad_b while w.w* and the error are large{_UPPER}",
            "above 0",
            least("lemma3_least", upper=True),
        ),
        _claim(
            f"lemma 3: exponent in k of that least grad_b{_UPPER}",
            "Omega(1): at least 0",
            exponent("lemma3_least", upper=True),
            above=-EXACT,
        ),
        _claim(
            f"exponent in k of log(k)^4 w.w* where b starts to fall{_UPPER}",
            "O(1): at most 0",
            exponent("onset_ratio", upper=True),
            below=EXACT,
        ),
        _claim("largest k b / (w.w*)", "at most Theta(1)", _bound("bias_ratio")),
        *map(_start, PROOF_LEAST),
    ]


def _claim(
    item: str, paper: str, parts: tuple[Statistic, Callable[[Runs], Any]], **ends: float
) -> Claim:
    statistic, ours = parts
    return Claim(
        item=item,
        paper=paper,
        statistic=statistic,
        every=not ends,
        conditions=(_reached, enough("k", LEAST_POINTS, f"{LEAST_POINTS} k or more")),
        ours=ours,
        **ends,
    )


def _unmet_error(runs: Runs) -> str:
    rows = runs.finished
    reached = len(rows) and bool(rows.loc[rows["k"].idxmax(), "reached"])
    return "" if reached else "it does not"


_reached = Condition("the flow at the largest k reaches the error", _unmet_error)


def _rows(runs: Runs, upper: bool) -> pd.DataFrame:
    """Returns the rows of all k or of the upper half of them."""
    rows = runs.finished
    sizes = np.sort(rows["k"].unique())
    return rows[rows["k"].isin(sizes[len(sizes) // 2 :])] if upper else rows


def _holds(
    column: str, test: Callable[[pd.DataFrame], Any], number: Callable, upper: bool = False
) -> tuple[Statistic, Callable]:
    """Returns the statistic of a statement at every k, and our number."""

    def statistic(runs: Runs) -> Sample:
        rows = _rows(runs, upper)
        holds = pd.Series(np.asarray(test(rows), float) if len(rows) else [], dtype=float)
        return Sample(holds, exact=True, lost=runs.lost(column))

    return statistic, lambda runs: number(_rows(runs, upper))


def _least(column: str, least: float = 0.0, upper: bool = False) -> tuple[Statistic, Callable]:
    return _holds(column, lambda rows: rows[column] > least, lambda r: r[column].min(), upper)


def _spread(low: str, high: str, upper: bool = False) -> tuple[Statistic, Callable]:
    def factor(rows: pd.DataFrame) -> float:
        least = rows[low].min()
        return float(rows[high].max() / least) if least else np.inf

    return _holds(low, lambda rows: [0 < factor(rows) < SAME_ORDER], factor, upper)


def _bound(column: str) -> tuple[Statistic, Callable]:
    return _holds(
        column, lambda rows: rows[column].between(0, SAME_ORDER), lambda rows: rows[column].max()
    )


def _exponent(column: str, upper: bool = False) -> tuple[Statistic, Callable]:
    """Returns the statistic of an exponent in k, whose interval is that of the line's slope."""

    def fit(runs: Runs, tail: float = 0.025) -> Any:
        rows = _rows(runs, upper)
        return fit_power_law(rows["k"], rows[column], tail)

    def statistic(runs: Runs) -> Sample:
        found = fit(runs)
        return Sample(
            pd.Series([] if found is None else [found.exponent], dtype=float),
            ends=lambda tail: fit(runs, tail)[2:4],
            units=len(_rows(runs, upper)),
            lost=runs.lost(column),
        )

    return statistic, lambda runs: describe(fit(runs))


def _start(least: float) -> Claim:
    """Returns the first k from which on lemma 1 with the proof's H holds: measured."""

    def first(runs: Runs) -> float | None:
        rows = runs.finished
        return reached_from(rows["k"], rows["lemma1_proof_least"] > least) if len(rows) else None

    def statistic(runs: Runs) -> Sample:
        found = [first(runs) or 0.0] if len(runs.finished) else []
        return Sample(pd.Series(found, dtype=float), exact=True)

    def ours(runs: Runs) -> str | int:
        found = first(runs)
        return "none" if found is None else int(found)

    item = f"k from which on lemma 1, H = 2 C2, has -grad.w* above {least:g}"
    return Claim(item=item, paper="some k0", statistic=statistic, ours=functools.partial(ours))
