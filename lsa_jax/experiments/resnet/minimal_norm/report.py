"""The report on networks of small norm: made by hand, and found by SGD."""

import functools
from pathlib import Path
from typing import Any

import pandas as pd

from lsa_jax.experiments.resnet.minimal_norm.claims import HAND_MADE, make_claims
from lsa_jax.reporting import files
from lsa_jax.reporting.curves import PALETTE, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.fields import Config

# Results that a sweep of one part lacks, and columns of the searches' candidates.
_NUMBERS = ["part", "seed", "relative_norm", "test_error"]
_OF_SGD = ["width", "learning_rate", "weight_decay", "train_error", "test_error", "relative_norm"]


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


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns norms and errors of both kinds, the claims and the figure."""
    fine = runs.finished.reindex(columns=list(dict.fromkeys([*runs.finished, *_NUMBERS])))
    hand, searches = (fine[fine["part"] == part] for part in ("construction", "search"))
    candidates = files.read_histories(workdir, searches, ["id", "width", "seed"])
    candidates = candidates.reindex(columns=list(dict.fromkeys([*candidates, *_OF_SGD])))
    # The least norm of each search's candidates that fit as well as a network made by hand.
    fits = candidates[candidates["train_error"] <= HAND_MADE[0][1]]
    fitted = fine["id"].map(fits.groupby("id")["relative_norm"].min())
    best = candidates.sort_values(["width", "test_error"]).groupby("width").head(3)
    note = (
        f"d = {config.d}, N = {config.num_train}; relative_norm is |W|_F / sqrt(d), and an error "
        "the mean of (F - y)^2: of networks made by hand over all inputs, of those by SGD on "
        f"{config.num_test} fresh examples. The paper leaves initial weights, epochs and the "
        f"loss's scale open: here N(0, {config.init_std:g}^2), {config.epochs} epochs, half the "
        "squared error."
    )
    return Report(
        tables=[
            ("Made by hand", hand.filter(["width", "penalty", "relative_norm", "test_error"])),
            ("Best by SGD in test error", best[_OF_SGD]),
        ],
        claims=make_claims(config),
        runs=runs._replace(finished=fine).assign(num_test=config.num_test, fitted_norm=fitted),
        figures={"minimal_norm": functools.partial(_draw, config.d, hand, candidates)},
        extra_tables={"candidates": candidates},
        notes=[note],
    )
