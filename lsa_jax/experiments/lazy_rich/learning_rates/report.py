"""The report on learning rates: losses against the rate at every width, and where the best is.

The claims were stated before any run: from the smallest to the largest width the best rate of muP
moves by less than `STEADY` factors of 2, that of the standard parameterisation falls by more.
"""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.report import Claim, Report

STEADY = 1.0
_LABELS = {"ntk": "NTK", "standard": "standard", "mup": "muP"}


def best_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Returns where the final training loss is least: `octaves`, log2 of the rate, by run.

    By parameterisation, width and seed; between two rates, by the parabola of the logarithm of the
    loss through the best and its neighbours. Where all rates have one loss there is none.
    """
    rows = []
    keys = ["parameterization", "width_factor", "seed"]
    for key, own in table.groupby(keys, sort=False):
        own = own.dropna(subset="train_loss").sort_values("learning_rate")
        octaves = np.log2(own["learning_rate"].to_numpy())
        heights = np.log(np.maximum(own["train_loss"].to_numpy(), 1e-12))
        if len(own) and np.ptp(heights) > 0:
            rows.append({**dict(zip(keys, key, strict=True)), "octaves": _least(octaves, heights)})
    return pd.DataFrame(rows, columns=[*keys, "octaves"])


def _least(places: np.ndarray, heights: np.ndarray) -> float:
    """Returns where the least height is, between its neighbours."""
    at = int(np.argmin(heights))
    if not 0 < at < len(places) - 1:
        return float(places[at])
    square, slope, _ = np.polyfit(places[at - 1 : at + 2] - places[at], heights[at - 1 : at + 2], 2)
    return float(places[at] - slope / (2 * square)) if square > 0 else float(places[at])


def make_claims(table: pd.DataFrame) -> list[Claim]:
    """Returns the two claims; muP's counts only where the standard one's rate falls."""
    best = best_rates(table)
    ends = table["width_factor"].min(), table["width_factor"].max()
    shifts = {}
    for name in ("standard", "mup"):
        own = best[best["parameterization"] == name].set_index("seed")
        first, last = (own[own["width_factor"] == width]["octaves"] for width in ends)
        shifts[name] = (last - first).dropna()
    item = f"factors of 2 of the best rate, width factor {ends[0]:g} to {ends[1]:g}"
    falls = deciding.compare(
        f"{item}, standard",
        f"below {-STEADY:g}",
        shifts["standard"],
        below=-STEADY,
        digits=2,
    )
    unless = "" if falls.status == "shown" else "the standard one's is not shown to fall"
    stays = deciding.agree(f"{item}, muP", 0.0, shifts["mup"], STEADY, unless=unless, digits=2)
    return [falls, stays]


def _table(table: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a parameterisation, one column a width: log2 of the best rate."""
    best = best_rates(table)
    cells = best.groupby(["parameterization", "width_factor"], sort=False)["octaves"]
    wide = cells.apply(deciding.cell, ".2f").unstack("width_factor")
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
        tables=[("log2 of the rate with the least training loss", _table(table))],
        claims=make_claims(table),
        figures={"learning_rates": functools.partial(draw, table)},
        notes=[
            f"Training loss after {config.epochs} epochs, {table['seed'].nunique()} seed(s); "
            f"{int(table['diverged'].sum())} of {len(table)} runs left the finite numbers."
        ],
    )
