"""The report on input structure: accuracy on real and on injected inputs, loss by size."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.held_out import held_out
from lsa_jax.experiments.feature_learning.input_structure.claims import (
    panels,
    size_gap_claims,
    student_claims,
)
from lsa_jax.experiments.feature_learning.input_structure.differences import Labels
from lsa_jax.experiments.feature_learning.input_structure.sizes import (
    choice_claims,
    size_claims,
    size_curves,
)
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import cell
from lsa_jax.reporting.curves import draw_mean, tidy
from lsa_jax.reporting.report import Report

# Of students FC(9) on MNIST "the results do not show a significant trend" (appendix E.5.2).
_NO_TREND = {"mnist": (9,)}

_LINES = {
    "test_labelled_part": ("labelled part", "#0072B2"),
    "test_injected_part": ("injected part", "#D55E00"),
    "test_accuracy": ("whole mixture", "#009E73"),
}
_DIRECT = ("trained on the data set directly", "#000000")
_MOST_COLUMNS = 4


def _cell(values: pd.Series) -> str:
    return cell(100 * values, ".2f")


def _curves(fine: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    described = ["learner", "teacher_size", "share", "size", "injected", "seed"]
    rows = []
    for point in fine.to_dict("records"):
        own = {name: point.get(name) for name in described}
        rows += [own | row for row in files.read_metrics(workdir, point["id"])]
    return pd.DataFrame(rows)


def _student_table(students: pd.DataFrame, direct: pd.DataFrame) -> pd.DataFrame:
    lines = []
    several = students["injected"].nunique() > 1
    for _, of, rows in panels(students):
        size = int(of["size"])
        line = {"teacher": int(of["teacher_size"]), "share": f"{of['share']:g}", "student": size}
        line |= {"injected": of["injected"]} if several else {}
        line |= {label: _cell(rows[name]) for name, (label, _) in _LINES.items()}
        line["trained directly"] = _cell(direct.loc[direct["size"] == size, "test_accuracy"])
        line["teacher on the data set"] = _cell(rows["teacher_accuracy"])
        least, most = rows["least_used_class"].mean(), rows["most_used_class"].mean()
        line["share of its labels on U"] = f"{least:.3f} to {most:.3f}"
        lines.append(line)
    return pd.DataFrame(lines)


def _size_table(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns test loss by size, one column a curve: networks on L, students by teacher."""
    columns = {}
    for name, rows in size_curves(fine).items():
        columns[name] = rows.groupby("size")["test_loss"].mean()
    table = pd.DataFrame(columns)
    counts = fine.groupby("size")["parameters"].first()
    table.insert(0, "parameters", counts.reindex(table.index))
    return table.reset_index()


def _grid(count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """Returns a figure of so many panels, `_MOST_COLUMNS` a row, and their axes."""
    import matplotlib.pyplot as plt

    count = max(count, 1)
    columns = min(count, _MOST_COLUMNS)
    rows = -(-count // columns)
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[count:]:
        axis.set_axis_off()
    return figure, list(axes.flat[:count])


def draw_curves(curves: pd.DataFrame) -> Any:
    """Draws test accuracy against steps, one panel a student: parts, mixture, direct training."""
    mixed = curves["share"].between(0, 1, inclusive="neither")
    students = curves[(curves["learner"] == "student") & mixed]
    drawn = panels(students)
    figure, axes = _grid(len(drawn), 4.5, 3.8)
    for axis, (title, of, rows) in zip(axes, drawn, strict=False):
        lines = [(name, label, color, rows) for name, (label, color) in _LINES.items()]
        direct = curves[(curves["learner"] == "direct") & (curves["size"] == of["size"])]
        lines.append(("test_accuracy", *_DIRECT, direct))
        for name, label, color, of_line in lines:
            if of_line.empty:
                continue
            accuracy, steps = of_line[name] * 100, of_line["step"]
            draw_mean(axis, accuracy, steps, color=color, limits=(0, 100), label=label)
        axis.set(title=title, xlabel="steps", ylabel="test accuracy (%)")
        tidy(axis)
    handles, labels = axes[0].get_legend_handles_labels()
    if handles:  # below, as lines of small networks are anywhere in a panel
        figure.legend(
            handles, labels, frameon=False, fontsize="small", loc="outside lower center", ncols=2
        )
    return figure


def draw_sizes(fine: pd.DataFrame) -> Any:
    """Draws test loss against the number of parameters, one panel a curve."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

    curves = size_curves(fine)
    figure, axes = _grid(len(curves), 4, 3.6)
    for axis, (name, rows) in zip(axes, curves.items(), strict=True):
        for split, color in (("test", "#0072B2"), ("train", "#999999")):
            stats = rows.groupby("parameters")[f"{split}_loss"].agg(["mean", "std"])
            axis.errorbar(
                stats.index,
                stats["mean"],
                stats["std"].fillna(0),
                fmt="o-",
                markersize=3,
                color=color,
                label=f"{split} loss",
            )
        axis.set(xscale="log", xlabel="parameters", title=name)
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.xaxis.set_minor_formatter(NullFormatter())  # its labels would lie on each other
        tidy(axis)
    axes[0].legend(frameon=False, fontsize="small")
    return figure


def _labels(config: ml_collections.ConfigDict) -> Labels:
    test = held_out(config.data.dataset, most=config.data.num_test)
    no_trend = _NO_TREND.get(config.data.dataset, ())
    return Labels(test.images, test.largest, config.sweep.seed, no_trend)


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep."""
    columns = ["teacher_size", "share", "size", "test_labelled_part", "test_injected_part"]
    columns.append("injected")
    fine = results[results["status"] == "ok"]
    fine = fine.reindex(columns=list(dict.fromkeys([*fine.columns, *columns])))
    fine = fine.assign(injected=fine["injected"].astype(object).fillna(config.data.injected))
    students, direct = (fine[fine["learner"] == name] for name in ("student", "direct"))
    curves = _curves(fine, workdir)
    tables, claims, figures = [], [], {}
    if len(students):
        tables.append(("Test accuracy in % at the end", _student_table(students, direct)))
        labels = _labels(config)
        claims += student_claims(students, direct, curves, labels)
        claims += size_gap_claims(students, labels)
        # Students on injected inputs alone are drawn by size.
        if students["share"].between(0, 1, inclusive="neither").any():
            figures["curves"] = functools.partial(draw_curves, curves)
    if size_curves(fine):
        tables.append(("Test loss by size", _size_table(fine)))
        of_sizes = choice_claims if students["share"].lt(1).any() else size_claims
        claims += of_sizes(fine, config.sweep.seed)
        figures["sizes"] = functools.partial(draw_sizes, fine)
    notes = [
        "Means over seeds ± their standard deviation. Students are measured against the teacher's "
        "labels, direct training against the data set's. The injected part is worse both for what "
        "its inputs lack and for how hard the teacher's labels of them are. The paper gives no "
        f"optimiser, batch or epochs: {config.optimizer} with rate {config.learning_rate:g}, "
        f"batches of {config.batch_size}, {config.epochs} epochs, R with weight "
        f"{config.regularizer:g} and lambda = {config.entropy:g} are ours."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=claims,
        figures=figures,
        extra_tables={"curves": curves},
        notes=notes,
    )
