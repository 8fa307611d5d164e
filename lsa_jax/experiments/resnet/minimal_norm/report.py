"""The report on networks of small norm: made by hand, and found by SGD."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.minimal_norm.claims import make_claims
from lsa_jax.experiments.resnet.minimal_norm.settings import SETTINGS
from lsa_jax.experiments.resnet.numbers import HAND_MADE_NORMS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs


def least_norms(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns the least norm of the runs with at most an error, for each error of a column."""
    ordered = runs.sort_values([column, "relative_norm"])[[column, "relative_norm"]]
    return ordered.assign(relative_norm=ordered["relative_norm"].cummin()).reset_index(drop=True)


def _draw(d: int, hand: pd.DataFrame, runs: pd.DataFrame) -> Any:
    """Draws the least norm at most an error against the error: by hand, and by SGD."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for rows, name, label, style in (
        (hand, "test", "made by hand, test error", {"marker": "o"}),
        (runs, "train", "least by SGD, train error", {"drawstyle": "steps-post"}),
        (runs, "test", "least by SGD, test error", {"drawstyle": "steps-post"}),
    ):
        if len(rows):
            points = least_norms(rows, f"{name}_error")
            errors = points[f"{name}_error"].clip(lower=1e-3)
            style |= {"color": PALETTE[len(axis.lines)], "label": label}
            axis.plot(errors, d**0.5 * points["relative_norm"], **style)
    axis.set(xscale="log", xlim=(0.004, 1.2), ylim=(0, None), xlabel="error")
    axis.set(ylabel="Frobenius norm")
    tidy(axis)
    if axis.lines:
        axis.legend(frameon=False)
    return figure


def _with_fitted_norms(results: pd.DataFrame, candidates: pd.DataFrame) -> pd.DataFrame:
    """Returns results with `fitted_norm`, the least of each search's fitted candidates."""
    if candidates.empty:
        return results.assign(fitted_norm=np.nan)
    fits = candidates[candidates["train_error"] <= HAND_MADE_NORMS[0][1]]
    norms = fits.groupby("id")["relative_norm"].min()
    return results.assign(fitted_norm=results["id"].map(norms))


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns norms and errors of both kinds, the claims and the figure."""
    columns = ["part", "seed", "relative_norm", "test_error"]
    whole = results.reindex(columns=list(dict.fromkeys([*results.columns, *columns])))
    fine = whole[whole["status"] == "ok"]
    hand, searches = (fine[fine["part"] == part] for part in ("construction", "search"))
    runs, tables = files.read_histories(workdir, searches, ["id", "width", "seed"]), []
    if len(hand):
        shown = hand[["width", "penalty", "relative_norm", "test_error"]]
        tables.append(("Made by hand", shown.rename(columns={"width": "m"})))
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
    claimed = _with_fitted_norms(whole, runs).assign(num_test=config.num_test)
    return Report(
        title=config.title,
        tables=tables,
        claims=decide_all(make_claims(config), Runs.of(SETTINGS.sweep(config), claimed)),
        figures={"minimal_norm": functools.partial(_draw, config.d, hand, runs)},
        extra_tables={"candidates": runs},
        notes=[note],
    )
