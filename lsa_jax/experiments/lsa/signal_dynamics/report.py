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
from lsa_jax.experiments.lsa.signal_dynamics.settings import EXTENSIONS, SETTINGS
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, decide_all, shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, binomial_error
from lsa_jax.reporting.statistics import value
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
    "rise": lambda rows: rows["test_accuracy"].iloc[-1] - rows["test_accuracy"].iloc[0],
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
    """Returns `NUMBERS` of every run that did not fail, a row a run, with its settings."""
    settings = ["id", *_names(table), "seed"]
    return pd.DataFrame(
        run[settings].iloc[0].to_dict() | {name: of(run) for name, of in NUMBERS.items()}
        for _, run in table[table["status"] == "ok"].groupby("id", sort=False)
    )


def make_claims(name: str, at: dict[str, float], num_test: int) -> list[Claim]:
    """Returns the claims of a series of runs.

    Args:
        name: of the series, "" for the only one.
        at: its settings. Claims on extensions of the paper's network or distribution are
            exploratory.
        num_test: test examples of an accuracy.
    """
    where, main = f" ({name})" if name else "", not {*EXTENSIONS} & {*at}
    rise = Claim(
        item=f"test accuracy at the end minus the start's{where}",
        statistic=_rise(at, num_test),
        above=0.0,
        primary=main,
    )
    claims = [
        Claim(
            item=item + where,
            paper=paper,
            statistic=value(number, **at),
            conditions=(shown(rise, "the accuracy rises"),),
            primary=main and number in _PRIMARY,
            **ends,
        )
        for item, number, paper, ends in _STATEMENTS
    ]
    return [*claims, rise]


def _rise(at: dict[str, float], num_test: int) -> Statistic:
    """Returns the statistic of the rise of the accuracy; each seed draws its test examples."""

    def statistic(runs: Runs) -> Sample:
        ends = runs.where(**at).finished[["first", "last"]].mean().dropna()
        error = float(np.hypot.reduce([binomial_error(end, num_test) for end in ends] or [0.0]))
        rise = value("rise", **at)(runs)
        return rise._replace(error=error, shared=False, count=num_test)

    return statistic


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
    if not names or table.empty:
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
    if not config.population:
        return table.iloc[:0]
    start = typical_start(config.init_scale, config.d)
    steps = [*range(0, config.steps, config.eval_every), config.steps]
    rows = []
    for own, _ in _series(table).values():
        rate = own.get("learning_rate", config.learning_rate)
        rates = (rate, rate * bias_rate_ratio(config))
        sigma = noise_std(config.k, own.get("noise_scale", config.noise_scale))
        found = population_trajectory(start, rates, sigma, config.k, steps=steps)
        rows += [{**own, "status": "ok", **row} for row in found]
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
    place = {"loc": "outside lower center", "ncols": 2, "fontsize": "small"}
    figure.legend(*axes[0].get_legend_handles_labels(), frameon=False, **place)
    return figure


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns trajectories, their tables, claims and figure."""
    results = results.assign(seed=results.get("seed", config.seed))
    columns = ["id", *_names(results), "seed", "status"]
    table = files.read_histories(workdir, results, columns)
    fine, on_population = table[table["status"] == "ok"], population(config, table)
    tables, extra = [("Course of training", _course(fine))], {"trajectories": table}
    if len(on_population):
        tables.append(("On the population loss", _course(on_population)))
        extra["population"] = on_population
    claims = [
        claim
        for name, (at, _) in _series(table).items()
        for claim in make_claims(name, at, config.num_test)
    ]
    runs = Runs.of(SETTINGS.sweep(config), numbers_of(table))
    return Report(
        title=config.title,
        tables=tables,
        claims=decide_all(claims, runs),
        figures={"signal_dynamics": functools.partial(_draw, fine, on_population)},
        extra_tables=extra,
        notes=[_NOTE, _POPULATION_NOTE] if len(on_population) else [_NOTE],
    )
