"""Claims on theorem 1: from some k0 on the error is reached, after polynomially many steps.

"Polynomial" is decided as steps that never grow faster than linearly in k, between neighbouring k,
over at least `LEAST_POINTS` of them.
"""

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal_scaling.fits import (
    LEAST_POINTS,
    PowerLaw,
    describe,
    fit_power_law,
    growths_of,
    reached_from,
)
from lsa_jax.reporting.claims import Claim, Condition, unless_refuted
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic

LARGEST_EXPONENT = 1.0
# An exponent is fitted to k from so many times k0 on: near k0 the steps diverge, whatever the
# growth beyond.
PAST_K0 = 16

_NAMES = {"sgd": "minibatches", "population": "population"}


def make_claims(learner: str, noise_scale: float, within: float) -> list[Claim]:
    """Returns the claims of a learner at a noise scale.

    Args:
        learner: "sgd", or "population" for the exact flow.
        noise_scale: multiplies the noise's standard deviation.
        within: steps between evaluations, to within which steps on minibatches are known.
    """
    name = name_of(learner, noise_scale)
    at = {"learner": learner, "noise_scale": noise_scale}
    reaches, growth = _reaches(at), _growth(at, within)

    def unmet(runs: Runs) -> str:
        count = course_of(runs.where(**at).finished)["k"].nunique()
        return "" if count >= LEAST_POINTS else f"{count}"

    enough = Condition(f"{LEAST_POINTS} k or more from k0 on", unmet)
    return [
        Claim(
            item=f"smallest k from which on the error is reached, {name}",
            paper="some k0",
            statistic=reaches,
            every=True,
            conditions=(unless_refuted(reaches, enough),),
            ours=lambda runs: _first(runs.where(**at).finished),
        ),
        Claim(
            item=f"exponent in k of the steps, {name}",
            paper=f"poly(k): at most {LARGEST_EXPONENT:g}",
            statistic=growth,
            below=np.nextafter(LARGEST_EXPONENT, np.inf),
            conditions=(enough,),
            primary=noise_scale == 1.0,
            ours=lambda runs: _exponents(runs.where(**at).finished, growth(runs)),
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


def _own_runs(runs: Runs, at: dict[str, object]) -> tuple[pd.DataFrame, Sample]:
    """Returns the rows of a series, and a sample without values that describes its runs."""
    own, exact = runs.where(**at), at["learner"] == "population"
    rows = own.finished.assign(seed=0) if exact else own.finished
    equal = not exact and runs.equal_seeds()
    lost = own.lost("steps_taken")
    return rows, Sample(pd.Series([], dtype=float), exact=exact, lost=lost, equal=equal)


def _reaches(at: dict[str, object]) -> Statistic:
    """Returns the statistic, by seed, of whether the error is reached from some k on."""

    def statistic(runs: Runs) -> Sample:
        rows, sample = _own_runs(runs, at)
        found = {seed: float(len(course_of(one)) > 0) for seed, one in rows.groupby("seed")}
        return sample._replace(values=pd.Series(found, dtype=float))

    return statistic


def _growth(at: dict[str, object], within: float) -> Statistic:
    """Returns the statistic of the largest exponent between neighbouring k.

    For minibatches its upper end is the largest of all intervals over seeds, each wider by the
    effect of the steps between evaluations, and its lower end is the largest of intervals as much
    wider as there are to choose from (Bonferroni).
    """

    def statistic(runs: Runs) -> Sample:
        rows, sample = _own_runs(runs, at)
        course = course_of(rows)
        if course["k"].nunique() < 2:
            return sample
        known = 0.0 if sample.exact else within
        growths = growths_of(course["k"], course["seed"], course["steps_taken"], known)

        def ends(tail: float) -> tuple[float, float]:
            share = tail / len(growths)
            low = max(g.values.mean() - g.reach(share) - g.below for g in growths)
            return low, max(g.values.mean() + g.reach(tail) + g.above for g in growths)

        largest = np.nanmax([g.values.mean() for g in growths])
        seeds = int(course["seed"].nunique())
        return sample._replace(values=pd.Series([largest]), ends=ends, units=seeds)

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
