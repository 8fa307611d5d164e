"""The report on the lower bound: linear models on fixed features against N, and the network."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.fixed_features.claims import has_bound, make_claims
from lsa_jax.experiments.feature_learning.fixed_features.settings import sweep
from lsa_jax.reporting import outcomes
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

_COLORS = {"neurons": "#009E73", "rbf": "#CC79A7", "network": "#0072B2"}
_HEADINGS = {"neurons": "random neurons", "rbf": "random features of an RBF"}
_CASE = ["num_patterns", "k"]
_BOUND = "bound of theorem 2"


def _table(linear: pd.DataFrame, network: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a case, kind and N: test accuracy, hinge losses, norm, bound; and network."""
    shown = {
        "test_accuracy": "test accuracy",
        "train_accuracy": "train accuracy",
        "test_hinge": "test hinge loss",
        "norm": "norm B",
        "bound": _BOUND,
    }
    rows = linear.groupby([*_CASE, "learner", "N"], sort=False)
    table = pd.DataFrame(
        {label: rows[name].apply(mean_and_spread) for name, label in shown.items()}
    )
    table = table.reset_index().rename(columns={"num_patterns": "D", "learner": "features"})
    outside = [not has_bound(d, k) for d, k in zip(table["D"], table["k"], strict=True)]
    table.loc[outside, _BOUND] = ""
    for (d, k), at in network.groupby(_CASE):
        line = {"D": d, "k": k, "features": "learned (network)", "N": ""}
        line |= {
            shown[name]: mean_and_spread(at[name]) for name in ("test_accuracy", "train_accuracy")
        }
        table = pd.concat([table, pd.DataFrame([line])], ignore_index=True)
    return table.fillna("")


def draw(linear: pd.DataFrame, network: pd.DataFrame) -> Any:
    """Draws test accuracy and hinge loss against N, one column of panels a case."""
    import matplotlib.pyplot as plt

    cases = list(linear.groupby(_CASE)) if len(linear) else []
    columns = max(len(cases), 1)
    figure, axes = plt.subplots(
        2, columns, figsize=(4.5 * columns, 6), squeeze=False, layout="constrained", sharex="col"
    )
    for column, ((d, k), rows) in enumerate(cases):
        for name, of_kind in rows.groupby("learner"):
            for axis, measure in zip(axes[:, column], ("test_accuracy", "test_hinge"), strict=True):
                stats = of_kind.groupby("N")[measure].agg(["mean", "std"])
                style = {"color": _COLORS[name], "label": _HEADINGS[name]}
                axis.errorbar(
                    stats.index,
                    stats["mean"],
                    stats["std"].fillna(0),
                    fmt="o-",
                    markersize=4,
                    **style,
                )
        if len(network):
            at = network[(network["num_patterns"] == d) & (network["k"] == k)]
            level = at["test_accuracy"].mean()
            axes[0, column].axhline(level, color=_COLORS["network"], ls="--", label="network")
        axes[0, column].set(title=f"D = {d}, k = {k}", ylabel="test accuracy", ylim=(0.45, 1.02))
        axes[1, column].set(xscale="log", xlabel="features, N", ylabel="test hinge loss")
        axes[0, column].legend(frameon=False, fontsize="small")
    tidy(*axes.flat)
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the table, the claims and the figure of a sweep."""
    kept = outcomes.read(workdir, results["id"])
    runs = Runs.of(sweep(config), results, kept, fresh=True).assign(num_test=config.num_test)
    fine = results[results["status"] == "ok"]
    network = fine[fine["learner"] == "network"]
    linear = fine[fine["learner"] != "network"]
    tables = []
    if len(linear):
        tables = [("Linear models on N fixed features", _table(linear, network))]
    notes = [
        "Means over seeds ± their standard deviation. Features are in [-1, 1] and drawn before the "
        "examples; those of a smaller N are the first ones of a larger. Models are fitted by the "
        f"hinge loss (L-BFGS, {config.max_iterations} iterations at most), penalty and kernel "
        "scale chosen on validation examples. The theorem is about the worst choice of relevant "
        "patterns, and 3 < k <= D / 16; seeds draw them at random. Its bound is p0 (1 - sqrt(2 N) "
        "B / 2^k), and says nothing of models whose norm makes it 0 or less, here 0."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=decide_all(make_claims(config), runs),
        figures={"fixed_features": functools.partial(draw, linear, network)},
        notes=notes,
    )
