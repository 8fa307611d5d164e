"""The reports on hierarchical targets: errors by series, the paper's claims, the figures."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.hierarchical.alpha_claims import alpha_claims
from lsa_jax.experiments.resnet.hierarchical.claims import (
    at_best_epoch,
    beta_claims,
    early_claims,
    net_claims,
    series_name,
    width_claims,
)
from lsa_jax.experiments.resnet.hierarchical.epoch_claims import epoch_claims
from lsa_jax.experiments.resnet.hierarchical.sample_claims import TASK, sample_claims
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import PALETTE, mark_logarithmic, tidy
from lsa_jax.reporting.report import Claim, Report

# Columns that tables and claims read, also where no run has them.
_NAMES = ("id", "net", "learner", "status")
_NUMBERS = (*TASK, "num_train", "width", "seed", "beta", "alpha", "test_error")

_STYLES = ("-", "--", ":")

_SIGNALS = {
    "first_layer_error": "base signal, first layer's read-out",
    "base_error": "base signal, outputs",
    "composite_error": "composite signal, outputs",
}


def _series_column(fine: pd.DataFrame, question: str) -> pd.Series:
    names = [series_name(n, o) for n, o in zip(fine["net"], fine["learner"], strict=True)]
    if question == "beta":
        names = [f"{n}, beta = {b:g}" for n, b in zip(names, fine["beta"], strict=True)]
    if question in ("alpha", "beta"):
        if fine["num_train"].nunique() > 1:
            names = [f"{n}, N = {size:g}" for n, size in zip(names, fine["num_train"], strict=True)]
    if question == "alpha" and fine["width"].nunique() > 1:
        names = [f"{n}, m = {width:g}" for n, width in zip(names, fine["width"], strict=True)]
    return pd.Series(names, index=fine.index, dtype=object)


def error_table(fine: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Returns median test errors over seeds, and their range, by series and by an axis.

    Args:
        fine: the points that did not fail, with a column `series`.
        axis: the column that becomes columns; a series without it has one column, "limit".
    """
    rows = fine.assign(column=fine[axis].map(lambda v: "limit" if pd.isna(v) else f"{v:g}"))
    order = list(dict.fromkeys(rows.sort_values(axis)["column"]))

    def cell(errors: pd.Series) -> str:
        text = f"{errors.median():.3g}"
        return f"{text} ({errors.min():.3g} to {errors.max():.3g})" if len(errors) > 1 else text

    table = rows.groupby(["series", "column"], sort=False)["test_error"].apply(cell).unstack()
    return table.reindex(columns=order).reset_index().rename_axis(columns=None)


def _winners(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns what each search chose, and each kernel."""
    shown = ["series", *TASK, "num_train", "width", "seed", "test_error", "train_error"]
    shown += ["learning_rate", "weight_decay", "candidates", "candidates_finished"]
    shown += ["ridge", "bandwidth"]
    return fine[[name for name in shown if name in fine]]


def _curves(fine: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns one row an evaluation of every point."""
    parts = []
    for point in fine.to_dict("records"):
        rows = pd.DataFrame(files.read_metrics(workdir, point["id"]))
        for place, name in enumerate(("id", "series", "seed")):
            rows.insert(place, name, point[name])
        parts.append(rows)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _draw_empty() -> Any:
    """Draws an empty figure, where every point failed."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(5, 3))


def _draw_series(axis: Any, rows: pd.DataFrame, x: str) -> None:
    """Draws medians over seeds and their range, a line a series; a series without x is level.

    Of a series with one x there is no range to fill: each of its seeds is a dot.

    The error of not knowing G, k alpha^2, is dotted.
    """
    for place, (name, of_series) in enumerate(rows.groupby("series", sort=False)):
        style = {
            "color": PALETTE[place % len(PALETTE)],
            "ls": _STYLES[place // len(PALETTE) % len(_STYLES)],
            "label": name,
        }
        if of_series[x].isna().all():
            axis.axhline(of_series["test_error"].median(), lw=1, **style)
            continue
        errors = of_series.groupby(x)["test_error"].agg(["median", "min", "max"])
        axis.plot(errors.index, errors["median"], marker="o", markersize=3, **style)
        color = style["color"]
        axis.fill_between(errors.index, errors["min"], errors["max"], color=color, alpha=0.15, lw=0)
        if len(errors) == 1:
            axis.scatter(of_series[x], of_series["test_error"], color=color, alpha=0.4, s=8)
    dotted = {"color": "black", "lw": 0.8, "ls": (0, (1, 3)), "label": "k alpha²"}
    bounds = rows["outputs"] * rows["alpha"] ** 2
    if x == "alpha":
        axis.plot(*zip(*sorted(set(zip(rows[x], bounds, strict=True))), strict=True), **dotted)
    else:
        axis.axhline(bounds.iloc[0], **dotted)
    mark_logarithmic(axis, rows[x].dropna())
    axis.set(yscale="log", ylabel="test error")
    tidy(axis)


def _draw_axis(fine: pd.DataFrame, x: str, label: str) -> Any:
    """Draws the test error of every series against the width, or alpha."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    _draw_series(axis, fine, x)
    axis.set(xlabel=label)
    axis.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_samples(fine: pd.DataFrame) -> Any:
    """Draws the test error of every series against N, a panel a task."""
    import matplotlib.pyplot as plt

    tasks = list(fine.groupby(TASK))
    figure, axes = plt.subplots(
        1, len(tasks), figsize=(1.5 + 4.5 * len(tasks), 4), layout="constrained", squeeze=False
    )
    for axis, ((d, base, composite, _), rows) in zip(axes[0], tasks, strict=True):
        _draw_series(axis, rows, "num_train")
        axis.set(xlabel="N", title=f"d = {d:g}, degree {base:g} x {composite:g}")
        axis.tick_params(axis="x", rotation=45)  # the largest N are near to each other
    axes[0, -1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_epochs(curves: pd.DataFrame) -> Any:
    """Draws what is missed of each signal against the epoch, a panel a series, a line a seed."""
    import matplotlib.pyplot as plt

    series = list(curves.groupby("series", sort=False))
    figure, axes = plt.subplots(
        1,
        len(series),
        figsize=(1 + 3.4 * len(series), 3.6),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for axis, (name, rows) in zip(axes[0], series, strict=True):
        for place, (column, label) in enumerate(_SIGNALS.items()):
            for number, (_, run) in enumerate(rows.groupby("seed")):
                axis.plot(
                    run["epoch"] + 1,
                    run[column],
                    color=PALETTE[place],
                    lw=1.2,
                    label=label if number == 0 else None,
                )
        axis.set(xscale="log", yscale="log", xlabel="epoch + 1", title=name)
        tidy(axis)
    axes[0, 0].set(ylabel="share missed")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


def _notes(config: ml_collections.ConfigDict) -> list[str]:
    search = config.search
    rungs = zip(search.rung_epochs, search.rung_keep, search.kernel_rung_keep, strict=True)
    words = ", ".join(f"{of_net} ({of_kernel}) after {epoch}" for epoch, of_net, of_kernel in rungs)
    kept = (
        "Of the candidates of a search (of a kernel's) those with the least test error go on, at "
        f"most {words} epochs. "
        if words
        else ""
    )
    return [
        "An error is the mean squared distance, summed over the outputs, on "
        f"{config.num_test} fresh examples. Learning rate and weight decay (ridge and bandwidth) "
        "are those with the least test error, as the paper chooses them, so errors are optimistic; "
        "an interval by which a network learns is as wide as that of one of so many. "
        "Errors are those after the last epoch; whether the paper's best results are, or of the "
        "best epoch, it does not say. Cells are medians over seeds and their range; each seed has "
        "its own search.",
        f"{kept}Candidates whose error is not finite, or there above {search.hopeless:g} times the "
        "targets' mean square, are dropped.",
    ]


def _whole(results: pd.DataFrame) -> pd.DataFrame:
    """Returns results with all columns that are read, and without what failed runs measured."""
    runs = results.reindex(columns=list(dict.fromkeys([*results.columns, *_NAMES, *_NUMBERS])))
    runs = runs.assign(**{name: pd.to_numeric(runs[name], errors="coerce") for name in _NUMBERS})
    runs.loc[runs["status"] != "ok", "test_error"] = np.nan
    # Results of before there was the setting have all the outputs that there are.
    return runs.assign(outputs=runs["outputs"].fillna(runs["d"] // runs["base_degree"]))


def _claims(config: ml_collections.ConfigDict, runs: pd.DataFrame) -> list[Claim]:
    """Returns what the paper claims of a sweep's question."""
    claims = {
        "width": lambda: width_claims(config, runs) + early_claims(config, runs),
        "beta": lambda: beta_claims(config, runs),
        "alpha": lambda: alpha_claims(config, runs),
        "nets": lambda: net_claims(config, runs),
        "samples": lambda: sample_claims(config, runs),
        "epochs": lambda: epoch_claims(config, runs),
    }
    return claims[config.question]()


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep, by its question."""
    question, runs = config.question, _whole(results)
    fine = runs[runs["status"] == "ok"].reset_index(drop=True)
    fine = fine.assign(series=_series_column(fine, question))
    curves = _curves(fine, workdir)
    if question == "width":
        least = curves.groupby("id")["test_error"].min() if len(curves) else {}
        runs = runs.assign(least_error=runs["id"].map(least).astype(float))
        fine = fine.assign(least_error=fine["id"].map(least))
    claims = _claims(config, runs)
    tables, draw = [], functools.partial(_draw_empty)
    if len(fine) and question == "epochs":
        shown = ["series", "seed", "base_epoch", "composite_epoch", "first_layer_error"]
        shown += ["base_error", "composite_error", "test_error", "learning_rate", "weight_decay"]
        tables = [("Epochs to half of each signal, and what is missed at the end", fine[shown])]
        draw = functools.partial(_draw_epochs, curves)
    elif len(fine) and question == "samples":
        for task, rows in fine.groupby(TASK):
            heading = "Test error against N, (d, base degree, composite degree, outputs) = "
            tables.append((heading + str(tuple(map(int, task))), error_table(rows, "num_train")))
        draw = functools.partial(_draw_samples, fine)
    elif len(fine) and question == "alpha":
        tables = [("Test error against alpha", error_table(fine, "alpha"))]
        draw = functools.partial(_draw_axis, fine, "alpha", "alpha, weight of G(F)")
    elif len(fine):
        tables = [("Test error against the width m", error_table(fine, "width"))]
        if question == "width":
            heading = "The same at the best of the evaluated epochs of all candidates"
            tables.append((heading, error_table(at_best_epoch(fine), "width")))
        draw = functools.partial(_draw_axis, fine, "width", "m, number of hidden neurons")
    return Report(
        title=config.title,
        tables=[*tables, ("What the searches chose", _winners(fine))],
        claims=claims,
        figures={"hierarchical": draw},
        extra_tables={"curves": curves},
        notes=_notes(config),
    )
