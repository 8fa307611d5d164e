"""The report on training dynamics: figure 3's three panels, with the claims made about it."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal.descent import population_trajectory, typical_start
from lsa_jax.experiments.lsa.signal_dynamics.claims import TOGETHER, make_claims, numbers_of
from lsa_jax.experiments.lsa.signal_dynamics.settings import sweep
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_AXES = ("noise_scale", "learning_rate", "seed")
# The table's columns and their headings; it shows about this many of the evaluations.
_SHOWN = {
    "w_dot_wstar": "w.w*",
    "w_perp_norm": "norm of w_perp",
    "b": "b",
    "ratio": "abs(b) to w.w*",
    "test_accuracy": "test accuracy",
    "train_loss": "training loss",
}
_TABLE_ROWS = 10

_POPULATION_NOTE = (
    "The population trajectory is Algorithm 1 on the population loss, computed without sampling "
    "from a start of typical size. It is what ever larger minibatches tend to; there the norm of "
    "w_perp falls to 0, while the noise of finite minibatches keeps it up in the runs."
)


def trajectories(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> pd.DataFrame:
    """Returns one row an evaluation of every run: its swept settings, `status`, step and measures.

    A failed run has the rows up to where it failed.
    """
    parts = []
    for result in results.to_dict("records"):
        rows = pd.DataFrame(files.read_metrics(workdir, result["id"]))
        settings = {"seed": config.seed} | {axis: result[axis] for axis in _AXES if axis in result}
        for place, (name, value) in enumerate({**settings, "status": result["status"]}.items()):
            rows.insert(place, name, value)
        parts.append(rows)
    return pd.concat(parts, ignore_index=True)


def population(config: ml_collections.ConfigDict, table: pd.DataFrame) -> pd.DataFrame:
    """Returns Algorithm 1 on the population loss, at the settings and steps of the runs.

    One row an evaluation, with the swept settings beside the seed and the measures; no rows where
    `config.population` is off.
    """
    if not config.population:
        return pd.DataFrame()
    swept = [axis for axis in _AXES if axis != "seed" and axis in table]
    settings = table[swept].drop_duplicates().to_dict("records") if swept else [{}]
    start = typical_start(config.init_scale, config.d)
    steps = [*range(0, config.steps, config.eval_every), config.steps]
    parts = []
    for setting in settings:
        rate = setting.get("learning_rate", config.learning_rate)
        ratio = config.bias_learning_rate_ratio
        rates = (rate, rate * (1 / config.k if ratio is None else ratio))
        sigma = noise_std(config.k, setting.get("noise_scale", config.noise_scale))
        rows = population_trajectory(start, rates, sigma, config.k, steps=steps)
        parts += [{**setting, "status": "ok", **row} for row in rows]
    return pd.DataFrame(parts)


def _series(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Returns the runs by the values of what was swept beside the seed."""
    swept = [axis for axis in _AXES if axis != "seed" and axis in table]
    if not swept:
        return {"": table}
    names = [axis.replace("_", " ") for axis in swept]
    return {
        ", ".join(f"{name} {value:g}" for name, value in zip(names, values, strict=True)): rows
        for values, rows in table.groupby(swept)
    }


def _fine_series(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Returns the same of the runs that did not fail; nothing where all did."""
    table = table[table["status"] == "ok"]
    return _series(table) if len(table) else {}


def _decided(config: ml_collections.ConfigDict, table: pd.DataFrame) -> list[Row]:
    """Returns the decided claims of every series."""
    settings = [axis for axis in _AXES if axis in table]
    swept = [axis for axis in settings if axis != "seed"]
    series = {
        name: {axis: float(rows[axis].iloc[0]) for axis in swept}
        for name, rows in _series(table).items()
    }
    runs = Runs.of(sweep(config), numbers_of(table, settings))
    return decide_all(make_claims(series, config.num_test), runs)


def _course(series: pd.DataFrame) -> pd.DataFrame:
    """Returns means over seeds, ± their standard deviation, at some of the evaluations."""
    steps = np.sort(series["step"].unique())
    chosen = steps[np.unique(np.linspace(0, len(steps) - 1, _TABLE_ROWS + 1).round().astype(int))]
    rows = series[series["step"].isin(chosen)].groupby("step")
    table = pd.DataFrame(
        {name: rows[m].apply(mean_and_spread, ".4g", ".2g") for m, name in _SHOWN.items()}
    )
    return table.reset_index()


def draw(table: pd.DataFrame, population_table: pd.DataFrame) -> Any:
    """Draws figure 3's panels against the step: means over seeds, bands of ± 1 std.

    The trajectories on the population loss are dotted black lines.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    curves = (
        (axes[0], "w_dot_wstar", "-", "w·w*"),
        (axes[0], "b", "--", "b"),
        (axes[1], "ratio", "-", ""),
        (axes[2], "test_accuracy", "-", ""),
    )
    for place, (name, rows) in enumerate(_fine_series(table).items()):
        color = PALETTE[place % len(PALETTE)]
        for axis, measure, style, symbol in curves:
            label = ", ".join(filter(None, (symbol, name))) if axis is axes[0] else None
            values, steps = rows[measure], rows["step"]
            draw_mean(axis, values, steps, color=color, linestyle=style, label=label)
    lines = _fine_series(population_table) if len(population_table) else {}
    for rows in lines.values():
        for axis, measure, _, _ in curves:
            axis.plot(rows["step"], rows[measure], ":", color="black", linewidth=1)
    if lines:
        axes[0].plot([], [], ":", color="black", linewidth=1, label="population")
    titles = ("filter and threshold", "|b| / (w·w*)", "test accuracy")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xlabel="step", title=title)
        tidy(axis)
    if axes[0].lines:
        axes[0].legend(frameon=False)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the trajectories, their table, the claims and the figure of a sweep."""
    table = trajectories(config, results, workdir)
    population_table = population(config, table)
    series = _fine_series(table)
    notes = [
        "Means over seeds, ± their standard deviation; a claim is shown when all of its 95 % "
        "interval, over seeds and test examples, is where the paper says. A rank correlation "
        "(Spearman's, over a run's evaluations) counts from "
        f"{TOGETHER:g} up. The paper draws these curves without printing numbers."
    ]
    courses = [
        (f"Course of training, {n}" if n else "Course of training", series[n]) for n in series
    ]
    extra = {"trajectories": table}
    if len(population_table):
        extra["population"] = population_table
        courses += [
            (f"On the population loss, {n}" if n else "On the population loss", rows)
            for n, rows in _fine_series(population_table).items()
        ]
        notes.append(_POPULATION_NOTE)
    return Report(
        title=config.title,
        tables=[(heading, _course(rows)) for heading, rows in courses],
        claims=_decided(config, table),
        figures={"signal_dynamics": functools.partial(draw, table, population_table)},
        extra_tables=extra,
        notes=notes,
    )
