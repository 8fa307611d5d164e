"""The figures on hierarchical targets."""

from typing import Any

import pandas as pd

from lsa_jax.reporting.curves import PALETTE, mark_logarithmic, tidy

_STYLES = ("-", "--", ":")
_TASK = ["d", "base_degree", "composite_degree", "outputs"]

_SIGNALS = {
    "first_layer_error": "base signal, first layer's read-out",
    "base_error": "base signal, outputs",
    "composite_error": "composite signal, outputs",
}


def draw_empty() -> Any:
    """Draws an empty figure, where every point failed."""
    import matplotlib.pyplot as plt

    return plt.figure(figsize=(5, 3))


def _draw_series(axis: Any, rows: pd.DataFrame, x: str, bound: float) -> None:
    """Draws medians over seeds and their range, a line a series; a series without x is level."""
    for place, (name, of_series) in enumerate(rows.groupby("series", sort=False)):
        style = {
            "color": PALETTE[place % len(PALETTE)],
            "ls": _STYLES[place // len(PALETTE) % len(_STYLES)],
            "label": name,
        }
        if of_series[x].isna().all():
            axis.axhline(of_series["test_error"].median(), lw=1, **style)
            continue
        errors = of_series.groupby(x)["test_error"].agg(["median", "min", "max"])
        axis.plot(errors.index, errors["median"], marker="o", markersize=3, **style)
        axis.fill_between(
            errors.index, errors["min"], errors["max"], color=style["color"], alpha=0.15, lw=0
        )
    axis.axhline(bound, color="black", lw=0.8, ls=(0, (1, 3)), label="k alpha²")
    mark_logarithmic(axis, rows[x].dropna())
    axis.set(yscale="log", ylabel="test error")
    tidy(axis)


def draw_widths(fine: pd.DataFrame, bound: float) -> Any:
    """Draws the test error of every series against the width."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    _draw_series(axis, fine, "width", bound)
    axis.set(xlabel="m, number of hidden neurons")
    axis.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_samples(fine: pd.DataFrame) -> Any:
    """Draws the test error of every series against N, a panel a task."""
    import matplotlib.pyplot as plt

    tasks = list(fine.groupby(_TASK))
    figure, axes = plt.subplots(
        1, len(tasks), figsize=(1.5 + 4.5 * len(tasks), 4), layout="constrained", squeeze=False
    )
    for axis, ((d, base, composite, outputs), rows) in zip(axes[0], tasks, strict=True):
        bound = outputs * rows["alpha"].iloc[0] ** 2
        _draw_series(axis, rows, "num_train", bound)
        axis.set(xlabel="N", title=f"d = {d:g}, degree {base:g} x {composite:g}")
    axes[0, -1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def draw_epochs(curves: pd.DataFrame) -> Any:
    """Draws what is missed of each signal against the epoch, a panel a series, a line a seed."""
    import matplotlib.pyplot as plt

    series = list(curves.groupby("series", sort=False))
    figure, axes = plt.subplots(
        1,
        len(series),
        figsize=(1 + 3.4 * len(series), 3.6),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for axis, (name, rows) in zip(axes[0], series, strict=True):
        for place, (column, label) in enumerate(_SIGNALS.items()):
            for number, (_, run) in enumerate(rows.groupby("seed")):
                axis.plot(
                    run["epoch"] + 1,
                    run[column],
                    color=PALETTE[place],
                    lw=1.2,
                    label=label if number == 0 else None,
                )
        axis.set(xscale="log", yscale="log", xlabel="epoch + 1", title=name)
        tidy(axis)
    axes[0, 0].set(ylabel="share missed")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure
