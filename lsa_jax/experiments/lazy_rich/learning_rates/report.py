"""The report on learning rates: losses against the rate at every width, and where the best is.

The best rate is where the mean over seeds of the logarithm of the training loss is least: of the
polynomial of degree `DEGREE` in the logarithm of the rate that is fitted to the rates around the
least whose loss is up to exp(`DEPTH`) times as large. A wide network's loss is flat there, where
the least of each seed's points, or of a parabola through three of them, is off by up to an octave
on made-up curves, and this by half as much at most. Its error is the jackknife's over seeds, which
both widths share.

The claims were stated before any run: from the smallest to the largest width the best rate of muP
moves by less than `STEADY` factors of 2, that of the standard parameterisation falls by more. A
width whose best rate is at the end of those that were swept says nothing, and neither does one that
learns at no rate: whose least loss is not surely below that of a guess, log 10.
"""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd
from jaxtyping import Float

from lsa_jax.experiments.lazy_rich.learning_rates.settings import sweep
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import doubts, intervals
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.report import Claim, Report

STEADY = 1.0
DEGREE, DEPTH = 4, 1.5
_CLASSES = 10
_LABELS = {"ntk": "NTK", "standard": "standard", "mup": "muP"}


def curve(table: pd.DataFrame, name: str, width: int | np.integer) -> pd.DataFrame:
    """Returns the logarithm of the final training loss: a row a seed, a column log2 of a rate.

    NaN where a run left the finite numbers.
    """
    own = table[(table["parameterization"] == name) & (table["width_factor"] == width)]
    heights = np.log(np.maximum(own["train_loss"], 1e-12))
    octaves = np.log2(own["learning_rate"])
    wide = pd.DataFrame({"seed": own["seed"], "octaves": octaves, "height": heights})
    return wide.pivot(index="seed", columns="octaves", values="height").sort_index(axis=1)


def best_rate(
    octaves: Float[np.ndarray, " rates"], heights: Float[np.ndarray, "seeds rates"]
) -> float:
    """Returns log2 of the rate at which the mean of heights over seeds is least.

    Args:
        octaves: log2 of the rates, increasing.
        heights: logarithms of the losses; a rate at which one is not finite has no mean.

    Returns:
        Where the fitted polynomial is least, within the rates that it is fitted to; not-a-number
        where all rates have one loss, or none has a mean.
    """
    means = heights.mean(axis=0)
    means[~np.isfinite(means)] = np.inf
    finite = means[np.isfinite(means)]
    if not len(finite) or np.ptp(finite) == 0:
        return np.nan
    first = last = int(np.argmin(means))
    limit, points = means[first] + DEPTH, DEGREE + 1
    while True:
        below = means[first - 1] if first else np.inf
        above = means[last + 1] if last + 1 < len(means) else np.inf
        least = min(below, above)
        if not np.isfinite(least) or (least > limit and last - first + 1 >= points):
            break
        first, last = (first - 1, last) if below <= above else (first, last + 1)
    places = octaves[first : last + 1]
    middle = places.mean()
    fitted = np.polyfit(places - middle, means[first : last + 1], min(DEGREE, last - first))
    fine = np.linspace(places[0], places[-1], 2001)
    return float(fine[np.argmin(np.polyval(fitted, fine - middle))])


def _best(curves: list[pd.DataFrame]) -> Float[np.ndarray, " curves"]:
    return np.array([best_rate(c.columns.to_numpy(), c.to_numpy()) for c in curves])


def best_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Returns `octaves`, log2 of the best rate, and its `error`, by parameterisation and width."""
    keys, rows = ["parameterization", "width_factor"], []
    for key, _ in table.groupby(keys, sort=False):
        own = curve(table, *key)
        values = intervals.jackknife(list(own.index), lambda kept, o=own: _best([o.loc[kept]])[0])
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        rows.append({**dict(zip(keys, key, strict=True)), "octaves": values.mean(), "error": error})
    return pd.DataFrame(rows, columns=[*keys, "octaves", "error"])


def _shift(ends: list[pd.DataFrame]) -> Float[np.ndarray, " seeds"]:
    """Returns by how much the best rate moves, a value a seed."""
    seeds = [seed for seed in ends[0].index if seed in ends[1].index]

    def moved(kept: list[int]) -> float:
        first, last = _best([own.loc[kept] for own in ends])
        return last - first

    return intervals.jackknife(seeds, moved)


def _at_end(own: pd.DataFrame, width: int) -> str:
    """Names the end of the rates that were swept at which the best one is; empty if at none."""
    octaves, place = own.columns, float(_best([own])[0])
    for end, name in ((octaves.min(), "low"), (octaves.max(), "high")):
        if place == end:
            return f"width factor {width:g} is best at the {name} end of the rates, 2^{end:g}"
    return ""


def _learns_not(own: pd.DataFrame, width: int) -> str:
    """Says that a width is not shown to learn at any rate; empty if it is."""
    means = own.mean(skipna=False)
    if means.notna().any():
        best = intervals.over_seeds(own[means.idxmin()])
        if best.seeds < 2 or best.high < np.log(np.log(_CLASSES)):
            return ""
    return f"width factor {width:g} is not shown to learn at any rate"


def _doubts(config: ml_collections.ConfigDict, table: pd.DataFrame, name: str) -> dict:
    """Returns what speaks against a shift of the best rate, for `doubted`."""
    widths = min(config.sweep.width_factor), max(config.sweep.width_factor)
    rows = table[(table["parameterization"] == name) & table["width_factor"].isin(widths)]
    wanted = [
        point
        for point in sweep(config)
        if point["parameterization"] == name and point["width_factor"] in widths
    ]
    curves = {width: curve(rows, name, width) for width in dict.fromkeys(widths)}
    curves = {width: own for width, own in curves.items() if own.size}
    ends = [_at_end(own, width) for width, own in curves.items()]
    ends += [_learns_not(own, width) for width, own in curves.items()]
    one = "it would take 2 widths or more" if widths[0] == widths[1] else ""
    sample = doubts.no_sample(rows, ["train_loss"], ["width_factor", "learning_rate"])
    return {"against": [doubts.lost_runs(wanted, rows)], "refuted": [one, *ends, sample]}


def make_claims(config: ml_collections.ConfigDict, table: pd.DataFrame) -> list[Claim]:
    """Returns the two claims; muP's counts only where the standard one's rate falls.

    Args:
        config: of the sweep.
        table: its results, without those that failed; a loss that is not finite is an outcome.
    """
    ends = min(config.sweep.width_factor), max(config.sweep.width_factor)
    item = f"factors of 2 of the best rate, width factor {ends[0]:g} to {ends[1]:g}"
    falls = deciding.compare(
        f"{item}, standard",
        f"below {-STEADY:g}",
        _shift([curve(table, "standard", width) for width in ends]),
        below=-STEADY,
        digits=2,
    )
    falls = doubts.doubted(falls, **_doubts(config, table, "standard"))
    unless = "" if falls.status == "shown" else "the standard one's is not shown to fall"
    shifts = _shift([curve(table, "mup", width) for width in ends])
    steady = f"{item}, muP, within {STEADY:g}"
    stays = deciding.agree(steady, 0.0, shifts, STEADY, unless=unless, digits=2)
    return [falls, doubts.doubted(stays, **_doubts(config, table, "mup"))]


def _table(table: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a parameterisation, one column a width: log2 of the best rate."""
    best = best_rates(table)
    cells = [
        f"{place:.2f}" + ("" if np.isnan(error) else f" ± {error:.2f}")
        for place, error in zip(best["octaves"], best["error"], strict=True)
    ]
    wide = best.assign(cell=cells).pivot(
        index="parameterization", columns="width_factor", values="cell"
    )
    wide = wide.reindex(best["parameterization"].drop_duplicates())
    wide.columns = [f"width factor {width:g}" for width in wide.columns]
    return wide.reset_index()


def draw(table: pd.DataFrame) -> Any:
    """Draws the loss against the rate, a curve a width, a panel a parameterisation."""
    import matplotlib.pyplot as plt

    names = list(table["parameterization"].unique())
    size = (4.6 * len(names), 3.8)
    figure, axes = plt.subplots(
        1, len(names), figsize=size, layout="constrained", sharey=True, squeeze=False
    )
    widths = sorted(table["width_factor"].unique())
    colors = plt.colormaps["viridis"](np.linspace(0.0, 0.9, len(widths)))
    for axis, name in zip(axes[0], names, strict=True):
        for width, color in zip(widths, colors, strict=True):
            own = table[(table["parameterization"] == name) & (table["width_factor"] == width)]
            # A rate at which a seed fails has no mean.
            means = own.groupby("learning_rate")["train_loss"].apply(
                lambda losses: losses.mean(skipna=False)
            )
            style = {"color": color, "marker": "o", "markersize": 3, "label": f"{width:g}"}
            axis.plot(means.index, means, **style)
        axis.set_xscale("log", base=2)
        axis.set(yscale="log", xlabel="learning rate", title=_LABELS[name])
        tidy(axis)
    axes[0, 0].set_ylabel("training loss at the end")
    axes[0, 0].legend(frameon=False, title="width factor", fontsize=8)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns where the best rates are, the claims and the figure."""
    del workdir  # everything is in the results
    table = results[results["status"] == "ok"].copy()
    if "train_loss" not in table or table.empty:
        return Report(config.title, [], [], {}, notes=["No run has finished."])
    return Report(
        title=config.title,
        tables=[
            ("log2 of the rate with the least training loss, ± its standard error", _table(table))
        ],
        claims=make_claims(config, table),
        figures={"learning_rates": functools.partial(draw, table)},
        notes=[
            f"Training loss after {config.epochs} epochs, {table['seed'].nunique()} seed(s); "
            f"{int(table['diverged'].sum())} of {len(table)} runs left the finite numbers. The "
            "best rate is that of the mean curve over seeds, by a polynomial of degree "
            f"{DEGREE} through the losses up to {np.exp(DEPTH):.1f} times the least; errors are "
            "the jackknife's."
        ],
    )
