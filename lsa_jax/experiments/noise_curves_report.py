"""The report on noise curves: accuracy and percentage retained, against noise, with the claims."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.reporting import paper_numbers
from lsa_jax.reporting.report import Claim, Report

# A percentage counts as the paper's when it is this near, in points.
TOLERANCE = 5.0

_COLORS = {
    "network": ["#0072B2"],
    "ntk_finite": ["#E69F00", "#D55E00", "#CC79A7", "#8C510A"],
    "ntk_infinite": ["#009E73"],
}
_NAMES = {"network": "network", "ntk_finite": "finite NTK", "ntk_infinite": "infinite NTK"}


def _series_name(learner: str, width: float, all_widths: list[float]) -> str:
    several = learner == "ntk_finite" and len(all_widths) > 1
    return f"{_NAMES[learner]}, width {width:g}" if several else _NAMES[learner]


def curves(results: pd.DataFrame) -> pd.DataFrame:
    """Returns the results that are finished, with their series and the percentage retained.

    `retained` is 100 x test accuracy / test accuracy at zero noise of the same series and seed; it
    is missing where there is no such run.
    """
    table = results[results["status"] == "ok"].copy()
    widths = sorted(table.loc[table["learner"] == "ntk_finite", "width_factor"].unique())
    table["series"] = [
        _series_name(row.learner, row.width_factor, widths) for row in table.itertuples()
    ]
    quiet = table[table["noise"] == 0].set_index(["series", "seed"])["test_accuracy"]
    reference = pd.MultiIndex.from_frame(table[["series", "seed"]]).map(quiet.to_dict())
    table["retained"] = 100 * table["test_accuracy"] / np.asarray(reference, float)
    return table


def _mean_and_spread(values: pd.Series) -> str:
    if values.isna().all():
        return ""
    spread = f" ± {values.std():.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{spread}"


def _wide_table(table: pd.DataFrame, column: str, scale: float) -> pd.DataFrame:
    """Returns one row a series and one column a noise level: mean ± standard deviation."""
    cells = (table[column] * scale).groupby([table["series"], table["noise"]], sort=False)
    wide = cells.apply(_mean_and_spread).unstack("noise").sort_index(axis=1)
    wide = wide.reindex(table["series"].unique())
    wide.columns = [f"noise {noise:g}" for noise in wide.columns]
    return wide.reset_index()


def _spread(values: pd.Series) -> float | None:
    return float(values.std()) if len(values) > 1 else None


def _gap_claim(network: pd.Series, ntk: pd.Series, name: str, paper: float | str) -> Claim:
    """Compares percentages retained at the highest noise, seed by seed."""
    gap = (network - ntk).dropna()
    item = f"points of accuracy retained at the highest noise, network minus {name}"
    if gap.empty:
        return Claim(item, paper, "", None, "not run")
    error = gap.std() / np.sqrt(len(gap)) if len(gap) > 1 else 0.0
    shown = gap.mean() > 2 * error
    return Claim(item, paper, round(gap.mean(), 2), _spread(gap), "shown" if shown else "not shown")


def _number_claim(item: str, paper: float, ours: pd.Series) -> Claim:
    """Compares a percentage with the paper's."""
    ours = ours.dropna()
    if ours.empty:
        return Claim(item, paper, "", None, "not run")
    near = abs(ours.mean() - paper) <= TOLERANCE
    return Claim(
        item, paper, round(ours.mean(), 2), _spread(ours), "shown" if near else "not shown"
    )


def make_claims(table: pd.DataFrame, paper_item: str | None) -> list[Claim]:
    """Returns the paper's claims on a figure of this kind, and its numbers where it prints them.

    The claim of section 6: as noise grows the network keeps more of its accuracy at zero noise than
    the NTK. It counts as shown when the mean difference over seeds exceeds twice its standard error
    (with one seed: when it is positive).
    """
    numbers = paper_numbers.RETAINED_PERCENT.get(paper_item, {})
    noisiest = table[(table["noise"] == table["noise"].max()) & (table["noise"] > 0)]
    retained: dict[str, dict[str, pd.Series]] = {learner: {} for learner in _NAMES}
    for (learner, series), rows in noisiest.groupby(["learner", "series"], sort=False):
        retained[learner][series] = rows.set_index("seed")["retained"]
    for learner in numbers:  # what the paper has and was not run here
        retained[learner] = retained[learner] or {_NAMES[learner]: pd.Series(dtype=float)}

    network = retained["network"].get(_NAMES["network"], pd.Series(dtype=float))
    claims = []
    for learner, found in retained.items():
        for series, values in found.items():
            if learner in numbers:
                item = f"% of zero-noise accuracy retained at the highest noise, {series}"
                claims.append(_number_claim(item, numbers[learner], values))
            if learner != "network":
                known = learner in numbers
                paper = round(numbers["network"] - numbers[learner], 2) if known else "above 0"
                claims.append(_gap_claim(network, values, series, paper))
    if paper_item in paper_numbers.ON_PAR_AT_ZERO_NOISE:
        claims += _on_par_claims(table)
    return claims


def _on_par_claims(table: pd.DataFrame) -> list[Claim]:
    """Compares accuracies at zero noise, which the paper finds on a par."""
    quiet = table[table["noise"] == 0]
    accuracy = {
        series: 100 * rows.set_index("seed")["test_accuracy"]
        for series, rows in quiet.groupby("series", sort=False)
    }
    network = accuracy.pop(_NAMES["network"], pd.Series(dtype=float))
    return [
        _number_claim(f"points of accuracy at zero noise, network minus {series}", 0.0, network - v)
        for series, v in accuracy.items()
    ]


def draw(table: pd.DataFrame, noise_label: str) -> Any:
    """Draws test accuracy and percentage retained against noise; bands are ± 1 std over seeds."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    panels = (("test_accuracy", 100.0, "test accuracy (%)"), ("retained", 1.0, "% retained"))
    used = dict.fromkeys(_COLORS, 0)
    for (learner, series), rows in table.groupby(["learner", "series"], sort=False):
        color = _COLORS[learner][used[learner] % len(_COLORS[learner])]
        used[learner] += 1
        for axis, (column, scale, _) in zip(axes, panels, strict=True):
            stats = (scale * rows[column]).groupby(rows["noise"]).agg(["mean", "std"])
            axis.plot(stats.index, stats["mean"], "o-", color=color, label=series, markersize=4)
            low, high = stats["mean"] - stats["std"], stats["mean"] + stats["std"]
            axis.fill_between(stats.index, low, high, color=color, alpha=0.2, linewidth=0)
    for axis, (_, _, label) in zip(axes, panels, strict=True):
        axis.set(xlabel=noise_label, ylabel=label, ylim=(0, 103))
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns tables, claims and the figure of a sweep over learners, noise and seeds."""
    del workdir  # everything is in the results
    table = curves(results)
    gaussian = config.data.background in ("gaussian", "none")
    label = "standard deviation of the background" if gaussian else "intensity of the background"
    seeds = table["seed"].nunique()
    notes = [
        f"Means over {seeds} seed(s), ± their standard deviation. A difference counts as shown "
        "when its mean exceeds twice its standard error over seeds (with one seed: zero), a number "
        f"when it is within {TOLERANCE:g} points of the paper's."
    ]
    return Report(
        title=config.title,
        tables=[
            (f"Test accuracy (%) against {label}", _wide_table(table, "test_accuracy", 100.0)),
            ("Percentage of zero-noise accuracy retained", _wide_table(table, "retained", 1.0)),
        ],
        claims=make_claims(table, config.paper_item),
        figures={"noise_curves": functools.partial(draw, table, label)},
        extra_tables={},
        notes=notes,
    )
