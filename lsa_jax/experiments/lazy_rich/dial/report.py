"""The report on the dial: accuracy and measures against output scale and width."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.dial.claims import make_claims
from lsa_jax.experiments.lazy_rich.dial.settings import MEASURES, SETTINGS
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, mark_logarithmic, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_COLORS = dict(zip(LABELS, PALETTE, strict=False))
_PANELS = (
    ("test_accuracy", 100.0, "test accuracy (%)", "linear"),
    ("kernel_distance", 1.0, "kernel distance from the start", "log"),
    ("target_alignment", 1.0, "kernel's alignment with targets", "linear"),
    ("weight_movement", 1.0, "weight movement, mean of layers", "log"),
    ("agop_correlation", 1.0, "W^T W and gradient outer product", "linear"),
)
# Rows of panels: dial, horizontal axis and its label.
_DIALS = (
    ("output_scale", "output_scale", "output scale alpha: rich to lazy"),
    ("width", "width_factor", "width factor, alpha = 1"),
)


def _table(table: pd.DataFrame, dial: str, against: str) -> pd.DataFrame:
    """Returns one row a parameterisation, learner and setting: accuracies and measures."""
    rows = table[table["dial"] == dial]
    keys = ["parameterization", "learner", against]
    columns = [name for name in ("train_accuracy", "test_accuracy", *MEASURES) if name in rows]
    shown = rows.assign(**{against: rows[against].where(rows["learner"] == "network", np.inf)})
    cells = shown.groupby(keys, sort=False)[columns].agg(lambda v: mean_and_spread(v, ".3g"))
    return cells.reset_index()


def draw(table: pd.DataFrame) -> Any:
    """Draws accuracy and measures against both dials; bands are ± 1 standard deviation."""
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(2, len(_PANELS), figsize=(17, 6.6), layout="constrained")
    for axes, (dial, against, label) in zip(grid, _DIALS, strict=True):
        rows = table[(table["dial"] == dial) & (table["learner"] == "network")]
        for axis, (column, factor, words, scale) in zip(axes, _PANELS, strict=True):
            for name, own in rows.groupby("parameterization", sort=False):
                named = LABELS[name] if dial == "width" else None  # one legend for both rows
                style = {"color": _COLORS[name], "label": named, "marker": "o", "markersize": 4}
                draw_mean(axis, factor * own[column], own[against], **style)
            mark_logarithmic(axis, rows[against])
            axis.set(yscale=scale, xlabel=label, ylabel=words)
            tidy(axis)
    for learner, dashes, words in (
        ("linearized", "--", "linearised, trained likewise"),
        ("ntk_finite", ":", "NTK at the start, exact"),
    ):
        own = table[(table["dial"] == "output_scale") & (table["learner"] == learner)]
        for name, rows in own.groupby("parameterization", sort=False):
            style = {"color": _COLORS[name], "linestyle": dashes, "lw": 1.4}
            grid[0, 0].axhline(100 * rows["test_accuracy"].mean(), **style)
        grid[0, 0].plot([], [], color="black", linestyle=dashes, label=words)
    for axis in grid[:, 0]:
        axis.set_ylim(0, 103)
    grid[0, 0].legend(frameon=False, fontsize=8, loc="center right")
    grid[1, 0].legend(frameon=False, fontsize=8, title="parameterisation")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns tables, claims and the figure of both dials."""
    table = results[results["status"] == "ok"].copy()
    runs = Runs.of(SETTINGS.sweep(config), results, outcomes.read(workdir, table["id"]))
    return Report(
        title=config.title,
        tables=[
            ("By output scale, at width factor 1", _table(table, "output_scale", "output_scale")),
            ("By width, at an output scale of 1", _table(table, "width", "width_factor")),
        ],
        claims=decide_all(make_claims(config), runs),
        figures={"dial": functools.partial(draw, table)} if len(table) else {},
        notes=[
            f"Means over {table['seed'].nunique()} seed(s), ± their standard deviation, at the end "
            "of training; weight movement and correlations are means over layers. A row at "
            "infinite output scale is the linearisation, or its exact regression. At width factor "
            "1 muP is the standard parameterisation."
        ],
    )
