"""Claims, tables and panels of figure 3: filter, threshold and accuracy along training."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal.population import (
    bias_rate_ratio,
    population_trajectory,
    typical_start,
)
from lsa_jax.experiments.lsa.signal_dynamics.settings import EXTENSIONS
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, legend_below, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.statistics import accuracy, minus, value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

# A rank correlation counts as "they grow together" above this.
TOGETHER = 0.9


def _rank_correlation(first: str, second: str, rows: pd.DataFrame) -> float:
    """Returns Spearman's correlation; 0 where one of the two does not vary."""
    if min(rows[first].nunique(), rows[second].nunique()) < 2:
        return 0.0
    return rows[first].corr(rows[second], method="spearman")


# Numbers of one run, from the rows of its evaluations.
NUMBERS: dict[str, Callable[[pd.DataFrame], float]] = {
    "growth": functools.partial(_rank_correlation, "step", "w_dot_wstar"),
    "signal": lambda rows: rows["w_dot_wstar"].iloc[-1],
    "threshold": lambda rows: rows["b"].iloc[-1],
    "together": functools.partial(_rank_correlation, "ratio", "test_accuracy"),
    "first": lambda rows: rows["test_accuracy"].iloc[0],
    "last": lambda rows: rows["test_accuracy"].iloc[-1],
}

# Item, number, the paper's statement, range; each holds only if the accuracy rises.
# fmt: off
_STATEMENTS = (
    ("rank correlation of the step and w.w*", "growth",
     f"w.w* grows: above {TOGETHER:g}", {"above": TOGETHER}),
    ("w.w* at the end", "signal", "positive: above 0", {"above": 0.0}),
    ("b at the end", "threshold", "negative: below 0", {"below": 0.0}),
    ("rank correlation of the ratio abs(b) to w.w* and test accuracy", "together",
     f"they grow together: above {TOGETHER:g}", {"above": TOGETHER}),
)
# fmt: on
_PRIMARY = ("signal", "threshold")
# Settings that tell the series of runs apart.
_SWEPT = (*EXTENSIONS, "noise_scale", "learning_rate")


def numbers_of(table: pd.DataFrame) -> pd.DataFrame:
    """Returns `NUMBERS` of every run, a row a run, with its settings."""
    settings = ["id", *_names(table), "seed"]
    return pd.DataFrame(
        run[settings].iloc[0].to_dict() | {name: of(run) for name, of in NUMBERS.items()}
        for _, run in table.groupby("id", sort=False)
    )


def make_claims(name: str, at: dict[str, float]) -> list[Claim]:
    """Returns the claims of a series of runs, by its name ("" for the only one) and settings.

    Claims on extensions of the paper's network or distribution are exploratory.
    """
    where, main = f" ({name})" if name else "", not {*EXTENSIONS} & {*at}
    last, first = (accuracy(number, unit=1.0, **at) for number in ("last", "first"))
    item = f"test accuracy at the end minus the start's{where}"
    rise = Claim(item, minus(last, first), above=0.0, primary=main)
    stated = {"conditions": (shown(rise, "the accuracy rises"),)}
    claims = []
    for item, number, paper, ends in _STATEMENTS:
        own = stated | {"paper": paper, "primary": main and number in _PRIMARY} | ends
        claims.append(Claim(item + where, value(number, **at), **own))
    return [*claims, rise]


# --- tables and figure --------------------------------------------------------------------------

_COLUMNS = {
    "w_dot_wstar": "w.w*",
    "w_perp_norm": "norm of w_perp",
    "b": "b",
    "ratio": "abs(b) to w.w*",
    "test_accuracy": "test accuracy",
    "train_loss": "training loss",
}
# A table has about this many of the evaluations.
_TABLE_ROWS = 10

_NOTE = (
    "Means over seeds, ± their standard deviation; a claim is shown when all of its 95 % interval, "
    "over seeds and test examples, is in the paper's range. A rank correlation (Spearman's, over a "
    f"run's evaluations) counts from {TOGETHER:g} up. The paper draws these curves without "
    "printing numbers."
)
_POPULATION_NOTE = (
    "The population trajectory is Algorithm 1 on the population loss, computed without sampling "
    "from a start of typical size: the limit of ever larger minibatches. There the norm of w_perp "
    "falls to 0, while the noise of finite minibatches keeps it up in the runs."
)


def _names(table: pd.DataFrame) -> list[str]:
    """Returns the names of the swept settings other than the seed."""
    return [name for name in _SWEPT if name in table]


def _series(table: pd.DataFrame) -> dict[str, tuple[dict[str, float], pd.DataFrame]]:
    """Returns the settings and the rows of each series, by its settings in words."""
    names, found = _names(table), {}
    if not names:
        return {"": ({}, table)} if len(table) else {}
    for values, rows in table.groupby(names, dropna=False, sort=False):
        # Runs may lack an extension's setting.
        pairs = zip(names, values, strict=True)
        own = {name: float(value) for name, value in pairs if pd.notna(value)}
        words = ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in own.items())
        found[words] = own, rows
    return found


def population(config: Config, table: pd.DataFrame) -> pd.DataFrame:
    """Returns Algorithm 1 on the population loss, at the settings and steps of the runs.

    One row an evaluation, with the swept settings and the measures; no rows where
    `config.population` is off.
    """
    start, rows = typical_start(config.init_scale, config.d), []
    steps = [*range(0, config.steps, config.eval_every), config.steps]
    for own, _ in _series(table).values() if config.population else ():
        rate = own.get("learning_rate", config.learning_rate)
        rates = (rate, rate * bias_rate_ratio(config))
        sigma = noise_std(config.k, own.get("noise_scale", config.noise_scale))
        found = population_trajectory(start, rates, sigma, config.k, steps=steps)
        rows += [own | row for row in found]
    return pd.DataFrame(rows)


def _course(table: pd.DataFrame) -> pd.DataFrame:
    """Returns a table of means over seeds at some of the evaluations of each series."""
    steps = np.sort(table["step"].unique())
    chosen = np.unique(np.linspace(0, len(steps) - 1, _TABLE_ROWS + 1).round().astype(int))
    rows = table[table["step"].isin(steps[chosen])]
    return table_of_means(rows, [*_names(table), "step"], _COLUMNS)


def _draw(table: pd.DataFrame, on_population: pd.DataFrame) -> Any:
    """Draws figure 3's panels against the step: means over seeds, bands of ± 1 std.

    The trajectories on the population loss are dotted black lines.
    """
    figure, (axes,) = subplots(1, 3, 4, 3.6)
    curves = (
        (axes[0], "w_dot_wstar", "-", "w·w*"),
        (axes[0], "b", "--", "b"),
        (axes[1], "ratio", "-", ""),
        (axes[2], "test_accuracy", "-", ""),
    )
    for (name, (_, rows)), color in zip(_series(table).items(), PALETTE, strict=False):
        for axis, measure, style, symbol in curves:
            label = ", ".join(filter(None, (symbol, name))) if axis is axes[0] else None
            values, steps = rows[measure], rows["step"]
            draw_mean(axis, values, steps, color=color, linestyle=style, label=label)
    for _, rows in _series(on_population).values():
        for axis, measure, _, _ in curves:
            axis.plot(rows["step"], rows[measure], ":", color="black", linewidth=1)
    if len(on_population):
        axes[0].plot([], [], ":", color="black", linewidth=1, label="population")
    titles = ("filter and threshold", "|b| / (w·w*)", "test accuracy")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xlabel="step", title=title)
    legend_below(figure, axes[0], ncols=2, fontsize="small")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns trajectories, their tables, claims and figure."""
    runs = runs.assign(seed=runs.finished.get("seed", config.seed))
    table = files.read_histories(workdir, runs.finished, ["id", *_names(runs.finished), "seed"])
    on_population = population(config, table)
    tables, extra = [("Course of training", _course(table))], {"trajectories": table}
    if len(on_population):
        tables.append(("On the population loss", _course(on_population)))
        extra["population"] = on_population
    series = _series(table).items()
    return Report(
        tables=tables,
        claims=[claim for name, (at, _) in series for claim in make_claims(name, at)],
        runs=runs._replace(finished=numbers_of(table)).assign(num_test=config.num_test),
        figures={"signal_dynamics": functools.partial(_draw, table, on_population)},
        extra_tables=extra,
        notes=[_NOTE, _POPULATION_NOTE] if len(on_population) else [_NOTE],
    )
