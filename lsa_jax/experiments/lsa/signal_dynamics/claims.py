"""Claims on figure 3: what the paper says of the filter, the threshold and the accuracy."""

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from lsa_jax.reporting.claims import Claim
from lsa_jax.reporting.conditions import shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, binomial_error
from lsa_jax.reporting.statistics import value

# A rank correlation counts as "they grow together" from here up.
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


def numbers_of(table: pd.DataFrame, settings: list[str]) -> pd.DataFrame:
    """Returns the numbers of every run that did not fail, a row a run.

    Args:
        table: one row an evaluation, with the swept settings.
        settings: names of the swept settings, the seed among them.
    """
    fine = table[table["status"] == "ok"]
    rows = [
        dict(zip(settings, key, strict=True)) | {n: of(run) for n, of in NUMBERS.items()}
        for key, run in fine.groupby(settings)
    ]
    return pd.DataFrame(rows, columns=[*settings, *NUMBERS])


def make_claims(series: Mapping[str, dict[str, float]], num_test: int) -> list[Claim]:
    """Returns the claims of every series.

    Args:
        series: swept settings beside the seed, by the series' name.
        num_test: test examples of each accuracy.
    """
    return [
        claim
        for name, at in series.items()
        for claim in _claims_of(f" ({name})" if name else "", at, num_test)
    ]


def _claims_of(where: str, at: dict[str, float], num_test: int) -> list[Claim]:
    rise = Claim(
        item=f"test accuracy at the end minus the start's{where}",
        statistic=_rise(at, num_test),
        above=0.0,
        primary=True,
    )
    # Where the accuracy does not rise, nothing was learned.
    learns = (shown(rise, "the accuracy rises"),)
    return [
        Claim(
            item=f"rank correlation of the step and w.w*{where}",
            paper=f"w.w* grows: above {TOGETHER:g}",
            statistic=value("growth", **at),
            above=TOGETHER,
            conditions=learns,
        ),
        Claim(
            item=f"w.w* at the end{where}",
            paper="positive: above 0",
            statistic=value("signal", **at),
            above=0.0,
            conditions=learns,
            primary=True,
        ),
        Claim(
            item=f"b at the end{where}",
            paper="negative: below 0",
            statistic=value("threshold", **at),
            below=0.0,
            conditions=learns,
            primary=True,
        ),
        Claim(
            item=f"rank correlation of the ratio abs(b) to w.w* and test accuracy{where}",
            paper=f"they grow together: above {TOGETHER:g}",
            statistic=value("together", **at),
            above=TOGETHER,
            conditions=learns,
        ),
        rise,
    ]


def _rise(at: dict[str, float], num_test: int) -> Statistic:
    """Returns the statistic of the rise of the accuracy; each seed draws its test examples."""

    def statistic(runs: Runs) -> Sample:
        ends = runs.where(**at).finished[["first", "last"]].mean()
        errors = [binomial_error(end, num_test) if end == end else 0.0 for end in ends]
        return value("rise", **at)(runs)._replace(
            error=float(np.hypot(*errors)), shared=False, count=num_test
        )

    return statistic
