"""The report on networks of small norm: those made by hand beside those that SGD finds."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.resnet.numbers import BEST_SGD_ERROR, HAND_MADE_NORMS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import every, not_run
from lsa_jax.reporting.curves import PALETTE, tidy
from lsa_jax.reporting.report import Claim, Report

# A norm counts as the paper's up to this factor.
NEAR = 1.05

# The paper's bound on the test error of a network of nearly minimal norm.
GENERALISES = 0.3


def least_norms(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns the least norm among the runs with at most this error, for each error that occurs.

    Args:
        runs: with `relative_norm` and `column`.
        column: the error that is meant.
    """
    ordered = runs.sort_values([column, "relative_norm"])[[column, "relative_norm"]]
    return ordered.assign(relative_norm=ordered["relative_norm"].cummin()).reset_index(drop=True)


def _norm_at(runs: pd.DataFrame, column: str, error: float) -> float:
    """Returns the least norm among the runs with at most this error; NaN where there is none."""
    if runs.empty:  # where all failed, there are no columns of numbers either
        return np.nan
    norms = runs.loc[runs[column] <= error, "relative_norm"]
    return float(norms.min()) if len(norms) else np.nan


def hand_claims(hand: pd.DataFrame) -> list[Claim]:
    """Returns the paper's norms and errors beside those made here; they are no samples."""
    claims = []
    for norm, error in HAND_MADE_NORMS:
        found = _norm_at(hand, "test_error", error)
        ours = "no such error" if np.isnan(found) else found
        holds = [found <= NEAR * norm] if len(hand) else []
        claims.append(
            every(f"|W*|_F / sqrt(d), by hand, error at most {error:g}", norm, holds, ours)
        )
    return claims


def search_claims(d: int, runs: pd.DataFrame) -> list[Claim]:
    """Returns what SGD does not find: a small test error; a small training error and norm.

    A search that does not even fit the training examples says nothing.

    Args:
        d: inputs.
        runs: every candidate of every search.
    """
    norm, error = HAND_MADE_NORMS[0]
    items = (
        "best test error by SGD",
        f"least |W|_F / sqrt(d) by SGD with training error at most {error:g}",
    )
    printed = f"{BEST_SGD_ERROR[d]}, " if d in BEST_SGD_ERROR else ""
    papers = (f"{printed}above {GENERALISES}", f"well above {norm:g}")
    if runs.empty:
        return [not_run(*names) for names in zip(items, papers, strict=True)]
    best, least = float(runs["test_error"].min()), _norm_at(runs, "train_error", error)
    unless, ours = "", least
    if np.isnan(least):
        unless, ours = "no run fits the training examples", "no such run"
    far = np.isnan(least) or least > 2 * norm
    return [
        every(items[0], papers[0], [best > GENERALISES], best, unless=unless),
        every(items[1], papers[1], [far], ours, unless=unless),
    ]


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


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns norms and errors of both kinds, the claims and the figure."""
    fine = results[results["status"] == "ok"]
    hand, searches = (fine[fine["part"] == part] for part in ("construction", "search"))
    runs = _all_runs(searches, workdir)
    tables = []
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
        f"the mean of (F - y)^2, of tests on {config.num_test} fresh examples. The paper leaves "
        "initial weights, epochs and the loss's scale open: here N(0, "
        f"{config.init_std:g}^2), {config.epochs} epochs, half the squared error."
    )
    return Report(
        title=config.title,
        tables=tables,
        claims=hand_claims(hand) + search_claims(config.d, runs),
        figures={"minimal_norm": functools.partial(_draw, config.d, hand, runs)},
        extra_tables={"candidates": runs},
        notes=[note],
    )
