"""The report on stability: what falls how fast with m, beside the thesis' exponents."""

import functools
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability import figures
from lsa_jax.experiments.stability.fits import Decay, fit_decay, subtract_exponents
from lsa_jax.experiments.stability.measures import QUANTITIES
from lsa_jax.experiments.stability.numbers import (
    CONNECTIVITY_DROPS,
    STABILITY_EXPONENTS,
    STABILITY_SIZES,
    STABILITY_TOLERANCES,
)
from lsa_jax.experiments.stability.settings import report_step
from lsa_jax.reporting import files
from lsa_jax.reporting.report import Claim, Report

# Maxima of fewer pairs than this say nothing of heavy-tailed quantities.
ENOUGH_PAIRS = 40

_CURVE = ["learner", "perturbation", "seed", "step"]
_HEAVY_TAILED = ("stability", "distance", "normalized_distance")
_FIT_COLUMNS = ["exponent", "factor", "low", "high", "log_slope", "mean_exponent"]
# The exponent less that of the loss gap, and its interval.
_DIFFERENCE_COLUMNS = ["less_gap", "less_gap_low", "less_gap_high"]
# What stands in the place of the thesis' statement where it has none.
_LEFT_OPEN = "left open"


def collect(results: pd.DataFrame, workdir: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns one row a pair and stop, and one a pair and alpha on the paths between models."""
    rows, paths = [], []
    for result in results[results["status"] == "ok"].to_dict("records"):
        settings = {name: result[name] for name in (*_CURVE[:-1], "m", "pair")}
        for row in files.read_metrics(workdir, result["id"]):
            (paths if "alpha" in row else rows).append(settings | row)
    return pd.DataFrame(rows), pd.DataFrame(paths)


def _fit(found: pd.DataFrame, quantity: str, resamples: int) -> Decay | None:
    """Fits a quantity of one curve's pairs."""
    by_size = [(m, part.to_numpy(float)) for m, part in found.groupby("m")[quantity]]
    return fit_decay(np.array([m for m, _ in by_size], float), [v for _, v in by_size], resamples)


def _fit_columns(fit: Decay | None, gap: Decay | None) -> dict[str, float]:
    """Returns what the table of fits says of a fit, and of it beside the loss gap's."""
    if fit is None:
        return {}
    columns = {name: getattr(fit, name) for name in _FIT_COLUMNS}
    if gap is None or gap is fit:
        return columns
    return columns | dict(zip(_DIFFERENCE_COLUMNS, subtract_exponents(fit, gap), strict=True))


def fit_all(pairs: pd.DataFrame, resamples: int) -> pd.DataFrame:
    """Returns one row a curve and quantity: its fit, and how many pairs the fewest sizes have."""
    rows = []
    for curve, found in pairs.groupby(_CURVE, sort=False):
        fits = {quantity: _fit(found, quantity, resamples) for quantity in QUANTITIES}
        shared = dict(zip(_CURVE, curve, strict=True)) | {"pairs": found.groupby("m").size().min()}
        for quantity, fit in fits.items():
            rows.append(shared | {"quantity": quantity} | _fit_columns(fit, fits["loss_gap"]))
    columns = [*_CURVE, "quantity", "pairs", *_FIT_COLUMNS, *_DIFFERENCE_COLUMNS]
    return pd.DataFrame(rows, columns=columns)


def _in_words(exponent: float, low: float, high: float) -> str:
    """Returns an exponent with its interval; empty where there is none."""
    return "" if np.isnan(exponent) else f"{exponent:.2f} ({low:.2f} to {high:.2f})"


def _exponent_claim(item: str, paper: str, low: float, high: float, fits: pd.DataFrame) -> Claim:
    """Compares the mean exponent of the trials with a range; too few pairs count as not run."""
    fine = fits.dropna(subset=["exponent"])
    if fine.empty:
        return Claim(item, paper, "", None, "not run")
    mean = float(fine["exponent"].mean())
    first = fine.iloc[0]
    ours = f"{mean:.2f}" if len(fine) > 1 else _in_words(mean, first["low"], first["high"])
    spread = float(fine["exponent"].std()) if len(fine) > 1 else None
    few = first["pairs"] < ENOUGH_PAIRS and first["quantity"] in _HEAVY_TAILED
    if few:
        return Claim(item, paper, f"{ours}, too few pairs to tell", spread, "not run")
    return Claim(item, paper, ours, spread, "shown" if low <= mean <= high else "not shown")


def _comparison(label: str, paper: str, gaps: pd.DataFrame, stability: pd.DataFrame) -> Claim:
    """Says whether stability falls more slowly than the loss gap in every trial.

    Where the thesis leaves that open, there is nothing to show: it is measured.
    """
    item = f"exponents of stability and of the loss gap{label}"
    both = gaps.merge(stability, on="seed", suffixes=("_gap", "_stability"))
    both = both.dropna(subset=["exponent_gap", "exponent_stability"])
    if both.empty:
        return Claim(item, paper, "", None, "not run")
    slower = both["exponent_stability"] > both["exponent_gap"]
    means = both[["exponent_stability", "exponent_gap"]].mean()
    ours = f"{means.iloc[0]:.2f} and {means.iloc[1]:.2f}"
    if len(both) == 1:
        difference = both[[f"{name}_stability" for name in _DIFFERENCE_COLUMNS]].iloc[0]
        ours += f", difference {_in_words(*difference)}"
    ours += f"; slower in {slower.sum()} of {len(both)}"
    if both["pairs_stability"].min() < ENOUGH_PAIRS:
        return Claim(item, paper, f"{ours}; too few pairs to tell", None, "not run")
    if paper == _LEFT_OPEN:
        return Claim(item, paper, ours, None, "measured")
    return Claim(item, paper, ours, None, "shown" if slower.all() else "not shown")


def region_claims(pairs: pd.DataFrame, resamples: int) -> list[Claim]:
    """Says of every stop whether the loss gap falls at different rates in two ranges of sizes.

    These are the thesis' range and the sizes below it; rates count as different where their
    intervals have nothing in common, in every trial.
    """
    start, end = STABILITY_SIZES
    ranges = ((0, start - 1), (start, end))
    claims = []
    for step, found in pairs.groupby("step"):
        item = f"exponents of the loss gap below m = {start:,} and from there to {end:,}, "
        item += f"after {step:,} updates"
        fits = [
            [_fit(trial[trial["m"].between(*sizes)], "loss_gap", resamples) for sizes in ranges]
            for _, trial in found.groupby(_CURVE)
        ]
        paper = "different regions of decrease"
        if any(fit is None for trial in fits for fit in trial):
            claims.append(Claim(item, paper, "", None, "not run"))
            continue
        ours = [" and ".join(_in_words(f.exponent, f.low, f.high) for f in trial) for trial in fits]
        apart = [below.high < above.low or above.high < below.low for below, above in fits]
        status = "shown" if all(apart) else "not shown"
        claims.append(Claim(item, paper, "; ".join(ours), None, status))
    return claims


def _connectivity_claims(paper: str, paths: pd.DataFrame) -> list[Claim]:
    """Compares how far accuracy falls between the two models, in percentage points."""
    claims = []
    words, low, high = CONNECTIVITY_DROPS[paper]
    for split in ("train", "test"):
        item = f"largest fall of {split} accuracy between W_S and W_S' (points)"
        if paths.empty:
            claims.append(Claim(item, words, "", None, "not run"))
            continue
        fall = 100 * float(connectivity_drops(paths, f"{split}_accuracy").max())
        status = "shown" if low <= fall <= high else "not shown"
        claims.append(Claim(item, words, f"{fall:.2f}", None, status))
    return claims


def connectivity_drops(paths: pd.DataFrame, column: str) -> pd.Series:
    """Returns how far below the lower end the accuracy falls between the models, by path."""

    def drop(path: pd.DataFrame) -> float:
        inside = path[path["alpha"].between(-1e-6, 1 + 1e-6)].sort_values("alpha")
        return min(inside[column].iloc[0], inside[column].iloc[-1]) - inside[column].min()

    keys = [*_CURVE, "m", "pair"]
    return paths.groupby(keys)[["alpha", column]].apply(drop)


def make_claims(
    config: ml_collections.ConfigDict, fits: pd.DataFrame, paths: pd.DataFrame
) -> list[Claim]:
    """Returns the thesis' exponents and statements beside ours, at the stop of the report."""
    here = fits[fits["step"] == report_step(config)]
    kinds = list(here.groupby(["learner", "perturbation"], sort=False))
    claims = []
    for (learner, perturbation), found in kinds:
        label = f", {learner}, {perturbation}" if len(kinds) > 1 else ""
        of = {name: found[found["quantity"] == name] for name in QUANTITIES}
        printed = STABILITY_EXPONENTS.get(config.paper, {}) if perturbation == "swap" else {}
        for quantity, (words, low, high) in printed.items():
            # A number may be missed by a little; a direction may not.
            reach = STABILITY_TOLERANCES[quantity] if np.isfinite(high) else 0.0
            item = f"exponent of the {QUANTITIES[quantity]}{label}"
            claims.append(_exponent_claim(item, words, low - reach, high + reach, of[quantity]))
        if config.paper not in ("fig2_1", "figA_1"):
            words = "slower fall of stability" if config.paper else _LEFT_OPEN
            claims.append(_comparison(label, words, of["loss_gap"], of["stability"]))
    if config.paper in CONNECTIVITY_DROPS and len(config.connectivity.sizes):
        claims += _connectivity_claims(config.paper, paths)
    return claims


def _exponent_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Returns the exponents in words: of the maxima with their interval, and of the means."""
    table = fits[[*_CURVE, "quantity", "pairs"]].copy()
    table["quantity"] = table["quantity"].map(QUANTITIES)
    for name, columns in (
        ("b of maxima", ["exponent", "low", "high"]),
        ("less the loss gap's", _DIFFERENCE_COLUMNS),
    ):
        table[name] = [_in_words(*row) for row in fits[columns].itertuples(index=False)]
    for name, column in (("on log axes", "log_slope"), ("b of means", "mean_exponent")):
        table[name] = ["" if np.isnan(value) else f"{value:.2f}" for value in fits[column]]
    return table


def _mean_table(pairs: pd.DataFrame, step: int) -> pd.DataFrame:
    names = ["train_loss", "test_loss", "train_error", "test_error", *QUANTITIES]
    here = pairs[pairs["step"] == step]
    keys = ["learner", "perturbation", "m"]
    means = here.groupby(keys, sort=False)[names].mean().map(lambda value: f"{value:.4g}")
    return means.reset_index()


def _pairs_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    pairs, paths = collect(results, workdir)
    if pairs.empty:
        return Report(config.title, [], [], {}, {}, ["No pair was trained to the end."])
    fits = fit_all(pairs, config.fit.resamples)
    step = report_step(config)
    drawn = {}
    for kind, found in pairs.groupby(["learner", "perturbation", "step"], sort=False):
        name = "_".join(map(str, kind))
        own = fits[(fits[["learner", "perturbation", "step"]] == list(kind)).all(axis=1)]
        for axes in ("log", "plain") if config.fit.plain_axes else ("log",):
            draw = functools.partial(figures.draw_pairs, found, own, logarithmic=axes == "log")
            drawn[f"pairs_{name}" + ("" if axes == "log" else "_plain")] = draw
    if len(paths):
        drawn["connectivity"] = functools.partial(figures.draw_paths, paths)
    notes = [
        "Gaps are of A(S), test minus training; stability is the largest change of a test "
        "example's loss from A(S) to A(S'). a m^b is fitted to the largest of all pairs of a size "
        "by least squares; intervals are 95% of the bootstrap over pairs, the same resamples for "
        "all quantities. Maxima of stability and distance are heavy-tailed: fewer than "
        f"{ENOUGH_PAIRS} pairs a size count as not run.",
        "The bootstrap of a maximum is not consistent (63% of the resamples have the sample's own "
        "maximum, however many pairs there are), so intervals are a rough guide.",
    ]
    claims = make_claims(config, fits, paths)
    if config.paper == "figA_1":
        claims += region_claims(pairs, config.fit.resamples)
    tables = [
        ("Exponents of m", _exponent_table(fits)),
        (f"Means over pairs after {step} updates", _mean_table(pairs, step)),
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=claims,
        figures=drawn,
        extra_tables={"pairs": pairs, "fits": fits} | ({"paths": paths} if len(paths) else {}),
        notes=notes,
    )


def _influence_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"]
    rows = []
    for result in fine.to_dict("records"):
        for row in files.read_metrics(workdir, result["id"]):
            rows.append({"seed": result["seed"], "m": result["m"], **row})
    points = pd.DataFrame(rows)
    names = ["stability", "foretold_stability", "distance", "foretold_distance"]
    names += ["correlation", "relative_error"]
    item = "correlation of foretold with retrained stability, least over sizes"
    claims = [Claim(item, "", "", None, "not run")]
    if len(fine):
        claims = [Claim(item, "", float(fine["correlation"].min()), None, "measured")]
    notes = [
        "One example is left out at a time; the logistic model has the ridge "
        f"{config.influence.ridge:g}. Relative error: median length of foretold minus retrained "
        "change of the weights, over that of the change."
    ]
    return Report(
        title=config.title,
        tables=[("Largest over the examples left out", fine[["seed", "m", *names]])]
        if len(fine)
        else [],
        claims=claims,
        figures={"influence": functools.partial(figures.draw_influence, points)}
        if len(points)
        else {},
        extra_tables={"examples": points},
        notes=notes,
    )


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    make = _influence_report if config.question == "influence" else _pairs_report
    return make(config, results, workdir)
