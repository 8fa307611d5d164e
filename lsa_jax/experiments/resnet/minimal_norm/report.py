"""The report on networks of small norm: made by hand, and found by SGD."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.resnet.minimal_norm.claims import HAND_MADE, make_claims
from lsa_jax.experiments.resnet.minimal_norm.settings import SETTINGS
from lsa_jax.reporting import files
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs


def least_norms(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    """Returns the least norm of the runs with at most an error, for each error of a column."""
    ordered = runs.sort_values([column, "relative_norm"])[[column, "relative_norm"]]
    return ordered.assign(relative_norm=ordered["relative_norm"].cummin()).reset_index(drop=True)


def _draw(d: int, hand: pd.DataFrame, runs: pd.DataFrame) -> Any:
    """Draws the least norm at most an error against the error: by hand, and by SGD."""
    figure, ((axis,),) = subplots(1, 1, 6, 4)
    for color, rows, error, label, style in (
        (PALETTE[0], hand, "test_error", "made by hand, test error", {"marker": "o"}),
        (PALETTE[1], runs, "train_error", "least by SGD, train error", {"ds": "steps-post"}),
        (PALETTE[2], runs, "test_error", "least by SGD, test error", {"ds": "steps-post"}),
    ):
        if len(rows):
            points = least_norms(rows, error)
            norms = d**0.5 * points["relative_norm"]
            axis.plot(points[error].clip(lower=1e-3), norms, color=color, label=label, **style)
    axis.set(xscale="log", xlim=(0.004, 1.2), ylim=(0, None), xlabel="error")
    axis.set(ylabel="Frobenius norm")
    axis.legend(frameon=False)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns norms and errors of both kinds, the claims and the figure."""
    columns = ["part", "seed", "relative_norm", "test_error"]
    whole = results.reindex(columns=list(dict.fromkeys([*results, *columns])))
    fine = whole[whole["status"] == "ok"]
    hand, searches = (fine[fine["part"] == part] for part in ("construction", "search"))
    columns = ["width", "learning_rate", "weight_decay", "train_error", "test_error"]
    columns += ["relative_norm"]
    runs = files.read_histories(workdir, searches, ["id", "width", "seed"])
    runs = runs.reindex(columns=list(dict.fromkeys([*runs, *columns])))
    # The least norm of each search's candidates that fit as well as a network made by hand.
    fitted = runs[runs["train_error"] <= HAND_MADE[0][1]].groupby("id")["relative_norm"].min()
    claimed = whole.assign(num_test=config.num_test, fitted_norm=whole["id"].map(fitted))
    best = runs.sort_values(["width", "test_error"]).groupby("width").head(3)
    note = (
        f"d = {config.d}, N = {config.num_train}; relative_norm is |W|_F / sqrt(d), and an error "
        "the mean of (F - y)^2: of networks made by hand over all inputs, of those by SGD on "
        f"{config.num_test} fresh examples. The paper leaves initial weights, epochs and the "
        f"loss's scale open: here N(0, {config.init_std:g}^2), {config.epochs} epochs, half the "
        "squared error."
    )
    return Report(
        title=config.title,
        tables=[
            ("Made by hand", hand.filter(["width", "penalty", "relative_norm", "test_error"])),
            ("Best by SGD in test error", best[columns]),
        ],
        claims=decide_all(make_claims(config), Runs.of(SETTINGS.sweep(config), claimed)),
        figures={"minimal_norm": functools.partial(_draw, config.d, hand, runs)},
        extra_tables={"candidates": runs},
        notes=[note],
    )
