"""Claims, tables and panels of figure 3: filter, threshold and accuracy along training."""

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.signal.population import (
    bias_rate_ratio,
    population_trajectory,
    typical_start,
)
from lsa_jax.experiments.lsa.signal_dynamics.settings import SETTINGS
from lsa_jax.experiments.lsa.sparse_signal import noise_std
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, decide_all, shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, binomial_error
from lsa_jax.reporting.statistics import value
from lsa_jax.reporting.write import mean_and_spread
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


def numbers_of(table: pd.DataFrame, settings: Sequence[str]) -> pd.DataFrame:
    """Returns `NUMBERS` of every run that did not fail, a row a run, with its settings."""
    rows = [
        dict(zip(settings, key, strict=True)) | {n: of(run) for n, of in NUMBERS.items()}
        for key, run in table[table["status"] == "ok"].groupby(list(settings))
    ]
    return pd.DataFrame(rows, columns=[*settings, *NUMBERS])


def make_claims(series: Mapping[str, dict[str, float]], num_test: int) -> list[Claim]:
    """Returns the claims of every series, named with its settings; accuracies are of `num_test`."""
    claims = []
    for name, at in series.items():
        where = f" ({name})" if name else ""
        rise = Claim(
            item=f"test accuracy at the end minus the start's{where}",
            statistic=_rise(at, num_test),
            above=0.0,
            primary=True,
        )
        learns = (shown(rise, "the accuracy rises"),)
        claims += [
            Claim(
                item=item + where,
                paper=paper,
                statistic=value(number, **at),
                conditions=learns,
                primary=number in _PRIMARY,
                **ends,
            )
            for item, number, paper, ends in _STATEMENTS
        ]
        claims.append(rise)
    return claims


def _rise(at: dict[str, float], num_test: int) -> Statistic:
    """Returns the statistic of the rise of the accuracy; each seed draws its test examples."""

    def statistic(runs: Runs) -> Sample:
        ends = runs.where(**at).finished[["first", "last"]].mean().dropna()
        error = float(np.hypot.reduce([binomial_error(end, num_test) for end in ends] or [0.0]))
        rise = value("rise", **at)(runs)
        return rise._replace(error=error, shared=False, count=num_test)

    return statistic


_SWEPT = ("noise_scale", "learning_rate")
# The table's columns and their headings; it has about this many of the evaluations.
_SHOWN = {
    "w_dot_wstar": "w.w*",
    "w_perp_norm": "norm of w_perp",
    "b": "b",
    "ratio": "abs(b) to w.w*",
    "test_accuracy": "test accuracy",
    "train_loss": "training loss",
}
_TABLE_ROWS = 10
# Names of parts, from the swept settings of their runs.
_EXTENSIONS = {
    "num_features": lambda value: f"{value:g} features",
    "separate_filters": lambda value: "separate filters" if value else "one filter",
    "stride": lambda value: f"stride {value:g}",
}

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


def population(config: Config, table: pd.DataFrame) -> pd.DataFrame:
    """Returns Algorithm 1 on the population loss, at the settings and steps of the runs.

    One row an evaluation, with the swept settings and the measures; no rows where
    `config.population` is off.
    """
    if not config.population:
        return pd.DataFrame()
    names = _names(table)
    points = table[names].drop_duplicates().to_dict("records") if names else [{}]
    start = typical_start(config.init_scale, config.d)
    steps = [*range(0, config.steps, config.eval_every), config.steps]
    rows = []
    for point in points:
        rate = point.get("learning_rate", config.learning_rate)
        rates = (rate, rate * bias_rate_ratio(config))
        sigma = noise_std(config.k, point.get("noise_scale", config.noise_scale))
        found = population_trajectory(start, rates, sigma, config.k, steps=steps)
        rows += [{**point, "status": "ok", **row} for row in found]
    return pd.DataFrame(rows)


def _names(table: pd.DataFrame) -> list[str]:
    """Returns the names of the swept settings other than the seed."""
    return [name for name in _SWEPT if name in table]


def _series(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Returns the rows of each series, by its swept settings in words."""
    names = _names(table)
    if not names or table.empty:
        return {"": table} if len(table) else {}
    return {
        ", ".join(f"{n.replace('_', ' ')} {v:g}" for n, v in zip(names, values, strict=True)): rows
        for values, rows in table.groupby(names)
    }


def _courses(title: str, table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns a table a series: means over seeds ± their deviation at some of the evaluations."""
    found = []
    for name, series in _series(table).items():
        steps = np.sort(series["step"].unique())
        chosen = np.unique(np.linspace(0, len(steps) - 1, _TABLE_ROWS + 1).round().astype(int))
        rows = series[series["step"].isin(steps[chosen])].groupby("step")
        columns = {
            heading: rows[name].apply(mean_and_spread, ".4g", ".2g")
            for name, heading in _SHOWN.items()
        }
        found.append((f"{title}, {name}" if name else title, pd.DataFrame(columns).reset_index()))
    return found


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
    for place, (name, rows) in enumerate(_series(table).items()):
        color = PALETTE[place % len(PALETTE)]
        for axis, measure, style, symbol in curves:
            label = ", ".join(filter(None, (symbol, name))) if axis is axes[0] else None
            values, steps = rows[measure], rows["step"]
            draw_mean(axis, values, steps, color=color, linestyle=style, label=label)
    for rows in _series(on_population).values():
        for axis, measure, _, _ in curves:
            axis.plot(rows["step"], rows[measure], ":", color="black", linewidth=1)
    if len(on_population):
        axes[0].plot([], [], ":", color="black", linewidth=1, label="population")
    titles = ("filter and threshold", "|b| / (w·w*)", "test accuracy")
    for axis, title in zip(axes, titles, strict=True):
        axis.set(xlabel="step", title=title)
    if axes[0].lines:
        axes[0].legend(frameon=False)
    return figure


def _part(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the report on runs that share their network and their distribution."""
    results = results.assign(seed=results.get("seed", config.seed))
    names = [*_names(results), "seed"]
    table = files.read_histories(workdir, results, [*names, "status"])
    fine, on_population = table[table["status"] == "ok"], population(config, table)
    series = {
        name: rows[names[:-1]].iloc[0].astype(float).to_dict()
        for name, rows in _series(table).items()
    }
    runs = Runs.of(SETTINGS.sweep(config), numbers_of(table, names))
    extra = {"population": on_population} if len(on_population) else {}
    return Report(
        title=config.title,
        tables=_courses("Course of training", fine)
        + _courses("On the population loss", on_population),
        claims=decide_all(make_claims(series, config.num_test), runs),
        figures={"signal_dynamics": functools.partial(_draw, fine, on_population)},
        extra_tables={"trajectories": table, **extra},
        notes=[_NOTE, _POPULATION_NOTE] if extra else [_NOTE],
    )


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns trajectories, their table, claims and figure; a part for each swept extension."""
    swept = [name for name in _EXTENSIONS if name in results]
    if not swept:
        return _part(config, results, workdir)
    parts = {}
    for values, rows in results.groupby(swept, dropna=False, sort=False):
        pairs = zip(swept, values, strict=True)
        words = [_EXTENSIONS[name](value) for name, value in pairs if not pd.isna(value)]
        parts[", ".join(words)] = _part(config, rows, workdir)

    def labelled(field: str) -> dict[str, Any]:
        """Returns a field of all parts by file name, the part's name added to it."""
        return {
            f"{file}_{name.replace(', ', '_').replace(' ', '_')}": content
            for name, part in parts.items()
            for file, content in getattr(part, field).items()
        }

    return Report(
        title=config.title,
        tables=[(f"{h}: {n}", table) for n, part in parts.items() for h, table in part.tables],
        claims=[
            c._replace(item=f"{n}: {c.item}", primary=False, holm=None)
            for n, part in parts.items()
            for c in part.claims
        ],
        figures=labelled("figures"),
        extra_tables=labelled("extra_tables"),
        notes=next(iter(parts.values())).notes,
    )
