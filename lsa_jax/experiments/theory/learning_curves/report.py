"""The report: errors against the number of examples, measured and predicted."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.theory.learning_curves.claims import MARGIN, exponent, make_claims
from lsa_jax.experiments.theory.learning_curves.settings import (
    CHANGES,
    LEARNERS,
    TASKS,
    pool_of,
)
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

_COLORS = dict(zip(LEARNERS, (*PALETTE[:5], PALETTE[6]), strict=True))
_LINES = dict(zip(CHANGES, ("-", "--", ":", "-.", (0, (1, 4))), strict=True))
_RATIOS = {
    "ratio": "predicted",
    "kare_ratio": "KARE",
    "leave_one_out_ratio": "leave-one-out",
}
_POWERS = "power_"


def _errors(table: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a task, kernel, change and number of examples."""
    rows = []
    names = ["task", "learner", "change", "num_train"]
    for (task, learner, change, count), own in table.groupby(names, sort=False):
        row = {"data": TASKS[task].label, "learner": LEARNERS[learner], "pool": CHANGES[change]}
        row |= {"n": count, "error": mean_and_spread(own["test_error"], ".3f")}
        for column, words in _RATIOS.items():
            row[f"{words} / error"] = mean_and_spread(own.get(column, pd.Series()), ".3f")
        row["accuracy (%)"] = mean_and_spread(100 * own["test_accuracy"], ".1f")
        rows.append(row)
    return pd.DataFrame(rows)


def _exponents(runs: Runs, config: Config) -> pd.DataFrame:
    """Returns one row a task and learner: the power of n with which its error falls."""
    return pd.DataFrame(
        {
            "data": TASKS[task].label,
            "learner": LEARNERS[learner],
            "exponent": mean_and_spread(exponent(task, learner)(runs).values, ".3f"),
        }
        for task in config.sweep.task
        for learner in config.sweep.learner
    )


def _draw_curves(axis: Any, table: pd.DataFrame) -> None:
    for learner, own in table.groupby("learner", sort=False):
        style = {"color": _COLORS[learner], "marker": "o", "markersize": 4}
        predicted = own["predicted_test"] if "predicted_test" in own else pd.Series(np.nan)
        alone = predicted.isna().all()
        style |= {"linestyle": "-" if alone else "", "label": LEARNERS[learner]}
        draw_mean(axis, own["test_error"], own["num_train"], **style)
        if not alone:
            means = predicted.groupby(own["num_train"]).mean()
            axis.plot(means.index, means, color=_COLORS[learner], lw=1.2)


def draw(table: pd.DataFrame, tasks: tuple[str, ...]) -> Any:
    """Draws errors with predictions, targets' power in the first modes, and ratios of errors."""
    figure, grid = subplots(3, len(tasks), 4.4, 2.9)
    for axis in grid[2, 1:]:
        axis.sharey(grid[2, 0])
    largest = table["num_train"].max()
    for column, task in enumerate(tasks):
        of_task = table[table["task"] == task]
        own = of_task[of_task["change"] == "none"]
        errors, power, ratios = grid[:, column]
        _draw_curves(errors, own)
        errors.set(title=TASKS[task].label, yscale="log", xlabel="examples n", ylabel="error")
        columns = [name for name in own if name.startswith(_POWERS)]
        kernel = own[own["learner"] != "network"]
        # Kernels that are trained on n: those of the largest n.
        kernel = kernel[(kernel["learner"] != "ntk_trained") | (kernel["num_train"] == largest)]
        for learner, rows in kernel.groupby("learner", sort=False):
            counts = [int(name.removeprefix(_POWERS)) for name in columns]
            power.plot(counts, rows[columns].mean(), color=_COLORS[learner], marker="o", ms=3)
        power.set(xscale="log", xlabel="modes", ylabel="targets' power in the first modes")
        for (learner, change), rows in of_task.groupby(["learner", "change"], sort=False):
            if "ratio" in rows and rows["ratio"].notna().any() and learner != "ntk_trained":
                means = rows.groupby("num_train")["ratio"].mean()
                label = CHANGES[change] if learner == "ntk_infinite" else None
                style = {"color": _COLORS[learner], "linestyle": _LINES[change], "label": label}
                ratios.plot(means.index, means, marker=".", **style)
        ratios.axhspan(1 - MARGIN, 1 + MARGIN, color="grey", alpha=0.15)
        ratios.set(xlabel="examples n", ylabel="predicted / measured")
        if of_task["change"].nunique() > 1:
            ratios.legend(frameon=False, fontsize=7, title="pool of the infinite NTK")
        for axis in (errors, ratios):
            mark_logarithmic(axis, own["num_train"])
    grid[0, -1].legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns tables, claims and the figure."""
    del workdir
    table, tasks = runs.finished, config.sweep.task
    pools = ", ".join(f"{TASKS[task].label} {pool_of(config, task)}" for task in tasks)
    return Report(
        tables=[("Errors", _errors(table)), ("Exponents", _exponents(runs, config))],
        claims=make_claims(config),
        figures={"learning_curves": functools.partial(draw, table, tasks)},
        notes=[
            f"Means over {table['seed'].nunique()} seed(s), ± their standard deviation. Errors are "
            "squared distances over the targets' variance, of the pool's examples that were not "
            f"drawn. Pools: {pools}. A kernel's error in a seed is the mean over "
            f"{config.draws} draws; network and kernels trained on n have one. Points are "
            "measured, lines without points predicted."
        ],
    )
