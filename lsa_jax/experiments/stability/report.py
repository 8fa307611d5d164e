"""Tables and figures on stability: the rates at which quantities fall with m."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.claims import ENOUGH_PAIRS, make_claims, path_claims
from lsa_jax.experiments.stability.fits import CURVE, DIFFERENCE, SUBSAMPLED, fall_table, fit_all
from lsa_jax.experiments.stability.samples import MEASURES, QUANTITIES
from lsa_jax.experiments.stability.settings import report_step, sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import FITTED, decide_all
from lsa_jax.reporting.curves import PALETTE, draw_series, mark_logarithmic, subplots
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

_PAIRS_NOTE = (
    "Gaps are of A(S), test minus training; stability is the largest change of a test example's "
    "loss from A(S) to A(S'). a m^b is fitted to the largest of all pairs of a size by least "
    "squares; the interval of one trial is from subsamples of a fifth of its pairs, the same for "
    "all quantities, and covers no draw of the test examples, which all pairs share. Maxima of "
    f"stability and distance have heavy tails: they need {ENOUGH_PAIRS} pairs a size. Networks "
    f"need a training accuracy of {FITTED} at every size: else the exponent of their gap depends "
    "on how far training has come."
)


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    if config.question == "influence":
        return _influence_report(config, runs.finished, workdir)
    pairs, paths = collect(runs.finished, workdir)
    fits, step = fit_all(pairs, config.fit.resamples), report_step(config)
    drawn, kinds = {}, ["learner", "perturbation", "step"]
    for kind, found in pairs.groupby(kinds, sort=False):
        own = fits[(fits[kinds] == list(kind)).all(axis=1)]
        name = "_".join(map(str, ("pairs", *kind)))
        drawn[name] = partial(_draw_pairs, found, own, logarithmic=True)
        if config.fit.plain_axes:
            drawn[f"{name}_plain"] = partial(_draw_pairs, found, own, logarithmic=False)
    extra = {"pairs": pairs, "fits": fits.drop(columns=[*SUBSAMPLED.values()])}
    if len(paths):
        drawn["connectivity"] = partial(_draw_paths, paths)
        extra["paths"] = paths
    claimed = fits
    if config.paper == "figA_1":  # it is about two ranges of sizes
        claimed = fit_all(pairs, config.fit.resamples, config.fit.region_start)
    return Report(
        tables=[
            ("Exponents of m", _exponent_table(fits)),
            (f"Means over pairs after {step} updates", _mean_table(pairs, step)),
        ],
        claims=make_claims(config) + _of_paths(config, paths),
        runs=Runs.of(sweep(config), claimed),
        figures=drawn,
        extra_tables=extra,
        notes=[_PAIRS_NOTE],
    )


def _of_paths(config: Config, paths: pd.DataFrame) -> list[Row]:
    """Decides the claims on falls of accuracy, whose units are paths, a pair each."""
    path, trials = config.connectivity, sweep(config)
    planned = [one for one in trials if one["m"] in path.sizes and one["pair"] < path.pairs]
    rows = decide_all(path_claims(config), Runs.of(planned, fall_table(config, paths)))
    return [row._replace(note=row.note.replace("seed", "pair")) for row in rows]


def _influence_report(config: Config, fine: pd.DataFrame, workdir: Path) -> Report:
    points = files.read_histories(workdir, fine, ["seed", "m"])
    names = ["seed", "m", "stability", "predicted_stability", "distance", "predicted_distance"]
    note = (
        "One example is left out at a time; the logistic model has the ridge "
        f"{config.influence.ridge:g}. Relative error: median length of predicted minus retrained "
        "change of the weights, over that of the change."
    )
    table = fine.reindex(columns=[*names, "correlation", "relative_error"])
    return Report(
        tables=[("Largest over the examples left out", table)],
        figures={"influence": partial(_draw_influence, points)},
        extra_tables={"examples": points},
        notes=[note],
    )


def collect(fine: pd.DataFrame, workdir: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns one row a pair and stop, and one a pair and alpha on the paths between models."""
    rows = files.read_histories(workdir, fine, [*CURVE[:-1], "m", "pair"])
    on_path = rows.get("alpha", pd.Series(np.nan, rows.index)).notna()
    pairs = rows[~on_path].reindex(columns=[*CURVE[:-1], "m", "pair", "step", *MEASURES])
    return pairs, rows[on_path].drop(columns=[*MEASURES], errors="ignore")


def _exponent_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Returns the exponents of the maxima in words, with their intervals."""

    def words(exponent: float, low: float, high: float) -> str:
        ends = "" if np.isnan(low) else f" ({low:.2f} to {high:.2f})"
        return "" if np.isnan(exponent) else f"{exponent:.2f}{ends}"

    table = fits[[*CURVE, "quantity", "pairs"]].replace({"quantity": QUANTITIES})
    for name, columns in (
        ("b of maxima", ["exponent", "low", "high"]),
        ("less the loss gap's", [*DIFFERENCE[:3]]),
    ):
        table[name] = [words(*row) for row in fits[columns].itertuples(index=False)]
    return table


def _mean_table(pairs: pd.DataFrame, step: int) -> pd.DataFrame:
    """Returns means over pairs by size, and the training accuracy of the pair with the least."""
    here, by = pairs[pairs["step"] == step], ["learner", "perturbation", "m"]
    names = ["train_loss", "test_loss", "train_error", "test_error", *QUANTITIES]
    least = 1 - here.groupby(by)["train_error"].transform("max")
    columns = dict(zip(names, names, strict=True)) | {"least": "least training accuracy"}
    return table_of_means(here.assign(least=least), by, columns)


def _draw_pairs(found: pd.DataFrame, fits: pd.DataFrame, *, logarithmic: bool) -> Any:
    """Draws each pair, the largest of each size m and the curve a m^b; a row a trial.

    On logarithmic axes values that are not positive have no place.
    """
    trials = list(found.groupby("seed"))
    figure, axes = subplots(len(trials), len(QUANTITIES), 3.1, 2.9)
    for row, (seed, trial) in zip(axes, trials, strict=True):
        for axis, (quantity, title) in zip(row, QUANTITIES.items(), strict=True):
            axis.plot(trial["m"], trial[quantity], "o", color=PALETTE[0], markersize=2.5, alpha=0.5)
            largest = trial.groupby("m")[quantity].max()
            axis.plot(largest.index, largest, "o", color=PALETTE[1], markersize=5)
            fit = fits[(fits["seed"] == seed) & (fits["quantity"] == quantity)].iloc[0]
            if np.isfinite(fit["exponent"]):
                m = np.geomspace(trial["m"].min(), trial["m"].max(), 100)
                axis.plot(m, fit["factor"] * m ** fit["exponent"], color=PALETTE[2])
                title += f": b = {fit['exponent']:.2f}"
            axis.set_title(title, fontsize="medium")
            if logarithmic:
                mark_logarithmic(axis, trial["m"], rotation=40, fontsize="small")
                if (trial[quantity] > 0).any():
                    axis.set_yscale("log", nonpositive="clip")
        row[0].set_ylabel(f"trial {seed}")
    for axis in axes[-1]:
        axis.set_xlabel("m")
    return figure


def _draw_paths(paths: pd.DataFrame) -> Any:
    """Draws accuracy on the line through W_S' (alpha = 0) and W_S (1), a line a pair.

    Panels are sizes, rows are trials and learners.
    """
    rows = list(paths.groupby(["learner", "perturbation", "seed"], sort=False))
    sizes = sorted(paths["m"].unique())
    figure, axes = subplots(len(rows), len(sizes), 4.6, 3.4)
    for row, ((learner, perturbation, seed), found) in zip(axes, rows, strict=True):
        for axis, m in zip(row, sizes, strict=True):
            own = found[found["m"] == m].rename(columns=lambda n: n.removesuffix("_accuracy"))
            own = own.melt(["alpha", "pair"], ["train", "test"], "split", "accuracy")
            draw_series(axis, own, "alpha", "accuracy", "split", each="pair", lw=1)
            for end in (0, 1):
                axis.axvline(end, color="black", linewidth=0.6, linestyle=":")
            axis.set_title(f"{learner}, {perturbation}, trial {seed}, m = {m}", fontsize="medium")
            axis.set_xlabel("alpha")
        row[0].set_ylabel("accuracy")
    axes[0, -1].legend(frameon=False)
    return figure


def _draw_influence(points: pd.DataFrame) -> Any:
    """Draws the predicted change without an example against that of training again."""
    figure, axes = subplots(1, 2, 4.2, 3.8)
    for axis, name in zip(axes[0], ("stability", "distance"), strict=True):
        style = {"ls": "", "marker": "o", "markersize": 3}
        draw_series(axis, points, name, f"predicted_{name}", "m", each="seed", **style)
        ends = [points[name].min(), points[name].max()]
        axis.plot(ends, ends, color="black", linewidth=0.8)
        axis.set(xscale="log", yscale="log", xlabel=f"{name}, trained again", ylabel="predicted")
    axes[0, 0].legend(title="m", frameon=False, fontsize="small")
    return figure
