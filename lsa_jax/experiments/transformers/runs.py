"""What holds in every run of a sweep on decision lists: the rule of its claims.

A statement about all runs is refuted by one that does otherwise, and shown where all do so: all
that were asked for, at least two, which are not equal. A run without a number, such as one that
failed, refutes nothing, and those that are left without it show nothing.
"""

from collections.abc import Sequence

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.transformers.numbers import DECISION_LIST_CLAIMS
from lsa_jax.experiments.transformers.settings import sweep
from lsa_jax.reporting.claims import every, not_run
from lsa_jax.reporting.doubts import lost_runs
from lsa_jax.reporting.report import Claim

CASE = {"vocabulary_size": "L", "sequence_length": "n", "list_length": "M"}
# What two runs share that differ in neither their size nor their seed.
UNIT = [*CASE, "seed"]

# What differs between runs that drew anything: no count, and no number that has a largest value.
DRAWN = {
    "value_fixed": ("eigenvalue", "largest_rise", "least_slope_ratio"),
    "value_near": ("eigenvalue", "largest_rise", "least_slope_ratio", "value_distance"),
    "value_step": ("correlation", "on_mean", "on_min", "off_max"),
    "value_random": ("start_distance", "loss", "correlation"),
}


def gaps(config: ml_collections.ConfigDict, results: pd.DataFrame) -> str:
    """Names the runs that the sweep asks for and that failed or are not there; empty of none."""
    lost = lost_runs(sweep(config), results[results["status"] == "ok"])
    # Those that a sweep did not ask for have failed all the same.
    failed = int((results["status"] == "failed").sum())
    return lost or (f"{failed} of {len(results)} runs failed" if failed else "")


def finished(results: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Returns the runs that did not fail, with all columns, as numbers."""
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    fine = fine.reindex(columns=[*dict.fromkeys([*columns, *UNIT])])
    # A sweep in which no run was perfect has a column of None.
    return fine.astype(float)


def no_sample_of_runs(rows: pd.DataFrame, columns: Sequence[str], setting: Sequence[str]) -> str:
    """Says why runs are no sample of anything; empty if they are.

    Seeds that are equal to the last bit everywhere have drawn nothing that matters, and neither
    have settings that are. At one setting seeds may be: lists of full length are relabellings.
    """
    if len(rows) < 2:
        return "it would take 2 runs or more" if len(rows) else ""
    drawn = [name for name in columns if name in rows and rows[name].notna().any()]
    by_setting = rows.groupby(list(setting))
    several = by_setting.size().max() > 1
    differ = by_setting[drawn].nunique() if several else rows[drawn].nunique()
    if (differ <= 1).all(axis=None):
        return f"all {'seeds' if several else 'runs'} are equal"
    return ""


def item_of(name: str, bound: str = "") -> tuple[str, str]:
    """Returns what is compared, with the bound that decides in words, and what the thesis says."""
    item, statement = DECISION_LIST_CLAIMS[name]
    return (f"{item}, {bound}" if bound else item), statement


def every_run(
    name: str,
    holds: pd.Series,
    ours: str | float,
    doubts: Sequence[str] = (),
    *,
    luck: float = 0.0,
    bound: str = "",
) -> Claim:
    """Claims that something holds in every run.

    Args:
        name: of `DECISION_LIST_CLAIMS`.
        holds: 1 or 0 by run, NaN where it is not known.
        ours: what came out.
        doubts: what speaks against relying on it; those that are empty do not.
        luck: as in `claims.every`.
        bound: of what holds, in words that follow the item.
    """
    names, known = item_of(name, bound), holds.dropna()
    doubts = [doubt for doubt in doubts if doubt]
    if holds.empty:
        return not_run(*names, note="; ".join(doubts))
    if len(known) < len(holds):
        doubts.append(f"{len(holds) - len(known)} of {len(holds)} runs have no number")
    unless = "; ".join(doubts)
    if known.empty:
        return Claim(*names, "", None, "undecided", note=unless)
    return every(*names, known == 1, ours, unless=unless, luck=luck)


def where(known: pd.Series, holds: pd.Series) -> pd.Series:
    """Returns 1 or 0 for whether something holds, and NaN where it is not known."""
    return holds.astype(float).where(known)


def count(holds: pd.Series) -> str:
    """Returns in how many runs something holds, in words."""
    return f"{int((holds == 1).sum())} of {len(holds)}"


def finite(values: pd.Series) -> pd.Series:
    """Says of each number whether it is there and finite."""
    return np.isfinite(values.astype(float))
