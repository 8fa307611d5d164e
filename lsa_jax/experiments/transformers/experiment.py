"""A one-layer Transformer learns decision lists by gradient descent on the population.

Karp (thesis, 2024), chapter 4: theorem 4.3 (V = cP, W trained), theorem 4.4 (V near cP, both
trained), figure 4.1 (one step on V), and the question that it leaves open (both trained from a
random V).

No outcomes on test examples are kept: accuracies are of the whole population, which is trained on.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.transformers.claims import CASE, make_claims, share_of_bound
from lsa_jax.experiments.transformers.sampler import make_lists
from lsa_jax.experiments.transformers.settings import AXES
from lsa_jax.experiments.transformers.theorems import run_theorem
from lsa_jax.experiments.transformers.training import run_training
from lsa_jax.experiments.transformers.value_step import run_step, value_after_step
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import PALETTE, draw_mean, draw_series, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress


def _columns(config: Config) -> dict[str, Any]:
    names = ["vocabulary_size", "sequence_length", "list_length", *AXES[config.question], "seed"]
    if config.question == "value_step":
        names.append("gradient")
        if config.gradient == "exact":
            names.remove("num_sequences")
    return {name: config[name] for name in names}


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Answers the group's question."""
    tasks = [make_lists(point.config) for point in group]
    config = group[0].config
    if config.question == "value_random":
        return run_training(group, tasks, directory, progress)
    answer = run_step if config.question == "value_step" else run_theorem
    return [answer(config, tasks[0])]


# --- report -------------------------------------------------------------------------------------

_THEOREM_COLUMNS = {
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
_STEP_COLUMNS = {
    "columns_right": "columns with their largest entry at pi",
    "correlation": "correlation with P",
    "on_mean": "mean on P",
    "on_min": "least on P",
    "off_mean": "mean off P",
    "off_max": "largest off P",
    "uniform_attention_limit": "most that any V gets right at W = 0",
}
_START_COLUMNS = {
    "start_distance": "distance of V_0 from cP / c",
    "start_columns_right": "columns right at the start",
    "success": "share of runs that succeed",
    "first_perfect": "steps to perfect, of these",
    "accuracy": "accuracy at the end",
    "columns_right": "columns right at the end",
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
    "Distance is the largest of an entry; steps are of the runs that were perfect at an "
    "evaluation, every {eval_every} steps."
)
# By question: the table's heading and columns, and the note.
_THEOREM = ("Steps to perfect classification", _THEOREM_COLUMNS, _THEOREM_NOTE)
_PARTS = {
    "value_fixed": _THEOREM,
    "value_near": _THEOREM,
    "value_step": ("V after one step", _STEP_COLUMNS, _STEP_NOTE),
    "value_random": ("Success by the start", _START_COLUMNS, _START_NOTE),
}


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep."""
    fine = runs.finished.reset_index(drop=True)
    if "bound" in fine:
        fine = fine.assign(share_of_bound=share_of_bound(fine, config.max_steps))
    runs = runs._replace(finished=fine)
    fine = fine.assign(case=[", ".join(f"{n:g}" for n in own) for own in fine[[*CASE]].to_numpy()])
    by = [*CASE, *AXES[config.question]]
    if config.question == "value_step":
        by.append("gradient")
        extra, figure = {}, {"value_step": partial(_draw_step, config, fine)}
    else:
        paths = files.read_histories(workdir, fine, ["id", "case", *by, "seed"])
        extra, figure = {"paths": paths}, {"decision_lists": partial(_draw_paths, fine, paths)}
    if config.question == "value_random":
        extra, figure = {"curves": paths}, {"value_random": partial(_draw_starts, fine)}
    heading, columns, note = _PARTS[config.question]
    return Report(
        tables=[(heading, table_of_means(fine, by, columns).rename(columns=CASE))],
        claims=make_claims(config),
        runs=runs,
        figures=figure,
        extra_tables=extra,
        notes=[note.format(**config)],
    )


def _draw_paths(fine: pd.DataFrame, paths: pd.DataFrame) -> Any:
    """Draws steps and their bounds, the loss, the accuracy, and W by place in the list.

    Cases are (L, n, M). Tokens outside of the list are drawn behind the end of the longest list.
    """
    figure, ((steps, loss, accuracy, weights),) = subplots(1, 4, 3.75, 3.8)
    steps.plot(fine["case"], fine["bound"], "_", color="black", label="bound")
    # A step of 0 has no place on a logarithmic axis.
    steps.plot(fine["case"], fine["first_perfect"].clip(lower=0.5), "o", label="ours")
    steps.set(yscale="log", title="steps to perfect classification")
    steps.tick_params(axis="x", rotation=40)
    steps.legend(frameon=False)
    for axis, name in ((loss, "loss"), (accuracy, "accuracy")):
        draw_series(axis, paths, "step", name, "case", each="id", lw=1)
    loss.set(xlabel="step", title="population loss")
    accuracy.set(xlabel="step", title="accuracy, strict")
    accuracy.legend(title="L, n, M", frameon=False, fontsize="x-small")
    behind = int(fine["list_length"].max()) + 1
    last = paths.drop_duplicates("id", keep="last").set_index(["id", "case"]).filter(like="weight_")
    last = last.div(last.abs().max(axis=1), axis=0)
    last.columns = [name.removeprefix("weight_").replace("outside", f"{behind}") for name in last]
    last = last.melt(var_name="place", value_name="weight", ignore_index=False).dropna()
    last = last.reset_index().astype({"place": int}).sort_values("place", kind="stable")
    draw_series(weights, last, "place", "weight", "case", each="id", marker="o", markersize=3)
    weights.set(xlabel="place in the list", title="W at the end, over its largest")
    weights.set_xticks(range(1, behind + 1), [*map(str, range(1, behind)), "none"])
    return figure


def _draw_step(config: Config, fine: pd.DataFrame) -> Any:
    """Draws V after the first run's exact step, and measures of P by sampled sequences."""
    figure, ((picture, measures),) = subplots(1, 2, 5, 4.2)
    drawn = config.copy_and_resolve_references()
    with drawn.unlocked():
        drawn.update({name: int(fine[name].iloc[0]) for name in (*CASE, "seed")})
        drawn.gradient = "exact"
    v, _ = value_after_step(drawn, make_lists(drawn))
    limit = np.abs(v).max()
    image = picture.imshow(v, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
    picture.set(xlabel="token k", ylabel="label l", title="V after one step, whole population")
    picture.grid(visible=False)
    figure.colorbar(image, ax=picture, shrink=0.85)
    exact, sampled = (fine[fine["gradient"] == name] for name in ("exact", "sampled"))
    names = {"correlation": "correlation with P", "columns_right": "columns right"}
    for color, (name, label) in zip(PALETTE, names.items(), strict=False):
        style = {"color": color, "label": f"{label}, sampled", "marker": "o", "markersize": 4}
        draw_mean(measures, sampled[name], sampled["num_sequences"], **style)
        for level in exact[name][:1]:
            measures.axhline(level, color=color, ls="--", label=f"{label}, exact")
    measures.set(xscale="log", xlabel="sampled sequences", ylim=(0, 1.05))
    measures.legend(frameon=False)
    return figure


def _draw_starts(fine: pd.DataFrame) -> Any:
    """Draws the share of runs that succeed, and their accuracy, by V_0's distance from cP."""
    figure, axes = subplots(1, 2, 5, 3.8)
    starts = fine.groupby([*CASE, "value_scale", "randomness"])["start_distance"]
    series = fine["case"] + ", c = " + fine["value_scale"].map("{:g}".format)
    points = fine.assign(distance=starts.transform("mean"), series=series)
    titles = {"success": "share of runs that succeed", "accuracy": "accuracy at the end, strict"}
    for axis, (name, title) in zip(axes[0], titles.items(), strict=True):
        style = {"marker": "o", "markersize": 4, "limits": (0.0, 1.0)}
        draw_series(axis, points, "distance", name, "series", **style)
        axis.set(title=title, ylim=(-0.05, 1.05))
        axis.set(xlabel="largest distance of V_0 from cP, over c")
    axes[0, 0].legend(title="L, n, M", frameon=False, fontsize="small")
    return figure


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    # Runs from a random V share a program; others are single.
    varying=lambda config: (
        ("seed", "value_scale", "randomness") if config.question == "value_random" else ()
    ),
    columns=_columns,
    on_host=lambda config: config.question != "value_random",
    report_version=3,
)
