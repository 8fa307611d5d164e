"""The report on a law: a table, claims and a figure."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.learning_rates.experiment import (
    BEST_RATES,
    best_rates,
    curve,
    wide_table,
)
from lsa_jax.experiments.theory.laws.claims import FROM, LEVEL, make_claims
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import PALETTE, draw_mean, draw_series, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

# Swept settings, and their headings.
_SWEPT = {
    "output_scale": "alpha",
    "learning_rate": "rate",
    "source_exponent": "beta",
    "phases": "phases",
}


# By law: the heading of the table, and columns of results with their headings.
_TABLES = {
    "grokking": (
        f"Steps at which losses fall below {LEVEL:g} of a guess's",
        {
            "train_step": "step, training loss",
            "test_step": "step, test loss",
            "delay": "delay, log2",
            "kernel_between": "kernel's share between",
            "train_loss": "training loss at the end",
            "test_loss": "test loss at the end",
        },
    ),
    "sharpness": (
        "Sharpness along training",
        {
            "start_ratio": "sharpness / (2 / rate), start",
            "edge_ratio": "the same, last half",
            "sharpening": "last half / start",
            "train_loss": "training loss at the end",
        },
    ),
    "scaling": (
        f"Powers of 1 / step with which losses fall, from {FROM:g} of the steps on",
        {
            "exponent": "power of the loss",
            "kernel_exponent": "of the infinite NTK, at this rate",
            "train_loss": "training loss at the end",
            "test_loss": "test loss at the end",
        },
    ),
}


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the law's table, claims and figure."""
    table = runs.finished
    if "train_loss" not in table:
        return Report(notes=["All runs left the finite numbers."])
    if config.law == "rate":
        heading, by = BEST_RATES, ("output_scale", "depth")
        shown = wide_table(best_rates(table, by), *by, "{} layers")
        draw = functools.partial(_draw_rates, config.width, table)
    else:
        heading, columns = _TABLES[config.law]
        swept = {name: heading for name, heading in _SWEPT.items() if name in table}
        shown = table_of_means(table.rename(columns=swept), list(swept.values()), columns)
        histories = files.read_histories(workdir, table, ["id", *swept])
        own = (table, histories) if config.law == "grokking" else (histories,)
        draw = functools.partial(_DRAWN[config.law], *own)
    return Report(
        tables=[(heading, shown)],
        claims=make_claims(config),
        figures={config.law: draw},
        notes=[
            f"{table['seed'].nunique()} seed(s), {config.steps} steps on {config.num_train} "
            f"examples; {int(table['diverged'].sum())} of {len(table)} runs left the finite "
            "numbers. Losses are over that of the output 0."
        ],
    )


# --- figures ------------------------------------------------------------------------------------


def _draw_each(
    axis: Any, rows: pd.DataFrame, by: str, column: str, label: str, **options: Any
) -> None:
    """Draws the mean of a column along training, a line for each value of a setting."""
    rows = rows.sort_values(by, kind="stable")
    draw_series(
        axis, rows.assign(level=rows[by].map(label.format)), "step", column, "level", **options
    )


def _draw_rates(width: int, table: pd.DataFrame) -> Any:
    """Draws losses against the rate, a panel a depth, and the best rates against alpha."""
    from matplotlib import colormaps

    depths, scales = sorted(table["depth"].unique()), sorted(table["output_scale"].unique())
    figure, (axes,) = subplots(1, len(depths) + 1, 4.0, 3.6)
    colors = colormaps["viridis"](np.linspace(0.0, 0.9, len(scales)))
    for axis, depth in zip(axes, depths, strict=False):
        for scale, color in zip(scales, colors, strict=True):
            means = curve(table, depth=depth, output_scale=scale).mean(skipna=False)
            style = {"color": color, "marker": "o", "markersize": 3, "label": f"{scale:.3g}"}
            axis.plot(2.0**means.index, np.exp(means), **style)
        axis.set_xscale("log", base=2)
        axis.set(yscale="log", xlabel="rate on w", title=f"{depth} layers")
    axes[0].set_ylabel("training loss at the end")
    axes[0].legend(frameon=False, title="alpha", fontsize=7)
    best = best_rates(table, ("output_scale", "depth"))
    for depth, color in zip(depths, PALETTE, strict=False):
        own = best[best["depth"] == depth].sort_values("output_scale")
        style = {"color": color, "marker": "o", "linestyle": "", "label": f"{depth} layers"}
        x, y = own["output_scale"].to_numpy(), own["octaves"].to_numpy()
        axes[-1].errorbar(x, y, yerr=own["error"], **style)
        rich = x * np.sqrt(width) <= 1
        if rich.any():  # the law's slope through the mean of the rich ones
            slope, places = 2 - 2 / depth, np.log2(x[rich])
            axes[-1].plot(x[rich], y[rich].mean() + slope * (places - places.mean()), color=color)
    axes[-1].set_xscale("log", base=2)
    axes[-1].set(xlabel="alpha", ylabel="log2 of the best rate", title="lines: 2 - 2 / L")
    axes[-1].legend(frameon=False, fontsize=8)
    return figure


def _draw_grokking(table: pd.DataFrame, histories: pd.DataFrame) -> Any:
    """Draws losses and the kernel's distance at three alpha, and the delay against alpha."""
    every = sorted(table["output_scale"].unique())
    scales = sorted({every[0], every[len(every) // 2], every[-1]})
    figure, (axes,) = subplots(1, len(scales) + 1, 3.6, 3.3)
    lines = {"train_loss": "training loss", "test_loss": "test loss"}
    lines["moved"] = "kernel's distance / its last"
    for axis, scale in zip(axes, scales, strict=False):
        own = histories[(histories["output_scale"] == scale) & (histories["step"] > 0)]
        last = own[own["step"] == own["step"].max()].set_index("id")["kernel_distance"]
        own = own.assign(moved=own["kernel_distance"] / own["id"].map(last))
        shown = own.rename(columns=lines).melt(
            "step", list(lines.values())[: 2 + (scale < every[-1])]
        )
        draw_series(axis, shown, "step", "value", "variable", limits=(1e-4, 2))
        axis.axhline(LEVEL, color="black", linestyle=":", lw=1)
        axis.set(
            xscale="log", yscale="log", ylim=(1e-3, 2), xlabel="step", title=f"alpha {scale:g}"
        )
    axes[0].legend(frameon=False, fontsize=7)
    table = table[table["output_scale"] < every[-1]]
    draw_mean(axes[-1], table["delay"], table["output_scale"], color="black", marker="o")
    axes[-1].set_xscale("log", base=2)
    axes[-1].set(xlabel="alpha", ylabel="delay, log2 of a ratio of steps")
    return figure


def _draw_sharpness(histories: pd.DataFrame) -> Any:
    """Draws the sharpness along training, a panel an output scale, with 2 / rate dotted."""
    panels = histories.groupby("output_scale")
    figure, (axes,) = subplots(1, len(panels), 4.4, 3.6, sharey=True)
    for axis, (scale, own) in zip(axes, panels, strict=True):
        _draw_each(axis, own, "learning_rate", "sharpness", "rate {:g}")
        for rate, color in zip(sorted(own["learning_rate"].unique()), PALETTE, strict=False):
            axis.axhline(2 / rate, color=color, linestyle=":")
        axis.set(yscale="log", xlabel="step", title=f"alpha {scale:g}")
    axes[0].set_ylabel("sharpness; dotted: 2 / rate")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def _draw_scaling(histories: pd.DataFrame) -> Any:
    """Draws losses along training, a panel a target; dotted: descent with the infinite NTK."""
    panels = histories[histories["step"] > 0].groupby(["phases", "source_exponent"])
    figure, (axes,) = subplots(1, len(panels), 3.6, 3.4)
    for axis, ((phases, beta), own) in zip(axes, panels, strict=True):
        _draw_each(axis, own, "output_scale", "train_loss", "alpha {:g}", limits=(1e-9, 2.0))
        lazy = own[own["output_scale"] == own["output_scale"].max()]
        means = lazy.groupby("step")["kernel_loss"].mean()
        axis.plot(means.index, means, color="black", linestyle=":", label="infinite NTK")
        axis.axvline(FROM * own["step"].max(), color="grey", lw=0.8)
        title = f"beta {beta:g}, {phases} phases"
        axis.set(xscale="log", yscale="log", xlabel="step", title=title)
    axes[0].set_ylabel("training loss")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


_DRAWN = {"grokking": _draw_grokking, "sharpness": _draw_sharpness, "scaling": _draw_scaling}
