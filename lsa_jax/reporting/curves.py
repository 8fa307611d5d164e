"""How a mean over seeds is drawn, and an axis of a few swept values."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd


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
