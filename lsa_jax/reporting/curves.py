"""Figures: colours, axes, a mean over seeds, and the curves of measures along training."""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.reporting import files
from lsa_jax.reporting.courses import EXAMPLES, NAMES, SHARE, counter, is_measure, steps
from lsa_jax.reporting.report import Report

# Colours that also colour-blind readers tell apart: Okabe and Ito (2008).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def shades(count: int, last: float = 0.9) -> list[str]:
    """Returns so many colours of an ordered setting, from dark to light (1 is yellow)."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    return [*map(to_hex, colormaps["viridis"](np.linspace(0, last, count)))]


def subplots(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Any, Any]:
    """Returns a figure of panels, each of this size in inches, and its axes [rows, columns].

    Panels have a light grid and no frame above and to the right; options are those of
    `pyplot.subplots`.
    """
    import matplotlib.pyplot as plt  # seconds of import, which figures alone need

    size = {"figsize": (width * columns, height * rows), "layout": "constrained"}
    figure, axes = plt.subplots(rows, columns, squeeze=False, **size, **options)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def panels_of(count: int, columns: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """Returns a figure of so many panels of this size, in rows of so many columns, and its axes."""
    columns = min(count, columns)
    figure, axes = subplots(-(-count // columns), columns, width, height)
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def draw_mean(
    axis: Any,
    values: pd.Series,
    x: pd.Series,
    *,
    color: str,
    limits: tuple[float, float] = (-np.inf, np.inf),
    **style: Any,
) -> None:
    """Draws the mean of the values at each x, in a band of one standard deviation.

    The band ends at `limits`, which the values cannot leave; the style is the line's.
    """
    stats = values.groupby(x).agg(["mean", "std"])
    axis.plot(stats.index, stats["mean"], color=color, **style)
    low, high = stats["mean"] - stats["std"], stats["mean"] + stats["std"]
    axis.fill_between(
        stats.index, low.clip(limits[0]), high.clip(upper=limits[1]), color=color, alpha=0.2, lw=0
    )


def draw_series(
    axis: Any,
    table: pd.DataFrame,
    x: str,
    y: str,
    by: str,
    *,
    each: str | None = None,
    **style: Any,
) -> None:
    """Draws a column `y` against another `x`, with a colour and a label for each group of `by`.

    Groups are drawn in the order of their first rows. `each` is the column of a group's lines, such
    as the run; None draws the mean as `draw_mean` does. The style is that of all lines.
    """
    groups = table.groupby(by, sort=False)
    colors = PALETTE if groups.ngroups <= len(PALETTE) else shades(groups.ngroups, 1.0)
    for (name, own), color in zip(groups, colors, strict=False):
        look = {"color": color, "label": str(name)} | style
        if each is None:
            draw_mean(axis, own[y], own[x], **look)
            continue
        for _, line in own.groupby(each, sort=False):
            axis.plot(line[x], line[y], **look)
            look["label"] = None


def legend_below(figure: Any, *axes: Any, **style: Any) -> None:
    """Draws one legend below all panels, with each label of these axes once."""
    pairs = (pair for axis in axes for pair in zip(*axis.get_legend_handles_labels(), strict=True))
    handles = {label: handle for handle, label in pairs}
    place = {"loc": "outside lower center", "frameon": False} | style
    figure.legend(list(handles.values()), list(handles), **place)


def mark_logarithmic(axis: Any, values: Iterable[float], **style: Any) -> None:
    """Makes the x axis logarithmic, with a labelled tick at each of the values and none between."""
    from matplotlib.ticker import NullFormatter

    places = sorted(set(values))
    axis.set_xscale("log")
    axis.set_xticks(places, [f"{place:g}" for place in places], **style)
    axis.xaxis.set_minor_formatter(NullFormatter())  # its labels would lie on each other


# --- measures along training ---------------------------------------------------------------------


def _courses(workdir: Path, results: pd.DataFrame) -> pd.DataFrame:
    """Returns the measures of all runs, a row each: run, place, column and value."""
    rows = []
    for run_id in results.loc[results["status"] == "ok", "id"]:
        history = [
            row for row in files.read_all_metrics(workdir, run_id) if any(map(is_measure, row))
        ]
        for place, row in zip(steps(history), history, strict=True):
            rows += [
                {"run": run_id, "unit": counter(history), "at": place, "column": name, "value": v}
                for name, v in row.items()
                if is_measure(name) and isinstance(v, int | float)
            ]
    return pd.DataFrame(rows, columns=["run", "unit", "at", "column", "value"])


def _draw(courses: pd.DataFrame, label: dict[str, str]) -> Any:
    """Draws each measure in a panel, mean ± 1 deviation: a line a kind of runs.

    Of several kinds the mean of layers is drawn, below one legend for all panels; of one kind a
    line a layer.
    """
    courses = courses.assign(
        measure=courses["column"].str.split("/").str[0], kind=courses["run"].map(label)
    )
    kinds = courses["kind"].nunique()
    names = [name for name in NAMES if (courses["measure"] == name).any()]
    columns, style = min(len(names), 3), {"marker": "o", "markersize": 3}
    figure, axes = panels_of(len(names), 3, 3.4, 2.8)
    for name, axis in zip(names, axes, strict=True):
        own, title = courses[courses["measure"] == name], NAMES[name]
        several = own["column"].nunique() > 1
        if kinds == 1:
            layers = own.assign(line=own["column"].str.removeprefix(name).str.strip("/"))
            draw_series(axis, layers, "at", "value", "line", **style)
            if several:
                axis.legend(frameon=False, fontsize=6)
        else:
            title += "\n(mean of layers)" * several
            mean = own.groupby(["run", "kind", "at"], as_index=False, sort=False)["value"].mean()
            draw_series(axis, mean, "at", "value", "kind", **style)
        axis.set(xscale="symlog", xlabel=courses["unit"].iloc[0])
        axis.set_ylabel(title, fontsize=8)
    if kinds > 1:
        figure.set_figheight(figure.get_figheight() + 0.17 * -(-kinds // columns))  # the legend's
        legend_below(figure, axes[0], ncols=columns, fontsize=7)
    return figure


def _labels(results: pd.DataFrame, varying: list[str]) -> dict[str, str]:
    """Returns a label for each run: its swept settings, without the seed."""
    shown = [name for name in varying if name in results and results[name].nunique() > 1]
    return {
        row["id"]: ", ".join(
            f"{name} {row[name]:g}" if isinstance(row[name], int | float) else str(row[name])
            for name in shown
            if pd.notna(row[name])
        )
        for _, row in results.iterrows()
    }


def _cost(results: pd.DataFrame) -> str:
    """Returns a sentence on the measured examples and the cost of measuring."""
    taken = results[results[EXAMPLES].notna()]
    counts = sorted({int(count) for count in taken[EXAMPLES]})
    words = "Measures are taken "
    if counts[-1]:  # else they are of the weights alone
        words += f"on {' to '.join(map(str, counts[:: max(len(counts) - 1, 1)]))}"
        words += " training examples of each run, "
    words += "at the start, the end and steps between on a logarithmic scale"
    if SHARE in taken and taken[SHARE].notna().any():
        words += f"; that took {100 * taken[SHARE].median():.1f} % of the time of training"
    return f"{words}."


def with_measures(
    report: Report, workdir: Path, results: pd.DataFrame, varying: list[str]
) -> Report:
    """Returns an experiment's report with the curves of its runs' measures, if there are any.

    `varying` are names of the swept settings, as columns of the results.
    """
    if EXAMPLES not in results or results[EXAMPLES].isna().all():
        return report
    courses = _courses(workdir, results)
    if courses.empty:
        return report
    label = _labels(results[results[EXAMPLES].notna()], [n for n in varying if n != "seed"])
    figure = functools.partial(_draw, courses, label)
    return report._replace(
        figures=report.figures | {"measures": figure}, notes=[*report.notes, _cost(results)]
    )
