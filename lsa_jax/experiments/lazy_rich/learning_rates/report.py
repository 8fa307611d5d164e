"""The report on learning rates: losses by rate and width, and the best rates."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.experiments.lazy_rich.learning_rates.claims import (
    DEGREE,
    DEPTH,
    best_rates,
    make_claims,
)
from lsa_jax.experiments.lazy_rich.learning_rates.settings import SETTINGS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs


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
    return wide.rename(columns="width factor {:g}".format).reset_index()


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
            losses = own.groupby("learning_rate")["train_loss"]
            means = losses.apply(lambda of_rate: of_rate.mean(skipna=False))
            style = {"color": color, "marker": "o", "markersize": 3, "label": f"{width:g}"}
            axis.plot(means.index, means, **style)
        axis.set_xscale("log", base=2)
        axis.set(yscale="log", xlabel="learning rate", title=LABELS[name])
        tidy(axis)
    axes[0, 0].set_ylabel("training loss at the end")
    axes[0, 0].legend(frameon=False, title="width factor", fontsize=8)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the best rates, the claims and the figure."""
    del workdir  # everything is in the results
    table = results[results["status"] == "ok"].copy()
    if "train_loss" not in table or table.empty:
        return Report(config.title, [], [], {}, notes=["No run has finished."])
    return Report(
        title=config.title,
        tables=[
            ("log2 of the rate with the least training loss, ± its standard error", _table(table))
        ],
        claims=decide_all(make_claims(config), Runs.of(SETTINGS.sweep(config), results)),
        figures={"learning_rates": functools.partial(draw, table)},
        notes=[
            f"Training loss after {config.epochs} epochs, {table['seed'].nunique()} seed(s); "
            f"{int(table['diverged'].sum())} of {len(table)} runs left the finite numbers. The "
            "best rate is that of the mean curve over seeds, by a polynomial of degree "
            f"{DEGREE} through the losses up to {np.exp(DEPTH):.1f} times the least; errors are "
            "the jackknife's."
        ],
    )
