"""Tables and figures on decision lists, by the question of the sweep."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.transformers.claims import CASE, Config, make_claims, share_of_bound
from lsa_jax.experiments.transformers.sampler import make_lists
from lsa_jax.experiments.transformers.settings import sweep
from lsa_jax.experiments.transformers.value_step import value_after_step
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_THEOREM_COLUMNS = CASE | {
    "epsilon": "epsilon",
    "seed": "seed",
    "delta": "delta",
    "c": "c",
    "eigenvalue": "lambda_max",
    "first_perfect": "steps to perfect",
    "bound": "bound on the steps",
    "start_accuracy": "accuracy at step 0",
    "ordered": "columns of W in list order",
    "value_distance": "largest distance of V from cP / epsilon",
    "least_slope_ratio": "least squared gradient while wrong / proof's",
}
_WHOLE_NUMBERS = [*CASE, "seed", "first_perfect"]
_STEP_COLUMNS = {
    "columns_right": "columns with their largest entry at pi",
    "correlation": "correlation with P",
    "on_mean": "mean on P",
    "on_min": "least on P",
    "off_mean": "mean off P",
    "off_max": "largest off P",
    "uniform_attention_limit": "most that any V gets right at W = 0",
}
_THEOREM_NOTE = (
    "Every set of n tokens is in the loss, which is the population's; arithmetic is float64. "
    "A token is right where its label alone has the largest logit, by more than rounding. "
    "lambda_max is the largest eigenvalue of the Hessian on the path, by Lanczos at every step "
    "and half-way to the next, and eta = 1 / lambda_max on all of it."
)
_STEP_NOTE = (
    "Means over seeds ± their standard deviation; a seed draws V_0 and the sequences. The thesis "
    "shows a picture without numbers; its index i mod (L + 1) is no permutation of L tokens, so "
    "indices are modulo L here."
)
_START_NOTE = (
    "V_0 = c ((1 - r) P + r U), the entries of U uniform on [-1, 1]; W_0 = 0. A run succeeds where "
    "every token of every sequence is right after {steps} steps with eta = {learning_rate:g}. "
    "Distance is the largest of an entry; steps are the median over the runs that were perfect at "
    "an evaluation, every {eval_every} steps. Random starts succeed less often by Fisher's exact "
    "test, of one side at 2.5 %; it counts a size and seed once, as a success where all c succeed."
)


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep."""
    # A partly finished sweep may lack the column of a setting that only later runs have.
    swept = [name for point in sweep(config) for name in point]
    results = results.reindex(columns=list(dict.fromkeys([*results, *swept])))
    if "bound" in results:
        results = results.assign(share_of_bound=share_of_bound(results, config.max_steps))
    claims = decide_all(make_claims(config), Runs.of(sweep(config), results))
    fine = results[results["status"] == "ok"].reset_index(drop=True)
    parts = {"value_step": _step_parts, "value_random": _start_parts}
    own = parts.get(config.question, _theorem_parts)(config, fine, workdir)
    return Report(title=config.title, claims=claims, **own)


def _theorem_parts(config: Config, fine: pd.DataFrame, workdir: Path) -> dict[str, Any]:
    shown = {name: heading for name, heading in _THEOREM_COLUMNS.items() if name in fine}
    table = fine[list(shown)].copy()
    for name in table.columns.difference(_WHOLE_NUMBERS):
        table[name] = table[name].map("{:.4g}".format)
    columns = ["id", *(name for name in (*CASE, "epsilon", "seed") if name in fine)]
    paths = files.read_histories(workdir, fine, columns)
    return {
        "tables": [("Steps to perfect classification", table.rename(columns=shown))],
        "figures": {"decision_lists": partial(_draw_paths, fine, paths)},
        "extra_tables": {"paths": paths},
        "notes": [_THEOREM_NOTE],
    }


def _step_parts(config: Config, fine: pd.DataFrame, workdir: Path) -> dict[str, Any]:
    shown = {name: heading for name, heading in _STEP_COLUMNS.items() if name in fine}
    exact = fine["gradient"] == "exact"
    counts = fine["num_sequences"].map("{:.0f}".format) if "num_sequences" in fine else "exact"
    rows = fine.assign(sequences=fine["gradient"].where(exact, counts)).groupby(
        "sequences", sort=False
    )
    table = rows[list(shown)].agg(lambda values: mean_and_spread(values, ".4f", ".2g"))
    return {
        "tables": [("V after one step", table.rename(columns=shown).reset_index())],
        "figures": {"value_step": partial(_draw_step, config, fine)},
        "notes": [_STEP_NOTE],
    }


def _start_parts(config: Config, fine: pd.DataFrame, workdir: Path) -> dict[str, Any]:
    columns = [*CASE, "value_scale", "randomness"]

    def median(steps: pd.Series) -> str:
        reached = steps.dropna().astype(float)
        return f"{reached.median():g}" if len(reached) else ""

    groups = fine.groupby(columns)
    table = pd.DataFrame(
        {
            "distance of V_0 from cP / c": groups["start_distance"].mean().round(3),
            "columns right at the start": groups["start_columns_right"].mean().round(3),
            "runs that succeed": groups["success"].agg(lambda s: f"{int(s.sum())} of {len(s)}"),
            "steps to perfect": groups["first_perfect"].apply(median),
            "accuracy at the end": groups["accuracy"].mean().round(4),
            "columns right at the end": groups["columns_right"].mean().round(3),
        }
    ).reset_index()
    named = {**CASE, "value_scale": "c", "randomness": "r"}
    return {
        "tables": [("Success by the start", table.rename(columns=named))],
        "figures": {"value_random": partial(_draw_starts, fine)},
        "extra_tables": {"curves": files.read_histories(workdir, fine, ["id", *columns, "seed"])},
        "notes": [_START_NOTE.format(**config)],
    }


def _case_label(case: Iterable[float]) -> str:
    return f"(L, n, M) = {tuple(int(size) for size in case)}"


def _draw_paths(fine: pd.DataFrame, paths: pd.DataFrame) -> Any:
    """Draws steps and their bounds, the loss, the accuracy, and W by place in the list."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(15, 3.8), layout="constrained")
    longest = int(fine["list_length"].max())
    cases = list(paths.groupby([*CASE]))
    for place, (case, runs) in enumerate(cases):
        own = fine[(fine[[*CASE]] == list(case)).all(axis=1)]
        at, dots = np.full(len(own), place), {"linestyle": "", "markersize": 5}
        names = ("bound", "ours") if not place else (None, None)
        axes[0].plot(at, own["bound"], marker="_", color="black", label=names[0], **dots)
        # A step of 0 has no place on a logarithmic axis.
        steps = own["first_perfect"].clip(lower=0.5)
        axes[0].plot(at, steps, marker="o", color=PALETTE[0], label=names[1], **dots)
        style = {"color": PALETTE[place % len(PALETTE)], "linewidth": 1}
        label = _case_label(case)
        for _, rows in runs.groupby("id"):
            axes[1].plot(rows["step"], rows["loss"], **style)
            axes[2].plot(rows["step"], rows["accuracy"], label=label, **style)
            label = None
            names = [n for n in rows if n.startswith("weight_") and rows[n].notna().all()]
            # Tokens outside of the list are drawn behind the end of the longest list.
            places = [n.removeprefix("weight_").replace("outside", f"{longest + 1}") for n in names]
            if names:
                last = pd.Series(rows[names].iloc[-1].to_numpy(), map(int, places)).sort_index()
                axes[3].plot(last / last.abs().max(), "o-", markersize=3, **style)
    labels = [", ".join(map(str, case)) for case, _ in cases]
    axes[0].set(yscale="log", xticks=range(len(labels)), title="steps to perfect classification")
    axes[0].set_xticklabels(labels, rotation=40, ha="right", fontsize="small")
    axes[0].legend(frameon=False)
    axes[2].legend(frameon=False, fontsize="x-small")
    ticks = range(1, longest + 2)
    axes[3].set_xticks(ticks, [*map(str, ticks[:-1]), "none"])
    axes[1].set(xlabel="step", title="population loss")
    axes[2].set(xlabel="step", title="accuracy, strict")
    axes[3].set(xlabel="place in the list", title="W at the end, over its largest")
    tidy(*axes)
    return figure


def _draw_step(config: Config, fine: pd.DataFrame) -> Any:
    """Draws V after one exact step, and measures of P in sampled steps by their sequences.

    V is drawn at the first run's sizes and seed.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    drawn = config.copy_and_resolve_references()
    with drawn.unlocked():
        drawn.update({name: int(fine[name].iloc[0]) for name in (*CASE, "seed")})
        drawn.gradient = "exact"
    v, _ = value_after_step(drawn, make_lists(drawn))
    limit = np.abs(v).max()
    image = axes[0].imshow(v, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    axes[0].set(xlabel="token k", ylabel="label l", title="V after one step, whole population")
    figure.colorbar(image, ax=axes[0], shrink=0.85)
    sampled = fine[fine["gradient"] == "sampled"]
    names = {"correlation": "correlation with P", "columns_right": "columns right"}
    for color, (name, label) in zip(PALETTE, names.items(), strict=False):
        if len(sampled):
            stats = sampled.groupby("num_sequences")[name].agg(["mean", "std"]).fillna(0)
            style = {"fmt": "o-", "markersize": 4, "color": color}
            axes[1].errorbar(
                stats.index, stats["mean"], stats["std"], label=f"{label}, sampled", **style
            )
        for value in fine.loc[fine["gradient"] == "exact", name][:1]:
            axes[1].axhline(value, color=color, ls="--", label=f"{label}, exact")
    axes[1].set(xscale="log", xlabel="sampled sequences", ylim=(0, 1.05))
    axes[1].legend(frameon=False)
    tidy(axes[1])
    return figure


def _draw_starts(fine: pd.DataFrame) -> Any:
    """Draws the share of runs that succeed, and their accuracy, by V_0's distance from cP."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for place, ((*case, scale), rows) in enumerate(fine.groupby([*CASE, "value_scale"])):
        means = rows.groupby("randomness")[["start_distance", "success", "accuracy"]].mean()
        style = {"color": PALETTE[place % len(PALETTE)], "marker": "o", "markersize": 4}
        label = f"{_case_label(case)}, c = {scale:g}"
        axes[0].plot(means["start_distance"], means["success"], label=label, **style)
        axes[1].plot(means["start_distance"], means["accuracy"], **style)
    axes[0].legend(frameon=False, fontsize="small")
    titles = ("share of runs that succeed", "accuracy at the end, strict")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(title=title, ylim=(-0.05, 1.05))
        axis.set(xlabel="largest distance of V_0 from cP, over c")
    tidy(*axes)
    return figure
