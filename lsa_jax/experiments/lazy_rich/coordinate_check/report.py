"""The report of the coordinate check: activation changes against width, and slopes."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.lazy_rich.coordinate_check.claims import make_claims
from lsa_jax.experiments.lazy_rich.coordinate_check.settings import SETTINGS
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.coordinates import columns, draw_changes, name_of
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import slope
from lsa_jax.reporting.write import mean_and_spread

_KEYS = ["optimizer", "parameterization"]


def _table(runs: Runs) -> pd.DataFrame:
    """Returns one row an update rule and parameterisation, one column a layer: slopes."""
    rows = []
    for key in runs.finished[_KEYS].drop_duplicates().to_dict("records"):
        of_layers = {
            name_of(layer): slope(layer, "width_factor", **key)(runs).values
            for layer in columns(runs.finished)
        }
        rows.append(key | {layer: mean_and_spread(found) for layer, found in of_layers.items()})
    return pd.DataFrame(rows)


def draw(table: pd.DataFrame) -> Any:
    """Draws the change of each layer against width: rows are update rules, columns names."""
    import matplotlib.pyplot as plt

    rules, names = (list(table[key].unique()) for key in _KEYS)
    size = (4 * len(names), 3.3 * len(rules))
    figure, grid = plt.subplots(
        len(rules), len(names), figsize=size, layout="constrained", squeeze=False, sharey="row"
    )
    for rule, axes in zip(rules, grid, strict=True):
        for name, axis in zip(names, axes, strict=True):
            own = table[(table["optimizer"] == rule) & (table["parameterization"] == name)]
            draw_changes(axis, own, "width_factor")
            axis.set(title=f"{LABELS[name]}, {rule}", xlabel="width factor")
        axes[0].set_ylabel("change of activations (r.m.s.)")
    grid[0, 0].legend(frameon=False, fontsize=8)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns slopes, claims and the figure."""
    del workdir  # everything is in the results
    runs = Runs.of(SETTINGS.sweep(config), results)
    table = runs.finished
    return Report(
        title=config.title,
        tables=[("Slope of log change against log width", _table(runs))],
        claims=decide_all(make_claims(config, columns(table)), runs),
        figures={"coordinate_check": functools.partial(draw, table)},
        notes=[
            f"Change after {config.steps} steps of {config.batch_size} examples, "
            f"{table['seed'].nunique()} seed(s); outputs of each ReLU, and of the network."
        ],
    )
