"""The report on noise curves: accuracy and percentage retained, against noise, with the claims."""

import functools
import itertools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.lsa import numbers
from lsa_jax.experiments.lsa.noise_curves import learning_curves, updates
from lsa_jax.experiments.lsa.noise_curves.claims import make_claims
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.series import AXES, arrangement_name, curves, runs_of
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import draw_mean, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.write import mean_and_spread


def _wide_table(table: pd.DataFrame, column: str, scale: float, unit: str) -> pd.DataFrame:
    """Returns one row a series and one column a level: mean ± standard deviation."""
    rows = ["arrangement", "series"] if table["arrangement"].any() else ["series"]
    cells = (table[column] * scale).groupby([*(table[row] for row in rows), table["level"]])
    wide = cells.apply(mean_and_spread, ".2f").unstack("level").sort_index(axis=1)
    order = table[rows].drop_duplicates()
    wide = wide.reindex(order[rows[0]] if len(rows) == 1 else pd.MultiIndex.from_frame(order))
    wide.columns = [f"{unit} {level:g}" for level in wide.columns]
    return wide.fillna("").reset_index()


def _colors(table: pd.DataFrame) -> dict[str, str]:
    """Returns the colour of each series: those of its learner in turn."""
    found: dict[str, str] = {}
    for learner, series in table.groupby("learner")["series"]:
        found |= dict(zip(series.unique(), itertools.cycle(LEARNERS[learner].colors), strict=False))
    return found


def draw(table: pd.DataFrame, label: str) -> Any:
    """Draws test accuracy and percentage retained against the level, one row an arrangement.

    Bands are ± 1 standard deviation over seeds.
    """
    import matplotlib.pyplot as plt

    names, colors = list(table["arrangement"].unique()), _colors(table)
    size = (9, 3.6 * len(names) + 0.4)
    figure, grid = plt.subplots(len(names), 2, figsize=size, layout="constrained", squeeze=False)
    panels = (("test_accuracy", 100.0, "test accuracy (%)"), ("retained", 1.0, "% retained"))
    handles: dict[str, Any] = {}
    for name, axes in zip(names, grid, strict=True):
        for axis, (column, scale, quantity) in zip(axes, panels, strict=True):
            of_name = table[table["arrangement"] == name]
            for series, rows in of_name.groupby("series", sort=False):
                style = {"color": colors[series], "label": series, "marker": "o", "markersize": 4}
                draw_mean(axis, scale * rows[column], rows["level"], **style)
            axis.set(xlabel=label, ylabel=quantity, ylim=(0, 103), title=name)
            tidy(axis)
            handles |= {line.get_label(): line for line in axis.get_lines()}
    place = {"loc": "outside lower center", "ncols": min(len(handles), 4), "frameon": False}
    figure.legend(handles=list(handles.values()), **place)
    return figure


def _axis_label(config: ml_collections.ConfigDict) -> str:
    if config.figure_axis == "background_size":
        return "side of the background (pixels)"
    if config.data.background == "gaussian" and config.data.std_power == 2:
        return "square root of the background's standard deviation"
    gaussian = config.data.background in ("gaussian", "none")
    return "standard deviation of the background" if gaussian else "intensity of the background"


def _paper_table(paper_item: str | None) -> list[tuple[str, pd.DataFrame]]:
    """Returns the test accuracies that the paper prints, laid out as ours; none if it has none."""
    cells = numbers.TEST_ACCURACY_PERCENT.get(paper_item, {})
    rows = [
        {"arrangement": arrangement_name(*key), "series": LEARNERS[learner].label}
        | {f"noise {noise:g}": f"{accuracy:.1f}" for noise, accuracy in of.items()}
        for key, accuracies in cells.items()
        for learner, of in accuracies.items()
    ]
    return [("Test accuracy (%) in the paper", pd.DataFrame(rows))] if rows else []


def _seeds(table: pd.DataFrame) -> str:
    """Says how many seeds there are, and which series have fewer."""
    counts = table.groupby("series", sort=False)["seed"].nunique()
    most = int(counts.max()) if len(counts) else 0
    fewer = ", ".join(f"{name} {count}" for name, count in counts.items() if count < most)
    return f"{most} seed(s)" + (f" ({fewer})" if fewer else "")


def _solved_table(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns how systems were solved by iterations, and on centres; none if none was."""
    point = ["series", "level", "seed", "ridge"]
    ways = {
        "by iterations": ["residual", "iterations", "kernel_gigabytes"],
        "by the solver that was chosen": ["solver", "solver_reason"],
        "on centres": ["centres", "examples", "condition", "train_error"],
    }
    return [
        (f"What was solved {way}", table.loc[table[columns[0]].notna(), point + columns])
        for way, columns in ways.items()
        if columns[0] in table
    ]


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns tables, claims and the figure of a sweep over learners, noise or size, and seeds."""
    if config.figure_axis == "num_train":
        return learning_curves.make_report(config, results, workdir)
    if config.figure_axis == "update":
        return updates.make_report(config, results, workdir)
    table, axis, label = curves(results, config), AXES[config.figure_axis], _axis_label(config)
    return Report(
        title=config.title,
        tables=[
            (
                f"Test accuracy (%) against {label}",
                _wide_table(table, "test_accuracy", 100.0, axis.unit),
            ),
            *_paper_table(config.paper_item),
            (
                f"Percentage of {axis.start} accuracy retained",
                _wide_table(table, "retained", 1.0, axis.unit),
            ),
            *_solved_table(table),
        ],
        claims=decide_all(make_claims(config), runs_of(config, results, workdir)),
        figures={"noise_curves": functools.partial(draw, table, label)},
        notes=[f"Means over {_seeds(table)}, ± their standard deviation."],
    )
