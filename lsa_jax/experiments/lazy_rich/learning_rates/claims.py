"""Claims on learning rates, stated before any run."""

from collections.abc import Callable

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.learning_rates.best import best_rate, curve
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import enough, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, ends
from lsa_jax.reporting.statistics import jackknife

# Factors of 2 by which muP's best rate may move between the narrowest and the widest network, and
# by more than which that of the standard parameterisation falls.
STEADY = 1.0
_CLASSES = 10


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the two claims; muP's counts where the standard one's rate falls."""
    widths = min(config.sweep.width_factor), max(config.sweep.width_factor)
    item = f"factors of 2 of the best rate, width factor {widths[0]:g} to {widths[1]:g}"

    def conditions(name: str) -> tuple[Condition, ...]:
        at_both = (
            ("the best rate lies within the swept rates", _at_an_end),
            ("both widths learn", _learns_nothing),
        )
        return (
            enough("width_factor", 2, "two widths", parameterization=name),
            *(Condition(words, _of_widths(name, widths, unmet)) for words, unmet in at_both),
        )

    falls = Claim(
        item=f"{item}, standard",
        statistic=_shift("standard", widths),
        below=-STEADY,
        conditions=conditions("standard"),
        digits=2,
    )
    stays = Claim(
        item=f"{item}, muP, within {STEADY:g}",
        statistic=_shift("mup", widths),
        paper=0.0,
        within=STEADY,
        seed_sd=0.5,
        conditions=(*conditions("mup"), shown(falls, "the standard parameterisation's falls")),
        digits=2,
    )
    return [falls, stays]


def _shift(name: str, widths: tuple[int, int]) -> Statistic:
    """Returns the statistic of log2 of the best rate, widest minus narrowest, by jackknife."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(parameterization=name, width_factor=widths)
        first, last = (curve(own.finished, name, width) for width in widths)
        seeds = first.index.intersection(last.index)

        def moved(kept: list[int]) -> float:
            return best_rate(last.loc[kept]) - best_rate(first.loc[kept])

        values = pd.Series(jackknife(list(seeds), moved), seeds, dtype=float)
        # A loss that is not finite is an outcome of a rate that is too large.
        finished = own._replace(finished=own.finished.assign(ran=1.0))
        return Sample(values, lost=finished.lost("ran"), equal=own.equal_seeds())

    return statistic


def _of_widths(
    name: str, widths: tuple[int, int], unmet: Callable[[pd.DataFrame], str]
) -> Callable[[Runs], str]:
    """Returns a condition on the runs from one on the curve of a width."""

    def of_runs(runs: Runs) -> str:
        for width in dict.fromkeys(widths):
            own = curve(runs.finished, name, width)
            if own.size and (found := unmet(own)):
                return f"width factor {width:g} {found}"
        return ""

    return of_runs


def _at_an_end(own: pd.DataFrame) -> str:
    limits = float(own.columns.min()), float(own.columns.max())
    return "is best at an end" if best_rate(own) in limits else ""


def _learns_nothing(own: pd.DataFrame) -> str:
    """Compares the least loss with that of a guess."""
    means = own.mean(skipna=False)
    if means.isna().all():
        return "has a finite loss at no rate"
    best = own[means.idxmin()]
    guesses = len(best) > 1 and ends(Sample(best))[1] >= np.log(np.log(_CLASSES))
    return "has the loss of a guess" if guesses else ""
