"""The report on noise curves: accuracy against noise, size, number of examples, or updates."""

import functools
import itertools
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.experiments.lsa import numbers
from lsa_jax.experiments.lsa.noise_curves import claims
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.reporting.courses import is_measure
from lsa_jax.reporting.curves import PALETTE, draw_mean, legend_below, mark_logarithmic, subplots
from lsa_jax.reporting.grades import answers, grade
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread, table_of_means
from lsa_jax.sweep.fields import Config

_Tables = list[tuple[str, pd.DataFrame]]


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns tables, claims and the figure of a sweep, by the axis of its figure."""
    kinds = {"num_train": _on_examples, "update": _on_updates}
    runs = claims.runs_of(config, runs)
    report, notes, rows = kinds.get(config.figure_axis, _on_noise)(config, runs), [], runs.finished
    if "kernel_difference" in rows:
        largest = rows.groupby("learner")["kernel_difference"].max().dropna()
        shown = ", ".join(f"{LEARNERS[name].label} {value:.0e}" for name, value in largest.items())
        notes += [
            f"Kernels are those of neural-tangents; largest relative difference from ours: {shown}."
        ]
    if "state" in rows:
        notes += [
            f"State of the network ({names}): c and the NTK after training are with that of the "
            "trained network, the NTK at the start with that at the start."
            for names in rows["state"].dropna().unique()
        ]
    return _with_predictions(report._replace(notes=report.notes + notes, runs=runs), rows)


def _with_predictions(report: Report, results: pd.DataFrame) -> Report:
    """Returns a report with squared test errors of kernels and predicted ones, if there are any."""
    if "predicted_error" not in results:
        return report
    made = results.dropna(subset=["predicted_error"])
    made = made.assign(ratio=made["predicted_error"] / made["squared_error"])
    swept = ("width_factor", *claims.PLACES, "noise", "num_train")
    names = ["learner", *(name for name in swept if name in made and made[name].nunique() > 1)]
    labels = {"squared_error": "measured", "predicted_error": "predicted"}
    table = table_of_means(made, names, labels | {"ratio": "predicted / measured"})
    table["learner"] = [LEARNERS[name].label for name in table["learner"]]
    heading = (
        "Squared test error over the targets' variance, and its prediction from the kernel's "
        "spectrum on all images, which does not cover kernels that learned from training images"
    )
    figures = {"predictions": functools.partial(_draw_predictions, made, names[1:])}
    return report._replace(
        tables=[*report.tables, (heading, table)],
        figures=report.figures | (figures if len(names) > 1 else {}),
    )


def _draw_predictions(made: pd.DataFrame, swept: list[str]) -> Any:
    """Draws squared test errors of kernels; lines are predictions from the kernels' spectra."""
    *others, x = swept
    panels = list(made.groupby(others, sort=False)) if others else [((), made)]
    figure, (axes,) = subplots(1, len(panels), 4.5, 3.8, sharey=True)
    for axis, (levels, rows) in zip(axes, panels, strict=True):
        for learner, own in rows.groupby("learner", sort=False):
            style = {"color": LEARNERS[learner].colors[0], "label": LEARNERS[learner].label}
            draw_mean(axis, own["squared_error"], own[x], marker="o", linestyle="", **style)
            predicted = own.groupby(x)["predicted_error"].mean()
            axis.plot(predicted.index, predicted, color=style["color"])
        if x == "num_train":
            mark_logarithmic(axis, rows[x])
        title = ", ".join(f"{name} {level}" for name, level in zip(others, levels, strict=True))
        axis.set(xlabel=x.replace("num_train", "training examples"), title=title)
    axes[0].set_ylabel("squared error; lines: predicted")
    axes[-1].legend(frameon=False, fontsize=8)
    return figure


def _wide(values: pd.Series, rows: pd.DataFrame, columns: pd.Series, heading: str) -> pd.DataFrame:
    """Returns a table of means ± standard deviation over seeds.

    `rows` has the cells that name each value's row, `columns` the level of its column.
    """
    names = [rows[name] for name in rows]
    cells = values.groupby([*names, columns]).apply(mean_and_spread, ".2f").unstack()
    found = rows.drop_duplicates()
    own = found.iloc[:, 0] if len(names) == 1 else pd.MultiIndex.from_frame(found)
    cells = cells.sort_index(axis=1).reindex(own)
    cells.columns = [heading.format(level) for level in cells.columns]
    return cells.fillna("").reset_index()


def _named(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns finished runs, renumbered, with the learners' names as `series`."""
    return rows.reset_index(drop=True).assign(series=[LEARNERS[n].label for n in rows["learner"]])


# Against noise, or the size of backgrounds.


def _on_noise(config: Config, runs: Runs) -> Report:
    unit, start, _ = claims.AXES[config.figure_axis]
    label, table = _axis_label(config), with_retained(runs.finished)
    names = ["arrangement", "series"] if table["arrangement"].any() else ["series"]
    counts = table.groupby("series", sort=False)["seed"].nunique()
    fewer = [f"{name} {count}" for name, count in counts.items() if count < counts.max()]
    seeds = f"{counts.max()} seed(s)" + f" ({', '.join(fewer)})" * bool(fewer)
    tables = [
        (heading, _wide(values, table[names], table["level"], f"{unit} {{:g}}"))
        for heading, values in (
            (f"Test accuracy (%) against {label}", 100 * table["test_accuracy"]),
            (f"Percentage of {start} accuracy retained", table["retained"]),
        )
    ]
    # Lazy or rich, by c, features and gain at each level, of the network's width.
    own = runs.where(width_factor=config.width_factor)
    graded = answers(
        (
            ({"arrangement": way.name} if way.name else {}) | {config.figure_axis: level},
            own.where(**way.at(level)),
        )
        for way in claims.arrangements(runs)
        for level in way.levels
    )
    notes = [f"Means over {seeds}, ± their standard deviation."]
    if len(graded):
        tables.append(("Lazy or rich", graded))
        notes.append(
            'Lazy or rich is by the definition on the page "Is my network lazy or rich?", with the '
            "configuration's kernels: their ridges, and the NTK at the start as the finite NTK is "
            "here."
        )
    return Report(
        tables=tables[:1] + _paper_table(config.paper_item) + tables[1:] + _solved_tables(table),
        claims=claims.make_claims(config, runs),
        figures={"noise_curves": functools.partial(_draw_curves, table, label)},
        notes=notes,
    )


def with_retained(table: pd.DataFrame) -> pd.DataFrame:
    """Returns runs with `retained`: test accuracy in percent of that at the start of the axis.

    The start's is that of the same series, arrangement and seed, missing where that was not run.
    """
    at_start = table["test_accuracy"].where(table["level"] == table["start"])
    start = at_start.groupby([table[n] for n in ("series", "arrangement", "seed")]).transform("max")
    return table.assign(retained=100 * table["test_accuracy"] / start)


def _axis_label(config: Config) -> str:
    if config.figure_axis == "background_size":
        return "side of the background (pixels)"
    if config.data.background == "gaussian" and config.data.std_power == 2:
        return "square root of the background's standard deviation"
    gaussian = config.data.background in ("gaussian", "none")
    return "standard deviation of the background" if gaussian else "intensity of the background"


def _paper_table(paper_item: str | None) -> _Tables:
    """Returns the test accuracies that the paper prints, laid out as ours; none if it has none."""
    cells = numbers.TEST_ACCURACY_PERCENT.get(paper_item, {})
    rows = [
        {"arrangement": claims.arrangement_name(*key), "series": LEARNERS[learner].label}
        | {f"noise {noise:g}": f"{accuracy:.1f}" for noise, accuracy in of.items()}
        for key, accuracies in cells.items()
        for learner, of in accuracies.items()
    ]
    return [("Test accuracy (%) in the paper", pd.DataFrame(rows))] if rows else []


def _solved_tables(table: pd.DataFrame) -> _Tables:
    """Returns how systems were solved: by iterations, an automatic choice, or on centres."""
    point = ["series", "level", "seed", "ridge"]
    ways = {
        "by iterations": ["residual", "iterations", "kernel_gigabytes"],
        "by the solver that was chosen": ["solver", "solver_reason"],
        "on centres": ["centres", "examples", "condition", "train_error"],
    }
    return [
        (f"Systems solved {way}", table.loc[table[columns[0]].notna(), point + columns])
        for way, columns in ways.items()
        if columns[0] in table
    ]


def _draw_lines(axis: Any, table: pd.DataFrame, y: pd.Series, x: str, **labels: Any) -> None:
    """Draws the mean over seeds of every series, in a band of one standard deviation."""
    colors: dict[str, str] = {}
    for learner, series in table.groupby("learner")["series"]:
        own = itertools.cycle(LEARNERS[learner].colors)
        colors |= dict(zip(series.unique(), own, strict=False))
    for series, rows in table.groupby("series", sort=False):
        style = {"color": colors[series], "label": series, "marker": "o", "markersize": 4}
        draw_mean(axis, y[rows.index], rows[x], **style)
    axis.set(**labels)


def _draw_curves(table: pd.DataFrame, label: str) -> Any:
    """Draws test accuracy and percentage retained against the level, one row an arrangement."""
    ways = list(table.groupby("arrangement", sort=False))
    figure, grid = subplots(len(ways), 2, 4.5, 3.8)
    for (name, rows), axes in zip(ways, grid, strict=True):
        quantities = {"test accuracy (%)": 100 * rows["test_accuracy"]}
        quantities["% retained"] = rows["retained"]
        for axis, (quantity, y) in zip(axes, quantities.items(), strict=True):
            words = {"xlabel": label, "ylabel": quantity, "title": name}
            _draw_lines(axis, rows, y, "level", ylim=(0, 103), **words)
    legend_below(figure, *grid.flat, ncols=min(table["series"].nunique(), 4))
    return figure


# Against the number of training examples.

_FITS = {
    "crop": "cropped to the square at their centre",
    "pad": "made square by black margins",
    "squash": "squashed to squares",
}


def _on_examples(config: Config, runs: Runs) -> Report:
    """Returns learning curves, with lazy or rich at the largest number of examples."""
    fine = _named(runs.finished)
    counts, headings = fine["num_train"], "{:,.0f} examples"
    accuracy = _wide(100 * fine["test_accuracy"], fine[["series"]], counts, headings)
    tables = [("Test accuracy (%)", accuracy)]
    measures, network = [n for n in fine if is_measure(n)], fine[fine["learner"] == "network"]
    if measures and len(network):
        means = network.groupby("num_train")[measures].agg(mean_and_spread).reset_index()
        tables.append(("The trained network against its start", means))
    found = grade(runs.where(num_train=max(config.sweep.num_train)))
    side, of_user = config.data.image_size, config.data.dataset == "folder"
    notes = [
        f"Pictures that are not square are {_FITS[config.data.fit]} (config.data.fit = "
        f"{config.data.fit!r}); all are resized to {side} x {side} pixels."
    ] * of_user
    notes += [
        f"Answer: {'; '.join((found.word, *found.notes))}.",
        f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation, on "
        f"{fine['num_test'].iloc[0]:,.0f} test images of {fine['num_classes'].iloc[0]:.0f} "
        'classes. The definition of lazy and rich is on the page "Is my network lazy or rich?".',
    ]
    item = "lazy or rich, at the largest number of examples"
    return Report(
        title=f"{config.title}: {config.data.folder}" if of_user else config.title,
        tables=tables,
        claims=[Row(item, "", found.word, None, "measured"), *found.claims],
        figures={"learning_curves": functools.partial(_draw_learning, fine)},
        notes=notes,
    )


def _draw_learning(fine: pd.DataFrame) -> Any:
    """Draws test accuracy against the number of examples."""
    figure, ((axis,),) = subplots(1, 1, 6, 4)
    labels = {"xlabel": "training examples", "ylabel": "test accuracy (%)", "xscale": "log"}
    _draw_lines(axis, fine, 100 * fine["test_accuracy"], "num_train", **labels)
    counts = sorted(fine["num_train"].unique())
    axis.set_xticks(counts, [f"{count:,.0f}" for count in counts])
    axis.minorticks_off()
    axis.legend(frameon=False)
    return figure


# Against the updates of a kernel that learns.


def _on_updates(config: Config, runs: Runs) -> Report:
    published, fine = numbers.PUBLISHED.get(config.paper_item or ""), _named(runs.finished)
    machine = fine["learner"] == "rfm"
    columns = [name for name in fine if name.startswith(claims.AFTER_UPDATE)]
    after = fine[machine].melt(["learner", "series"], columns, "update", "accuracy").dropna()
    after["update"] = after["update"].str.removeprefix(claims.AFTER_UPDATE).astype(int)
    others = fine[~machine].rename(columns={"test_accuracy": "accuracy"}).assign(update=0)
    both = pd.concat([after, others], ignore_index=True)
    accuracy = _wide(100 * both["accuracy"], both[["series"]], both["update"], "update {:g}")
    accuracy = accuracy.rename(columns={"series": "learner"})
    notes = [
        f"Means over {fine['seed'].nunique()} seed(s), ± their standard deviation, on "
        f"{fine['num_train'].iloc[0]:,.0f} training and {fine['num_test'].iloc[0]:,.0f} test "
        "images."
    ]
    if published is not None:
        cells = {f"update {i}": f"{percent:.1f}" for i, percent in enumerate(published.percent)}
        row = pd.DataFrame([{"learner": "published", **cells}])
        accuracy = pd.concat([accuracy, row]).fillna("")
        notes.append(f"Published: {published.source}.")
    return Report(
        tables=[("Test accuracy (%) after each update", accuracy)],
        claims=claims.claims_on_updates(config),
        figures={"updates": functools.partial(_draw_updates, after, others, published)},
        notes=notes,
    )


def _draw_updates(
    after: pd.DataFrame, others: pd.DataFrame, published: numbers.Published | None
) -> Any:
    """Draws test accuracy against the number of updates; other learners' is a dashed line."""
    figure, ((axis,),) = subplots(1, 1, 6, 4)
    labels = {"xlabel": "updates", "ylabel": "test accuracy (%)"}
    _draw_lines(axis, after, 100 * after["accuracy"], "update", **labels)
    axis.set_xticks(sorted(after["update"].unique()))
    for learner, own in others.groupby("learner", sort=False):
        style = {"color": LEARNERS[learner].colors[0], "label": LEARNERS[learner].label}
        axis.axhline(100 * own["accuracy"].mean(), ls="--", **style)
    if published is not None:
        theirs = {"color": PALETTE[6], "label": "published", "ls": ":", "marker": "s"}
        axis.plot(range(len(published.percent)), published.percent, markersize=4, **theirs)
    axis.legend(frameon=False)
    return figure
