"""The figures on growing."""

from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.growing import measures
from lsa_jax.experiments.growing.families import Family, describe
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import tidy

_COLORS = {"copy": "#0072B2", "random": "#D55E00"}
_SCHEDULES = {"constant": "#0072B2", "cosine": "#D55E00"}
_STRATEGIES = {"last": "#D55E00", "adaptive": "#0072B2"}
_RECALLS = {1: "#0072B2", 2: "#009E73", 3: "#D55E00"}
_MARKERS = "os^Dv*P"


def _band(axis: Any, steps: np.ndarray, curves: np.ndarray, color: str, label: str | None) -> None:
    """Draws the mean over seeds and a standard deviation around it."""
    mean = curves.mean(axis=0)
    axis.plot(steps, mean, color=color, label=label)
    if len(curves) > 1:
        spread = curves.std(axis=0, ddof=1)
        axis.fill_between(steps, mean - spread, mean + spread, color=color, alpha=0.15, lw=0)


def _dense(config: ml_collections.ConfigDict, family: Family) -> tuple[np.ndarray, np.ndarray]:
    """Returns the closely watched steps and their smoothed losses."""
    inside = family.steps <= config.dense_steps
    return family.steps[inside], family.smoothed[inside]


def draw_panels(config: ml_collections.ConfigDict, families: list[Family]) -> Any:
    """Draws the four panels of figure 5.3 over the seeds of one network and schedule."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7.6), layout="constrained")
    steps, _ = _dense(config, families[0])
    losses = [_dense(config, family)[1] for family in families]
    heat = np.mean([measures.self_correlation(rows) for rows in losses], axis=0)
    places = [*steps, 2 * steps[-1] - steps[-2]]
    image = axes[0, 0].pcolormesh(places, places, heat, cmap="RdBu_r", vmin=-1, vmax=1)
    figure.colorbar(image, ax=axes[0, 0], shrink=0.85)
    for family in families:
        change = describe(config, family)["transition"]
        axes[0, 0].axvline(change, color="black", lw=0.8, ls=":")
    axes[0, 0].set(title="Spearman of two steps (dotted: clear phases change)", ylabel="step")
    axes[0, 0].set_aspect("equal")
    both = list(zip(losses, families, strict=True))
    ranks = np.stack([measures.rank_correlations(rows, f.final) for rows, f in both])
    _band(axes[0, 1], steps, ranks, "#0072B2", None)
    axes[0, 1].plot(steps, ranks.T, color="#0072B2", lw=0.6, alpha=0.5)
    axes[0, 1].axhline(0, color="black", lw=0.6)
    axes[0, 1].set(title="Spearman with the final loss", ylim=(-1.05, 1.05))
    for k, color in _RECALLS.items():
        recalls = np.mean([measures.recall(rows, f.final, k) for rows, f in both], axis=0)
        axes[1, 0].plot(steps, recalls, color=color, label=f"k = {k}")
    axes[1, 0].set(title="recall@k, share of seeds", ylim=(-0.05, 1.05))
    axes[1, 0].legend(frameon=False)
    regrets = np.stack([measures.relative_regrets(rows, f.final) for rows, f in both])
    _band(axes[1, 1], steps, regrets, "#0072B2", None)
    axes[1, 1].set(title="relative regret", ylim=(-0.05, 1.05))
    for axis in axes.flat:
        axis.set(xlabel="steps after growing")
    tidy(*axes.flat[1:])
    figure.suptitle(f"{families[0].kind}, {families[0].schedule} learning rate")
    return figure


def draw_scatter(config: ml_collections.ConfigDict, families: list[Family]) -> Any:
    """Draws figure 5.2: the final loss against the one on growing and the one after k steps."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
    for place, family in enumerate(families):
        for axis, losses in ((axes[0], family.raw[0]), (axes[1], family.lag)):
            for source, color in _COLORS.items():
                own = np.array([operator.source == source for operator in family.operators])
                label = f"{source}, seed {family.seed}"
                marker = _MARKERS[place % len(_MARKERS)]
                axis.scatter(
                    losses[own], family.final[own], 18, color=color, marker=marker, label=label
                )
    correlations = pd.DataFrame([describe(config, family) for family in families]).mean(
        numeric_only=True
    )
    for axis, name, what in (
        (axes[0], "initial_spearman", "on growing"),
        (axes[1], "lag_spearman", f"after {config.lag_steps} steps"),
    ):
        axis.set(xlabel=f"loss {what}", title=f"mean Spearman {correlations[name]:.2f}")
    axes[0].set(ylabel="final loss")
    axes[0].legend(frameon=False, fontsize="x-small")
    tidy(*axes)
    figure.suptitle(f"{families[0].kind}, {families[0].schedule} learning rate")
    return figure


def draw_contrast(config: ml_collections.ConfigDict, families: list[Family]) -> Any:
    """Draws rank correlation and relative regret under a constant and under a decaying rate."""
    import matplotlib.pyplot as plt

    kinds = list(dict.fromkeys(family.kind for family in families))
    figure, axes = plt.subplots(
        2, len(kinds), figsize=(4.8 * len(kinds), 6.4), layout="constrained", squeeze=False
    )
    for column, kind in enumerate(kinds):
        for schedule, color in _SCHEDULES.items():
            own = [f for f in families if (f.kind, f.schedule) == (kind, schedule)]
            if not own:
                continue
            steps, _ = _dense(config, own[0])
            losses = [(_dense(config, family)[1], family.final) for family in own]
            ranks = np.stack([measures.rank_correlations(*pair) for pair in losses])
            regrets = np.stack([measures.relative_regrets(*pair) for pair in losses])
            _band(axes[0, column], steps, ranks, color, f"{schedule} rate")
            _band(axes[1, column], steps, regrets, color, f"{schedule} rate")
            axes[0, column].scatter(np.zeros(len(ranks)), ranks[:, 0], 16, color=color, zorder=3)
        axes[0, column].axhline(0, color="black", lw=0.6)
        axes[0, column].set(title=f"{kind}: Spearman with the final loss", ylim=(-1.05, 1.05))
        axes[1, column].set(title=f"{kind}: relative regret", ylim=(-0.05, 1.05))
        axes[1, column].set(xlabel="steps after growing")
    axes[0, 0].legend(frameon=False)
    tidy(*axes.flat)
    return figure


def draw_stacking(fine: pd.DataFrame, workdir: Path) -> Any:
    """Draws the validation loss over all stages, strategy by strategy."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6.4, 4), layout="constrained")
    labelled = set()
    for row in fine.itertuples():
        curve = pd.DataFrame(files.read_metrics(workdir, row.id))
        label = None if row.strategy in labelled else f"{row.strategy} stacking"
        labelled.add(row.strategy)
        axis.plot(curve["step"], curve["loss"], color=_STRATEGIES[row.strategy], lw=1, label=label)
    if labelled:
        axis.legend(frameon=False)
    axis.set(xlabel="step", title="validation loss")
    tidy(axis)
    return figure
