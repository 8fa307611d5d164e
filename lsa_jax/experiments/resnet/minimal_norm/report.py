"""The report on networks of small norm: those made by hand beside those that SGD finds."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.minimal_norm.claims import make_claims
from lsa_jax.experiments.resnet.minimal_norm.settings import sweep
from lsa_jax.experiments.resnet.numbers import HAND_MADE_NORMS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs


def least_norms(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns the least norm among the runs with at most this error, for each error that occurs.

    Args:
        runs: with `relative_norm` and `column`.
        column: the error that is meant.
    """
    ordered = runs.sort_values([column, "relative_norm"])[[column, "relative_norm"]]
    return ordered.assign(relative_norm=ordered["relative_norm"].cummin()).reset_index(drop=True)


def _draw(d: int, hand: pd.DataFrame, runs: pd.DataFrame) -> Any:
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    scale = d**0.5
    if len(hand):
        points = least_norms(hand, "test_error")
        axis.plot(
            points["test_error"],
            scale * points["relative_norm"],
            "o-",
            color=PALETTE[0],
            label="made by hand, test error",
        )
    for place, name in enumerate(("train", "test"), start=1):
        if len(runs):
            points = least_norms(runs, f"{name}_error")
            axis.step(
                points[f"{name}_error"].clip(lower=1e-3),
                scale * points["relative_norm"],
                where="post",
                color=PALETTE[place],
                label=f"least by SGD, {name} error",
            )
    axis.set(xscale="log", xlim=(0.004, 1.2), ylim=(0, None), xlabel="error")
    axis.set(ylabel="Frobenius norm")
    tidy(axis)
    if axis.lines:
        axis.legend(frameon=False)
    return figure


def _all_runs(searches: pd.DataFrame, workdir: Path) -> pd.DataFrame:
    """Returns every candidate of every search that did not fail."""
    parts = [
        pd.DataFrame(files.read_metrics(workdir, point["id"])).assign(
            width=point["width"], seed=point["seed"]
        )
        for point in searches.to_dict("records")
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _whole(
    config: ml_collections.ConfigDict, results: pd.DataFrame, candidates: pd.DataFrame
) -> pd.DataFrame:
    """Returns results with the least norm of each search's candidates that fit, `fitted_norm`."""
    if candidates.empty:
        return results.assign(fitted_norm=np.nan, num_test=config.num_test)
    fits = candidates[candidates["train_error"] <= HAND_MADE_NORMS[0][1]]
    norms = fits.groupby(["width", "seed"], as_index=False)["relative_norm"].min()
    norms = norms.rename(columns={"relative_norm": "fitted_norm"}).assign(part="search")
    return results.merge(norms, "left").assign(num_test=config.num_test)


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns norms and errors of both kinds, the claims and the figure."""
    columns = ["part", "seed", "relative_norm", "test_error"]
    whole = results.reindex(columns=list(dict.fromkeys([*results.columns, *columns])))
    fine = whole[whole["status"] == "ok"]
    hand, searches = (fine[fine["part"] == part] for part in ("construction", "search"))
    runs, tables = _all_runs(searches, workdir), []
    if len(hand):
        columns = ["width", "penalty", "relative_norm", "test_error"]
        tables.append(("Made by hand", hand[columns].rename(columns={"width": "m"})))
    if len(runs):
        columns = ["width", "learning_rate", "weight_decay", "train_error", "test_error"]
        best = runs.sort_values("test_error").groupby("width").head(3)
        shown = best.sort_values(["width", "test_error"])[[*columns, "relative_norm"]]
        tables.append(("Best by SGD in test error", shown.rename(columns={"width": "m"})))
    note = (
        f"d = {config.d}, N = {config.num_train}; relative_norm is |W|_F / sqrt(d), and an error "
        "the mean of (F - y)^2: of networks made by hand over all inputs, of those by SGD on "
        f"{config.num_test} fresh examples. The paper leaves initial weights, epochs and the "
        f"loss's scale open: here N(0, {config.init_std:g}^2), {config.epochs} epochs, half the "
        "squared error."
    )
    claimed = Runs.of(sweep(config), _whole(config, whole, runs))
    return Report(
        title=config.title,
        tables=tables,
        claims=decide_all(make_claims(config), claimed),
        figures={"minimal_norm": functools.partial(_draw, config.d, hand, runs)},
        extra_tables={"candidates": runs},
        notes=[note],
    )
