"""Claims on the laws, stated before the sweeps of this experiment, and the report.

Thresholds and margins are ours. Tasks, sizes and rates were chosen by runs of one seed; the rates
and output scales of grokking after a sweep in which most test losses did not fall in time, its
number of examples (300 to 350) and of seeds (3 to 6) after a second one.

The best rate (Atanasov et al., 2024): for networks in muP whose outputs are divided by gamma, it
grows as gamma^2 where gamma is small, and as gamma^(2 / L) where it is large, for L layers. Here
the rate is that on w = alpha (theta - theta_0), which is alpha^2 times that on theta: constant in
alpha where alpha is large, alpha^(2 - 2 / L) where it is small. Outputs in the NTK parameterisation
are sqrt(width) times those in muP, so that gamma = 1 / (alpha sqrt(width)), and training is rich
below alpha = 1 / sqrt(width).

Grokking (Kumar et al., 2023): the larger alpha is, the later the test loss falls after the training
loss, without a weight decay, and the kernel moves between the two.

The edge of stability (Cohen et al., 2021): the sharpness rises to 2 / rate and stays there; a lazy
network's stays as it was at the start.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.learning_rates.experiment import (
    best_rate,
    best_rates,
    curve,
    wide_table,
)
from lsa_jax.experiments.theory.laws.settings import SETTINGS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, Condition, decide_all, enough
from lsa_jax.reporting.curves import PALETTE, draw_mean, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import jackknife, value
from lsa_jax.reporting.write import mean_and_spread
from lsa_jax.sweep.fields import Config

SLOPE_MARGIN = 0.2  # of log best rate against log alpha
LEARNS = 0.5  # of the loss of a guess: above it a network has learned nothing
LEVEL = 0.15  # grokking: a loss has fallen when it is below this share of that of a guess
BETWEEN = 0.5  # of the kernel's movement until the test loss falls
EDGE_MARGIN, STEADY_MARGIN = 0.1, 0.1
BELOW_EDGE = 0.75  # times 2 / rate: a sharpness at the start from which one can see it rise


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on the configuration's law."""
    return {"rate": _rate_claims, "grokking": _grokking_claims, "sharpness": _sharpness_claims}[
        config.law
    ](config)


def _all(
    words: str, column: str, holds: Callable[[pd.Series], pd.Series], **at: object
) -> Condition:
    """Returns the condition that a column's numbers hold in all runs with these settings."""

    def unmet(runs: Runs) -> str:
        found = runs.where(**at).finished[column]
        return "" if (good := holds(found)).all() else f"not in {(~good).sum()} of {len(good)} runs"

    return Condition(words, unmet)


# --- the best rate ------------------------------------------------------------------------------


def rate_slope(depth: int, scales: Sequence[float]) -> Statistic:
    """Returns the slope of log best rate against log alpha, by jackknife over seeds."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(depth=depth, output_scale=tuple(scales))
        curves = [curve(own.finished, output_scale=scale) for scale in scales]
        seeds = sorted(set.intersection(*(set(one.index) for one in curves)))

        def of_seeds(kept: list[int]) -> float:
            best = [best_rate(one.loc[kept]) for one in curves]
            return np.polyfit(np.log2(scales), best, 1)[0] if np.isfinite(best).all() else np.nan

        found = jackknife(seeds, of_seeds) if len(scales) > 1 else []
        # A loss that is not finite is an outcome of a rate that is too large.
        ran = own._replace(finished=own.finished.assign(ran=1.0))
        return Sample(pd.Series(found, seeds[: len(found)], dtype=float), lost=ran.lost("ran"))

    return statistic


def _rate_claims(config: Config) -> list[Claim]:
    scales = sorted(config.sweep.output_scale)
    rich = [scale for scale in scales if scale * np.sqrt(config.width) <= 1]
    lazy = [scale for scale in scales if scale >= 1]
    claims = []
    for depth in config.sweep.depth:
        for words, own, law in (("lazy", lazy, 0.0), ("rich", rich, 2 - 2 / depth)):
            if len(own) < 2:
                continue
            at = {"depth": depth, "output_scale": tuple(own)}
            where = f"{own[0]:.3g} to {own[-1]:.3g}, {depth} layers"
            conditions = (
                enough("output_scale", 3, "three output scales", **at),
                Condition("the best rates lie within the swept ones", _each(_at_an_end, at)),
                Condition("the networks learn", _each(_learns_nothing, at)),
            )
            claims.append(
                Claim(
                    item=f"slope of log best rate against log alpha, {words}, alpha {where}, "
                    f"within {SLOPE_MARGIN:g}",
                    statistic=rate_slope(depth, own),
                    paper=law,
                    within=SLOPE_MARGIN,
                    seed_sd=0.1,
                    conditions=conditions,
                    digits=2,
                )
            )
    return claims


def _each(unmet: Callable[[pd.DataFrame], str], at: dict[str, object]) -> Callable[[Runs], str]:
    """Returns a condition on the runs from one on the curve of an output scale."""

    def of_runs(runs: Runs) -> str:
        for scale, own in runs.where(**at).finished.groupby("output_scale"):
            if found := unmet(curve(own)):
                return f"alpha {scale:.3g} {found}"
        return ""

    return of_runs


def _at_an_end(own: pd.DataFrame) -> str:
    return "is best at an end" if best_rate(own) in (own.columns.min(), own.columns.max()) else ""


def _learns_nothing(own: pd.DataFrame) -> str:
    least = own.mean(skipna=False).min()
    return "" if least < np.log(LEARNS) else f"has a loss of {np.exp(least):.2f} at best"


def _draw_rates(config: Config, table: pd.DataFrame) -> Any:
    """Draws losses against the rate, a panel a depth, and the best rates against alpha."""
    from matplotlib import colormaps

    depths, scales = sorted(table["depth"].unique()), sorted(table["output_scale"].unique())
    figure, (axes,) = subplots(1, len(depths) + 1, 4.0, 3.6)
    colors = colormaps["viridis"](np.linspace(0.0, 0.9, len(scales)))
    for axis, depth in zip(axes, depths, strict=False):
        for scale, color in zip(scales, colors, strict=True):
            means = curve(table, depth=depth, output_scale=scale).mean(skipna=False)
            style = {"color": color, "marker": "o", "markersize": 3, "label": f"{scale:.3g}"}
            axis.plot(2.0**means.index, np.exp(means), **style)
        axis.set_xscale("log", base=2)
        axis.set(yscale="log", xlabel="rate on w", title=f"{depth} layers")
    axes[0].set_ylabel("training loss at the end")
    axes[0].legend(frameon=False, title="alpha", fontsize=7)
    best = best_rates(table, ("output_scale", "depth"))
    for depth, color in zip(depths, PALETTE, strict=False):
        own = best[best["depth"] == depth].sort_values("output_scale")
        style = {"color": color, "marker": "o", "linestyle": "", "label": f"{depth} layers"}
        x, y = own["output_scale"].to_numpy(), own["octaves"].to_numpy()
        axes[-1].errorbar(x, y, yerr=own["error"], **style)
        rich = x * np.sqrt(config.width) <= 1
        if rich.any():  # the law's slope through the mean of the rich ones
            slope, places = 2 - 2 / depth, np.log2(x[rich])
            axes[-1].plot(x[rich], y[rich].mean() + slope * (places - places.mean()), color=color)
    axes[-1].set_xscale("log", base=2)
    axes[-1].set(xlabel="alpha", ylabel="log2 of the best rate", title="lines: 2 - 2 / L")
    axes[-1].legend(frameon=False, fontsize=8)
    return figure


# --- grokking -----------------------------------------------------------------------------------


def delay_slope(scales: Sequence[float]) -> Statistic:
    """Returns the slope by seed of the delay, log2 of a ratio of steps, against log2 alpha."""

    def statistic(runs: Runs) -> Sample:
        own, found = runs.where(output_scale=tuple(scales)), {}
        for seed, rows in own.finished.dropna(subset=["delay"]).groupby("seed"):
            if rows["output_scale"].nunique() == len(scales) > 1:
                found[seed] = np.polyfit(np.log2(rows["output_scale"]), rows["delay"], 1)[0]
        return Sample(pd.Series(found, dtype=float), lost=own.lost("delay"))

    return statistic


def _grokking_claims(config: Config) -> list[Claim]:
    *scales, lazy = sorted(config.sweep.output_scale)
    if not scales:
        return []
    low, high = ({"output_scale": scale} for scale in (scales[0], scales[-1]))
    falls = _all("the test loss falls", "test_falls", lambda fallen: fallen == 1, **high)
    fits = _all(
        "the training loss falls", "train_loss", lambda loss: loss < LEVEL, output_scale=lazy
    )
    where = f"at alpha {scales[-1]:g}"
    measured = [
        Claim(
            item=f"{words} {where}, {name} loss",
            statistic=value(f"{column}_{part}", **high),
            digits=6,
        )
        for column, words in (
            ("linearization_gap", "part of the change that the linearisation misses"),
            ("kernel_distance", "distance of the kernel"),
        )
        for part, name in (("train", "fall of the training"), ("test", "fall of the test"))
    ]
    return [
        Claim(
            item="slope of log2 (step of the test loss's fall / that of the training loss's) "
            f"against log2 alpha, alpha {scales[0]:g} to {scales[-1]:g}",
            statistic=delay_slope(scales),
            above=0.0,
            conditions=(enough("output_scale", 4, "four output scales"),),
        ),
        Claim(
            item=f"test loss at the end at alpha {lazy:g}, which lazy training leaves high",
            statistic=value("test_loss", output_scale=lazy),
            above=LEVEL,
            conditions=(fits, falls),
        ),
        *(
            Claim(
                item="share of the kernel's movement until the test loss falls that is after the "
                f"training loss has fallen, alpha {at['output_scale']:g}",
                statistic=value("kernel_between", **at),
                above=BETWEEN,
                conditions=(falls,),
            )
            for at in (low, high)
        ),
        *measured,
    ]


_GROKKING = {
    "train_step": ("step, training loss", ".0f"),
    "test_step": ("step, test loss", ".0f"),
    "delay": ("delay, log2", ".2f"),
    "kernel_between": ("kernel's share between", ".2f"),
    "train_loss": ("training loss at the end", ".2g"),
    "test_loss": ("test loss at the end", ".2g"),
}


def _draw_grokking(table: pd.DataFrame, histories: pd.DataFrame) -> Any:
    """Draws losses and the kernel's distance along training, and the delay against alpha.

    At the smallest, a middle and the largest alpha; the kernel of the last moves by rounding alone.
    """
    every = sorted(table["output_scale"].unique())
    scales = sorted({every[0], every[len(every) // 2], every[-1]})
    figure, (axes,) = subplots(1, len(scales) + 1, 3.6, 3.3)
    for axis, scale in zip(axes, scales, strict=False):
        own = histories[(histories["output_scale"] == scale) & (histories["step"] > 0)]
        for color, column in zip(PALETTE, ("train_loss", "test_loss"), strict=False):
            label = {"train_loss": "training loss", "test_loss": "test loss"}[column]
            draw_mean(axis, own[column], own["step"], color=color, label=label, limits=(1e-4, 2))
        last = own[own["step"] == own["step"].max()].set_index("id")["kernel_distance"]
        moved = own["kernel_distance"] / own["id"].map(last)
        if scale < every[-1]:
            style = {"color": PALETTE[2], "label": "kernel's distance / its last"}
            draw_mean(axis, moved, own["step"], limits=(1e-4, 2), **style)
        axis.axhline(LEVEL, color="black", linestyle=":", lw=1)
        axis.set(
            xscale="log", yscale="log", ylim=(1e-3, 2), xlabel="step", title=f"alpha {scale:g}"
        )
    axes[0].legend(frameon=False, fontsize=7)
    table = table[table["output_scale"] < every[-1]]
    draw_mean(axes[-1], table["delay"], table["output_scale"], color="black", marker="o")
    axes[-1].set_xscale("log", base=2)
    axes[-1].set(xlabel="alpha", ylabel="delay, log2 of a ratio of steps")
    return figure


# --- sharpness ----------------------------------------------------------------------------------


def _sharpness_claims(config: Config) -> list[Claim]:
    rich, lazy = (pick(config.sweep.output_scale) for pick in (min, max))
    claims = []
    for rate in config.sweep.learning_rate:
        at = {"output_scale": rich, "learning_rate": rate}
        claims.append(
            Claim(
                item=f"sharpness over 2 / rate, mean of the last half, alpha {rich:g}, rate "
                f"{rate:g}, within {EDGE_MARGIN:g}",
                statistic=value("edge_ratio", **at),
                paper=1.0,
                within=EDGE_MARGIN,
                seed_sd=0.03,
                conditions=(
                    _all("it starts below the edge", "start_ratio", lambda r: r < BELOW_EDGE, **at),
                ),
            )
        )
    if lazy > rich:
        claims.append(
            Claim(
                item=f"sharpness in the last half over that at the start, alpha {lazy:g}, all "
                f"rates, within {STEADY_MARGIN:g}",
                statistic=value("sharpening", output_scale=lazy),
                paper=1.0,
                within=STEADY_MARGIN,
                seed_sd=0.03,
            )
        )
    return claims


_SHARPNESS = {
    "start_ratio": ("sharpness / (2 / rate), start", ".3f"),
    "edge_ratio": ("the same, last half", ".3f"),
    "sharpening": ("last half / start", ".3f"),
    "train_loss": ("training loss at the end", ".2g"),
}


def _draw_sharpness(table: pd.DataFrame, histories: pd.DataFrame) -> Any:
    """Draws the sharpness along training, a panel an output scale, with 2 / rate dotted."""
    scales, rates = (sorted(table[name].unique()) for name in ("output_scale", "learning_rate"))
    figure, (axes,) = subplots(1, len(scales), 4.4, 3.6, sharey=True)
    for axis, scale in zip(axes, scales, strict=True):
        for rate, color in zip(rates, PALETTE, strict=False):
            own = histories[
                (histories["output_scale"] == scale) & (histories["learning_rate"] == rate)
            ]
            draw_mean(axis, own["sharpness"], own["step"], color=color, label=f"rate {rate:g}")
            axis.axhline(2 / rate, color=color, linestyle=":")
        axis.set(yscale="log", xlabel="step", title=f"alpha {scale:g}")
    axes[0].set_ylabel("sharpness; dotted: 2 / rate")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


# --- report -------------------------------------------------------------------------------------


def _histories(workdir: Path, table: pd.DataFrame) -> pd.DataFrame:
    """Returns the evaluations of all runs, with their settings."""
    rows = [
        {"id": own["id"], **{n: own[n] for n in ("output_scale", "learning_rate")}, **row}
        for _, own in table.iterrows()
        for row in files.read_all_metrics(workdir, own["id"])
    ]
    return pd.DataFrame(rows)


def _table(table: pd.DataFrame, columns: dict[str, tuple[str, str]]) -> pd.DataFrame:
    """Returns one row an output scale and rate: means ± deviations over seeds."""
    rows = []
    for (scale, rate), own in table.groupby(["output_scale", "learning_rate"]):
        row = {"alpha": f"{scale:g}", "rate": f"{rate:g}"}
        for column, (words, form) in columns.items():
            row[words] = mean_and_spread(own.get(column, pd.Series(dtype=float)), form)
        rows.append(row)
    return pd.DataFrame(rows)


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the law's table, claims and figure."""
    table = results[results["status"] == "ok"].copy()
    if "train_loss" not in table or table.empty:
        return Report(config.title, [], [], {}, notes=["No run has finished."])
    if config.law == "rate":
        best = best_rates(table, ("output_scale", "depth"))
        shown = wide_table(best, "output_scale", "depth", "{} layers")
        draw = functools.partial(_draw_rates, config, table)
    else:
        shown = _table(table, _GROKKING if config.law == "grokking" else _SHARPNESS)
        drawn = _draw_grokking if config.law == "grokking" else _draw_sharpness
        draw = functools.partial(drawn, table, _histories(workdir, table))
    words = {
        "rate": "log2 of the rate with the least training loss, ± its standard error",
        "grokking": f"Steps at which losses fall below {LEVEL:g} of a guess's",
        "sharpness": "Sharpness along training",
    }[config.law]
    return Report(
        title=config.title,
        tables=[(words, shown)],
        claims=decide_all(make_claims(config), Runs.of(SETTINGS.sweep(config), results)),
        figures={config.law: draw},
        notes=[
            f"{table['seed'].nunique()} seed(s), {config.steps} steps on {config.num_train} "
            f"examples; {int(table['diverged'].sum())} of {len(table)} runs left the finite "
            "numbers. Losses are over that of the output 0."
        ],
    )
