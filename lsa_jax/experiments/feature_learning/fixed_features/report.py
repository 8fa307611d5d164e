"""The report on the lower bound: linear models on fixed features against N, and the network."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import doubt
from lsa_jax.reporting.claims import cell, compare, every, not_run
from lsa_jax.reporting.curves import tidy
from lsa_jax.reporting.intervals import difference_error
from lsa_jax.reporting.report import Claim, Report

_COLORS = {"neurons": "#009E73", "rbf": "#CC79A7", "network": "#0072B2"}
_HEADINGS = {"neurons": "random neurons", "rbf": "random features of an RBF"}
_CASE = ["num_patterns", "k"]
# What seeds differ in.
_MEASURES = ("test_accuracy", "train_accuracy", "test_hinge", "norm", "cosine")
# What claims are made of, which runs that are not there have not written.
_COLUMNS = (*_CASE, "learner", "N", "seed", "test_accuracy", "test_hinge", "norm", "bound")
_BOUND = "bound of theorem 2"


def _has_bound(d: float, k: float) -> bool:
    """Tells whether theorem 2 is about a case; that k is odd is up to the settings."""
    return 3 < k <= d / 16


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
    table = pd.DataFrame({label: rows[name].apply(cell) for name, label in shown.items()})
    table = table.reset_index().rename(columns={"num_patterns": "D", "learner": "features"})
    outside = [not _has_bound(d, k) for d, k in zip(table["D"], table["k"], strict=True)]
    table.loc[outside, _BOUND] = ""
    for (d, k), at in network.groupby(_CASE):
        line = {"D": d, "k": k, "features": "learned (network)", "N": ""}
        line |= {shown[name]: cell(at[name]) for name in ("test_accuracy", "train_accuracy")}
        table = pd.concat([table, pd.DataFrame([line])], ignore_index=True)
    return table.fillna("")


def _gap_claim(where: str, linear: pd.DataFrame, network: pd.DataFrame, num_test: int) -> Claim:
    """Compares the network with the best of the linear models, whatever its N."""
    item = f"points of test accuracy, network minus the best on fixed features, {where}"
    if linear.empty or network.empty:
        return not_run(item, "above 0")
    accuracies = linear.set_index("seed").groupby(["learner", "N"])["test_accuracy"]
    means = accuracies.mean()
    best = accuracies.get_group(means.idxmax())
    error = difference_error(network["test_accuracy"].mean(), means.max(), num_test)
    # Seeds are those of the problem and its examples: differences are of the same seed.
    gap = 100 * (network.set_index("seed")["test_accuracy"] - best).dropna()
    return compare(item, "above 0", gap, above=0.0, examples_error=100 * error, digits=2)


def _bound_claim(where: str, linear: pd.DataFrame, has_bound: bool, gap: Claim) -> Claim:
    """Counts the models below their bound: those that are better than the answer 0.

    The hinge loss of that is 1, which no bound reaches. That models are above theirs says something
    where the network is better.
    """
    item = "models on fixed features with a hinge loss below the bound, of those with one above 0, "
    item += where
    paper = "none (theorem 2)" if has_bound else "the theorem needs 3 < k <= D / 16"
    answers = (linear["norm"] > 0) & (linear["test_hinge"] < 1)
    bounded = linear[(linear["bound"] > 0) & answers] if has_bound else linear[:0]
    below = bounded["test_hinge"] < bounded["bound"]
    unless = "" if gap.status == "shown" else "the network is not shown to be better"
    return every(item, paper, ~below, f"{below.sum()} of {len(below)}", unless=unless)


def _kinds(config: ml_collections.ConfigDict, of_case: pd.DataFrame) -> list[pd.DataFrame]:
    """Returns a case's runs of the network and of all that a sweep asks for: features and N."""
    axes = config.sweep
    return [
        of_case[of_case["learner"] == "network"],
        *(
            of_case[(of_case["learner"] == features) & (of_case["N"] == count)]
            for features in axes.features
            for count in axes.N
        ),
    ]


def make_claims(config: ml_collections.ConfigDict, results: pd.DataFrame) -> list[Claim]:
    """Returns what theorem 2 says beside what came out.

    The hinge loss is at least the bound for every model whose bound is above 0, in cases with
    3 < k <= D / 16; and the network's accuracy is above that of every linear model, whatever its N.
    """
    fine = results[results["status"] == "ok"]
    fine = fine.reindex(columns=list(dict.fromkeys([*fine.columns, *_COLUMNS])))
    num_test, claims = config.num_test, []
    for d, k in config.sweep.cases:
        of_case = fine[(fine["num_patterns"] == d) & (fine["k"] == k)]
        linear, network = (
            of_case[(of_case["learner"] == "network") == side] for side in (False, True)
        )
        where, kinds = f"D = {d}, k = {k}", _kinds(config, of_case)
        runs = (kinds, config.sweep.seed, _MEASURES, num_test)
        gap = doubt(_gap_claim(where, linear, network, num_test), *runs)
        bound = _bound_claim(where, linear, _has_bound(d, k), gap)
        claims += [doubt(bound, *runs), gap]
    return claims


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
    del workdir
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
        claims=make_claims(config, results),
        figures={"fixed_features": functools.partial(draw, linear, network)},
        notes=notes,
    )
