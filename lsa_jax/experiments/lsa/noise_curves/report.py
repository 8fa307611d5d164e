"""The report on noise curves: accuracy and percentage retained, against noise, with the claims."""

import functools
from pathlib import Path
from typing import Any, NamedTuple

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa import numbers
from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.reporting import claims as rule
from lsa_jax.reporting.curves import draw_mean, tidy
from lsa_jax.reporting.report import Claim, Report

# A percentage counts as the paper's when it is this near, in points, and nearer if the paper has
# another learner's near it.
TOLERANCE = 3.0

_CLASSES = {"cifar2": 2, "vehicles": 4, "tiny_imagenet": 200}
_TEST_IMAGES = {"vehicles": 4000, "digits": 360, "svhn": 26_032} | dict.fromkeys(
    ("mnist", "cifar10", "tiny_imagenet"), 10_000
)

# The bootstrap of percentages retained draws from here.
_KEY = 0


class Examples(NamedTuple):
    """The test that accuracies are of: how many examples, and how many labels to guess among."""

    count: int
    classes: int


_USUAL = Examples(10_000, 10)


class _Axis(NamedTuple):
    """How the report speaks of what grows along the figure: its start and its end."""

    unit: str
    start: str
    end: str


_AXES = {
    "noise": _Axis("noise", "zero-noise", "at the highest noise"),
    "background_size": _Axis("background", "no-background", "on the largest background"),
}


def _series_name(learner: str, width: float, all_widths: list[float]) -> str:
    several = learner == "ntk_finite" and len(all_widths) > 1
    return f"{LEARNERS[learner].label}, width {width:g}" if several else LEARNERS[learner].label


def arrangement_name(placement: str, image_size: float, background_size: float) -> str:
    """Returns how images lie on their backgrounds, in words."""
    return f"{image_size:g} on {background_size:g}, {placement.replace('_', ' ')}"


def _arrangements(table: pd.DataFrame, axis: str) -> list[str]:
    """Returns how each row's image lies on its background; empty where all rows do it alike."""
    columns = ["placement", "image_size", *(["background_size"] if axis == "noise" else [])]
    if not set(columns) <= set(table) or len(table[columns].drop_duplicates()) < 2:
        return [""] * len(table)
    if axis == "noise":
        return [arrangement_name(*row) for row in table[columns].itertuples(index=False)]
    return [f"{row.image_size:g}, {row.placement}" for row in table.itertuples()]


def curves(results: pd.DataFrame, axis: str = "noise") -> pd.DataFrame:
    """Returns the results that are finished, ready to be drawn against an axis of the sweep.

    Beside what they have, rows get: `series`, who learns; `arrangement`, how images lie on their
    backgrounds, if that differs; `level`, where on the axis; and `retained`, which is 100 x test
    accuracy / test accuracy at the start of the axis (zero noise, or a background as small as the
    image) of the same series, arrangement and seed, and missing where there is no such run.
    """
    table = results[results["status"] == "ok"].copy()
    widths = sorted(table.loc[table["learner"] == "ntk_finite", "width_factor"].unique().tolist())
    table["series"] = [
        _series_name(row.learner, row.width_factor, widths) for row in table.itertuples()
    ]
    table["arrangement"] = _arrangements(table, axis)
    table["level"] = table[axis]
    start = 0 if axis == "noise" else table["image_size"]
    same = ["series", "arrangement", "seed"]
    quiet = table[table["level"] == start].set_index(same)["test_accuracy"]
    reference = pd.MultiIndex.from_frame(table[same]).map(quiet.to_dict())
    table["retained"] = 100 * table["test_accuracy"] / np.asarray(reference, float)
    return table


def _wide_table(table: pd.DataFrame, column: str, scale: float, unit: str) -> pd.DataFrame:
    """Returns one row a series and one column a level: mean ± standard deviation."""
    rows = ["arrangement", "series"] if table["arrangement"].any() else ["series"]
    cells = (table[column] * scale).groupby([*(table[row] for row in rows), table["level"]])
    wide = cells.apply(rule.cell, ".2f").unstack("level").sort_index(axis=1)
    order = table[rows].drop_duplicates()
    wide = wide.reindex(order[rows[0]] if len(rows) == 1 else pd.MultiIndex.from_frame(order))
    wide.columns = [f"{unit} {level:g}" for level in wide.columns]
    return wide.fillna("").reset_index()


class _Series(NamedTuple):
    """What a series retains at a level, in percent, seed by seed; and what may be said of it."""

    retained: pd.Series
    error: float = 0.0
    warning: str = ""


def _at_level(own: pd.DataFrame, level: float, test: Examples) -> _Series:
    """Returns what one series retains at a level, with the error that its test examples make."""
    here = own[own["level"] == level].set_index("seed")
    retained = here["retained"].dropna()
    if retained.empty:
        return _Series(retained)
    accuracy = float(here["test_accuracy"].mean())
    start = 100 * accuracy / float(retained.mean())
    return _Series(
        retained,
        100 * rule.ratio_error(accuracy, start, test.count, _KEY),
        rule.chance_warning(start, test.classes, test.count),
    )


def make_claims(
    table: pd.DataFrame, paper_item: str | None, axis: str = "noise", test: Examples = _USUAL
) -> list[Claim]:
    """Returns the paper's claims on a figure of this kind, and its numbers where it prints them.

    The claim of section 6: as noise (or the background) grows the network keeps more of its
    accuracy than the NTK.
    """
    cells = numbers.TEST_ACCURACY_PERCENT.get(paper_item, {})
    known = {arrangement_name(*key): _retained(of) for key, of in cells.items()}
    arrangements = [*table["arrangement"].unique()] or [""]
    claims = []
    for arrangement in arrangements:
        rows = table[table["arrangement"] == arrangement]
        paper = known.get(arrangement, numbers.RETAINED.get(paper_item))
        end, where = float(table["level"].max()), f" ({arrangement})" if arrangement else ""
        same = paper.percent if paper and paper.noise == end else {}
        gaps = _gap_claims(_retained_at(rows, end, test), same, _AXES[axis], where)
        claims += gaps.values()
        if paper:
            claims += _retained_claims(_retained_at(rows, paper.noise, test), paper, where)
        if paper_item in numbers.ON_PAR_AT_ZERO_NOISE:
            claims += _on_par_claims(rows, gaps, test)
    return claims + _cell_claims(table, cells, test)


def _retained(accuracies: dict[str, dict[float, float]]) -> numbers.Retained:
    """Returns the percentage retained from the first to the last noise level, by learner."""
    percent = {
        learner: round(100 * of[max(of)] / of[min(of)], 2) for learner, of in accuracies.items()
    }
    return numbers.Retained(max(map(max, accuracies.values())), percent)


_BySeries = dict[tuple[str, str], _Series]
_NOTHING = _Series(pd.Series(dtype=float))


def _retained_at(rows: pd.DataFrame, level: float, test: Examples) -> _BySeries:
    """Returns what is retained at a level, by learner and series."""
    return {
        key: _at_level(own, level, test)
        for key, own in rows.groupby(["learner", "series"], sort=False)
    }


def _retained_claims(found: _BySeries, paper: numbers.Retained, where: str) -> list[Claim]:
    """Compares what is retained at the paper's highest noise with the paper."""
    claims = []
    for learner, percent in paper.percent.items():
        ours = {name: series for (of, name), series in found.items() if of == learner}
        margin = rule.margin_of(percent, list(paper.percent.values()), TOLERANCE)
        for name, series in (ours or {LEARNERS[learner].label: _NOTHING}).items():
            item = f"% of zero-noise accuracy retained at noise {paper.noise:g}, {name}{where}"
            options = {"examples_error": series.error, "unless": series.warning, "digits": 2}
            claims.append(rule.agree(item, percent, series.retained, margin, **options))
    return claims


def _gap_claims(
    found: _BySeries, percent: dict[str, float], axis: _Axis, where: str
) -> dict[str, Claim]:
    """Compares what network and NTKs retain at the end of the axis, seed by seed, by series.

    `percent` is the paper's by learner; empty where the axis does not end where the paper's does.
    """
    network = found.get(("network", LEARNERS["network"].label), _NOTHING)
    missing = {
        (of, LEARNERS[of].label): _NOTHING for of in percent if of not in {k for k, _ in found}
    }
    claims = {}
    for (learner, name), series in (found | missing).items():
        if learner != "network":
            known = learner in percent
            paper = round(percent["network"] - percent[learner], 2) if known else "above 0"
            claims[name] = rule.compare(
                f"points of accuracy retained {axis.end}, network minus {name}{where}",
                paper,
                network.retained - series.retained,
                above=0.0,
                examples_error=float(np.hypot(network.error, series.error)),
                unless=network.warning or series.warning,
                digits=2,
            )
    return claims


def _cell_claims(table: pd.DataFrame, cells: dict, test: Examples) -> list[Claim]:
    """Compares test accuracies with those that the paper prints, cell by cell."""
    claims = []
    for key, accuracies in cells.items():
        arrangement = arrangement_name(*key)
        here = table[table["arrangement"].isin((arrangement, ""))]
        for name, value in zip(("placement", "image_size", "background_size"), key, strict=True):
            here = here[here[name] == value]
        for learner, of in accuracies.items():
            for noise, paper in of.items():
                found = here[(here["learner"] == learner) & (here["noise"] == noise)]
                label = LEARNERS[learner].label
                item = f"test accuracy (%) of the {label}, noise {noise:g} ({arrangement})"
                rivals = [other[noise] for other in accuracies.values()]
                margin = rule.margin_of(paper, rivals, TOLERANCE)
                accuracy = found["test_accuracy"]
                error = rule.binomial_error(accuracy.mean(), test.count)
                options = {"examples_error": 100 * error, "digits": 2}
                claims.append(rule.agree(item, paper, 100 * accuracy, margin, **options))
    return claims


def _on_par_claims(rows: pd.DataFrame, gaps: dict[str, Claim], test: Examples) -> list[Claim]:
    """Compares accuracies at zero noise, which the paper finds on a par.

    That speaks for the paper where accuracies are above chance and noise parts them.
    """
    accuracy = {
        series: own.set_index("seed")["test_accuracy"]
        for series, own in rows[rows["level"] == 0].groupby("series", sort=False)
    }
    network = accuracy.pop(LEARNERS["network"].label, pd.Series(dtype=float))
    claims = []
    for series, own in accuracy.items():
        warning = rule.chance_warning(own.mean(), test.classes, test.count)
        if not warning and gaps[series].status != "shown":
            warning = "noise does not part the two"
        error = rule.difference_error(network.mean(), own.mean(), test.count)
        item = f"points of accuracy at zero noise, network minus {series}"
        options = {"examples_error": 100 * error, "unless": warning, "digits": 2}
        claims.append(rule.agree(item, 0.0, 100 * (network - own), TOLERANCE, **options))
    return claims


def draw(table: pd.DataFrame, label: str) -> Any:
    """Draws test accuracy and percentage retained against the level, one row an arrangement.

    Bands are ± 1 standard deviation over seeds.
    """
    import matplotlib.pyplot as plt

    names = list(table["arrangement"].unique())
    size = (9, 3.6 * len(names))
    figure, grid = plt.subplots(len(names), 2, figsize=size, layout="constrained", squeeze=False)
    panels = (("test_accuracy", 100.0, "test accuracy (%)"), ("retained", 1.0, "% retained"))
    for name, axes in zip(names, grid, strict=True):
        _draw_row(table[table["arrangement"] == name], axes, panels)
        for axis, (_, _, quantity) in zip(axes, panels, strict=True):
            axis.set(xlabel=label, ylabel=quantity, ylim=(0, 103), title=name)
            tidy(axis)
        axes[0].legend(frameon=False)
    return figure


def _draw_row(table: pd.DataFrame, axes: Any, panels: tuple) -> None:
    """Draws the series of one arrangement into its panels."""
    used = dict.fromkeys(LEARNERS, 0)
    for (learner, series), rows in table.groupby(["learner", "series"], sort=False):
        colors = LEARNERS[learner].colors
        color = colors[used[learner] % len(colors)]
        used[learner] += 1
        for axis, (column, scale, _) in zip(axes, panels, strict=True):
            style = {"color": color, "label": series, "marker": "o", "markersize": 4}
            draw_mean(axis, scale * rows[column], rows["level"], **style)


def _test_of(data: ml_collections.ConfigDict) -> Examples:
    """Returns the test of a sweep; that of a data set without a number is taken whole."""
    classes = len(data.classes) or _CLASSES.get(data.task) or _CLASSES.get(data.dataset, 10)
    count = data.num_test or _TEST_IMAGES.get(data.task) or _TEST_IMAGES.get(data.dataset, 500)
    return Examples(count, classes)


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


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns tables, claims and the figure of a sweep over learners, noise or size, and seeds."""
    del workdir  # everything is in the results
    table, axis = curves(results, config.figure_axis), _AXES[config.figure_axis]
    label = _axis_label(config)
    seeds = table["seed"].nunique()
    notes = [
        f"Means over {seeds} seed(s), ± their standard deviation. A difference counts as shown "
        "when its 95 % interval, over seeds and test images, is above zero, a number when its "
        f"interval is within {TOLERANCE:g} points of the paper's and nearer to it than to another "
        "learner's."
    ]
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
        ],
        claims=make_claims(table, config.paper_item, config.figure_axis, _test_of(config.data)),
        figures={"noise_curves": functools.partial(draw, table, label)},
        extra_tables={},
        notes=notes,
    )
