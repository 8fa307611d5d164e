"""The report on activity: percentage of active neurons by layer and epoch, and whether it falls."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.activation_sparsity.claims import MEAN, make_claims
from lsa_jax.experiments.lsa.activation_sparsity.settings import SETTINGS
from lsa_jax.experiments.lsa.tables import histories
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs

_PREFIX = "test_active_"

# Least number of test images, for results that lack it.
_EXAMPLES = 500


def _activity(done: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns one row a run, evaluation and layer: `active_percent` on the test images.

    Layers are numbered from the input, `ReLU 1` first; the mean of the layers is a layer too.
    """
    rows = histories(done, workdir, ["noise", "seed"])
    columns = [name for name in rows if name.startswith(_PREFIX)]
    percent = 100 * rows[columns].rename(columns=lambda n: f"ReLU {n.removeprefix(_PREFIX)}")
    percent[MEAN] = percent.mean(axis=1)
    # Rows without activity are epochs at which only other numbers were measured.
    stacked = percent.stack(future_stack=True).dropna().rename_axis([None, "layer"])
    of_run = rows.reindex(columns=["noise", "seed", "epoch"])
    return of_run.join(stacked.rename("active_percent").reset_index("layer"), how="inner")


def _changes(table: pd.DataFrame) -> pd.DataFrame:
    """Returns first, last and change of each layer's activity, one row a noise, layer and seed."""
    ordered = table.sort_values("epoch", kind="stable")
    found = ordered.groupby(["noise", "layer", "seed"], sort=False)["active_percent"]
    ends = found.agg(["first", "last"]).reset_index()
    return ends.assign(change=ends["last"] - ends["first"])


def _draw(table: pd.DataFrame) -> Any:
    """Draws each layer's mean over seeds against the epoch, one panel a noise level."""
    import matplotlib.pyplot as plt

    noises = table["noise"].unique()
    size = (5.5 * len(noises), 3.8)
    figure, axes = plt.subplots(1, len(noises), figsize=size, layout="constrained", squeeze=False)
    for axis, noise in zip(axes[0], noises, strict=True):
        rows = table[table["noise"] == noise]
        layers = rows["layer"].unique()
        colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(layers)))
        for layer, color in zip(layers, colors, strict=True):
            means = rows[rows["layer"] == layer].groupby("epoch")["active_percent"].mean()
            style = {"color": "black", "linewidth": 2.5} if layer == MEAN else {"color": color}
            axis.plot(means.index, means, label=layer, **style)
        title = f"noise {noise:g}" if len(noises) > 1 else ""
        axis.set(xlabel="epoch", ylabel="active neurons (%)", title=title)
        axis.set_ylim(bottom=0)
        tidy(axis)
    axes[0, -1].legend(frameon=False, fontsize="small")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the table, the claims and the figure of a sweep over noise and seeds."""
    done = results[results["status"] == "ok"]
    table = _activity(done, workdir)
    changes = _changes(table)
    ends = changes.groupby(["noise", "layer"], sort=False)[["first", "last"]].mean()
    accuracy = 100 * done.groupby("noise")["test_accuracy"].mean()
    runs = changes.merge(done.drop(columns="id"), on=["noise", "seed"])
    runs = runs.assign(num_test=runs.get("num_test", _EXAMPLES))
    layers = [layer for layer in dict.fromkeys(changes["layer"]) if layer != MEAN]
    claims = make_claims(list(dict.fromkeys(changes["noise"])), layers)
    return Report(
        title=config.title,
        tables=[
            ("Active neurons (%), first and last report", ends.reset_index()),
            ("Test accuracy (%)", accuracy.reset_index()),
        ],
        claims=decide_all(claims, Runs.of(SETTINGS.sweep(config), runs)),
        figures={"activation_sparsity": functools.partial(_draw, table)},
        extra_tables={"activity": table},
        notes=[
            "Fractions are of test images; layers are numbered from the input. A fall counts as "
            "shown when its 95 % interval over seeds is below zero."
        ],
    )
