"""The report of the coordinate check: change of activations against width, and its slopes."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.coordinate_check.claims import make_claims
from lsa_jax.experiments.lazy_rich.coordinate_check.settings import sweep
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_LABELS = {"ntk": "NTK", "standard": "standard", "mup": "muP"}
_OUTPUTS = "change/outputs"


def layers(table: pd.DataFrame) -> list[str]:
    """Returns the columns of changes, those of the outputs last."""
    found = [name for name in table if name.startswith("change/") and name != _OUTPUTS]
    return [*found, _OUTPUTS]


def slopes(table: pd.DataFrame) -> pd.DataFrame:
    """Returns the slope of log change against log width: by rule, parameterisation, seed, layer."""
    rows = []
    keys = ["optimizer", "parameterization", "seed"]
    for key, own in table.groupby(keys, sort=False):
        for layer in layers(table):
            seen = own[(own[layer] > 0) & np.isfinite(own[layer])]
            if seen["width_factor"].nunique() > 1:
                logs = np.log(seen["width_factor"].to_numpy(float)), np.log(seen[layer].to_numpy())
                slope = float(np.polyfit(*logs, 1)[0])
                rows.append({**dict(zip(keys, key, strict=True)), "layer": layer, "slope": slope})
    return pd.DataFrame(rows, columns=[*keys, "layer", "slope"])


def _table(table: pd.DataFrame) -> pd.DataFrame:
    """Returns one row an update rule and parameterisation, one column a layer: slopes."""
    found = slopes(table)
    found["layer"] = found["layer"].str.removeprefix("change/")
    cells = found.groupby(["optimizer", "parameterization", "layer"], sort=False)["slope"]
    return cells.apply(mean_and_spread, ".3f").unstack("layer").reset_index()


def draw(table: pd.DataFrame) -> Any:
    """Draws the change of each layer against width: rows are update rules, columns names."""
    import matplotlib.pyplot as plt

    rules, names = (list(table[key].unique()) for key in ("optimizer", "parameterization"))
    size = (4 * len(names), 3.3 * len(rules))
    figure, grid = plt.subplots(
        len(rules), len(names), figsize=size, layout="constrained", squeeze=False, sharey="row"
    )
    for rule, axes in zip(rules, grid, strict=True):
        for name, axis in zip(names, axes, strict=True):
            own = table[(table["optimizer"] == rule) & (table["parameterization"] == name)]
            for layer, color in zip(layers(table), PALETTE, strict=False):
                style = {"color": color, "label": layer[7:], "marker": "o", "markersize": 3}
                draw_mean(axis, own[layer], own["width_factor"], **style)
            mark_logarithmic(axis, own["width_factor"])
            axis.set(yscale="log", title=f"{_LABELS[name]}, {rule}", xlabel="width factor")
            tidy(axis)
        axes[0].set_ylabel("change of activations (r.m.s.)")
    grid[0, 0].legend(frameon=False, fontsize=8)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns slopes, claims and the figure."""
    del workdir  # everything is in the results
    table = results[results["status"] == "ok"].copy()
    return Report(
        title=config.title,
        tables=[("Slope of log change against log width", _table(table))],
        claims=decide_all(make_claims(config, layers(table)), Runs.of(sweep(config), results)),
        figures={"coordinate_check": functools.partial(draw, table)},
        notes=[
            f"Change after {config.steps} steps of {config.batch_size} examples, "
            f"{table['seed'].nunique()} seed(s); outputs of each ReLU, and of the network."
        ],
    )
