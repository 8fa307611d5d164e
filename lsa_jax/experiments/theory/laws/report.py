"""Claims on the laws, stated before the sweeps of this experiment.

Thresholds and margins are ours. Tasks, sizes and rates were chosen by runs of one seed, and so was
the margin of scaling laws; rates, output scales, examples (300 to 350) and seeds (3 to 6) of
grokking after two sweeps in which most test losses did not fall in time.

The best rate (Atanasov et al., 2024), on w = alpha (theta - theta_0), is constant in alpha where
alpha is large, and alpha^(2 - 2 / L) for L layers where it is small. Training is rich below
alpha = 1 / sqrt(width): outputs in the NTK parameterisation are sqrt(width) times those in muP.

Grokking (Kumar et al., 2023): the larger alpha is, the later the test loss falls after the training
loss, without a weight decay, and the kernel moves between the two.

The edge of stability (Cohen et al., 2021): the sharpness rises to 2 / rate and stays there; a lazy
network's stays as it was at the start.

Scaling laws (Bordelon, Atanasov and Pehlevan, 2024): where the modes from k on have k^(-2 beta) of
the target's power, and eigenvalues of the NTK go as k^-2, the loss falls as step^-beta in lazy
training, and as step^(-2 beta / (1 + beta)) in rich training if beta is below 1. Powers are
compared with that of gradient descent with the infinite NTK in the same steps, not yet beta.
"""

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.learning_rates import experiment as rates
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import Claim, enough, in_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, draw_series, legend_below, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import over, slope, value
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

SLOPE_MARGIN = 0.2  # of log best rate against log alpha
LEARNS = 0.5  # of the loss of a guess: above it a network has learned nothing
LEVEL = 0.15  # grokking: a loss has fallen when it is below this share of that of a guess
BETWEEN = 0.5  # of the kernel's movement until the test loss falls
EDGE_MARGIN, STEADY_MARGIN = 0.1, 0.1
EXPONENT_MARGIN = 0.25  # of a ratio of two powers of the step
FROM = 0.01  # of all steps: from there on powers are fitted
# Measures at the falls of both losses.
_AT_FALLS = {
    "linearization_gap": "part of the change that the linearisation misses",
    "kernel_distance": "distance of the kernel",
}
BELOW_EDGE = 0.75  # times 2 / rate: a sharpness at the start from which one can see it rise


# --- claims -------------------------------------------------------------------------------------


def _agrees(
    item: str, statistic: Statistic, law: float, margin: float, seed_sd: float, **fields: Any
) -> Claim:
    """Returns the claim that a statistic is within a margin of the law's number."""
    agreement = {"paper": law, "within": margin, "seed_sd": seed_sd}
    return Claim(f"{item}, within {margin:g}", statistic, **agreement, **fields)


def _rate_claims(config: Config) -> list[Claim]:
    """Returns the claims on the slope of log best rate against log alpha at either end."""
    alphas, claims = sorted(config.sweep.output_scale), []
    rich = [alpha for alpha in alphas if alpha * np.sqrt(config.width) <= 1]
    lazy = [alpha for alpha in alphas if alpha >= 1]
    for depth in config.sweep.depth:
        for words, own, law in (("lazy", lazy, 0.0), ("rich", rich, 2 - 2 / depth)):
            if len(own) < 2:
                continue

            def fitted(best: list[float], own: list[float] = own) -> float:
                finite = np.isfinite(best).all()
                return np.polyfit(np.log2(own), best, 1)[0] if finite else np.nan

            at = {"depth": depth, "output_scale": tuple(own)}
            curves = functools.partial(
                rates.of_curves, by="output_scale", label="alpha {:.3g}", **at
            )
            conditions = (
                enough("output_scale", 3, "three output scales", **at),
                curves("the best rates lie within the swept ones", rates.at_an_end),
                curves("the networks learn", _learns_nothing),
            )
            item = f"slope of log best rate against log alpha, {words}, alpha {own[0]:.3g} to "
            item += f"{own[-1]:.3g}, {depth} layers"
            slopes = rates.of_best_rates(fitted, "output_scale", own, depth=depth)
            stated = {"conditions": conditions, "digits": 2}
            claims.append(_agrees(item, slopes, law, SLOPE_MARGIN, 0.1, **stated))
    return claims


def _learns_nothing(own: pd.DataFrame) -> str:
    least = own.mean(skipna=False).min()
    return "" if least < np.log(LEARNS) else f"has a loss of {np.exp(least):.2f} at best"


def _grokking_claims(config: Config) -> list[Claim]:
    """Returns the claims on when losses fall, and on the kernel's movement until then."""
    *scales, lazy = sorted(config.sweep.output_scale)
    if not scales:
        return []
    low, high = ({"output_scale": scale} for scale in (scales[0], scales[-1]))
    at_lazy = {"output_scale": lazy}
    falls = in_all("the test loss falls", lambda rows: rows["test_falls"] == 1, **high)
    fits = in_all("the training loss falls", lambda rows: rows["train_loss"] < LEVEL, **at_lazy)
    four = enough("output_scale", 4, "four output scales")
    of_ratio = slope("delay", "output_scale", output_scale=tuple(scales))
    later = "slope of log2 (step of the test loss's fall / that of the training loss's) against "
    later += f"log2 alpha, alpha {scales[0]:g} to {scales[-1]:g}"
    stays = f"test loss at the end at alpha {lazy:g}, which lazy training leaves high"
    between = "share of the kernel's movement until the test loss falls that is after the training "
    between += "loss has fallen, alpha {output_scale:g}"

    def rises(runs: Runs) -> Sample:  # the delay is log2 of a ratio of steps
        return of_ratio(runs.assign(delay=2 ** runs.finished["delay"]))

    claims = [
        Claim(later, rises, above=0.0, conditions=(four,)),
        Claim(stays, value("test_loss", **at_lazy), above=LEVEL, conditions=(fits, falls)),
    ]
    for at in (low, high):
        share = value("kernel_between", **at)
        claims.append(Claim(between.format(**at), share, above=BETWEEN, conditions=(falls,)))
    for column, words in _AT_FALLS.items():
        for part, name in (("train", "training"), ("test", "test")):
            item = f"{words} at alpha {scales[-1]:g}, fall of the {name} loss"
            claims.append(Claim(item, value(f"{column}_{part}", **high), digits=6))
    return claims


def _sharpness_claims(config: Config) -> list[Claim]:
    rich, lazy = (pick(config.sweep.output_scale) for pick in (min, max))
    claims = []
    for rate in config.sweep.learning_rate:
        at = {"output_scale": rich, "learning_rate": rate}
        item = f"sharpness over 2 / rate, mean of the last half, alpha {rich:g}, rate {rate:g}"
        starts = in_all(
            "it starts below the edge", lambda rows: rows["start_ratio"] < BELOW_EDGE, **at
        )
        ratio = value("edge_ratio", **at)
        claims.append(_agrees(item, ratio, 1.0, EDGE_MARGIN, 0.03, conditions=(starts,)))
    if lazy > rich:
        item = f"sharpness in the last half over that at the start, alpha {lazy:g}, all rates"
        steady = value("sharpening", output_scale=lazy)
        claims.append(_agrees(item, steady, 1.0, STEADY_MARGIN, 0.03))
    return claims


def _scaling_claims(config: Config) -> list[Claim]:
    axes, claims = config.sweep, []
    rich, lazy = min(axes.output_scale), max(axes.output_scale)
    for phases, beta in itertools.product(axes.phases, axes.source_exponent):
        at = {"phases": phases, "source_exponent": beta}
        kernel = value("kernel_exponent", output_scale=lazy, **at)
        for scale, law in ((rich, max(1.0, 2 / (1 + beta))), (lazy, 1.0)):
            item = (
                f"power of the loss in steps at alpha {scale:g} over that of the infinite NTK, "
                f"beta {beta:g}, {phases} phases"
            )
            ratio = over(value("exponent", output_scale=scale, **at), kernel)
            claims.append(_agrees(item, ratio, law, EXPONENT_MARGIN, 0.1, digits=2))
    return claims


# --- figures ------------------------------------------------------------------------------------


def _draw_each(
    axis: Any, rows: pd.DataFrame, by: str, column: str, label: str, **options: Any
) -> None:
    """Draws the mean of a column along training, a line for each value of a setting."""
    rows = rows.sort_values(by, kind="stable")
    draw_series(
        axis, rows.assign(level=rows[by].map(label.format)), "step", column, "level", **options
    )


def _draw_rates(width: int, table: pd.DataFrame) -> Any:
    """Draws losses against the rate, a panel a depth, and the best rates against alpha."""
    depths, scales = sorted(table["depth"].unique()), sorted(table["output_scale"].unique())
    figure, (axes,) = subplots(1, len(depths) + 1, 4.0, 3.6)
    for axis, depth in zip(axes, depths, strict=False):
        losses = {}
        for scale in scales:
            means = rates.curve(table, depth=depth, output_scale=scale).mean(skipna=False)
            losses[f"alpha {scale:.3g}"] = np.exp(means.set_axis(2.0**means.index))
        rates.draw_losses(axis, losses, xlabel="rate on w", title=f"{depth} layers")
    axes[0].set_ylabel("training loss at the end")
    best = rates.best_rates(table, ("output_scale", "depth"))
    for depth, color in zip(depths, PALETTE, strict=False):
        own = best[best["depth"] == depth].sort_values("output_scale")
        style = {"color": color, "marker": "o", "linestyle": "", "label": f"{depth} layers"}
        x, y = own["output_scale"].to_numpy(), own["octaves"].to_numpy()
        axes[-1].errorbar(x, y, yerr=own["error"], **style)
        rich = x * np.sqrt(width) <= 1
        if rich.any():  # the law's slope through the mean of the rich ones
            slope, places = 2 - 2 / depth, np.log2(x[rich])
            axes[-1].plot(x[rich], y[rich].mean() + slope * (places - places.mean()), color=color)
    axes[-1].set_xscale("log", base=2)
    axes[-1].set(xlabel="alpha", ylabel="log2 of the best rate", title="lines: 2 - 2 / L")
    legend_below(figure, axes[0], axes[-1], ncols=6, fontsize=7)  # curves fill the panels
    return figure


def _draw_grokking(table: pd.DataFrame, histories: pd.DataFrame) -> Any:
    """Draws losses and the kernel's distance at three alpha, and the delay against alpha."""
    every = sorted(table["output_scale"].unique())
    scales = sorted({every[0], every[len(every) // 2], every[-1]})
    figure, (axes,) = subplots(1, len(scales) + 1, 3.6, 3.3)
    lines = {"train_loss": "training loss", "test_loss": "test loss"}
    lines["moved"] = "kernel's distance / its last"
    for axis, scale in zip(axes, scales, strict=False):
        own = histories[(histories["output_scale"] == scale) & (histories["step"] > 0)]
        last = own[own["step"] == own["step"].max()].set_index("id")["kernel_distance"]
        own = own.assign(moved=own["kernel_distance"] / own["id"].map(last))
        shown = own.rename(columns=lines).melt(
            "step", list(lines.values())[: 2 + (scale < every[-1])]
        )
        draw_series(axis, shown, "step", "value", "variable", limits=(1e-4, 2))
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


def _draw_sharpness(histories: pd.DataFrame) -> Any:
    """Draws the sharpness along training, a panel an output scale, with 2 / rate dotted."""
    panels = histories.groupby("output_scale")
    figure, (axes,) = subplots(1, len(panels), 4.4, 3.6, sharey=True)
    for axis, (scale, own) in zip(axes, panels, strict=True):
        _draw_each(axis, own, "learning_rate", "sharpness", "rate {:g}")
        for rate, color in zip(sorted(own["learning_rate"].unique()), PALETTE, strict=False):
            axis.axhline(2 / rate, color=color, linestyle=":")
        axis.set(yscale="log", xlabel="step", title=f"alpha {scale:g}")
    axes[0].set_ylabel("sharpness; dotted: 2 / rate")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


def _draw_scaling(histories: pd.DataFrame) -> Any:
    """Draws losses along training, a panel a target; dotted: descent with the infinite NTK."""
    panels = histories[histories["step"] > 0].groupby(["phases", "source_exponent"])
    figure, (axes,) = subplots(1, len(panels), 3.6, 3.4)
    for axis, ((phases, beta), own) in zip(axes, panels, strict=True):
        _draw_each(axis, own, "output_scale", "train_loss", "alpha {:g}", limits=(1e-9, 2.0))
        lazy = own[own["output_scale"] == own["output_scale"].max()]
        means = lazy.groupby("step")["kernel_loss"].mean()
        axis.plot(means.index, means, color="black", linestyle=":", label="infinite NTK")
        axis.axvline(FROM * own["step"].max(), color="grey", lw=0.8)
        title = f"beta {beta:g}, {phases} phases"
        axis.set(xscale="log", yscale="log", xlabel="step", title=title)
    axes[0].set_ylabel("training loss")
    axes[0].legend(frameon=False, fontsize=8)
    return figure


# --- report -------------------------------------------------------------------------------------

# Swept settings, and their headings.
_SWEPT = {
    "output_scale": "alpha",
    "learning_rate": "rate",
    "source_exponent": "beta",
    "phases": "phases",
}


class _Law(NamedTuple):
    """A law's claims, its table (heading, and columns of results with theirs), and its figure."""

    claims: Callable[[Config], list[Claim]]
    heading: str
    columns: dict[str, str]
    draw: Callable[..., Any]


_LAWS = {
    "rate": _Law(_rate_claims, rates.BEST_RATES, {}, _draw_rates),
    "grokking": _Law(
        _grokking_claims,
        f"Steps at which losses fall below {LEVEL:g} of a guess's",
        {
            "train_step": "step, training loss",
            "test_step": "step, test loss",
            "delay": "delay, log2",
            "kernel_between": "kernel's share between",
            "train_loss": "training loss at the end",
            "test_loss": "test loss at the end",
        },
        _draw_grokking,
    ),
    "sharpness": _Law(
        _sharpness_claims,
        "Sharpness along training",
        {
            "start_ratio": "sharpness / (2 / rate), start",
            "edge_ratio": "the same, last half",
            "sharpening": "last half / start",
            "train_loss": "training loss at the end",
        },
        _draw_sharpness,
    ),
    "scaling": _Law(
        _scaling_claims,
        f"Powers of 1 / step with which losses fall, from {FROM:g} of the steps on",
        {
            "exponent": "power of the loss",
            "kernel_exponent": "of the infinite NTK, at this rate",
            "train_loss": "training loss at the end",
            "test_loss": "test loss at the end",
        },
        _draw_scaling,
    ),
}


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the law's table, claims and figure."""
    table, law = runs.finished, _LAWS[config.law]
    if "train_loss" not in table:
        return Report(notes=["All runs left the finite numbers."])
    if config.law == "rate":
        by = ("output_scale", "depth")
        shown = rates.wide_table(rates.best_rates(table, by), *by, "{} layers")
        draw = functools.partial(law.draw, config.width, table)
    else:
        swept = {name: heading for name, heading in _SWEPT.items() if name in table}
        shown = table_of_means(table.rename(columns=swept), list(swept.values()), law.columns)
        histories = files.read_histories(workdir, table, ["id", *swept])
        own = (table, histories) if config.law == "grokking" else (histories,)
        draw = functools.partial(law.draw, *own)
    return Report(
        tables=[(law.heading, shown)],
        claims=law.claims(config),
        figures={config.law: draw},
        notes=[
            f"{table['seed'].nunique()} seed(s), {config.steps} steps on {config.num_train} "
            f"examples; {int(table['diverged'].sum())} of {len(table)} runs left the finite "
            "numbers. Losses are over that of the output 0."
        ],
    )
