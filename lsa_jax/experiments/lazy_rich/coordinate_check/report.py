"""The report of the coordinate check: change of activations against width, and its slopes.

The claims were stated before any run: in muP the slope of log change against log width is within
`FLAT` of 0 for every layer, in the standard parameterisation that of the outputs is above `STEEP`,
and in the NTK parameterisation SGD moves features the less the wider they are: below -`STEEP`.
A slope takes three widths or more, and all that a sweep asks for: two give a slope to any noise.
"""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.coordinate_check.settings import sweep
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import doubts
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, tidy
from lsa_jax.reporting.report import Claim, Report

FLAT, STEEP = 0.15, 0.3
FEWEST_WIDTHS = 3
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


def _of_layers(own: pd.DataFrame, *, outputs: bool) -> pd.Series:
    """Returns the slopes by seed: of the outputs, or the mean over what lies before them."""
    return own[(own["layer"] == _OUTPUTS) == outputs].groupby("seed")["slope"].mean()


def _doubts(config: ml_collections.ConfigDict, table: pd.DataFrame, rule: str, name: str) -> dict:
    """Returns what speaks against the slopes of a rule and parameterisation, for `doubted`."""
    rows = table[(table["optimizer"] == rule) & (table["parameterization"] == name)]
    # What does not change at all, or leaves the finite numbers, has no logarithm.
    moves = rows.copy()
    moves[layers(table)] = rows[layers(table)].where(rows[layers(table)] > 0)
    wanted = [
        point
        for point in sweep(config)
        if (point["optimizer"], point["parameterization"]) == (rule, name)
    ]
    widths = rows["width_factor"].nunique()
    few = f"it would take {FEWEST_WIDTHS} widths or more" if 0 < widths < FEWEST_WIDTHS else ""
    sample = doubts.no_sample(rows, layers(table), ["width_factor"])
    lost = doubts.lost_runs(wanted, moves, layers(table))
    return {"against": [lost], "refuted": [few, sample]}


def make_claims(config: ml_collections.ConfigDict, table: pd.DataFrame) -> list[Claim]:
    """Returns the claims of each update rule; others' count only where the standard one fails.

    Args:
        config: of the sweep.
        table: its results, without those that failed.
    """
    found, claims = slopes(table), []
    item = "slope of log change against log width"
    for rule in table["optimizer"].unique():
        of_rule = found[found["optimizer"] == rule]
        by_name = dict(list(of_rule.groupby("parameterization", sort=False)))
        nothing = of_rule.iloc[:0]
        steep = _of_layers(by_name.get("standard", nothing), outputs=True)
        control = deciding.compare(
            f"{item}, standard, {rule}, outputs", f"above {STEEP:g}", steep, above=STEEP
        )
        control = doubts.doubted(control, **_doubts(config, table, rule, "standard"))
        unless = "" if control.status == "shown" else "the standard one is not shown to fail"
        claims.append(control)
        against = _doubts(config, table, rule, "mup")
        for layer, own in by_name.get("mup", nothing).groupby("layer", sort=False):
            values = own.set_index("seed")["slope"]
            name = f"{item}, muP, {rule}, {layer.removeprefix('change/')}, within {FLAT:g}"
            claim = deciding.agree(name, 0.0, values, FLAT, unless=unless)
            claims.append(doubts.doubted(claim, **against))
        if rule == "sgd":
            own = _of_layers(by_name.get("ntk", nothing), outputs=False)
            name = f"{item}, NTK, sgd, mean of features"
            # Where all fall likewise it is not the parameterisation that makes them.
            claim = deciding.compare(name, f"below {-STEEP:g}", own, below=-STEEP, unless=unless)
            claims.append(doubts.doubted(claim, **_doubts(config, table, rule, "ntk")))
    return claims


def _table(table: pd.DataFrame) -> pd.DataFrame:
    """Returns one row an update rule and parameterisation, one column a layer: slopes."""
    found = slopes(table)
    found["layer"] = found["layer"].str.removeprefix("change/")
    cells = found.groupby(["optimizer", "parameterization", "layer"], sort=False)["slope"]
    return cells.apply(deciding.cell, ".3f").unstack("layer").reset_index()


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
        claims=make_claims(config, table),
        figures={"coordinate_check": functools.partial(draw, table)},
        notes=[
            f"Change after {config.steps} steps of {config.batch_size} examples, "
            f"{table['seed'].nunique()} seed(s); outputs of each ReLU, and of the network."
        ],
    )
