"""Claims on theorem 1: from some k0 on the error is reached, after polynomially many steps.

"Polynomial" is decided as steps that never grow faster than linearly in k, between neighbouring k,
over at least `LEAST_POINTS` of them.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal_scaling.fits import (
    LEAST_POINTS,
    PowerLaw,
    describe,
    fit_power_law,
    growths_of,
    local_exponents,
    reached_from,
)
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import unless_refuted
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic

LARGEST_EXPONENT = 1.0
# An exponent is fitted to k from so many times k0 on: near k0 the steps diverge, whatever the
# growth beyond.
PAST_K0 = 16

_NAMES = {"sgd": "minibatches", "population": "population"}


def make_claims(series: Sequence[tuple[str, float]], within: float) -> list[Claim]:
    """Returns the claims of every series.

    Args:
        series: learners and noise scales.
        within: steps between evaluations, to within which those of minibatches are known.
    """
    return [claim for key in series for claim in _claims_of(*key, within)]


def _claims_of(learner: str, scale: float, within: float) -> list[Claim]:
    name = name_of(learner, scale)
    at = {"learner": learner, "noise_scale": scale}

    def unmet(runs: Runs) -> str:
        count = course_of(runs.where(**at).finished)["k"].nunique()
        return "" if count >= LEAST_POINTS else f"{count}"

    enough = Condition(f"{LEAST_POINTS} k or more from k0 on", unmet)
    return [
        Claim(
            item=f"smallest k from which on the error is reached, {name}",
            paper="some k0",
            statistic=_reaches(at),
            every=True,
            conditions=(unless_refuted(_reaches(at), enough),),
            ours=lambda runs: _first(runs.where(**at).finished),
        ),
        Claim(
            item=f"exponent in k of the steps, {name}",
            paper=f"poly(k): at most {LARGEST_EXPONENT:g}",
            statistic=_growth(at, within),
            below=np.nextafter(LARGEST_EXPONENT, np.inf),
            conditions=(enough,),
            primary=scale == 1.0,
            ours=lambda runs: _exponents(runs.where(**at).finished, _growth(at, within)(runs)),
        ),
    ]


def _first(rows: pd.DataFrame) -> str:
    course = course_of(rows)
    return f"{course['k'].min():g}" if len(course) else f"none up to {rows['k'].max():g}"


def _exponents(rows: pd.DataFrame, growth: Sample) -> str:
    """Returns the exponent over all k, and the largest between neighbours, in words."""
    fit = fit_of(course_of(rows))
    if fit is None:
        return "no fit"
    largest = growth.values.iloc[0]
    return f"{describe(fit, interval=True)}, between neighbours at most {largest:.2f}"


def _equal(runs: Runs, at: dict[str, object]) -> bool:
    return at["learner"] != "population" and runs.equal_seeds()


def _reaches(at: dict[str, object]) -> Statistic:
    """Returns the statistic, by seed, of whether the error is reached from some k on."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**at)
        exact = at["learner"] == "population"
        rows = own.finished.assign(seed=0) if exact else own.finished
        found = {seed: float(len(course_of(one)) > 0) for seed, one in rows.groupby("seed")}
        lost, equal = own.lost("steps_taken"), _equal(own, at)
        return Sample(pd.Series(found, dtype=float), exact=exact, lost=lost, equal=equal)

    return statistic


def _growth(at: dict[str, object], within: float) -> Statistic:
    """Returns the statistic of the largest exponent between neighbouring k.

    Of minibatches its upper end is the largest of all intervals over seeds, each wider by what the
    steps between evaluations make of it, and its lower end is the largest of intervals as much
    wider as there are to choose from (Bonferroni).
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**at)
        course = course_of(own.finished)
        lost, equal = own.lost("steps_taken"), _equal(own, at)
        if course["k"].nunique() < 2:
            return Sample(pd.Series([], dtype=float), lost=lost)
        if at["learner"] == "population":
            k, steps = (course[name].to_numpy(float) for name in ("k", "steps_taken"))
            largest = float(local_exponents(k, steps).max())
            return Sample(pd.Series([largest]), exact=True, lost=lost)
        growths = growths_of(course["k"], course["seed"], course["steps_taken"], within)

        def ends(tail: float) -> tuple[float, float]:
            share = tail / len(growths)
            low = max(g.values.mean() - g.reach(share) - g.below for g in growths)
            return low, max(g.values.mean() + g.reach(tail) + g.above for g in growths)

        largest = np.nanmax([g.values.mean() for g in growths])
        seeds = int(course["seed"].nunique())
        return Sample(pd.Series([largest]), ends=ends, units=seeds, lost=lost, equal=equal)

    return statistic


def name_of(learner: str, noise_scale: float) -> str:
    """Returns the name of a series."""
    return f"{_NAMES[learner]}, noise scale {noise_scale:g}"


def course_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows from k0 on: those k from which on every run reached the error."""
    first = reached_from(rows["k"], rows["reached"])
    return rows[rows["k"] >= (np.inf if first is None else first)]


def fit_of(course: pd.DataFrame) -> PowerLaw | None:
    """Fits steps against k, from well above k0 on if there are enough k."""
    beyond = course[course["k"] >= PAST_K0 * course["k"].min()]
    rows = beyond if beyond["k"].nunique() >= LEAST_POINTS else course
    return fit_power_law(rows["k"], rows["steps_taken"])
