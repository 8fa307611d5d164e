"""The report on theorem 2: least error of kernels of fixed filters against m, and the network's."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.reporting.claims import cell, compare, every, spread
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.intervals import REACH, binomial_error
from lsa_jax.reporting.report import Claim, Report

# Theorem 2's bound on a kernel's error, and what counts as an error next to zero.
BOUND, NEXT_TO_ZERO = 0.1, 0.01

# Section 3 of what sum_i <w*, X_i> errs on, at least, with sigma = log(k) / sqrt(k).
LINEAR = 0.49

# Theorem 2 is about a number of filters that stays fixed as k grows; claims are made up to here.
FEW_FILTERS = 4

# Columns of the last table and their headings.
_SHOWN = {
    "test_error": "test error",
    "least_test_error": "least test error of all fits",
    "discriminant_error": "discriminant's test error",
    "predicted_error": "predicted error",
}


def _by_size(kernels: pd.DataFrame, others: pd.DataFrame, summary: Any) -> pd.DataFrame:
    """Returns one row a k and one column an m, and the others': a summary of the test errors."""
    cells = kernels.groupby(["k", "m"])["test_error"].apply(summary).unstack("m")
    cells.columns = [f"m = {m}" for m in cells.columns]
    for learner, rows in others.groupby("learner", sort=False):
        cells = cells.join(rows.groupby("k")["test_error"].apply(summary).rename(learner))
    return cells.fillna("").reset_index()


def _share(values: pd.Series) -> str:
    return f"{(values >= BOUND).sum()} of {len(values)}"


def _fits(kernels: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a kernel: means over seeds ± standard deviation of every error."""
    rows = kernels.groupby(["k", "m"])
    columns = {name: rows[m].apply(cell) for m, name in _SHOWN.items()}
    return pd.DataFrame(columns).reset_index()


def _network_claim(item: str, errors: pd.Series, num_test: int) -> Claim:
    """Tells whether the network's error is next to zero for every seed, by its test examples."""
    reach = [REACH * binomial_error(error, num_test) for error in errors]
    ours = round(float(errors.mean()), 5) if len(errors) else ""
    near = "" if (errors + reach < NEXT_TO_ZERO).all() else "it would take more test examples"
    holds = errors < NEXT_TO_ZERO
    return every(item, "goes to 0", holds, ours, unless=near, spread=spread(errors))


def _kernel_claim(item: str, errors: pd.Series, network: Claim, num_test: int) -> Claim:
    """Tells whether kernels err as often as theorem 2 says, in the mean over draws of the filters.

    It says so of all but one draw in a thousand, so one draw that surely errs less refutes it. A
    kernel that fails says something of kernels where the network does not: else nothing can be
    learned there.
    """
    paper = f"{BOUND:g} or more, with probability 0.999 for large k"
    less = errors + [REACH * binomial_error(error, num_test) for error in errors] < BOUND
    if less.any():
        ours, note = round(float(errors.mean()), 4), f"draws with less: {less.sum()}"
        return every(item, paper, ~less, ours, unless=note, spread=spread(errors))
    unless = "" if len(errors) > 1 else "it would take 2 draws or more"
    if network.status != "shown":
        unless = "the network does not learn"
    # Draws have test examples of their own.
    error = binomial_error(float(errors.mean()), num_test * len(errors))
    return compare(item, paper, errors, above=BOUND, examples_error=error, unless=unless)


def _linear_claim(item: str, errors: pd.Series, network: Claim, num_test: int) -> Claim:
    """Tells whether the linear classifier fails as often as section 3 says.

    It says something of linear classifiers where a network learns.
    """
    unless = "" if network.status == "shown" else "the network does not learn"
    # Seeds have test examples of their own.
    error = binomial_error(float(errors.mean()), num_test * len(errors)) if len(errors) else 0.0
    paper = f"{LINEAR:g} or more"
    return compare(item, paper, errors, above=LINEAR, examples_error=error, unless=unless)


def make_claims(results: pd.DataFrame, num_test: int) -> list[Claim]:
    """Returns what theorems 1 and 2 and section 3 say beside what came out.

    A network's claim is shown when its error is next to zero for every seed.
    """
    fine = results[results["status"] == "ok"]
    claims = []
    for k in results["k"].unique():
        here = fine[fine["k"] == k]
        errors = here.loc[here["learner"] == "network", "test_error"]
        of_network = _network_claim(f"the network's test error, k = {k}", errors, num_test)
        kernels = here[(here["learner"] == "kernel") & (here["m"] <= FEW_FILTERS)]
        for m, errors in kernels.groupby("m")["test_error"]:
            item = f"test error of the kernel, k = {k}, m = {m}"
            claims.append(_kernel_claim(item, errors, of_network, num_test))
        claims.append(of_network)
        errors = here.loc[here["learner"] == "linear", "test_error"]
        item = f"error of the linear classifier sum_i <w*, X_i>, k = {k}"
        claims.append(_linear_claim(item, errors, of_network, num_test))
    return claims


def draw(kernels: pd.DataFrame, network: pd.DataFrame) -> Any:
    """Draws test error against m, one line a k; bands are ± 1 std; the network is dashed."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.5, 3.8), layout="constrained")
    for place, (k, rows) in enumerate(kernels.groupby("k")):
        color = PALETTE[place % len(PALETTE)]
        style = {"color": color, "label": f"k = {k}", "marker": "o", "markersize": 4}
        draw_mean(axis, rows["test_error"], rows["m"], limits=(0, 1), **style)
        errors = network.loc[network["k"] == k, "test_error"]
        if len(errors):
            axis.axhline(errors.mean(), color=color, linestyle="--", label=f"network, k = {k}")
    axis.axhline(BOUND, color="grey", linestyle=":", label="bound of theorem 2")
    axis.set_xscale("log", base=2)
    axis.set(xlabel="filters of the kernel, m", ylabel="test error", ylim=(-0.01, 0.5))
    tidy(axis)
    axis.legend(frameon=False, fontsize="small")
    return figure


def make_report(config: ml_collections.ConfigDict, results: pd.DataFrame, workdir: Path) -> Report:
    """Returns the tables, the claims and the figure of a sweep."""
    del workdir
    fine = results[results["status"] == "ok"]
    kernels, others = fine[fine["learner"] == "kernel"], fine[fine["learner"] != "kernel"]
    network = others[others["learner"] == "network"]
    tables = []
    if len(kernels):
        tables = [
            ("Test error", _by_size(kernels, others, cell)),
            (f"Runs with a test error of {BOUND:g} or more", _by_size(kernels, others, _share)),
            ("Fits of the kernels", _fits(kernels)),
        ]
    notes = [
        "Means over draws of the filters ± their standard deviation. A kernel's test error is that "
        "of the fit that errs least on validation examples, on fresh examples. The least test "
        "error of all fits is chosen on the test examples themselves, so it is optimistic. The "
        "predicted error is the discriminant's, were its output normal. The theorem is about all "
        "weights and thresholds; what is shown is the best that the search found. "
        "The linear classifier adds up noise of standard deviation log(k), so it errs with the "
        "normal probability of -1 / log(k): section 3's 0.49 takes a k of e^39.9 or more."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=make_claims(results, config.num_test),
        figures={"kernel_bound": functools.partial(draw, kernels, network)},
        notes=notes,
    )
