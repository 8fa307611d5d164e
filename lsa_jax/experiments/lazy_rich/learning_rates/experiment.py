"""The best learning rate at every width: muP's stays, the standard one's falls.

Yang et al., Tensor Programs V (arXiv 2203.03466), figure 1, on digits.

The best rate is the least of the polynomial of degree `DEGREE` in the logarithm of the rate that is
fitted to the mean log loss over seeds, at the rates around its least whose loss is up to
exp(`DEPTH`) times as large. A wide network's loss is flat there: the least of each seed's points,
or of a parabola, is off by up to an octave on made-up curves, this by half as much at most.
"""

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich import digits
from lsa_jax.experiments.lazy_rich.digits import ImageTask, load
from lsa_jax.experiments.lazy_rich.fields import LABELS
from lsa_jax.reporting.claims import Claim, Condition, enough, shown
from lsa_jax.reporting.curves import shades, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, ends
from lsa_jax.reporting.statistics import computed, jackknife
from lsa_jax.sweep.experiment import Config, Experiment, Outcome, Point, Progress


def run(
    group: list[Point], data: dict[str, ImageTask], directory: Path, progress: Progress
) -> list[Outcome]:
    """Trains a group's points as replicas; a rate that diverges is a result, no failure."""
    config = group[0].config
    _, outcomes = digits.train(
        group,
        digits.task_of(group[0], data),
        [point.config.learning_rate for point in group],
        directory,
        progress,
        output_scale=config.output_scale,
        measures=config.measures,
    )
    return [
        Outcome({"diverged": True}, one.history)
        if one.status == "failed"
        else one._replace(metrics={"diverged": False} | one.metrics)
        for one in outcomes
    ]


# --- claims -------------------------------------------------------------------------------------

# Factors of 2 by which muP's best rate may move between the narrowest and the widest network, and
# by more than which that of the standard parameterisation falls.
STEADY = 1.0
DEGREE, DEPTH = 4, 1.5
_CLASSES = 10


def make_claims(config: Config) -> list[Claim]:
    """Returns the two claims; muP's counts where the standard one's rate falls."""
    widths = min(config.sweep.width_factor), max(config.sweep.width_factor)
    of_widths = f"width factor {widths[0]:g} to {widths[1]:g}"
    item = f"factors of 2 of the best rate ({config.optimizer}), {of_widths}"
    standard, mup = (
        of_best_rates(lambda best: best[1] - best[0], "width_factor", widths, parameterization=name)
        for name in ("standard", "mup")
    )

    def conditions(name: str) -> tuple[Condition, ...]:
        at_both = {"parameterization": name, "width_factor": widths}
        each = {"by": "width_factor", "label": "width factor {:g}"} | at_both
        return (
            enough("width_factor", 2, "two widths", parameterization=name),
            of_curves("the best rate lies within the swept rates", at_an_end, **each),
            of_curves("both widths learn", _learns_nothing, **each),
        )

    stated = {"below": -STEADY, "conditions": conditions("standard"), "digits": 2}
    falls = Claim(f"{item}, standard", standard, **stated)
    stated = {"paper": 0.0, "within": STEADY, "seed_sd": 0.5, "digits": 2}
    stated["conditions"] = *conditions("mup"), shown(falls, "the standard parameterisation's falls")
    return [falls, Claim(f"{item}, muP, within {STEADY:g}", mup, **stated)]


def of_best_rates(
    combine: Callable[[list[float]], float], by: str, places: Sequence[float], **settings: object
) -> Statistic:
    """Returns a statistic of log2 of the best rates at values of a setting, with its jackknife."""

    def by_seed(rows: pd.DataFrame) -> pd.Series:
        curves = [curve(rows, **{by: place}) for place in places]
        seeds = sorted(set.intersection(*(set(one.index) for one in curves)))

        def of_seeds(kept: list[int]) -> float:
            return combine([best_rate(one.loc[kept]) for one in curves])

        return pd.Series(jackknife(seeds, of_seeds), seeds)

    # A loss that is not finite is an outcome of a rate that is too large: runs need to finish.
    return computed(by_seed, None, **settings, **{by: tuple(places)})


def of_curves(
    words: str, unmet: Callable[[pd.DataFrame], str], by: str, label: str, **settings: object
) -> Condition:
    """Returns the condition that no `curve` of some runs is unmet, one for each value of `by`.

    `unmet` returns why a curve does not meet it, or ""; `label`, with {} for the value, names a
    curve.
    """

    def of_runs(runs: Runs) -> str:
        for value, own in runs.where(**settings).finished.groupby(by):
            if found := unmet(curve(own)):
                return f"{label.format(value)} {found}"
        return ""

    return Condition(words, of_runs)


def at_an_end(own: pd.DataFrame) -> str:
    """Returns that a curve's best rate is the least or the largest swept; "" where it is not."""
    limits = float(own.columns.min()), float(own.columns.max())
    return "is best at an end" if best_rate(own) in limits else ""


def _learns_nothing(own: pd.DataFrame) -> str:
    """Compares the least loss with that of a guess."""
    means = own.mean(skipna=False)
    if means.isna().all():
        return "has a finite loss at no rate"
    best = own[means.idxmin()]
    guesses = len(best) > 1 and ends(Sample(best))[1] >= np.log(np.log(_CLASSES))
    return "has the loss of a guess" if guesses else ""


def curve(table: pd.DataFrame, **settings: object) -> pd.DataFrame:
    """Returns log final training losses of runs: a row a seed, a column log2 of a rate."""
    own = table
    for name, value in settings.items():
        own = own[own[name] == value]
    heights = np.log(np.maximum(own["train_loss"], 1e-12))
    octaves = np.log2(own["learning_rate"])
    wide = pd.DataFrame({"seed": own["seed"], "octaves": octaves, "height": heights})
    return wide.pivot(index="seed", columns="octaves", values="height").sort_index(axis=1)


def best_rate(heights: pd.DataFrame) -> float:
    """Returns log2 of the rate at which the mean over seeds of a `curve` is least.

    It is where the fitted polynomial is least, within the rates that it is fitted to; a rate at
    which a height is not finite has no mean. NaN where all rates have one loss, or none has a mean.
    """
    octaves, means = heights.columns.to_numpy(float), heights.to_numpy().mean(axis=0)
    means[~np.isfinite(means)] = np.inf
    finite = means[np.isfinite(means)]
    if not len(finite) or np.ptp(finite) == 0:
        return np.nan
    first = last = int(np.argmin(means))
    limit, points = means[first] + DEPTH, DEGREE + 1
    while True:
        below = means[first - 1] if first else np.inf
        above = means[last + 1] if last + 1 < len(means) else np.inf
        least = min(below, above)
        if not np.isfinite(least) or (least > limit and last - first + 1 >= points):
            break
        first, last = (first - 1, last) if below <= above else (first, last + 1)
    places = octaves[first : last + 1]
    middle = places.mean()
    fitted = np.polyfit(places - middle, means[first : last + 1], min(DEGREE, last - first))
    fine = np.linspace(places[0], places[-1], 2001)
    return float(fine[np.argmin(np.polyval(fitted, fine - middle))])


def best_rates(table: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """Returns log2 of the best rate, `octaves`, and its `error`, for each value of keys."""
    rows = []
    for key, own in table.groupby([*keys], sort=False):
        heights = curve(own)
        values = jackknife(list(heights.index), lambda kept, of=heights: best_rate(of.loc[kept]))
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        rows.append((*key, values.mean(), error))
    return pd.DataFrame(rows, columns=[*keys, "octaves", "error"])


# --- report -------------------------------------------------------------------------------------


BEST_RATES = "log2 of the rate with the least training loss, ± its standard error"


def wide_table(best: pd.DataFrame, index: str, columns: str, name: str) -> pd.DataFrame:
    """Returns `best_rates` in cells; `name`, with {} for its value, is that of a column."""
    cells = [
        f"{place:.2f}" + ("" if np.isnan(error) else f" ± {error:.2f}")
        for place, error in zip(best["octaves"], best["error"], strict=True)
    ]
    wide = best.assign(cell=cells).pivot(index=index, columns=columns, values="cell")
    wide = wide.reindex(best[index].drop_duplicates())
    return wide.rename(columns=name.format).reset_index()


def draw_losses(axis: Any, losses: dict[str, pd.Series], **words: str) -> None:
    """Draws losses by rate, a curve a label; the words are the axis's."""
    for (label, means), color in zip(losses.items(), shades(len(losses)), strict=True):
        axis.plot(means.index, means, color=color, label=label, marker="o", markersize=3)
    axis.set_xscale("log", base=2)
    axis.set(yscale="log", **words)


def draw(table: pd.DataFrame) -> Any:
    """Draws the loss against the rate, a curve a width, a panel a parameterisation."""
    panels = list(table.groupby("parameterization", sort=False))
    figure, (axes,) = subplots(1, len(panels), 4.6, 3.8, sharey=True)
    for axis, (name, rows) in zip(axes, panels, strict=True):
        # A rate at which a seed fails has no mean.
        means = {
            f"{width:g}": own.groupby("learning_rate")["train_loss"].agg(
                pd.Series.mean, skipna=False
            )
            for width, own in rows.groupby("width_factor")
        }
        draw_losses(axis, means, xlabel="learning rate", title=LABELS[name])
    axes[0].set_ylabel("training loss at the end")
    axes[0].legend(frameon=False, title="width factor", fontsize=8)
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the best rates, the claims and the figure."""
    table = runs.finished
    if "train_loss" not in table:
        return Report(notes=["All runs left the finite numbers."])
    by = "parameterization", "width_factor"
    return Report(
        tables=[(BEST_RATES, wide_table(best_rates(table, by), *by, "width factor {:g}"))],
        claims=make_claims(config),
        figures={"learning_rates": functools.partial(draw, table)},
        notes=[
            f"Training loss after {config.epochs} epochs, {table['seed'].nunique()} seed(s); "
            f"{int(table['diverged'].sum())} of {len(table)} runs left the finite numbers. The "
            "best rate is that of the mean curve over seeds, by a polynomial of degree "
            f"{DEGREE} through the losses up to {np.exp(DEPTH):.1f} times the least; errors are "
            "the jackknife's."
        ],
    )


EXPERIMENT = Experiment(
    load=load,
    run=run,
    report=make_report,
    report_version=2,
    varying=("learning_rate", "seed"),
    in_parts=True,
)
