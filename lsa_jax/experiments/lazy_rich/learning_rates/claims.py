"""The learning rate with the least training loss, and claims stated before any run.

The best rate is where the mean over seeds of the logarithm of the training loss is least: of the
polynomial of degree `DEGREE` in the logarithm of the rate that is fitted to the rates around the
least whose loss is up to exp(`DEPTH`) times as large. A wide network's loss is flat there: the
least of each seed's points, or of a parabola through three of them, is off by up to an octave on
made-up curves, and this by half as much at most. Its error is the jackknife's over seeds.
"""

from collections.abc import Callable

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.reporting.claims import Claim, Condition, enough, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, ends
from lsa_jax.reporting.statistics import jackknife

# Factors of 2 by which muP's best rate may move between the narrowest and the widest network, and
# by more than which that of the standard parameterisation falls.
STEADY = 1.0
DEGREE, DEPTH = 4, 1.5
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
    """Returns log2 of the best rate, widest minus narrowest, by jackknife over seeds."""

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


def curve(table: pd.DataFrame, name: str, width: int | np.integer) -> pd.DataFrame:
    """Returns the log of the final training loss: a row a seed, a column log2 of a rate.

    NaN where a run diverged.
    """
    own = table[(table["parameterization"] == name) & (table["width_factor"] == width)]
    heights = np.log(np.maximum(own["train_loss"], 1e-12))
    octaves = np.log2(own["learning_rate"])
    wide = pd.DataFrame({"seed": own["seed"], "octaves": octaves, "height": heights})
    return wide.pivot(index="seed", columns="octaves", values="height").sort_index(axis=1)


def best_rate(heights: pd.DataFrame) -> float:
    """Returns log2 of the rate at which the mean of heights over seeds is least.

    Args:
        heights: as `curve` returns them; a rate at which one is not finite has no mean.

    Returns:
        Where the fitted polynomial is least, within the rates that it is fitted to; NaN where all
        rates have one loss, or none has a mean.
    """
    octaves, means = heights.columns.to_numpy(float), heights.to_numpy().mean(axis=0)
    means[~np.isfinite(means)] = np.inf
    finite = means[np.isfinite(means)]
    if not len(finite) or np.ptp(finite) == 0:
        return np.nan
    first = last = int(np.argmin(means))
    limit, points = means[first] + DEPTH, DEGREE + 1
    while True:
        below = means[first - 1] if first else np.inf
        above = means[last + 1] if last + 1 < len(means) else np.inf
        least = min(below, above)
        if not np.isfinite(least) or (least > limit and last - first + 1 >= points):
            break
        first, last = (first - 1, last) if below <= above else (first, last + 1)
    places = octaves[first : last + 1]
    middle = places.mean()
    fitted = np.polyfit(places - middle, means[first : last + 1], min(DEGREE, last - first))
    fine = np.linspace(places[0], places[-1], 2001)
    return float(fine[np.argmin(np.polyval(fitted, fine - middle))])


def best_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Returns log2 of the best rate, `octaves`, and its `error`, for each network."""
    keys, rows = ["parameterization", "width_factor"], []
    for key, _ in table.groupby(keys, sort=False):
        own = curve(table, *key)
        values = jackknife(list(own.index), lambda kept, own=own: best_rate(own.loc[kept]))
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        rows.append((*key, values.mean(), error))
    return pd.DataFrame(rows, columns=[*keys, "octaves", "error"])
