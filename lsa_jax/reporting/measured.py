"""What a report says of measures along training: their courses, and what they cost.

Any run may have them in its `metrics.jsonl`; where one has, its sweep's report says so.
"""

import functools
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.reporting import files
from lsa_jax.reporting.courses import counter, steps
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.measure_names import EXAMPLES, NAMES, SHARE, is_measure
from lsa_jax.reporting.report import Report

_MOST_LINES = 8


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
    """Draws each measure in a panel: a line a kind of runs, or a layer, mean ± 1 deviation."""
    import matplotlib.pyplot as plt

    names = [name for name in NAMES if courses["column"].str.split("/").str[0].eq(name).any()]
    columns = min(len(names), 3)
    lines = -(-len(names) // columns)
    figure, grid = plt.subplots(
        lines, columns, figsize=(3.4 * columns, 2.8 * lines), layout="constrained", squeeze=False
    )
    for name, axis in zip(names, grid.flat, strict=False):
        own = courses[courses["column"].str.split("/").str[0] == name]
        keys = own["run"].map(label) + own["column"].str.removeprefix(name)
        for place, (key, rows) in enumerate(own.groupby(keys, sort=False)):
            if place == _MOST_LINES:
                break
            style = {"color": PALETTE[place], "label": key.strip(" /"), "marker": "o"}
            draw_mean(axis, rows["value"], rows["at"], **style, markersize=3)
        axis.set(xscale="symlog", xlabel=courses["unit"].iloc[0], ylabel=NAMES[name])
        tidy(axis)
        if keys.nunique() > 1:
            axis.legend(frameon=False, fontsize=6)
    for axis in grid.flat[len(names) :]:
        axis.set_axis_off()
    return figure


def _labels(results: pd.DataFrame, varying: list[str]) -> dict[str, str]:
    """Returns what each run is called: its settings that are swept, but for the seed."""
    shown = [name for name in varying if name in results and results[name].nunique() > 1]
    return {
        row["id"]: ", ".join(
            f"{name} {row[name]:g}" if isinstance(row[name], int | float) else str(row[name])
            for name in shown
        )
        for _, row in results.iterrows()
    }


def _cost(results: pd.DataFrame) -> str:
    """Says on how much is measured and what it costs."""
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
    """Returns a report with the courses of what its runs measured; as it is where none did.

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
