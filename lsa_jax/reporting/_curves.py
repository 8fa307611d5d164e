"""How a mean over seeds is drawn."""

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
