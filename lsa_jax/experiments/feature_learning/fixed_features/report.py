"""The report on the lower bound: linear models on N fixed features, and the network."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.fixed_features.claims import has_bound, make_claims
from lsa_jax.experiments.feature_learning.fixed_features.settings import SETTINGS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_LINES = {
    "neurons": ("random neurons", PALETTE[2]),
    "rbf": ("random features of an RBF", PALETTE[3]),
}
_COLUMNS = {
    "test_accuracy": "test accuracy",
    "train_accuracy": "train accuracy",
    "test_hinge": "test hinge loss",
    "norm": "norm B",
    "bound": "bound of theorem 2",
}


def _table(fine: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a case, kind of features and N; networks come last."""
    rows = fine.sort_values("learner", key=lambda names: names == "network", kind="stable")
    about = [has_bound(d, k) for d, k in zip(rows["num_patterns"], rows["k"], strict=True)]
    rows = rows.assign(bound=rows["bound"].where(about))
    groups = rows.groupby(["num_patterns", "k", "learner", "N"], sort=False, dropna=False)
    table = groups[list(_COLUMNS)].agg(mean_and_spread).reset_index()
    table["learner"] = table["learner"].replace("network", "learned (network)")
    names = {"num_patterns": "D", "learner": "features"} | _COLUMNS
    return table.rename(columns=names).astype({"N": object}).replace({"N": {np.nan: ""}})


def _draw(fine: pd.DataFrame) -> Any:
    """Draws test accuracy and hinge loss against N, one column of panels a case."""
    import matplotlib.pyplot as plt

    cases = list(fine.groupby(["num_patterns", "k"]))
    size = {"figsize": (4.5 * len(cases), 6), "layout": "constrained", "sharex": "col"}
    figure, axes = plt.subplots(2, len(cases), squeeze=False, **size)
    for column, ((d, k), rows) in zip(axes.T, cases, strict=True):
        for name, (label, color) in _LINES.items():
            own = rows[rows["learner"] == name]
            for axis, measure in zip(column, ("test_accuracy", "test_hinge"), strict=True):
                draw_mean(axis, own[measure], own["N"], color=color, label=label, marker="o")
        level = rows.loc[rows["learner"] == "network", "test_accuracy"].mean()
        column[0].axhline(level, color=PALETTE[0], ls="--", label="network")
        column[0].set(title=f"D = {d}, k = {k}", ylabel="test accuracy", ylim=(0.45, 1.02))
        column[1].set(xscale="log", xlabel="features, N", ylabel="test hinge loss")
        column[0].legend(frameon=False, fontsize="small")
    tidy(*axes.flat)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the table, the claims and the figure of a sweep."""
    kept = outcomes.read(workdir, results["id"])
    # Networks alone have no columns of the linear models.
    results = results.reindex(columns=results.columns.union([*_COLUMNS, "N"], sort=False))
    runs = Runs.of(SETTINGS.sweep(config), results, kept, fresh=True)
    runs = runs.assign(num_test=config.num_test)
    notes = [
        "Means over seeds ± their standard deviation. Features are in [-1, 1] and drawn before the "
        "examples; features of a smaller N are the first ones of a larger N. Models are fitted by "
        f"the hinge loss (L-BFGS, {config.max_iterations} iterations at most), penalty and kernel "
        "scale chosen on validation examples. The theorem is about the worst choice of relevant "
        "patterns, and 3 < k <= D / 16; seeds draw them at random. Its bound is p0 (1 - sqrt(2 N) "
        "B / 2^k); it is 0 where the norm makes it negative, and no bound then."
    ]
    return Report(
        title=config.title,
        tables=[("Linear models on N fixed features", _table(runs.finished))],
        claims=decide_all(make_claims(config), runs),
        figures={"fixed_features": functools.partial(_draw, runs.finished)},
        notes=notes,
    )
