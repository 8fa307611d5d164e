"""The report on stability: what falls how fast with m, beside the thesis' exponents."""

import functools
from pathlib import Path

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability import figures
from lsa_jax.experiments.stability.claims import (
    ENOUGH_PAIRS,
    influence_claims,
    make_claims,
    path_claims,
)
from lsa_jax.experiments.stability.connectivity import fall_table
from lsa_jax.experiments.stability.fit_table import (
    CURVE,
    DIFFERENCE_COLUMNS,
    SUBSAMPLED,
    fit_all,
    in_words,
)
from lsa_jax.experiments.stability.measures import MEASURES, QUANTITIES
from lsa_jax.experiments.stability.settings import report_step, sweep
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.conditions import FITTED
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs


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
        "by least squares; the interval of one trial is from subsamples of a fifth of its pairs, "
        "the same for all quantities, and covers no draw of the test examples, which all pairs "
        f"share. Maxima of stability and distance have heavy tails: they need {ENOUGH_PAIRS} pairs "
        f"a size. Networks need a training accuracy of {FITTED} at every size: else the exponent "
        "of their gap depends on how far training has come.",
    ]
    tables = [
        ("Exponents of m", _exponent_table(fits)),
        (f"Means over pairs after {step} updates", _mean_table(pairs, step)),
    ]
    extra = {"pairs": pairs, "fits": fits.drop(columns=[*SUBSAMPLED.values()])}
    return Report(
        title=config.title,
        tables=tables,
        claims=_decided(config, pairs, fits, paths),
        figures=drawn,
        extra_tables=extra | ({"paths": paths} if len(paths) else {}),
        notes=notes,
    )


def _decided(
    config: ml_collections.ConfigDict, pairs: pd.DataFrame, fits: pd.DataFrame, paths: pd.DataFrame
) -> list[Row]:
    """Decides the claims on exponents, of trials, and those on falls of accuracy, of paths."""
    if config.paper == "figA_1":
        fits = fit_all(pairs, config.fit.resamples, config.fit.region_start)
    trials, sizes, first = sweep(config), config.connectivity.sizes, config.connectivity.pairs
    planned = [one for one in trials if one["m"] in sizes and one["pair"] < first]
    found = decide_all(path_claims(config), Runs.of(planned, fall_table(config, paths)))
    # The units of a path's claim are pairs.
    found = [row._replace(note=row.note.replace("seed", "pair")) for row in found]
    return decide_all(make_claims(config), Runs.of(trials, fits)) + found


def _influence_report(
    config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path
) -> Report:
    fine = results[results["status"] == "ok"]
    points = pd.DataFrame(
        {"seed": result["seed"], "m": result["m"], **row}
        for result in fine.to_dict("records")
        for row in files.read_metrics(workdir, result["id"])
    )
    names = ["seed", "m", "stability", "predicted_stability", "distance", "predicted_distance"]
    names += ["correlation", "relative_error"]
    drawn = {"influence": functools.partial(figures.draw_influence, points)}
    note = (
        "One example is left out at a time; the logistic model has the ridge "
        f"{config.influence.ridge:g}. Relative error: median length of predicted minus retrained "
        "change of the weights, over that of the change."
    )
    return Report(
        title=config.title,
        tables=[("Largest over the examples left out", fine[names])] if len(fine) else [],
        claims=decide_all(influence_claims(), Runs.of(sweep(config), results)),
        figures=drawn if len(points) else {},
        extra_tables={"examples": points},
        notes=[note],
    )


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figures of a sweep, by its question."""
    make = _influence_report if config.question == "influence" else _pairs_report
    return make(config, results, workdir)
