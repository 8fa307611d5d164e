"""The reports on hierarchical targets: errors by series, claims, figures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.claims import CLAIMS, series_name
from lsa_jax.experiments.resnet.hierarchical.settings import SETTINGS, TASK
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, mark_logarithmic, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs

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
    labels = {"beta": "beta", "num_train": "N", "width": "m"}
    of = {"beta": ("beta", "num_train"), "alpha": ("num_train", "width")}.get(question, ())
    varying = [name for name in of if runs[name].nunique() > 1 or name == "beta"]
    return [
        series_name(row["net"], row["learner"])
        + "".join(f", {labels[name]} = {row[name]:g}" for name in varying)
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

    Seeds of a series with one x are dots. The error of not knowing G, k alpha^2, is dotted.
    """
    for place, (name, own) in enumerate(rows.groupby("series", sort=False)):
        color = PALETTE[place % len(PALETTE)]
        dashes = _STYLES[place // len(PALETTE) % len(_STYLES)]
        style, fill = {"color": color, "ls": dashes, "label": name}, {"color": color, "lw": 0}
        if own[x].isna().all():
            axis.axhline(own["test_error"].median(), lw=1, **style)
            continue
        errors = own.groupby(x)["test_error"].agg(["median", "min", "max"])
        axis.plot(errors.index, errors["median"], marker="o", markersize=3, **style)
        axis.fill_between(errors.index, errors["min"], errors["max"], alpha=0.15, **fill)
        if len(errors) == 1:
            axis.scatter(own[x], own["test_error"], alpha=0.4, s=8, **fill)
    dotted = {"color": "black", "lw": 0.8, "ls": (0, (1, 3)), "label": "k alpha²"}
    bounds = rows["outputs"] * rows["alpha"] ** 2
    if x == "alpha":
        axis.plot(*zip(*sorted(set(zip(rows[x], bounds, strict=True))), strict=True), **dotted)
    else:
        axis.axhline(bounds.iloc[0], **dotted)
    mark_logarithmic(axis, rows[x].dropna())
    axis.set(yscale="log", ylabel="test error")
    tidy(axis)


def _draw(fine: pd.DataFrame, x: str, label: str) -> Any:
    """Draws the test error of every series against the width, alpha or N, a panel a task."""
    import matplotlib.pyplot as plt

    tasks = list(fine.groupby(TASK))
    size = (3 + 4.5 * len(tasks), 4.5)
    figure, axes = plt.subplots(1, len(tasks), figsize=size, layout="constrained", squeeze=False)
    for axis, ((d, base, composite, _), rows) in zip(axes[0], tasks, strict=True):
        _draw_series(axis, rows, x)
        axis.set(xlabel=label, title=f"d = {d:g}, degree {base:g} x {composite:g}")
        axis.tick_params(axis="x", rotation=45)  # the largest N are near to each other
    axes[0, -1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_epochs(curves: pd.DataFrame) -> Any:
    """Draws the missed shares against the epoch, a panel a series, a line a seed."""
    import matplotlib.pyplot as plt

    series = list(curves.groupby("series", sort=False))
    options = {"figsize": (1 + 3.4 * len(series), 3.6), "squeeze": False, "sharey": True}
    figure, axes = plt.subplots(1, len(series), layout="constrained", **options)
    for axis, (name, rows) in zip(axes[0], series, strict=True):
        for color, (column, label) in zip(PALETTE, _SIGNALS.items(), strict=False):
            for number, (_, run) in enumerate(rows.groupby("seed")):
                style = {"color": color, "label": None if number else label}
                axis.plot(run["epoch"] + 1, run[column], lw=1.2, **style)
        axis.set(xscale="log", yscale="log", xlabel="epoch + 1", title=name)
        tidy(axis)
    axes[0, 0].set(ylabel="share missed")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


def _notes(config: ml_collections.ConfigDict) -> list[str]:
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


def runs_of(
    config: ml_collections.ConfigDict,
    results: pd.DataFrame,
    kept: dict[str, outcomes.Outcomes] | None = None,
) -> Runs:
    """Returns the runs with the columns of the claims; each seed has its own test set."""
    whole = results.reindex(columns=list(dict.fromkeys([*results, "width", "test_error"])))
    exact = whole["learner"] == "ntk_exact"
    whole = whole.assign(
        num_test=np.where(exact, config.num_exact_test, config.num_test),
        error_over_alpha4=whole["test_error"] / whole["alpha"] ** 4,
    )
    points = [  # a task of three numbers has all outputs
        {"outputs": point["d"] // point["base_degree"]} | point if "d" in point else point
        for point in SETTINGS.sweep(config)
    ]
    return Runs.of(points, whole, kept, fresh=True)


def _tables(question: str, fine: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns the errors of every series, a table a task, and the choices of the searches."""
    chosen = ["series", *TASK, "num_train", "width", "seed", "test_error", "train_error"]
    chosen += ["learning_rate", "weight_decay", "candidates", "candidates_finished"]
    chosen += ["ridge", "bandwidth"]
    last = ("The choices of the searches", fine[[name for name in chosen if name in fine]])
    if question == "epochs":
        shown = ["series", "seed", "base_epoch", "composite_epoch", "first_layer_error"]
        shown += ["base_error", "composite_error", "test_error", "learning_rate", "weight_decay"]
        return [
            ("Epochs to half of each signal, and the share missed at the end", fine[shown]),
            last,
        ]
    (axis, label), tables = _AXES[question], []
    for task, rows in fine.groupby(TASK):
        of = ", (d, base degree, composite degree, outputs) = " + str(tuple(map(int, task)))
        heading = f"Test error against {label}{of if question == 'samples' else ''}"
        tables.append((heading, error_table(rows, axis)))
    if question == "width":
        heading = "The same at the best of the evaluated epochs of all candidates"
        best = fine.assign(test_error=fine["least_error"])
        tables.append((heading, error_table(best, axis)))
    return [*tables, last]


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep, by its question."""
    question = config.question
    runs = runs_of(config, results, outcomes.read(workdir, results["id"]))
    fine = runs.finished.assign(series=_series_column(runs.finished, question))
    curves = files.read_histories(workdir, fine, ["id", "series", "seed"])
    fine = fine.assign(least_error=fine["id"].map(curves.groupby("id")["test_error"].min()))
    draw = functools.partial(_draw_epochs, curves)
    if question != "epochs":
        draw = functools.partial(_draw, fine, *_AXES[question])
    return Report(
        title=config.title,
        tables=_tables(question, fine),
        claims=decide_all(CLAIMS[question](config), runs._replace(finished=fine)),
        figures={"hierarchical": draw},
        extra_tables={"curves": curves},
        notes=_notes(config),
    )
