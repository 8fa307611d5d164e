"""The report on input structure: accuracy on real and on injected inputs, loss by size."""

import functools
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.experiments.feature_learning.input_structure.claims import (
    CHOSEN,
    DIRECT,
    curves,
    first_minima,
    make_claims,
    num_test,
    panel_name,
    panels,
)
from lsa_jax.experiments.feature_learning.input_structure.settings import SETTINGS
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

_LINES = {
    "test_labelled_part": ("labelled part", PALETTE[0]),
    "test_injected_part": ("injected part", PALETTE[1]),
    "test_accuracy": ("whole mixture", PALETTE[2]),
}
_SETTINGS = ["learner", "teacher_size", "share", "size", "injected", "seed"]
_MOST_COLUMNS = 4


def _with_chosen(config: Config, runs: Runs) -> tuple[Runs, bool]:
    """Adds each seed's students whose teacher has the size that algorithm 1 gave it.

    None are added where it chose one size in every seed, or one that no teacher had.
    """
    chosen, axes = first_minima(runs, **DIRECT), config.sweep
    if len(axes.direct_size) < 3 or chosen.nunique() < 2 or not {*chosen} <= {*axes.teacher_size}:
        return runs, False

    def both(rows: pd.DataFrame) -> pd.DataFrame:
        own = rows[rows["teacher_size"] == rows["seed"].map(chosen)]
        return pd.concat([rows, own.assign(teacher_size=CHOSEN)])

    return runs._replace(planned=both(runs.planned), finished=both(runs.finished)), True


def _student_table(config: Config, runs: Runs) -> pd.DataFrame:
    """Returns one row a panel: accuracies in percent, and those of its teacher."""

    def cell(values: pd.Series) -> str:
        return mean_and_spread(100 * values, ".2f")

    lines = []
    for own in panels(config):
        rows = runs.where(**own).finished
        direct = runs.where(learner="direct", size=own["size"]).finished
        least, most = rows["least_used_class"].mean(), rows["most_used_class"].mean()
        line = {
            "teacher": own["teacher_size"],
            "share": f"{own['share']:g}",
            "student": own["size"],
            "injected": own["injected"],
            **{label: cell(rows[name]) for name, (label, _) in _LINES.items()},
            "trained directly": cell(direct["test_accuracy"]),
            "teacher on the data set": cell(rows["teacher_accuracy"]),
            "share of its labels on U": f"{least:.3f} to {most:.3f}",
        }
        lines += [line] if len(rows) else []
    return pd.DataFrame(lines)


def _size_table(config: Config, runs: Runs) -> pd.DataFrame:
    """Returns test loss by size, one column a curve: networks on L, students by teacher."""
    columns = {"parameters": runs.finished.groupby("size")["parameters"].first()}
    for name, curve in curves(config).items():
        columns[name] = runs.where(**curve).finished.groupby("size")["test_loss"].mean()
    return pd.DataFrame(columns).dropna(subset=[*columns][1:], how="all").reset_index()


def _grid(count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """Returns a figure of so many panels, `_MOST_COLUMNS` a row, and their axes."""
    columns = min(count, _MOST_COLUMNS)
    figure, axes = subplots(-(-count // columns), columns, width, height)
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def _draw_curves(config: Config, courses: pd.DataFrame) -> Any:
    """Draws test accuracy against steps, one panel a student: parts, mixture, direct training."""
    runs = Runs.of([], courses)
    drawn = [own for own in panels(config) if 0 < own["share"] < 1]
    figure, axes = _grid(len(drawn), 4.5, 3.8)
    for axis, own in zip(axes, drawn, strict=True):
        rows, direct = (runs.where(**of).finished for of in (own, DIRECT | {"size": own["size"]}))
        lines = [(name, label, color, rows) for name, (label, color) in _LINES.items()]
        lines.append(("test_accuracy", "trained on the data set directly", "#000000", direct))
        for name, label, color, of_line in lines:
            if len(of_line):
                accuracy, steps = of_line[name] * 100, of_line["step"]
                draw_mean(axis, accuracy, steps, color=color, limits=(0, 100), label=label)
        axis.set(title=panel_name(config, own), xlabel="steps", ylabel="test accuracy (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    # Below, as lines of small networks are anywhere in a panel.
    place = {"loc": "outside lower center", "ncols": 2}
    figure.legend(handles, labels, frameon=False, fontsize="small", **place)
    return figure


def _draw_sizes(config: Config, runs: Runs) -> Any:
    """Draws test loss against the number of parameters, one panel a curve."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    found = curves(config)
    figure, axes = _grid(len(found), 4, 3.6)
    for axis, (name, curve) in zip(axes, found.items(), strict=True):
        rows = runs.where(**curve).finished
        for split, color in (("test", PALETTE[0]), ("train", PALETTE[7])):
            style = {"color": color, "label": f"{split} loss", "marker": "o", "markersize": 3}
            draw_mean(axis, rows[f"{split}_loss"], rows["parameters"], **style)
        axis.set(xscale="log", xlabel="parameters", title=name)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.xaxis.set_minor_formatter(NullFormatter())  # its labels would lie on each other
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _runs(config: Config, results: pd.DataFrame, workdir: Path) -> tuple[Runs, pd.DataFrame]:
    """Returns the runs, with mean accuracies over training, and their courses by step."""
    if "injected" not in results:
        results = results.assign(injected=config.data.injected)
    fine = results[results["status"] == "ok"]
    courses = files.read_histories(workdir, fine, ["id", *_SETTINGS])
    # Networks on the data set alone have no columns of the students.
    results, courses = (
        table.reindex(columns=table.columns.union(_LINES, sort=False))
        for table in (results, courses)
    )
    names = {f"test_{part}_part": f"course_{part}_part" for part in ("labelled", "injected")}
    means = courses.groupby("id")[list(names)].mean().rename(columns=names)
    results = results.join(means, on="id")
    runs = Runs.of(SETTINGS.sweep(config), results, outcomes.read(workdir, results["id"]))
    return runs.assign(num_test=num_test(config)), courses


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep."""
    runs, courses = _runs(config, results, workdir)
    students = runs.where(learner="student").finished
    tables, figures = [], {}
    if len(students):
        tables.append(("Test accuracy in % at the end", _student_table(config, runs)))
        # Students on injected inputs alone are drawn by size.
        if students["share"].between(0, 1, inclusive="neither").any():
            figures["curves"] = functools.partial(_draw_curves, config, courses)
    if curves(config):
        tables.append(("Test loss by size", _size_table(config, runs)))
        figures["sizes"] = functools.partial(_draw_sizes, config, runs)
    deciding, chosen = _with_chosen(config, runs)
    notes = [
        "Means over seeds ± their standard deviation. Students are measured by the teacher's "
        "labels, direct training by the data set's. The injected part is worse both because its "
        "inputs lack structure and because the teacher's labels of them are hard. The paper gives "
        f"no optimiser, batch or epochs: {config.optimizer} with rate {config.learning_rate:g}, "
        f"batches of {config.batch_size}, {config.epochs} epochs, R with weight "
        f"{config.regularizer:g} and lambda = {config.entropy:g} are ours."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=decide_all(make_claims(config, chosen=chosen), deciding),
        figures=figures,
        extra_tables={"curves": courses},
        notes=notes,
    )
