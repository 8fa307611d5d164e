"""The report on activity: percentage of active neurons by layer and epoch, and whether it falls."""

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.activation_sparsity.claims import MEAN, make_claims
from lsa_jax.experiments.lsa.activation_sparsity.settings import sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs

_PREFIX = "test_active_"

# Test images at the least, where the results do not have their number.
_EXAMPLES = 500

Points = Sequence[Mapping[str, object]]


def activity(results: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns one row a finished run, layer and report: `active_percent` on the test images.

    Layers are numbered from the input, `ReLU 1` first; the mean of the layers is a layer too.
    """
    rows = []
    for run in results[results["status"] == "ok"].itertuples():
        for report in files.read_metrics(workdir, run.id):
            layers = {
                f"ReLU {name.removeprefix(_PREFIX)}": 100 * value
                for name, value in report.items()
                if name.startswith(_PREFIX)
            }
            if not layers:  # an epoch at which other things were measured
                continue
            layers[MEAN] = float(np.mean(list(layers.values())))
            rows += [
                {
                    "noise": run.noise,
                    "seed": run.seed,
                    "epoch": report["epoch"],
                    "layer": layer,
                    "active_percent": percent,
                }
                for layer, percent in layers.items()
            ]
    columns = ["noise", "seed", "epoch", "layer", "active_percent"]
    return pd.DataFrame(rows, columns=columns)


def _changes(table: pd.DataFrame) -> pd.DataFrame:
    """Returns first, last and change of each layer's activity, one row a noise, layer and seed."""
    ordered = table.sort_values("epoch", kind="stable")
    found = ordered.groupby(["noise", "layer", "seed"], sort=False)["active_percent"]
    ends = found.agg(["first", "last"]).reset_index()
    return ends.assign(change=ends["last"] - ends["first"])


def decided(table: pd.DataFrame, results: pd.DataFrame, points: Points) -> list[Row]:
    """Returns the decided claims.

    Args:
        table: as `activity` returns it.
        results: a row a run.
        points: settings of the runs that the sweep asks for.
    """
    runs = results[results["status"] == "ok"].drop(columns="id")
    changes = _changes(table).merge(runs, on=["noise", "seed"])
    if "num_test" not in changes:
        changes["num_test"] = _EXAMPLES
    noises = list(dict.fromkeys(changes["noise"]))
    layers = [layer for layer in dict.fromkeys(changes["layer"]) if layer != MEAN]
    return decide_all(make_claims(noises, layers), Runs.of(points, changes))


def draw(table: pd.DataFrame) -> Any:
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
    table = activity(results, workdir)
    ends = _changes(table).groupby(["noise", "layer"], sort=False)[["first", "last"]].mean()
    tables = [("Active neurons (%), first and last report", ends.reset_index())]
    done = results[results["status"] == "ok"]
    if not done.empty:
        accuracy = 100 * done.groupby("noise")["test_accuracy"].mean()
        tables.append(("Test accuracy (%)", accuracy.reset_index()))
    notes = [
        "Fractions are of test images; layers are numbered from the input. A fall counts as shown "
        "when its 95 % interval over seeds is below zero."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=decided(table, results, sweep(config)),
        figures={"activation_sparsity": functools.partial(draw, table)},
        extra_tables={"activity": table},
        notes=notes,
    )
