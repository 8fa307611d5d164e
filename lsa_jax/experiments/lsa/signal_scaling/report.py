"""The report on theorem 1: steps to a small error against k, with fitted exponents."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal_scaling.claims import (
    LARGEST_EXPONENT,
    PAST_K0,
    course_of,
    fit_of,
    make_claims,
    name_of,
)
from lsa_jax.experiments.lsa.signal_scaling.fits import LEAST_POINTS
from lsa_jax.experiments.lsa.signal_scaling.settings import SETTINGS
from lsa_jax.experiments.lsa.tables import with_settings
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

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
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
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
    axis.grid(alpha=0.3)
    axis.spines[["top"]].set_visible(False)
    if axis.lines:
        figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns steps and samples for every k, the fits, the claims and the figure."""
    del workdir
    done = results[results["status"] == "ok"]
    done = with_settings(done, config, ["learner", "noise_scale", "k", "seed"])
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
