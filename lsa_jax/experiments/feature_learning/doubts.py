"""What speaks against any results: runs that failed, seeds that are one, few test examples.

Nothing is decided from what is left of a sweep whose other runs failed, of seeds that did not draw
anything, or of a handful of test examples, whose intervals do not hold.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from lsa_jax.reporting.doubts import doubted, few_examples
from lsa_jax.reporting.intervals import REACH, binomial_error
from lsa_jax.reporting.report import Claim


def _numbers(rows: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Returns the measures that some seed has a number of; an NTK has no cosines."""
    return rows.reindex(columns=list(measures)).astype(float).dropna(axis=1, how="all")


def missing_runs(rows: pd.DataFrame, seeds: Iterable[int], measures: Sequence[str] = ()) -> str:
    """Says how many of the seeds that a sweep asks for have no result; empty if all have one.

    Args:
        rows: one a seed.
        seeds: asked for.
        measures: columns, as in `equal_seeds`; a seed whose number is not finite has no result.
    """
    asked = len(set(seeds))
    found = rows[np.isfinite(_numbers(rows, measures)).all(axis=1)]
    lost = asked - (found["seed"].nunique() if "seed" in found else len(found))
    return f"{lost} of {asked} runs failed or are not there" if lost > 0 else ""


def equal_seeds(rows: pd.DataFrame, measures: Sequence[str]) -> str:
    """Says whether seeds agree in all that was measured; empty if they do not.

    They have not been drawn then, or drew nothing that matters. Learners that are right on every
    example may have nothing else in common: accuracies of 1 do not count.

    Args:
        rows: one a seed.
        measures: columns; those that are not there, or hold no number, do not count.
    """
    values = _numbers(rows, measures)
    values = values[np.isfinite(values).all(axis=1)]
    values = values.loc[:, ~(values == 1).all()]
    if len(values) < 2 or values.empty or (values.nunique() > 1).any():
        return ""
    return f"all of {len(values)} seeds are equal"


def answers_a_constant(accuracies: pd.Series, constant: float | pd.Series, examples: int) -> str:
    """Says whether some seed is not surely more accurate than a constant answer; empty if none is.

    Args:
        accuracies: one a seed.
        constant: the accuracy of the best constant, that is the largest class's share; of each
            seed where they have labels of their own.
        examples: of the test.
    """
    ends = accuracies.map(lambda value: value - REACH * binomial_error(value, examples))
    near = (~(ends > constant)).sum()
    return f"{near} of {len(ends)} seeds may be no better than a constant answer" if near else ""


def doubt(
    claim: Claim,
    rows: Iterable[pd.DataFrame],
    seeds: Iterable[int],
    measures: Sequence[str],
    examples: float = np.inf,
) -> Claim:
    """Returns a claim as undecided where its runs are no sample that could decide it.

    Runs that are missing speak against what is shown; seeds that are equal and few examples
    against what is refuted as well.

    Args:
        claim: on some learners.
        rows: of each of them, one a seed.
        seeds: that the sweep asks for.
        measures: as in `equal_seeds` and `missing_runs`, with those that the claim is about.
        examples: of the test; no limit where the claim is of nothing that is tested.
    """
    rows, seeds = list(rows), list(seeds)
    lost = next(filter(None, (missing_runs(own, seeds, measures) for own in rows)), "")
    same = next(filter(None, (equal_seeds(own, measures) for own in rows)), "")
    return doubted(claim, [lost], [same or few_examples(examples)])
