"""The reports on hierarchical targets: errors by series, claims, figures."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.claims import CLAIMS, series_name
from lsa_jax.experiments.resnet.hierarchical.settings import TASK
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import PALETTE, draw_series, mark_logarithmic, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.fields import Config

_STYLES = ("-", "--", ":")

# Columns of the horizontal axis, and their labels.
_AXES = {
    **dict.fromkeys(("width", "beta", "nets"), ("width", "m, number of hidden neurons")),
    "alpha": ("alpha", "alpha, weight of G(F)"),
    "samples": ("num_train", "N"),
}

_SIGNALS = {
    "first_layer_error": "base signal, first layer's read-out",
    "base_error": "base signal, outputs",
    "composite_error": "composite signal, outputs",
}


def _series_column(runs: pd.DataFrame, question: str) -> list[str]:
    """Returns the names of the series, with the settings that vary apart from the axis."""
    labels = {"beta": {"beta": "beta", "num_train": "N"}, "alpha": {"num_train": "N", "width": "m"}}
    varying = {n: label for n, label in labels.get(question, {}).items() if runs[n].nunique() > 1}
    return [
        ", ".join(
            [series_name(row["net"], row["learner"])]
            + [f"{label} = {row[name]:g}" for name, label in varying.items()]
        )
        for row in runs.to_dict("records")
    ]


def error_table(fine: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Returns median test errors over seeds, and their range, by series and by an axis.

    The axis becomes columns; a series without it has one column, "limit".
    """
    rows = fine.assign(column=fine[axis].map(lambda v: "limit" if pd.isna(v) else f"{v:g}"))
    order = list(dict.fromkeys(rows.sort_values(axis)["column"]))

    def cell(errors: pd.Series) -> str:
        text = f"{errors.median():.3g}"
        return f"{text} ({errors.min():.3g} to {errors.max():.3g})" if len(errors) > 1 else text

    table = rows.groupby(["series", "column"], sort=False)["test_error"].apply(cell).unstack()
    return table.reindex(columns=order).reset_index().rename_axis(columns=None)


def _draw_series(axis: Any, rows: pd.DataFrame, x: str) -> None:
    """Draws medians and ranges over seeds, a line a series; one without x is level.

    The error of not knowing G, k alpha^2, is dotted.
    """
    for place, (name, own) in enumerate(rows.groupby("series", sort=False)):
        color = PALETTE[place % len(PALETTE)]
        style = {"color": color, "ls": _STYLES[place // len(PALETTE) % len(_STYLES)]}
        if own[x].isna().all():
            axis.axhline(own["test_error"].median(), lw=1, label=name, **style)
            continue
        errors = own.groupby(x)["test_error"].agg(["median", "min", "max"])
        axis.plot(errors.index, errors["median"], marker="o", markersize=3, label=name, **style)
        axis.fill_between(errors.index, errors["min"], errors["max"], alpha=0.15, color=color, lw=0)
    bounds = (rows["outputs"] * rows["alpha"] ** 2).groupby(rows[x]).first()
    axis.plot(bounds.index, bounds, color="black", lw=0.8, ls=(0, (1, 3)), label="k alpha²")
    mark_logarithmic(axis, bounds.index)
    axis.tick_params(axis="x", rotation=45)  # the largest N are near to each other
    axis.set(yscale="log", ylabel="test error")


def _draw(fine: pd.DataFrame, x: str, label: str) -> Any:
    """Draws the test error of every series against the width, alpha or N, a panel a task."""
    tasks = list(fine.groupby(TASK))
    figure, axes = subplots(1, len(tasks), 4.5, 4.5)
    for axis, ((d, base, composite, _), rows) in zip(axes[0], tasks, strict=True):
        _draw_series(axis, rows, x)
        axis.set(xlabel=label, title=f"d = {d:g}, degree {base:g} x {composite:g}")
    axes[0, -1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_epochs(curves: pd.DataFrame) -> Any:
    """Draws the missed shares against the epoch, a panel a series, a line a seed."""
    series = list(curves.groupby("series", sort=False))
    figure, axes = subplots(1, len(series), 3.4, 3.6, sharey=True)
    for axis, (name, rows) in zip(axes[0], series, strict=True):
        shares = rows.rename(columns=_SIGNALS).assign(at=rows["epoch"] + 1)
        shares = shares.melt(["at", "seed"], list(_SIGNALS.values()), "signal", "missed")
        draw_series(axis, shares, "at", "missed", "signal", each="seed", lw=1.2)
        axis.set(xscale="log", yscale="log", xlabel="epoch + 1", title=name)
    axes[0, 0].set(ylabel="share missed")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


def _notes(config: Config) -> list[str]:
    search = config.search
    rungs = zip(search.rung_epochs, search.rung_keep, search.kernel_rung_keep, strict=True)
    words = ", ".join(f"{of_net} ({of_kernel}) after {epoch}" for epoch, of_net, of_kernel in rungs)
    kept = f"Searches (of kernels) keep the candidates of least test error: {words} epochs. "
    return [
        "An error is the mean squared distance, summed over the outputs, on "
        f"{config.num_test} fresh examples. Learning rate and weight decay (ridge and bandwidth) "
        "have the least test error, as in the paper, so errors are optimistic; intervals of "
        "networks that learn allow for the choice. Errors are those after the last epoch; the "
        "paper does not say which epoch it reports. Cells are medians over seeds and their range; "
        "each seed has its own examples and search.",
        f"{kept if words else ''}Candidates whose error is not finite, or there above "
        f"{search.hopeless:g} times the targets' mean square, are dropped.",
    ]


def runs_of(config: Config, runs: Runs) -> Runs:
    """Returns the runs with the columns of the claims."""
    rows, planned = runs.finished, runs.planned
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, "width", "test_error"])))
    if "d" in planned:  # a task of three numbers has all outputs
        every = planned["d"] // planned["base_degree"]
        planned = planned.assign(outputs=planned.get("outputs", every).fillna(every))
    exact = rows["learner"] == "ntk_exact"
    return runs._replace(planned=planned, finished=rows).assign(
        num_test=np.where(exact, config.num_exact_test, config.num_test),
        error_over_alpha4=rows["test_error"] / rows["alpha"] ** 4,
    )


def _tables(question: str, fine: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns the errors of every series, a table a task, or the epochs of both signals."""
    if question == "epochs":
        columns = ["series", "seed", "base_epoch", "composite_epoch", *_SIGNALS, "test_error"]
        heading = "Epochs to half of each signal, and the share missed at the end"
        return [(heading, fine.reindex(columns=columns))]
    (axis, label), tables = _AXES[question], []
    for task, rows in fine.groupby(TASK):
        of = ", (d, base degree, composite degree, outputs) = " + str(tuple(map(int, task)))
        heading = f"Test error against {label}{of if question == 'samples' else ''}"
        tables.append((heading, error_table(rows, axis)))
    return tables


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep, by its question."""
    question, runs = config.question, runs_of(config, runs)
    fine = runs.finished.assign(series=_series_column(runs.finished, question))
    curves = files.read_histories(workdir, fine, ["id", "series", "seed"])
    draw = functools.partial(_draw_epochs, curves)
    if question != "epochs":
        draw = functools.partial(_draw, fine, *_AXES[question])
    return Report(
        tables=_tables(question, fine),
        claims=CLAIMS[question](config),
        runs=runs,
        figures={"hierarchical": draw},
        extra_tables={"curves": curves},
        notes=_notes(config),
    )
