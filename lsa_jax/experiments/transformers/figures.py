"""The figures on decision lists."""

from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.transformers.tasks import make_lists
from lsa_jax.experiments.transformers.value_step import value_after_step
from lsa_jax.reporting.curves import PALETTE, tidy

_CASE = ["vocabulary_size", "sequence_length", "list_length"]


def _steps_beside_bounds(axis: Any, fine: pd.DataFrame) -> None:
    labels = []
    for place, (case, rows) in enumerate(fine.groupby(_CASE)):
        labels.append(", ".join(map(str, case)))
        at, style = np.full(len(rows), place), {"linestyle": "", "markersize": 5}
        bounds = {"marker": "_", "color": "black", "label": None if place else "bound"}
        axis.plot(at, rows["bound"], **bounds, **style)
        # A step of 0 has no place on a logarithmic axis.
        steps = rows["first_perfect"].clip(lower=0.5)
        axis.plot(at, steps, marker="o", color=PALETTE[0], label=None if place else "ours", **style)
    axis.set(yscale="log", xticks=range(len(labels)), title="steps to perfect classification")
    axis.set_xticklabels(labels, rotation=40, ha="right", fontsize="small")
    axis.legend(frameon=False)


def draw_paths(fine: pd.DataFrame, paths: pd.DataFrame) -> Any:
    """Draws steps beside bounds, the loss, the accuracy, and W by place in the list.

    Args:
        fine: the points that did not fail.
        paths: one row a step of each of them.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(15, 3.8), layout="constrained")
    if len(fine):
        _steps_beside_bounds(axes[0], fine)
        longest = int(fine["list_length"].max())
        for place, (case, runs) in enumerate(paths.groupby(_CASE)):
            label = "(L, n, M) = " + str(tuple(int(size) for size in case))
            for _, rows in runs.groupby("id"):
                style = {"color": PALETTE[place % len(PALETTE)], "label": label, "linewidth": 1}
                axes[1].plot(rows["step"], rows["loss"], **style)
                axes[2].plot(rows["step"], rows["accuracy"], **style)
                label = None
                names = [n for n in rows if n.startswith("weight_") and rows[n].notna().all()]
                if names:
                    places = [n.removeprefix("weight_") for n in names]
                    # Tokens outside of the list are drawn behind the end of the longest list.
                    at = [longest + 1 if p == "outside" else int(p) for p in places]
                    last = pd.Series(rows[names].iloc[-1].to_numpy(), at).sort_index()
                    axes[3].plot(last / last.abs().max(), "o-", markersize=3, **style)
        axes[2].legend(frameon=False, fontsize="x-small")
        ticks = range(1, longest + 2)
        axes[3].set_xticks(ticks, [*map(str, ticks[:-1]), "none"])
    axes[1].set(xlabel="step", title="population loss")
    axes[2].set(xlabel="step", title="accuracy, strict")
    axes[3].set(xlabel="place in the list", title="W at the end, over its largest")
    tidy(*axes)
    return figure


def draw_step(config: ml_collections.ConfigDict, fine: pd.DataFrame) -> Any:
    """Draws V after one exact step, and what sampled steps pick up against their sequences.

    Args:
        config: of the sweep.
        fine: the points that did not fail; V is drawn at the first one's sizes and seed.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    if fine.empty:
        return figure
    drawn = config.copy_and_resolve_references()
    with drawn.unlocked():
        drawn.update({name: int(fine[name].iloc[0]) for name in (*_CASE, "seed")})
        drawn.gradient = "exact"
    v, _ = value_after_step(drawn, make_lists(drawn))
    limit = np.abs(v).max()
    image = axes[0].imshow(v, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    axes[0].set(xlabel="token k", ylabel="label l", title="V after one step, whole population")
    figure.colorbar(image, ax=axes[0], shrink=0.85)
    sampled = fine[fine["gradient"] == "sampled"]
    for place, (name, label) in enumerate(
        {"correlation": "correlation with P", "columns_right": "columns right"}.items()
    ):
        if len(sampled):
            stats = sampled.groupby("num_sequences")[name].agg(["mean", "std"])
            axes[1].errorbar(
                stats.index,
                stats["mean"],
                stats["std"].fillna(0),
                fmt="o-",
                markersize=4,
                color=PALETTE[place],
                label=f"{label}, sampled",
            )
        for value in fine.loc[fine["gradient"] == "exact", name][:1]:
            axes[1].axhline(value, color=PALETTE[place], ls="--", label=f"{label}, exact")
    axes[1].set(xscale="log", xlabel="sampled sequences", ylim=(0, 1.05))
    axes[1].legend(frameon=False)
    tidy(*axes[1:])
    return figure


def draw_training(fine: pd.DataFrame) -> Any:
    """Draws the share of runs that succeed, and their accuracy, against V_0's distance from cP."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    if len(fine):
        for place, (setting, rows) in enumerate(fine.groupby([*_CASE, "value_scale"])):
            *case, scale = setting
            label = f"(L, n, M) = {tuple(int(size) for size in case)}, c = {scale:g}"
            means = rows.groupby("randomness")[["start_distance", "success", "accuracy"]].mean()
            style = {"color": PALETTE[place % len(PALETTE)], "marker": "o", "markersize": 4}
            axes[0].plot(means["start_distance"], means["success"], label=label, **style)
            axes[1].plot(means["start_distance"], means["accuracy"], **style)
        axes[0].legend(frameon=False, fontsize="small")
    axes[0].set(title="share of runs that succeed", ylim=(-0.05, 1.05))
    axes[1].set(title="accuracy at the end, strict", ylim=(-0.05, 1.05))
    for axis in axes:
        axis.set(xlabel="largest distance of V_0 from cP, over c")
    tidy(*axes)
    return figure
