"""How many steps and samples Algorithm 1 needs to a small error, as the number of rows k grows.

Karp et al. (NeurIPS 2021), theorem 1: polynomially many in k, for k from some k0 on. Runs on fresh
minibatches end when the exact error of their network (from `signal.population`, so without test
noise) is small enough; the population gradient's flow is the limit of small steps.

"Polynomial" is decided as steps that never grow faster than linearly in k, between neighbouring k,
over at least `LEAST_POINTS` of them.
"""

import functools
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Shaped

from lsa_jax.experiments.lsa.signal.population import flow_to_target, measure, misclassification
from lsa_jax.experiments.lsa.signal_dynamics import experiment
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic
from lsa_jax.reporting.statistics import computed
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress
from lsa_jax.training.segments import Evaluations


def _outcome(runs: Evaluations, errors: np.ndarray, replica: int, config: Config) -> Outcome:
    """Returns a run's outcome where it first reached the target, or else where it ended."""
    reached = errors[:, replica] <= config.target_error
    index = int(reached.argmax()) if reached.any() else len(errors) - 1
    outcome = experiment.outcome(runs._replace(last=index), replica)
    if outcome.status == "failed":
        return outcome
    history = [
        {**row, "test_error": error}
        for row, error in zip(outcome.history, errors[: index + 1, replica].tolist(), strict=True)
    ]
    steps = history[-1]["step"]
    results = {
        "reached": bool(reached.any()),
        "steps_taken": steps,
        "samples": steps * config.batch_size,
        "test_error": history[-1]["test_error"],
    }
    return outcome._replace(metrics=results | outcome.metrics, history=history)


def _error(state: list[float], config: Config) -> float:
    """Returns the exact error at (w.w*, |w_perp|, b); NaN where these are not finite."""
    sigma = noise_std(config.k, config.noise_scale)
    return misclassification(*state, sigma, config.k) if np.isfinite(state).all() else np.nan


def _run_sgd(group: list[Point], directory: Path, progress: Progress) -> list[Outcome]:
    target, rows = group[0].config.target_error, []

    def errors(runs: Evaluations) -> np.ndarray:
        """Returns the errors at all evaluations, [evaluations, replicas]; each computed once."""
        for i in range(len(rows), runs.last + 1):
            state = [runs.table[name][i] for name in ("w_dot_wstar", "w_perp_norm", "b")]
            states = np.stack(state, axis=1).tolist()
            rows.append([_error(s, p.config) for s, p in zip(states, group, strict=True)])
        return np.array(rows)

    def finished(runs: Evaluations) -> bool:
        reached = (errors(runs) <= target).any(axis=0)
        return bool((reached | runs.stopped).all())

    runs = experiment.run_until(finished, group, directory, progress)
    table = errors(runs)
    return [_outcome(runs, table, replica, p.config) for replica, p in enumerate(group)]


def _run_flow(config: Config) -> Outcome:
    flow, sigma = flow_to_target(config)
    measures = measure(flow.states[-1], sigma, config.k)
    steps = float(flow.times[-1]) / config.learning_rate
    results = {
        "reached": flow.reached,
        "steps_taken": steps,
        "test_error": 1 - measures["test_accuracy"],
        **{name: measures[name] for name in ("w_dot_wstar", "w_perp_norm", "b", "ratio")},
    }
    return Outcome(results, [{"step": steps, **measures}])


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Trains the runs of a group until each has reached the target, or follows a flow to there."""
    if group[0].config.learner == "population":
        return [_run_flow(point.config) for point in group]
    return _run_sgd(group, directory, progress)


# --- claims and report ----------------------------------------------------------------------------

# Nothing is shown of how a quantity grows over fewer k.
LEAST_POINTS = 3
LARGEST_EXPONENT = 1.0
# An exponent is fitted to k from so many times k0 on: near k0 the steps diverge, whatever the
# growth beyond.
PAST_K0 = 16

_Numbers = Shaped[np.ndarray | pd.Series, " n"]


class PowerLaw(NamedTuple):
    """quantity = factor k^exponent, with the 95 % interval of the exponent; NaN for two points."""

    exponent: float
    low: float
    high: float
    factor: float


def fit_power_law(k: _Numbers, quantity: _Numbers, tail: float = TAIL) -> PowerLaw | None:
    """Fits a power law to positive quantities, by least squares on logarithms.

    Student's interval counts deviations from a straight line as noise: of an exact quantity it is
    how straight the line is. None for fewer than two different k.
    """
    k, quantity = np.asarray(k, float), np.asarray(quantity, float)
    if len(np.unique(k)) < 2 or not (quantity > 0).all():
        return None
    fit, reach = scipy.stats.linregress(np.log(k), np.log(quantity)), np.nan
    if len(k) > 2:
        # SciPy has no error of a line through equal numbers, which is 0.
        error = fit.stderr if np.ptp(quantity) else 0.0
        reach = error * scipy.stats.t.isf(tail, len(k) - 2)
    found = (fit.slope, fit.slope - reach, fit.slope + reach, np.exp(fit.intercept))
    return PowerLaw(*map(float, found))


class Growth(NamedTuple):
    """The exponent between two neighbouring k, by seed.

    Its mean may be less by `below`, and more by `above`, as steps are known to within a margin.
    """

    values: pd.Series
    below: float
    above: float

    def ends(self, tail: float) -> tuple[float, float]:
        """Returns Student's interval over seeds, widened by the margin; infinite for one seed."""
        mean, seeds, reach = self.values.mean(), len(self.values), np.inf
        if seeds > 1:
            reach = scipy.stats.t.isf(tail, seeds - 1) * self.values.sem()
        return mean - reach - self.below, mean + reach + self.above


def growths_of(rows: pd.DataFrame, within: float) -> list[Growth]:
    """Returns the exponents of the steps between neighbouring k, over the seeds that both have.

    The steps are too many by less than `within`, the steps between evaluations.
    """
    table = rows.pivot(index="seed", columns="k", values="steps_taken")
    found = []
    for low, high in itertools.pairwise(table.columns):
        both, apart = table[[low, high]].dropna(), np.log(high / low)
        late = np.log(both / (both - within).clip(lower=0.0)).mean() / apart
        values = np.log(both[high] / both[low]) / apart
        found.append(Growth(values, float(late[high]), float(late[low])))
    return found


def course_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows from k0 on: those k from which on every run reached the error."""
    last_missed = rows.loc[~rows["reached"].astype(bool), "k"].max()
    return rows[rows["k"] > last_missed] if last_missed == last_missed else rows


# --- claims -------------------------------------------------------------------------------------


def make_claims(learner: str, noise_scale: float, within: float) -> list[Claim]:
    """Returns the claims of a learner at a scale of the noise.

    Steps on minibatches are known to `within` those between evaluations.
    """
    name, at = name_of(learner, noise_scale), {"learner": learner, "noise_scale": noise_scale}
    exact = learner == "population"

    def course(runs: Runs) -> pd.DataFrame:
        return course_of(runs.where(**at).finished)

    def few(runs: Runs) -> str:
        count = course(runs)["k"].nunique()
        return "" if count >= LEAST_POINTS else f"{count}"

    def reached(rows: pd.DataFrame) -> pd.Series:
        return pd.Series({seed: len(course_of(one)) > 0 for seed, one in rows.groupby("seed")})

    enough = Condition(f"{LEAST_POINTS} k or more from k0 on", few)
    return [
        Claim(
            f"smallest k from which on the error is reached, {name}",
            computed(reached, "steps_taken", exact=exact, **at),
            paper="some k0",
            every=True,
            conditions=(enough,),
            refutable=True,
            ours=lambda runs: f"{course(runs)['k'].min():g}",
        ),
        Claim(
            f"exponent in k of the steps, {name}",
            _growth(at, exact, within),
            paper=f"poly(k): at most {LARGEST_EXPONENT:g} between neighbouring k",
            below=np.nextafter(LARGEST_EXPONENT, np.inf),
            conditions=(enough,),
            primary=noise_scale == 1.0,
        ),
    ]


def _growth(at: dict[str, object], exact: bool, within: float) -> Statistic:
    """Returns the statistic of the largest exponent between neighbouring k.

    For minibatches its upper end is the largest of all intervals over seeds, and its lower end the
    largest of intervals that are wider, as many as there are to choose from (Bonferroni).
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(**at)
        rows = own.finished
        between = growths_of(course_of(rows), 0.0 if exact else within) if len(rows) else []

        def ends(tail: float) -> tuple[float, float]:
            low = max(growth.ends(tail / len(between))[0] for growth in between)
            return low, max(growth.ends(tail)[1] for growth in between)

        means = [growth.values.mean() for growth in between]
        return Sample(
            pd.Series([np.nanmax(means)] if means else [], dtype=float),
            exact=exact,
            lost=own.lost("steps_taken"),
            equal=not exact and own.equal_seeds(),
            units=rows["seed"].nunique(),
            ends=ends,
        )

    return statistic


# --- table and figure ---------------------------------------------------------------------------

_NOTE = (
    "Steps until the exact error is small enough: on minibatches of fresh examples (means over "
    "seeds ± their standard deviation, to within the steps between evaluations), and by the "
    "population gradient's flow (time over learning rate: the limit of small steps). k0 is the "
    "smallest k from which on every run reaches it; below k0 the flow comes to rest at a larger "
    f"error. The figure's exponents are slopes of log steps in log k, over k from {PAST_K0} k0 on "
    f"(from k0 on where those are fewer than {LEAST_POINTS}). The claims' intervals over seeds are "
    "wider by the effect of the steps between evaluations."
)
_COLUMNS = {
    "reached": "share that reaches the error",
    "steps_taken": "steps",
    "samples": "samples",
    "test_error": "error",
    "w_dot_wstar": "w.w*",
    "b": "b",
}


def name_of(learner: str, noise_scale: float) -> str:
    """Returns the name of a series."""
    return f"{'minibatches' if learner == 'sgd' else learner}, noise scale {noise_scale:g}"


def fit_of(course: pd.DataFrame) -> PowerLaw | None:
    """Fits steps against k, from well above k0 on if there are enough k."""
    beyond = course[course["k"] >= PAST_K0 * course["k"].min()]
    rows = beyond if beyond["k"].nunique() >= LEAST_POINTS else course
    return fit_power_law(rows["k"], rows["steps_taken"])


def _draw(done: pd.DataFrame, samples_per_step: int) -> Any:
    """Draws steps (left) and samples (right axis) against k: lines population, points minibatches.

    Crosses at the top are k at which the error is not reached.
    """
    figure, ((axis,),) = subplots(1, 1, 6, 5)
    scales = sorted(done["noise_scale"].unique())
    top = 3 * done.loc[done["reached"], "steps_taken"].max()
    for (learner, scale), rows in done.groupby(["learner", "noise_scale"]):
        color = PALETTE[scales.index(scale) % len(PALETTE)]
        course, missed = rows[rows["reached"]], rows[~rows["reached"]]
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
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns steps and samples for every k, the claims and the figure."""
    by = ["learner", "noise_scale", "k"]
    done = runs.finished.sort_values(by)
    # Flows have no seed, and take no samples.
    done = done.reindex(columns=done.columns.union(["seed", "samples"], sort=False))
    done = done.assign(reached=done["reached"].astype(bool), seed=done["seed"].fillna(0))
    series = done[["learner", "noise_scale"]].drop_duplicates().itertuples(index=False, name=None)
    # Runs that do not reach the error have no steps to it.
    steps = done[["steps_taken", "samples"]].where(done["reached"])
    shown = done.assign(**steps, reached=1.0 * done["reached"])
    return Report(
        tables=[("Steps to the error", table_of_means(shown, by, _COLUMNS))],
        claims=[claim for key in series for claim in make_claims(*key, config.eval_every)],
        runs=runs._replace(finished=done),
        figures={"signal_scaling": functools.partial(_draw, done, config.batch_size)},
        notes=[_NOTE],
    )


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    report_version=3,
    # Runs with other noise scales end at other times, so they would wait for each other.
    varying=lambda config: (
        () if config.learner == "population" else set(experiment.VARYING) - {"noise_scale"}
    ),
    on_host=lambda config: config.learner == "population",
)
