"""Claims, table and figure: linear models on N fixed features, and the network.

Source of the claims: Shi, Wei and Liang (ICLR 2022), theorem 2 and corollary 3.
"""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.feature_learning.fixed_features.settings import SETTINGS
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import Claim, decide_all
from lsa_jax.reporting.conditions import shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample
from lsa_jax.reporting.statistics import accuracy, lowest, minus
from lsa_jax.reporting.write import mean_and_spread


def has_bound(d: float, k: float) -> bool:
    """Whether theorem 2 is about a case; the settings accept odd k alone."""
    return 3 < k <= d / 16


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns two claims a case: models are above their bound, and the network is above them."""
    axes, claims = config.sweep, []
    for d, k in axes.cases:
        case = {"num_patterns": d, "k": k}
        network = accuracy(learner="network", **case)
        models = [
            accuracy(learner=features, N=count, **case)
            for features in axes.features
            for count in axes.N
        ]
        gap = Claim(
            item=f"points of test accuracy, network minus the best on fixed features, D = {d}, "
            f"k = {k}",
            statistic=lowest([minus(network, model) for model in models]),
            above=0.0,
            digits=2,
        )
        bound = Claim(
            item="seeds in which models on fixed features have at least the hinge loss of "
            f"their bound, where it is above 0, D = {d}, k = {k}",
            paper="all (theorem 2)",
            statistic=lambda runs, case=case: _respects_bound(runs.where(**case)),
            every=True,
            # Models above their bound are no lower bound where learned features do not help.
            conditions=(shown(gap, "the network is better"),),
        )
        claims += [bound, gap] if has_bound(d, k) else [gap]
    return claims


def _respects_bound(runs: Runs) -> Sample:
    """Returns 1 in seeds whose linear models are all above their bounds, else 0.

    Models that are no better than the answer 0, whose hinge loss is 1, do not count: no bound
    reaches it.
    """
    own = runs.where(learner=tuple({*runs.planned["learner"]} - {"network"}))
    rows = own.finished
    rows = rows[(rows["bound"] > 0) & (rows["norm"] > 0) & (rows["test_hinge"] < 1)]
    holds = (rows["test_hinge"] >= rows["bound"]).astype(float)
    return Sample(
        holds.groupby(rows["seed"]).min(), lost=own.lost("test_hinge"), equal=own.equal_seeds()
    )


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
    # Networks alone have no columns of the linear models.
    results = results.reindex(columns=results.columns.union(_COLUMNS, sort=False))
    kept = outcomes.read(workdir, results["id"])
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
