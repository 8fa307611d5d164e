"""The report on stability: what falls how fast with m, beside the thesis' exponents."""

import functools
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability import figures
from lsa_jax.experiments.stability.claims import make_claims
from lsa_jax.experiments.stability.conditions import ENOUGH_PAIRS, FITTED
from lsa_jax.experiments.stability.fit_table import CURVE, DIFFERENCE_COLUMNS, fit_all, in_words
from lsa_jax.experiments.stability.measures import MEASURES, QUANTITIES
from lsa_jax.experiments.stability.regions import region_claims
from lsa_jax.experiments.stability.settings import report_step, sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import measured, not_run
from lsa_jax.reporting.doubts import lost_runs
from lsa_jax.reporting.report import Report


def collect(results: pd.DataFrame, workdir: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns one row a pair and stop, and one a pair and alpha on the paths between models."""
    rows, paths = [], []
    for result in results[results["status"] == "ok"].to_dict("records"):
        settings = {name: result[name] for name in (*CURVE[:-1], "m", "pair")}
        for row in files.read_metrics(workdir, result["id"]):
            if "alpha" in row:
                paths.append(settings | row)
            elif MEASURES[0] in row:  # else the row of what was measured along training
                rows.append(settings | row)
    return pd.DataFrame(rows), pd.DataFrame(paths)


def _exponent_table(fits: pd.DataFrame) -> pd.DataFrame:
    """Returns the exponents in words: of the maxima with their interval, and of the means."""
    table = fits[[*CURVE, "quantity", "pairs"]].copy()
    table["quantity"] = table["quantity"].map(QUANTITIES)
    for name, columns in (
        ("b of maxima", ["exponent", "low", "high"]),
        ("less the loss gap's", DIFFERENCE_COLUMNS),
    ):
        table[name] = [in_words(*row) for row in fits[columns].itertuples(index=False)]
    for name, column in (("on log axes", "log_slope"), ("b of means", "mean_exponent")):
        table[name] = ["" if np.isnan(value) else f"{value:.2f}" for value in fits[column]]
    return table


def _mean_table(pairs: pd.DataFrame, step: int) -> pd.DataFrame:
    """Returns means over pairs by size, and the training accuracy of the pair with the least.

    A mean is not-a-number where a pair's number is.
    """
    names = ["train_loss", "test_loss", "train_error", "test_error", *QUANTITIES]
    here = pairs[pairs["step"] == step].groupby(["learner", "perturbation", "m"], sort=False)
    means = here[names].agg(lambda values: values.mean(skipna=False)).map("{:.4g}".format)
    for column, errors in (
        ("train_accuracy", here["train_error"].mean()),
        ("least_train_accuracy", here["train_error"].max()),
    ):
        means[column] = [f"{1 - error:.3f}" for error in errors]
    return means.reset_index()


def _pairs_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    pairs, paths = collect(results, workdir)
    if pairs.empty:
        return Report(config.title, [], [], {}, notes=["No pair was trained to the end."])
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
        "by least squares; intervals are of 95%, from subsamples of a fifth of the pairs, the same "
        "for all quantities. Maxima of stability and distance are heavy-tailed: fewer than "
        f"{ENOUGH_PAIRS} pairs a size decide nothing. Nor do networks with a training accuracy "
        f"below {FITTED} at any size: their gap's exponent is that of how far training has come.",
    ]
    claims = make_claims(config, fits, paths)
    if config.paper == "figA_1":
        claims += region_claims(config, pairs)
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
    names = ["stability", "predicted_stability", "distance", "predicted_distance"]
    names += ["correlation", "relative_error"]
    item = "correlation of predicted with retrained stability, least over sizes"
    lost = lost_runs(sweep(config), fine, ["correlation"])
    claim = not_run(item, "")
    if len(fine):
        claim = measured(item, "", float(fine["correlation"].min()))
    notes = [
        "One example is left out at a time; the logistic model has the ridge "
        f"{config.influence.ridge:g}. Relative error: median length of predicted minus retrained "
        "change of the weights, over that of the change."
    ]
    return Report(
        title=config.title,
        tables=[("Largest over the examples left out", fine[["seed", "m", *names]])]
        if len(fine)
        else [],
        claims=[claim._replace(note=lost)],
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
