"""Claims on lemmas 1 to 3, by exact numbers of the population's flow at growing k.

"Theta(1)" is a quantity that varies by less than a factor while k grows, "O(1)" one whose exponent
in k, fitted on logarithmic scales, is not above 0, and "Omega(1)" one whose exponent is not below
0. "From some k0 on" names no k0: such statements are decided in the upper half of the k of the
sweep: a k0 chosen to fit the results would assume the conclusion.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal_scaling.fits import (
    LEAST_POINTS,
    PowerLaw,
    describe,
    fit_power_law,
    reached_from,
)
from lsa_jax.reporting.claims import Claim, Condition, enough
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic

# "Theta(1)": a quantity that varies by less than this factor while k grows.
SAME_ORDER = 2.0
# Sizes of -grad.w*, 1/2 at the start, for which the report has the first k.
PROOF_LEAST = (0.0, 0.1, 0.25)
# Numbers of the population are exact: an exponent this near 0 is 0.
EXACT = 1e-9

_UPPER = ", upper half of the k"
_PROOF = "lemma 1, H = 2 C2: "


def make_claims() -> list[Claim]:
    """Returns the lemmas' statements."""
    # Item, the paper's statement, statistic with our number, ends of the range.
    # fmt: off
    table = [
        ("lemma 1: least -grad.w* while w.w* is small", "above 0",
         _number("lemma1_least", np.min), 0.0, np.inf),
        ("lemma 1: largest over least -grad.w*, all k", "Theta(1)",
         _spread("lemma1_least", "lemma1_most"), 0.0, SAME_ORDER),
        (f"{_PROOF}least -grad.w* while w.w* is small{_UPPER}", "above 0",
         _number("lemma1_proof_least", np.min, upper=True), 0.0, np.inf),
        (f"{_PROOF}largest over least -grad.w*{_UPPER}", "Theta(1)",
         _spread("lemma1_proof_least", "lemma1_proof_most", upper=True), 0.0, SAME_ORDER),
        ("lemma 2: least grad.w_perp / |w_perp|^2", "0 or more",
         _number("lemma2_least", np.min), -EXACT, np.inf),
        ("lemma 2: exponent in k of the largest grad.w_perp / (|w_perp|^2 log(k)^3)",
         "O(1): at most 0", _exponent("lemma2_ratio"), -np.inf, EXACT),
        (f"lemma 3: least grad_b while w.w* and the error are large{_UPPER}", "above 0",
         _number("lemma3_least", np.min, upper=True), 0.0, np.inf),
        (f"lemma 3: exponent in k of that least grad_b{_UPPER}", "Omega(1): at least 0",
         _exponent("lemma3_least", upper=True), -EXACT, np.inf),
        (f"exponent in k of log(k)^4 w.w* where b starts to fall{_UPPER}", "O(1): at most 0",
         _exponent("onset_ratio", upper=True), -np.inf, EXACT),
        ("largest k b / (w.w*)", "at most Theta(1)",
         _number("bias_ratio", np.max), -EXACT, SAME_ORDER + EXACT),
    ]
    # fmt: on
    claims = [
        Claim(
            item=item,
            paper=paper,
            statistic=statistic,
            ours=ours,
            above=above,
            below=below,
            conditions=_CONDITIONS,
        )
        for item, paper, (statistic, ours), above, below in table
    ]
    return [*claims, *map(_first_k, PROOF_LEAST)]


def _flow_arrives(runs: Runs) -> str:
    rows = runs.finished
    reached = len(rows) and bool(rows.loc[rows["k"].idxmax(), "reached"])
    return "" if reached else "it does not"


_CONDITIONS = (
    Condition("the flow at the largest k reaches the error", _flow_arrives),
    enough("k", LEAST_POINTS, f"{LEAST_POINTS} k or more"),
)
_Parts = tuple[Statistic, Callable[[Runs], object]]


def _rows(runs: Runs, upper: bool) -> pd.DataFrame:
    """Returns the rows of all k or of the upper half of them."""
    rows = runs.finished
    sizes = np.sort(rows["k"].unique())
    return rows[rows["k"].isin(sizes[len(sizes) // 2 :])] if upper else rows


def _number(column: str, summary: Callable, *, upper: bool = False) -> _Parts:
    """Returns the statistic of a column's summary over k, and our number."""

    def ours(runs: Runs) -> float:
        return float(summary(_rows(runs, upper)[column]))

    return _exact(ours, column), ours


def _spread(least: str, most: str, *, upper: bool = False) -> _Parts:
    """Returns the statistic of the largest number over the least, and our number."""

    def ours(runs: Runs) -> float:
        rows = _rows(runs, upper)
        low = rows[least].min()
        return float(rows[most].max() / low) if low else np.inf

    return _exact(ours, least), ours


def _exact(number: Callable[[Runs], float], column: str) -> Statistic:
    """Returns the statistic of an exact number that is made of a column."""

    def statistic(runs: Runs) -> Sample:
        found = [number(runs)] if len(runs.finished) else []
        return Sample(pd.Series(found, dtype=float), exact=True, lost=runs.lost(column))

    return statistic


def _exponent(column: str, *, upper: bool = False) -> _Parts:
    """Returns the statistic of an exponent in k, with the interval of the line's slope."""

    def fit(runs: Runs, tail: float = 0.025) -> PowerLaw | None:
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


def _first_k(least: float) -> Claim:
    """Returns the first k from which on lemma 1 with the proof's H holds: measured."""

    def first(runs: Runs) -> float:
        rows = runs.finished
        return reached_from(rows["k"], rows["lemma1_proof_least"] > least) or 0.0

    return Claim(
        item=f"k from which on lemma 1, H = 2 C2, has -grad.w* above {least:g}",
        paper="some k0",
        statistic=_exact(first, "lemma1_proof_least"),
        ours=lambda runs: int(first(runs)) or "none",
    )
