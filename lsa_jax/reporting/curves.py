"""How figures look: colours, axes, and a mean over seeds."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

# Colours that also colour-blind readers tell apart: Okabe and Ito (2008).
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def tidy(*axes: Any) -> None:
    """Gives axes of matplotlib a light grid and no frame above and to the right."""
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)


def subplots(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Any, Any]:
    """Returns a figure of tidy panels, each of this size in inches, and its axes [rows, columns].

    Options are those of `pyplot.subplots`.
    """
    import matplotlib.pyplot as plt  # seconds of import, which figures alone need

    size = {"figsize": (width * columns, height * rows), "layout": "constrained"}
    figure, axes = plt.subplots(rows, columns, squeeze=False, **size, **options)
    tidy(*axes.flat)
    return figure, axes


def draw_mean(
    axis: Any,
    values: pd.Series,
    x: pd.Series,
    *,
    color: str,
    limits: tuple[float, float] = (-np.inf, np.inf),
    **style: Any,
) -> None:
    """Draws the mean of the values at each x, in a band of one standard deviation.

    Args:
        axis: of matplotlib.
        values: of all seeds.
        x: where each of them is.
        color: of line and band.
        limits: that the values cannot leave; nor does the band.
        **style: of the line.
    """
    stats = values.groupby(x).agg(["mean", "std"])
    axis.plot(stats.index, stats["mean"], color=color, **style)
    low, high = stats["mean"] - stats["std"], stats["mean"] + stats["std"]
    axis.fill_between(
        stats.index, low.clip(limits[0]), high.clip(upper=limits[1]), color=color, alpha=0.2, lw=0
    )


def mark_logarithmic(axis: Any, values: Iterable[float], **style: Any) -> None:
    """Makes the x axis logarithmic, with a tick at each of the values and none between them.

    Args:
        axis: of matplotlib.
        values: that were swept.
        **style: of the labels.
    """
    from matplotlib.ticker import NullFormatter

    places = sorted(set(values))
    axis.set_xscale("log")
    axis.set_xticks(places, [f"{place:g}" for place in places], **style)
    axis.xaxis.set_minor_formatter(NullFormatter())  # its labels would lie on each other
