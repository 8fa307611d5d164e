"""The part of a report on measures along training: their curves and their cost.

Any run may have them in its `metrics.jsonl`.
"""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.reporting import files
from lsa_jax.reporting.courses import counter, steps
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.measure_names import EXAMPLES, NAMES, SHARE, is_measure
from lsa_jax.reporting.report import Report


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
    import matplotlib.pyplot as plt

    courses = courses.assign(
        measure=courses["column"].str.split("/").str[0], kind=courses["run"].map(label)
    )
    kinds = list(dict.fromkeys(courses["kind"]))
    names = [name for name in NAMES if (courses["measure"] == name).any()]
    columns = min(len(names), 3)
    lines = -(-len(names) // columns)
    size = 3.4 * columns, 2.8 * lines + (0.17 * -(-len(kinds) // columns) if len(kinds) > 1 else 0)
    figure, grid = plt.subplots(lines, columns, figsize=size, layout="constrained", squeeze=False)
    for name, axis in zip(names, grid.flat, strict=False):
        own, title = courses[courses["measure"] == name], NAMES[name]
        if len(kinds) == 1:
            _draw_lines(axis, own.assign(line=own["column"].str.removeprefix(name).str.strip("/")))
            if own["column"].nunique() > 1:
                axis.legend(frameon=False, fontsize=6)
        else:
            title += "\n(mean of layers)" if own["column"].nunique() > 1 else ""
            mean = own.groupby(["run", "kind", "at"], as_index=False, sort=False)["value"].mean()
            _draw_lines(axis, mean.assign(line=mean["kind"]))
        axis.set(xscale="symlog", xlabel=courses["unit"].iloc[0])
        axis.set_ylabel(title, fontsize=8)
        tidy(axis)
    for axis in grid.flat[len(names) :]:
        axis.set_axis_off()
    if len(kinds) > 1:
        handles = grid.flat[0].get_legend_handles_labels()
        style = {"loc": "outside lower center", "ncols": columns, "frameon": False}
        figure.legend(*handles, **style, fontsize=7)
    return figure


def _draw_lines(axis: Any, courses: pd.DataFrame) -> None:
    """Draws the courses that belong to one line as their mean, for every line."""
    lines = list(dict.fromkeys(courses["line"]))
    colors = list(PALETTE)
    if len(lines) > len(PALETTE):
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        colors = [to_hex(color) for color in colormaps["viridis"](np.linspace(0, 1, len(lines)))]
    for line, color in zip(lines, colors, strict=False):
        rows = courses[courses["line"] == line]
        style = {"color": color, "label": line, "marker": "o", "markersize": 3}
        draw_mean(axis, rows["value"], rows["at"], **style)


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
    """Returns a report with the curves of its runs' measures, if there are any.

    Args:
        report: the experiment's own.
        workdir: of the sweep.
        results: of its runs.
        varying: names of the swept settings, as columns of the results.
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
