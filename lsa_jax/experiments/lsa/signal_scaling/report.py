"""The report on theorem 1: steps to a small error against k, with fitted exponents."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections
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
from lsa_jax.experiments.lsa.signal_scaling.settings import sweep
from lsa_jax.reporting.claims import cell, decide, every, not_run
from lsa_jax.reporting.curves import PALETTE
from lsa_jax.reporting.doubts import doubted, lost_runs, no_sample
from lsa_jax.reporting.report import Claim, Report

# Theorem 1's "polynomial" counts as shown when steps never grow faster than linearly in k, between
# neighbouring k, over at least `LEAST_POINTS` of them.
LARGEST_EXPONENT = 1.0

# An exponent is fitted to k from so many times k0 on: near k0 the steps diverge, whatever the
# growth beyond.
PAST_K0 = 16

_NAMES = {"sgd": "minibatches", "population": "population"}

_NOTE = (
    "Steps until the exact error is at most {target:g}, at learning rate {rate:g}: on minibatches "
    "of {batch} fresh examples (means over seeds ± their standard deviation, to within {every} "
    "steps), and by the population gradient's flow (time over learning rate: the limit of small "
    "steps). k0 is the smallest k from which on every run reaches it; below k0 the flow comes to "
    "rest at a larger error. An exponent is the slope of log steps in log k, ± its standard error, "
    "with the 95% interval, over k from {past} k0 on (from k0 on where those are fewer than "
    "{points}); the population's steps are exact, and their error only says how straight the line "
    "is. Samples are steps times the batch size: the same exponent. Polynomial growth counts as "
    "shown when the error is reached at {points} k or more from k0 on, and steps grow at most like "
    "k^{largest:g} between neighbouring k: of minibatches, the upper ends of all 95 % intervals "
    "over seeds (Student's t), each wider by what {every} steps make of it. Refuting it takes a "
    "lower end above that, of intervals as much wider as there are to choose from (Bonferroni)."
)


def _with_defaults(config: ml_collections.ConfigDict, results: pd.DataFrame) -> pd.DataFrame:
    """Returns the runs that did not fail, with the settings that were not swept (single points)."""
    done = results[results["status"] == "ok"]
    missing = [name for name in ("learner", "noise_scale", "k", "seed") if name not in done]
    return done.assign(**{name: config[name] for name in missing})


def series(done: pd.DataFrame) -> dict[tuple[str, float], pd.DataFrame]:
    """Returns the runs of every learner and noise scale, k increasing."""
    groups = done.sort_values("k").groupby(["learner", "noise_scale"], sort=True)
    return dict(iter(groups))


def _name(learner: str, noise_scale: float) -> str:
    return f"{_NAMES[learner]}, noise scale {noise_scale:g}"


def _course(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows from k0 on: those k from which on every run reached the error."""
    first = reached_from(rows["k"], rows["reached"])
    return rows[rows["k"] >= (np.inf if first is None else first)]


def _fit(course: pd.DataFrame) -> PowerLaw | None:
    """Fits steps against k, from well above k0 on if there are enough k."""
    beyond = course[course["k"] >= PAST_K0 * course["k"].min()]
    rows = beyond if beyond["k"].nunique() >= LEAST_POINTS else course
    return fit_power_law(rows["k"], rows["steps_taken"])


def table(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns a row a k: how many runs reached the error, after how many steps and samples."""
    parts = []
    for k, runs in rows.groupby("k"):
        reached = runs[runs["reached"].astype(bool)]
        entry = {"k": k, "reached": f"{len(reached)} of {len(runs)}"}
        for name in ("steps_taken", "samples"):
            if name in rows and rows[name].notna().any():
                entry[name.replace("_taken", "")] = cell(reached[name], ".5g", ".2g")
        entry["error"] = runs["test_error"].mean()
        entry["w.w*"], entry["b"] = runs["w_dot_wstar"].mean(), runs["b"].mean()
        parts.append(entry)
    return pd.DataFrame(parts)


def _growth_claim(item: str, fit: PowerLaw, course: pd.DataFrame, within: float | None) -> Claim:
    """Tells whether steps grow at most like the bound between all neighbouring k.

    Args:
        item: what is compared, in words.
        fit: of all steps.
        course: the rows from k0 on.
        within: steps to within which those of minibatches are known; None of the population's,
            which are exact.
    """
    take = ""
    if within is None:
        k, steps = (course[name].to_numpy(float) for name in ("k", "steps_taken"))
        low = high = largest = float(local_exponents(k, steps).max())
    else:
        growths = growths_of(course["k"], course["seed"], course["steps_taken"], within)
        pairs = len(growths)
        largest = np.nanmax([-np.inf, *(growth.interval.mean for growth in growths)])
        low = max(growth.low(pairs) for growth in growths)
        last = max(growths, key=lambda growth: growth.high)
        high, take = last.high, last.would_take(LARGEST_EXPONENT, pairs)
    ours = describe(fit, interval=True)
    if np.isfinite(largest):  # where neighbours have a seed in common
        ours += f", between neighbours at most {largest:.2f}"
    status = decide(low, high, -np.inf, np.nextafter(LARGEST_EXPONENT, np.inf))
    ends = [round(end, 4) if np.isfinite(end) else None for end in (low, high)]
    note = f"it would take {take}" if status == "undecided" else ""
    return Claim(item, "poly(k)", ours, None, status, *ends, note)


def _claims_of(learner: str, name: str, rows: pd.DataFrame, within: float) -> list[Claim]:
    course = _course(rows)
    first = f"{course['k'].min():g}" if len(course) else f"none up to {rows['k'].max():g}"
    enough = course["k"].nunique() >= LEAST_POINTS
    few = "" if enough else f"it would take {LEAST_POINTS} k"
    item = f"smallest k from which on the error is reached, {name}"
    claims = [every(item, "some k0", [len(course) > 0], first, unless=few)]
    item, fit = f"exponent in k of the steps, {name}", _fit(course)
    if fit is None:
        return [*claims, every(item, "poly(k)", [False], "no fit")]
    growth = _growth_claim(item, fit, course, None if learner == "population" else within)
    return [*claims, doubted(growth, [few])]


def make_claims(
    done: pd.DataFrame, planned: Sequence[Mapping[str, object]] = (), within: float = 0.0
) -> list[Claim]:
    """Returns what theorem 1 says beside what came out.

    Seeds that are equal decide nothing, and what is left where others failed shows nothing.

    Args:
        done: the runs that did not fail.
        planned: settings of those that the sweep asks for.
        within: steps between evaluations, to within which those of minibatches are known.
    """
    if done.empty:
        return [not_run("exponent in k of the steps", "poly(k)")]
    claims = []
    for (learner, scale), rows in series(done).items():
        asked = [p for p in planned if (p["learner"], p["noise_scale"]) == (learner, scale)]
        lost, same = lost_runs(asked, rows), ""
        if learner != "population":
            same = no_sample(rows, ["steps_taken", "test_error"], ["k"])
        own = _claims_of(learner, _name(learner, scale), rows, within)
        claims += [doubted(claim, [lost], [same]) for claim in own]
    return claims


def draw(done: pd.DataFrame, samples_per_step: int) -> Any:
    """Draws steps (left) and samples (right axis) against k: lines population, points minibatches.

    Crosses at the top are k at which the error is not reached.
    """
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
    scales = sorted(done["noise_scale"].unique())
    reached = done[done["reached"].astype(bool)]
    top = 3 * reached["steps_taken"].max() if len(reached) else 1.0
    for (learner, scale), rows in series(done).items():
        color = PALETTE[scales.index(scale) % len(PALETTE)]
        course, missed = rows[rows["reached"].astype(bool)], rows[~rows["reached"].astype(bool)]
        label = _name(learner, scale)
        fit = _fit(_course(rows))
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
    axis.grid(alpha=0.3)
    axis.spines[["top"]].set_visible(False)
    if axis.lines:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns steps and samples for every k, the fits, the claims and the figure."""
    del workdir
    done = _with_defaults(config, results)
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
        tables=[(_name(*key).capitalize(), table(rows)) for key, rows in series(done).items()],
        claims=make_claims(done, sweep(config), config.eval_every),
        figures={"signal_scaling": functools.partial(draw, done, config.batch_size)},
        notes=[note],
    )
