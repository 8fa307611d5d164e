"""A three-layer ResNet, other nets and kernels on a two-stage target.

Allen-Zhu and Li (2019), section 8.1: figures 2 and 3; which part of the ResNet does it; error
against the number of examples (theorem 2); base signal first, composite one after. Each point is a
whole search of learning rate and weight decay, or a kernel solved exactly.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from lsa_jax.experiments.resnet.hierarchical import settings, tasks
from lsa_jax.experiments.resnet.hierarchical.claims import CLAIMS, series_name
from lsa_jax.experiments.resnet.hierarchical.kernels import run_exact
from lsa_jax.experiments.resnet.search import Grid, Plan, Search, make_grid
from lsa_jax.experiments.resnet.shallow import first_features
from lsa_jax.reporting import files, outcomes
from lsa_jax.reporting.curves import PALETTE, draw_series, mark_logarithmic, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.experiment import SCRATCH, Experiment, Outcome, Progress, with_course, with_test
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point
from lsa_jax.training.course import NOTHING, Measuring

# Over the mean squared feature: read-outs have more examples than features, but these may be
# linearly dependent.
_READOUT_RIDGE = 1e-6


def _setting(config: Config, name: str) -> tuple:
    """Returns a setting of the search; kernels have settings of their own."""
    return config.search[f"kernel_{name}" if config.learner in settings.KERNEL_LEARNERS else name]


def candidates(config: Config) -> Grid:
    """Returns learning rate and weight decay of every candidate of a learner's search."""
    return make_grid(_setting(config, "learning_rates"), _setting(config, "weight_decays"))


def make_search(config: Config, plan: Plan) -> Search:
    """Returns the search of a learner, for all seeds."""
    apply, frozen = tasks.trained_function(config)
    fetch = tasks.fetch_linearized if config.learner == "ntk" else None
    return Search(apply, plan, frozen=frozen, fetch=fetch)


def make_plan(config: Config) -> Plan:
    """Returns the search's plan; an answer of 0 has the targets' mean square as its error."""
    mean_square = tasks.num_outputs(config) * (config.beta**2 + config.alpha**2)
    rungs = zip(config.search.rung_epochs, _setting(config, "rung_keep"), strict=True)
    return Plan.of(config, dict(rungs), config.search.hopeless * mean_square)


def share_missed(outputs: Float[Array, "n k"], signal: Float[Array, "n k"]) -> Float[Array, ""]:
    """Returns the missed share of a signal: 1 if outputs have none of it, 0 for all.

    With c_i the coefficient of the outputs' projection on signal i, it is the mean of (1 - c_i)^2
    weighted by the signals' mean squares. Other parts of the outputs do not count.
    """
    squares = jnp.mean(signal**2, axis=0)
    coefficients = jnp.mean(outputs * signal, axis=0) / squares
    return jnp.sum((1 - coefficients) ** 2 * squares) / jnp.sum(squares)


@jax.default_matmul_precision("highest")
def readout_error(
    features: Float[Array, "n m"],
    signal: Float[Array, "n k"],
    test_features: Float[Array, "t m"],
    test_signal: Float[Array, "t k"],
) -> Float[Array, ""]:
    """Returns the best linear read-out's squared error, over the signal's mean square.

    The read-out has a constant, is fitted on the first examples and tested on the second.
    """

    def with_constant(x: Array) -> Array:
        return jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)

    features, test_features = with_constant(features), with_constant(test_features)
    gram = features.T @ features / len(features)
    ridge = _READOUT_RIDGE * jnp.mean(jnp.diag(gram)) * jnp.eye(len(gram))
    readout = jnp.linalg.solve(gram + ridge, features.T @ signal / len(features))
    error = jnp.sum(jnp.mean((test_features @ readout - test_signal) ** 2, axis=0))
    return error / jnp.sum(jnp.mean(test_signal**2, axis=0))


def make_measure(config: Config, task: tasks.HierarchicalTask) -> Callable:
    """Returns the compiled measures of one network's parameters.

    They are `test_error`, `first_layer_error` (of the first layer's best linear read-out on beta F,
    over its mean square), `base_error` and `composite_error` (the share of beta F and of alpha G(F)
    that the outputs miss).
    """
    apply, _ = tasks.trained_function(config)
    initial, probe = tasks.initial_params(config), tasks.draw_probe(config)
    base, composite = tasks.signals(task.hierarchy, task.test.inputs)
    probe_base, _ = tasks.signals(task.hierarchy, probe.inputs)
    _, _, test = tasks.make_training(config, task)
    inputs = (initial, task.test.inputs) if config.learner == "ntk" else test.inputs

    @jax.jit
    def measure(params: Any) -> dict[str, Array]:
        outputs = apply(params, inputs)
        # A kernel has the initial network's features.
        moved = params if config.learner in ("all", "hidden") else initial
        of_probe, of_test = (first_features(moved, x) for x in (probe.inputs, task.test.inputs))
        return {
            "test_error": jnp.mean(jnp.sum((outputs - task.test.targets) ** 2, axis=1)),
            "first_layer_error": readout_error(of_probe, probe_base, of_test, base),
            "base_error": share_missed(outputs, base),
            "composite_error": share_missed(outputs, composite),
        }

    return measure


def _watched(config: Config, task: tasks.HierarchicalTask, outcome: Outcome) -> Outcome:
    """Trains a search's winner once more, and measures both signals in between."""
    plan = make_plan(config)._replace(eval_every=config.watch_every, rungs={})
    winner = make_grid([outcome.metrics["learning_rate"]], [outcome.metrics["weight_decay"]])
    start, train, test = tasks.make_training(config, task)
    measure, rows = make_measure(config, task), []

    def observe(epoch: int, params: Any) -> None:
        first = jax.tree.map(lambda a: a[0], params)
        rows.append({"epoch": epoch, **{n: float(v) for n, v in measure(first).items()}})

    observe(0, jax.tree.map(lambda a: a[None], start))
    search = make_search(config, plan)
    search.run(tasks.order_key(config), start, train, test, winner, observe=observe)
    learned = {
        f"{name}_epoch": next((r["epoch"] for r in rows if r[f"{name}_error"] <= 1 / 2), None)
        for name in ("base", "composite")
    }
    last = {name: value for name, value in rows[-1].items() if name != "epoch"}
    return outcome._replace(metrics=outcome.metrics | learned | last, history=rows)


def _search(search: Search, config: Config, directory: Path, progress: Progress) -> Outcome:
    """Searches for one seed: the winner's last row, and a row an evaluation of each candidate."""
    task, grid = tasks.make_task(config), candidates(config)
    start, train, test = tasks.make_training(config, task)
    # Features and kernels of the other learners stay as they are.
    measured = config.learner in settings.NETWORK_LEARNERS
    found = search.run(
        tasks.order_key(config),
        start,
        train,
        test,
        grid,
        checkpoint_dir=directory / SCRATCH / f"seed_{config.seed}",
        progress=progress,
        measuring=Measuring(config.measures, config.measured_examples) if measured else NOTHING,
    )
    history = [
        {"epoch": epoch, **found.row(candidate, place), "best": bool(candidate == found.best)}
        for place, epoch in enumerate(found.epochs)
        for candidate in np.flatnonzero(found.trained >= epoch).tolist()
    ]
    if found.best is None:
        message = f"none of {len(found.trained)} candidates reached epoch {config.epochs}"
        outcome = Outcome({}, history, "failed", f"{message}; lower the rates in config.search")
        return with_course(outcome, found.measured, found.cost)
    last = [row for row in history if row["best"]][-1]
    names = ("test_error", "train_error", "learning_rate", "weight_decay")
    metrics = {name: last[name] for name in names} | {
        "candidates": len(found.trained),
        "candidates_finished": int(np.sum(found.trained == config.epochs)),
    }
    squares = np.asarray(search.distances(found, found.best, test))
    kept = outcomes.of_errors(squares, np.asarray(task.test.targets))
    (outcome,) = with_test([Outcome(metrics, history, outcomes=kept)], task.test)
    if config.question == "epochs":
        outcome = _watched(config, task, outcome)
    return with_course(outcome, found.measured, found.cost)


def run(group: list[Point], data: None, directory: Path, progress: Progress) -> list[Outcome]:
    """Searches for every seed of a group, or solves its kernel."""
    config = group[0].config
    if config.learner not in settings.SEARCHED:
        return [run_exact(point.config) for point in group]
    search, count = make_search(config, make_plan(config)), len(group)
    return [
        _search(search, point.config, directory, lambda f, n=done: progress((n + f) / count))
        for done, point in enumerate(group)
    ]


def _columns(config: Config) -> dict[str, Any]:
    names = ["net", "learner", "d", "base_degree", "composite_degree", "alpha", "beta", "num_train"]
    learner = config.learner
    has_width = learner not in settings.INPUT_LEARNERS and not learner.endswith("infinite")
    found = {name: config[name] for name in (*names, *(["width"] if has_width else []), "seed")}
    return found | {"outputs": tasks.num_outputs(config)}


# --- report -------------------------------------------------------------------------------------

_STYLES = ("-", "--", ":")

# Columns of the horizontal axis, and their labels.
_AXES = {
    **dict.fromkeys(("width", "beta", "nets"), ("width", "m, number of hidden neurons")),
    "alpha": ("alpha", "alpha, weight of G(F)"),
    "samples": ("num_train", "N"),
}

_SIGNALS = {
    "first_layer_error": "base signal, first layer's read-out",
    "base_error": "base signal, outputs",
    "composite_error": "composite signal, outputs",
}


def _series_column(runs: pd.DataFrame, question: str) -> list[str]:
    """Returns the names of the series, with the settings that vary apart from the axis."""
    labels = {"beta": {"beta": "beta", "num_train": "N"}, "alpha": {"num_train": "N", "width": "m"}}
    varying = {n: label for n, label in labels.get(question, {}).items() if runs[n].nunique() > 1}
    return [
        ", ".join(
            [series_name(row["net"], row["learner"])]
            + [f"{label} = {row[name]:g}" for name, label in varying.items()]
        )
        for row in runs.to_dict("records")
    ]


def error_table(fine: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Returns median test errors and their range by series (rows) and an axis (columns)."""
    rows = fine.assign(column=fine[axis].map(lambda v: "limit" if pd.isna(v) else f"{v:g}"))
    order = list(dict.fromkeys(rows.sort_values(axis)["column"]))

    def cell(errors: pd.Series) -> str:
        text = f"{errors.median():.3g}"
        return f"{text} ({errors.min():.3g} to {errors.max():.3g})" if len(errors) > 1 else text

    table = rows.groupby(["series", "column"], sort=False)["test_error"].apply(cell).unstack()
    return table.reindex(columns=order).reset_index().rename_axis(columns=None)


def _draw_series(axis: Any, rows: pd.DataFrame, x: str) -> None:
    """Draws medians and ranges over seeds, a line a series, and k alpha^2 dotted."""
    for place, (name, own) in enumerate(rows.groupby("series", sort=False)):
        color = PALETTE[place % len(PALETTE)]
        style = {"color": color, "ls": _STYLES[place // len(PALETTE) % len(_STYLES)]}
        if own[x].isna().all():
            axis.axhline(own["test_error"].median(), lw=1, label=name, **style)
            continue
        errors = own.groupby(x)["test_error"].agg(["median", "min", "max"])
        axis.plot(errors.index, errors["median"], marker="o", markersize=3, label=name, **style)
        axis.fill_between(errors.index, errors["min"], errors["max"], alpha=0.15, color=color, lw=0)
    bounds = (rows["outputs"] * rows["alpha"] ** 2).groupby(rows[x]).first()
    axis.plot(bounds.index, bounds, color="black", lw=0.8, ls=(0, (1, 3)), label="k alpha²")
    mark_logarithmic(axis, bounds.index)
    axis.tick_params(axis="x", rotation=45)  # the largest N are near to each other
    axis.set(yscale="log", ylabel="test error")


def _draw(fine: pd.DataFrame, x: str, label: str) -> Any:
    """Draws the test error of every series against the width, alpha or N, a panel a task."""
    panels = list(fine.groupby(settings.TASK))
    figure, axes = subplots(1, len(panels), 4.5, 4.5)
    for axis, ((d, base, composite, _), rows) in zip(axes[0], panels, strict=True):
        _draw_series(axis, rows, x)
        axis.set(xlabel=label, title=f"d = {d:g}, degree {base:g} x {composite:g}")
    axes[0, -1].legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _draw_epochs(curves: pd.DataFrame) -> Any:
    """Draws the missed shares against the epoch, a panel a series, a line a seed."""
    series = list(curves.groupby("series", sort=False))
    figure, axes = subplots(1, len(series), 3.4, 3.6, sharey=True)
    for axis, (name, rows) in zip(axes[0], series, strict=True):
        shares = rows.rename(columns=_SIGNALS).assign(at=rows["epoch"] + 1)
        shares = shares.melt(["at", "seed"], list(_SIGNALS.values()), "signal", "missed")
        draw_series(axis, shares, "at", "missed", "signal", each="seed", lw=1.2)
        axis.set(xscale="log", yscale="log", xlabel="epoch + 1", title=name)
    axes[0, 0].set(ylabel="share missed")
    axes[0, 0].legend(frameon=False, fontsize="small")
    return figure


def _notes(config: Config) -> list[str]:
    search = config.search
    rungs = zip(search.rung_epochs, search.rung_keep, search.kernel_rung_keep, strict=True)
    words = ", ".join(f"{of_net} ({of_kernel}) after {epoch}" for epoch, of_net, of_kernel in rungs)
    kept = f"Searches (of kernels) keep the candidates of least test error: {words} epochs. "
    return [
        "An error is the mean squared distance, summed over the outputs, on "
        f"{config.num_test} fresh examples. Learning rate and weight decay (ridge and bandwidth) "
        "have the least test error, as in the paper, so errors are optimistic; intervals of "
        "networks that learn allow for the choice. Errors are those after the last epoch; the "
        "paper does not say which epoch it reports. Cells are medians over seeds and their range; "
        "each seed has its own examples and search.",
        f"{kept if words else ''}Candidates whose error is not finite, or there above "
        f"{search.hopeless:g} times the targets' mean square, are dropped.",
    ]


def runs_of(config: Config, runs: Runs) -> Runs:
    """Returns the runs with the columns of the claims."""
    rows, planned = runs.finished, runs.planned
    rows = rows.reindex(columns=list(dict.fromkeys([*rows, "width", "test_error"])))
    if "d" in planned:  # a task of three numbers has all outputs
        every = planned["d"] // planned["base_degree"]
        planned = planned.assign(outputs=planned.get("outputs", every).fillna(every))
    exact = rows["learner"] == "ntk_exact"
    return runs._replace(planned=planned, finished=rows).assign(
        num_test=np.where(exact, config.num_exact_test, config.num_test),
        error_over_alpha4=rows["test_error"] / rows["alpha"] ** 4,
    )


def _tables(question: str, fine: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns the errors of every series, a table a task, or the epochs of both signals."""
    if question == "epochs":
        columns = ["series", "seed", "base_epoch", "composite_epoch", *_SIGNALS, "test_error"]
        heading = "Epochs to half of each signal, and the share missed at the end"
        return [(heading, fine.reindex(columns=columns))]
    (axis, label), tables = _AXES[question], []
    for task, rows in fine.groupby(settings.TASK):
        of = ", (d, base degree, composite degree, outputs) = " + str(tuple(map(int, task)))
        heading = f"Test error against {label}{of if question == 'samples' else ''}"
        tables.append((heading, error_table(rows, axis)))
    return tables


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep, by its question."""
    question, runs = config.question, runs_of(config, runs)
    fine = runs.finished.assign(series=_series_column(runs.finished, question))
    curves = files.read_histories(workdir, fine, ["id", "series", "seed"])
    draw = functools.partial(_draw_epochs, curves)
    if question != "epochs":
        draw = functools.partial(_draw, fine, *_AXES[question])
    return Report(
        tables=_tables(question, fine),
        claims=CLAIMS[question](config),
        runs=runs,
        figures={"hierarchical": draw},
        extra_tables={"curves": curves},
        notes=_notes(config),
    )


EXPERIMENT = Experiment(
    run=run,
    report=make_report,
    # The seeds of a search share its programs; exact kernels run alone.
    varying=lambda config: ("seed",) if config.learner in settings.SEARCHED else (),
    columns=_columns,
    fresh=lambda config: True,
    report_version=2,
)
