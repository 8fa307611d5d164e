"""Claims on learning rates, stated before any run."""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.learning_rates.best import best_of, curve
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
        two = enough("width_factor", 2, "two widths", parameterization=name)
        return (two, _inside(name, widths), _learns(name, widths))

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


def _curves(runs: Runs, name: str, widths: tuple[int, int]) -> list[pd.DataFrame]:
    return [curve(runs.finished, name, width) for width in dict.fromkeys(widths)]


def _shift(name: str, widths: tuple[int, int]) -> Statistic:
    """Returns the statistic of log2 of the best rate, widest minus narrowest, by jackknife."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(parameterization=name, width_factor=widths)
        first, last = (curve(own.finished, name, width) for width in widths)
        seeds = first.index.intersection(last.index)

        def moved(kept: list[int]) -> float:
            start, end = best_of([one.loc[kept] for one in (first, last)])
            return end - start

        values = pd.Series(jackknife(list(seeds), moved), seeds, dtype=float)
        # A loss that is not finite is an outcome of a rate that is too large.
        finished = own._replace(finished=own.finished.assign(ran=1.0))
        return Sample(values, lost=finished.lost("ran"), equal=own.equal_seeds())

    return statistic


def _inside(name: str, widths: tuple[int, int]) -> Condition:
    """Returns the condition that no best rate is at an end of the swept rates."""

    def unmet(runs: Runs) -> str:
        for width, own in zip(widths, _curves(runs, name, widths), strict=False):
            ends_ = {float(own.columns.min()), float(own.columns.max())} if own.size else set()
            if own.size and float(best_of([own])[0]) in ends_:
                return f"width factor {width:g} is best at an end"
        return ""

    return Condition("the best rate lies within the swept rates", unmet)


def _learns(name: str, widths: tuple[int, int]) -> Condition:
    """Returns the condition that each width's least loss is below that of a guess."""

    def unmet(runs: Runs) -> str:
        for width, own in zip(widths, _curves(runs, name, widths), strict=False):
            means = own.mean(skipna=False)
            if not own.size:
                continue
            if means.isna().all():
                return f"width factor {width:g} has a finite loss at no rate"
            best = own[means.idxmin()]
            if len(best) > 1 and ends(Sample(best))[1] >= np.log(np.log(_CLASSES)):
                return f"width factor {width:g} has the loss of a guess"
        return ""

    return Condition("both widths learn", unmet)
