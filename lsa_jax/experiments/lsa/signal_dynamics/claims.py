"""Claims on figure 3: the filter, the threshold and the accuracy along training."""

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from lsa_jax.reporting.claims import Claim, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, binomial_error
from lsa_jax.reporting.statistics import value

# A rank correlation counts as "they grow together" above this.
TOGETHER = 0.9


def _rank_correlation(first: str, second: str, rows: pd.DataFrame) -> float:
    """Returns Spearman's correlation; 0 where one of the two does not vary."""
    if min(rows[first].nunique(), rows[second].nunique()) < 2:
        return 0.0
    return rows[first].corr(rows[second], method="spearman")


# Numbers of one run, from the rows of its evaluations.
NUMBERS: dict[str, Callable[[pd.DataFrame], float]] = {
    "growth": functools.partial(_rank_correlation, "step", "w_dot_wstar"),
    "signal": lambda rows: rows["w_dot_wstar"].iloc[-1],
    "threshold": lambda rows: rows["b"].iloc[-1],
    "together": functools.partial(_rank_correlation, "ratio", "test_accuracy"),
    "rise": lambda rows: rows["test_accuracy"].iloc[-1] - rows["test_accuracy"].iloc[0],
    "first": lambda rows: rows["test_accuracy"].iloc[0],
    "last": lambda rows: rows["test_accuracy"].iloc[-1],
}

# Item, number, the paper's statement, range; each holds only if the accuracy rises.
# fmt: off
_STATEMENTS = (
    ("rank correlation of the step and w.w*", "growth",
     f"w.w* grows: above {TOGETHER:g}", {"above": TOGETHER}),
    ("w.w* at the end", "signal", "positive: above 0", {"above": 0.0}),
    ("b at the end", "threshold", "negative: below 0", {"below": 0.0}),
    ("rank correlation of the ratio abs(b) to w.w* and test accuracy", "together",
     f"they grow together: above {TOGETHER:g}", {"above": TOGETHER}),
)
# fmt: on
_PRIMARY = ("signal", "threshold")


def numbers_of(table: pd.DataFrame, settings: Sequence[str]) -> pd.DataFrame:
    """Returns `NUMBERS` of every run that did not fail, a row a run, with its settings."""
    rows = [
        dict(zip(settings, key, strict=True)) | {n: of(run) for n, of in NUMBERS.items()}
        for key, run in table[table["status"] == "ok"].groupby(list(settings))
    ]
    return pd.DataFrame(rows, columns=[*settings, *NUMBERS])


def make_claims(series: Mapping[str, dict[str, float]], num_test: int) -> list[Claim]:
    """Returns the claims of every series, named with its settings; accuracies are of `num_test`."""
    claims = []
    for name, at in series.items():
        where = f" ({name})" if name else ""
        rise = Claim(
            item=f"test accuracy at the end minus the start's{where}",
            statistic=_rise(at, num_test),
            above=0.0,
            primary=True,
        )
        learns = (shown(rise, "the accuracy rises"),)
        claims += [
            Claim(
                item=item + where,
                paper=paper,
                statistic=value(number, **at),
                conditions=learns,
                primary=number in _PRIMARY,
                **ends,
            )
            for item, number, paper, ends in _STATEMENTS
        ]
        claims.append(rise)
    return claims


def _rise(at: dict[str, float], num_test: int) -> Statistic:
    """Returns the statistic of the rise of the accuracy; each seed draws its test examples."""

    def statistic(runs: Runs) -> Sample:
        ends = runs.where(**at).finished[["first", "last"]].mean().dropna()
        error = float(np.hypot.reduce([binomial_error(end, num_test) for end in ends] or [0.0]))
        rise = value("rise", **at)(runs)
        return rise._replace(error=error, shared=False, count=num_test)

    return statistic
