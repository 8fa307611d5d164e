"""The figures on stability: pairs, maxima and fit against m; accuracy between two models."""

from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.measures import QUANTITIES
from lsa_jax.reporting.curves import mark_logarithmic, tidy

_PAIR, _LARGEST, _FIT = "#0072B2", "#D55E00", "#009E73"


def _panel(axis: Any, found: pd.DataFrame, quantity: str, fit: pd.Series) -> None:
    """Draws one quantity of one trial: every pair, the largest of each size, the curve."""
    axis.plot(found["m"], found[quantity], "o", color=_PAIR, markersize=2.5, alpha=0.5)
    largest = found.groupby("m")[quantity].max()
    axis.plot(largest.index, largest, "o", color=_LARGEST, markersize=5)
    title = QUANTITIES[quantity]
    if np.isfinite(fit["exponent"]):
        m = np.geomspace(found["m"].min(), found["m"].max(), 100)
        axis.plot(m, fit["factor"] * m ** fit["exponent"], color=_FIT)
        title += f": b = {fit['exponent']:.2f}"
    axis.set_title(title, fontsize="medium")
    tidy(axis)


def draw_pairs(found: pd.DataFrame, fits: pd.DataFrame, *, logarithmic: bool) -> Any:
    """Draws a row of panels a trial, one panel a quantity.

    Args:
        found: one row a pair, of one learner, kind of S' and stop.
        fits: one row a trial and quantity.
        logarithmic: both axes; values that are not positive have no place then.
    """
    import matplotlib.pyplot as plt

    seeds = sorted(found["seed"].unique())
    size = (3.1 * len(QUANTITIES), 2.9 * len(seeds))
    figure, axes = plt.subplots(
        len(seeds), len(QUANTITIES), figsize=size, layout="constrained", squeeze=False
    )
    for row, seed in zip(axes, seeds, strict=True):
        trial = found[found["seed"] == seed]
        for axis, quantity in zip(row, QUANTITIES, strict=True):
            fit = fits[(fits["seed"] == seed) & (fits["quantity"] == quantity)].iloc[0]
            _panel(axis, trial, quantity, fit)
            if logarithmic:
                mark_logarithmic(axis, trial["m"], rotation=40, fontsize="small")
                if (trial[quantity] > 0).any():
                    axis.set_yscale("log", nonpositive="clip")
        row[0].set_ylabel(f"trial {seed}")
    for axis in axes[-1]:
        axis.set_xlabel("m")
    return figure


def draw_paths(paths: pd.DataFrame) -> Any:
    """Draws accuracy on the line through W_S' (alpha = 0) and W_S (1), a color a pair.

    Args:
        paths: one row a pair and alpha; panels are sizes, rows are trials and learners.
    """
    import matplotlib.pyplot as plt

    rows = list(paths.groupby(["learner", "perturbation", "seed"], sort=False))
    sizes = sorted(paths["m"].unique())
    size = (4.6 * len(sizes), 3.4 * len(rows))
    figure, axes = plt.subplots(
        len(rows), len(sizes), figsize=size, layout="constrained", squeeze=False
    )
    for row, ((learner, perturbation, seed), found) in zip(axes, rows, strict=True):
        for axis, m in zip(row, sizes, strict=True):
            own = found[found["m"] == m]
            colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, max(1, own["pair"].nunique())))
            for place, (_, path) in enumerate(own.groupby("pair")):
                names = place == 0
                for split, style in (("train", "-"), ("test", "--")):
                    axis.plot(
                        path["alpha"],
                        path[f"{split}_accuracy"],
                        style,
                        color=colors[place],
                        linewidth=1,
                        label=split if names else None,
                    )
            for end in (0, 1):
                axis.axvline(end, color="black", linewidth=0.6, linestyle=":")
            axis.set_title(f"{learner}, {perturbation}, trial {seed}, m = {m}", fontsize="medium")
            axis.set_xlabel("alpha")
            tidy(axis)
        row[0].set_ylabel("accuracy")
    axes[0, -1].legend(frameon=False)
    return figure


def draw_influence(points: pd.DataFrame) -> Any:
    """Draws the predicted change without an example against that of training again."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
    sizes = sorted(points["m"].unique())
    colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(sizes)))
    for axis, name in zip(axes, ("stability", "distance"), strict=True):
        for m, color in zip(sizes, colors, strict=True):
            own = points[points["m"] == m]
            axis.plot(
                own[name],
                own[f"predicted_{name}"],
                "o",
                color=color,
                markersize=3,
                label=f"m = {m}",
            )
        ends = [points[name].min(), points[name].max()]
        axis.plot(ends, ends, color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", xlabel=f"{name}, trained again", ylabel="predicted")
        tidy(axis)
    axes[0].legend(frameon=False, fontsize="small")
    return figure
