"""The report on what grown decoders can do, by the strategy that chose how to grow them."""

import ml_collections
import pandas as pd

from lsa_jax.experiments.growing.doubts import (
    DRAWN,
    missing_operators,
    missing_seeds,
    without,
)
from lsa_jax.experiments.growing.families import DOWNSTREAM, NUM_ITEMS
from lsa_jax.experiments.growing.numbers import DOWNSTREAM_ACCURACY
from lsa_jax.reporting.claims import cell, compare
from lsa_jax.reporting.doubts import doubted, no_sample
from lsa_jax.reporting.intervals import REACH, binomial_error, difference_error
from lsa_jax.reporting.report import Claim

# Whom LAG@k is above in every task of table C.1.
_OTHERS = ("lag_0", "stack_last", "stack_random")


def tasks_of(numbers: pd.DataFrame) -> list[str]:
    """Returns the tasks that the numbers of families have."""
    return [name.removeprefix(NUM_ITEMS) for name in numbers if name.startswith(NUM_ITEMS)]


def downstream_table(numbers: pd.DataFrame, headings: dict[str, str]) -> pd.DataFrame:
    """Returns percent right by strategy, the thesis' beside ours where it has the task."""
    rows = []
    for strategy, heading in headings.items():
        row = {"strategy": heading}
        for task in tasks_of(numbers):
            if f"{DOWNSTREAM}{task} {strategy}" not in numbers:
                continue
            if task in DOWNSTREAM_ACCURACY:
                row[f"{task}, thesis"] = f"{DOWNSTREAM_ACCURACY[task][strategy]:g}"
            row[f"{task} %"] = cell(100 * numbers[f"{DOWNSTREAM}{task} {strategy}"], ".2f")
        rows.append(row)
    return pd.DataFrame(rows)


def downstream_claims(
    config: ml_collections.ConfigDict, numbers: pd.DataFrame, headings: dict[str, str]
) -> list[Claim]:
    """Returns whether what LAG@k chose is right more often than what the others did, by seed.

    It says nothing where the chosen network's accuracy cannot be told from 0.
    """
    claims = []
    against = [missing_seeds(config, numbers["seed"]), missing_operators(config, numbers)]
    sample = no_sample(numbers, DRAWN)
    for task in tasks_of(numbers):
        if f"{DOWNSTREAM}{task} lag" not in numbers:
            continue
        lag, items = numbers[f"{DOWNSTREAM}{task} lag"], int(numbers[f"{NUM_ITEMS}{task}"].min())
        able = lag.mean() - REACH * binomial_error(lag.mean(), items) > 0
        for other in _OTHERS:
            if f"{DOWNSTREAM}{task} {other}" not in numbers:
                continue
            theirs = numbers[f"{DOWNSTREAM}{task} {other}"]
            printed = DOWNSTREAM_ACCURACY.get(task)
            more = 100 * (lag - theirs)
            claim = compare(
                f"points right in {task}, {headings['lag']} minus {headings[other]}",
                round(printed["lag"] - printed[other], 2) if printed else "above 0",
                more,
                above=0.0,
                examples_error=100 * difference_error(lag.mean(), theirs.mean(), items),
                unless="" if able else "hardly anything is right",
                digits=2,
            )
            lost = without(more, "number of both")
            claims.append(doubted(claim, [*against, lost], [sample]))
    return claims
