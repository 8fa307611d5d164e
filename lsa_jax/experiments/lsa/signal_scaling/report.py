"""Claims, tables and figure of theorem 1: steps to a small error against k, with power laws.

From some k0 on the error is reached, after polynomially many steps. "Polynomial" is decided as
steps that never grow faster than linearly in k, between neighbouring k, over at least
`LEAST_POINTS` of them.
"""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Shaped

from lsa_jax.experiments.lsa.signal_scaling.settings import SETTINGS
from lsa_jax.reporting.claims import Claim, Condition, decide_all, unless_refuted
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

# Nothing is shown of how a quantity grows over fewer k.
LEAST_POINTS = 3

_Numbers = Shaped[np.ndarray | pd.Series, " n"]


class PowerLaw(NamedTuple):
    """quantity = factor k^exponent, by least squares on logarithms.

    Attributes:
        exponent: the slope.
        error: its standard error; NaN for two points.
        low: lower end of the slope's 95% interval (Student's t); NaN for two points.
        high: upper end.
        factor: the quantity at k = 1.
    """

    exponent: float
    error: float
    low: float
    high: float
    factor: float


def fit_power_law(k: _Numbers, quantity: _Numbers, tail: float = 0.025) -> PowerLaw | None:
    """Fits a power law to positive quantities; None for fewer than two different k.

    The standard error counts deviations from a straight line as noise. For an exact quantity it
    measures how straight the line is.
    """
    k, quantity = np.asarray(k, float), np.asarray(quantity, float)
    if len(np.unique(k)) < 2 or not (quantity > 0).all():
        return None
    fit = scipy.stats.linregress(np.log(k), np.log(quantity))
    error = reach = np.nan
    if len(k) > 2:
        # SciPy has no error of a line through equal numbers, which is 0.
        error = fit.stderr if np.ptp(quantity) else 0.0
        reach = error * scipy.stats.t.isf(tail, len(k) - 2)
    found = (fit.slope, error, fit.slope - reach, fit.slope + reach, np.exp(fit.intercept))
    return PowerLaw(*map(float, found))


def describe(fit: PowerLaw, interval: bool = False) -> str:
    """Returns the exponent in words, ± its standard error (none for two points)."""
    if np.isnan(fit.error):
        return f"{fit.exponent:.3f} (two k)"
    ends = f" ({fit.low:.2f} to {fit.high:.2f})" if interval else ""
    return f"{fit.exponent:.3f} ± {fit.error:.3f}{ends}"


class Growth(NamedTuple):
    """The exponent between two neighbouring k, of a quantity that is known to within a margin.

    Attributes:
        values: by seed.
        below: by how much less their mean may be for that margin.
        above: by how much more.
    """

    values: pd.Series
    below: float
    above: float

    def reach(self, tail: float) -> float:
        """Returns half of Student's interval over seeds; infinite for one seed."""
        seeds = len(self.values)
        if seeds < 2:
            return np.inf
        return float(scipy.stats.t.isf(tail, seeds - 1) * self.values.std() / seeds**0.5)


def growths_of(
    k: Shaped[pd.Series, " n"],
    seed: Shaped[pd.Series, " n"],
    quantity: Shaped[pd.Series, " n"],
    within: float,
) -> list[Growth]:
    """Returns the exponents between neighbouring k, over the seeds that both have.

    The quantity is positive, and too large by less than `within`, the steps between evaluations.
    """
    table = pd.DataFrame({"k": k, "seed": seed, "value": quantity})
    table = table.pivot(index="seed", columns="k", values="value")
    found = []
    for low, high in zip(table.columns, table.columns[1:], strict=False):
        both, apart = table[[low, high]].dropna(), np.log(high / low)
        late = np.log(both / (both - within).clip(lower=0.0)).mean() / apart
        values = np.log(both[high] / both[low]) / apart
        found.append(Growth(values, float(late[high]), float(late[low])))
    return found


def reached_from(k: _Numbers, reached: _Numbers) -> float | None:
    """Returns the smallest k from which on all reach the target; None where the largest does not.

    k may repeat (seeds); all of one k must have reached the target.
    """
    k = np.asarray(k, float)
    missed = k[~np.asarray(reached, bool)]
    above = k[k > missed.max(initial=-np.inf)]
    return float(above.min()) if len(above) else None


# --- claims -------------------------------------------------------------------------------------

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


# --- tables and figure --------------------------------------------------------------------------

_NOTE = (
    "Steps until the exact error is at most {target:g}, at learning rate {rate:g}: on minibatches "
    "of {batch} fresh examples (means over seeds ± their standard deviation, to within {every} "
    "steps), and by the population gradient's flow (time over learning rate: the limit of small "
    "steps). k0 is the smallest k from which on every run reaches it; below k0 the flow comes to "
    "rest at a larger error. An exponent is the slope of log steps in log k, ± its standard error, "
    "with the 95% interval, over k from {past} k0 on (from k0 on where those are fewer than "
    "{points}); the population's steps are exact, and their error only measures how straight the "
    "line is. Samples are steps times the batch size: the same exponent. Polynomial growth counts "
    "as shown when the error is reached at {points} k or more from k0 on, and steps grow at most "
    "like k^{largest:g} between neighbouring k: of minibatches, the upper ends of all 95 % "
    "intervals over seeds (Student's t), each wider by the effect of {every} steps. Refuting it "
    "takes a lower end above that, of intervals as much wider as there are to choose from "
    "(Bonferroni)."
)


def series_of(done: pd.DataFrame) -> dict[tuple[str, float], pd.DataFrame]:
    """Returns the runs of every learner and noise scale, k increasing."""
    return dict(iter(done.sort_values("k").groupby(["learner", "noise_scale"])))


def _table(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns a row a k: how many runs reached the error, after how many steps and samples."""
    parts = []
    for k, runs in rows.groupby("k"):
        reached = runs[runs["reached"].astype(bool)]
        entry = {"k": k, "reached": f"{len(reached)} of {len(runs)}"}
        for name in ("steps_taken", "samples"):
            if name in rows and rows[name].notna().any():
                entry[name.replace("_taken", "")] = mean_and_spread(reached[name], ".5g", ".2g")
        entry["error"] = runs["test_error"].mean()
        entry["w.w*"], entry["b"] = runs["w_dot_wstar"].mean(), runs["b"].mean()
        parts.append(entry)
    return pd.DataFrame(parts)


def _draw(done: pd.DataFrame, samples_per_step: int) -> Any:
    """Draws steps (left) and samples (right axis) against k: lines population, points minibatches.

    Crosses at the top are k at which the error is not reached.
    """
    figure, ((axis,),) = subplots(1, 1, 6, 5)
    scales = sorted(done["noise_scale"].unique())
    reached = done[done["reached"].astype(bool)]
    top = 3 * reached["steps_taken"].max() if len(reached) else 1.0
    for (learner, scale), rows in series_of(done).items():
        color = PALETTE[scales.index(scale) % len(PALETTE)]
        course, missed = rows[rows["reached"].astype(bool)], rows[~rows["reached"].astype(bool)]
        label = name_of(learner, scale)
        fit = fit_of(course_of(rows))
        if fit is not None:
            label += f": $k^{{{fit.exponent:.2f}}}$"
        style = "-" if learner == "population" else "o"
        axis.plot(course["k"], course["steps_taken"], style, color=color, label=label, markersize=4)
        axis.plot(missed["k"], np.full(len(missed), top), "x", color=color)
        if fit is not None and learner == "sgd":
            k = np.unique(course["k"].to_numpy(float))
            axis.plot(k, fit.factor * k**fit.exponent, "--", color=color, linewidth=1)
    axis.set(xscale="log", yscale="log", xlabel="k", ylabel="steps to the error")
    axis.secondary_yaxis(
        "right", functions=(lambda s: s * samples_per_step, lambda n: n / samples_per_step)
    ).set_ylabel("samples")
    if axis.lines:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns steps and samples for every k, the fits, the claims and the figure."""
    del workdir
    done = results[results["status"] == "ok"]
    names = ("learner", "noise_scale", "k", "seed")
    done = done.assign(**{name: done.get(name, config[name]) for name in names})
    series, runs = series_of(done), Runs.of(SETTINGS.sweep(config), done)
    claims = [claim for key in series for claim in make_claims(*key, config.eval_every)]
    note = _NOTE.format(
        target=config.target_error,
        rate=config.learning_rate,
        batch=config.batch_size,
        every=config.eval_every,
        points=LEAST_POINTS,
        past=PAST_K0,
        largest=LARGEST_EXPONENT,
    )
    return Report(
        title=config.title,
        tables=[(name_of(*key).capitalize(), _table(rows)) for key, rows in series.items()],
        claims=decide_all(claims, runs),
        figures={"signal_scaling": functools.partial(_draw, done, config.batch_size)},
        notes=[note],
    )
