"""The report on theorem 2: least error of kernels of fixed filters against m, and the network's."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.lsa.kernel_bound import settings
from lsa_jax.experiments.lsa.kernel_bound.claims import BOUND, PROBABILITY, make_claims
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

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
    columns = {name: rows[m].apply(mean_and_spread) for m, name in _SHOWN.items()}
    return pd.DataFrame(columns).reset_index()


def _sizes(runs: Runs) -> list[tuple[int, list[int]]]:
    """Returns each k with the numbers of filters of its kernels, planned or run."""
    rows = pd.concat([table[["learner", "k", "m"]] for table in runs[:2]])
    return [
        (int(k), sorted(map(int, own.loc[own["learner"] == "kernel", "m"].unique())))
        for k, own in rows.groupby("k", sort=False)
    ]


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
    runs = Runs.of(settings.sweep(config), results.assign(num_test=config.num_test))
    fine = results[results["status"] == "ok"]
    kernels, others = fine[fine["learner"] == "kernel"], fine[fine["learner"] != "kernel"]
    network = others[others["learner"] == "network"]
    tables = []
    if len(kernels):
        tables = [
            ("Test error", _by_size(kernels, others, mean_and_spread)),
            (f"Runs with a test error of {BOUND:g} or more", _by_size(kernels, others, _share)),
            ("Fits of the kernels", _fits(kernels)),
        ]
    notes = [
        "Means over draws of the filters ± their standard deviation. A kernel's test error is that "
        "of the fit that errs least on validation examples, on fresh examples. The least test "
        "error of all fits is chosen on the test examples themselves, so it is optimistic. The "
        "predicted error is the discriminant's, were its output normal. The theorem is about all "
        "weights and thresholds; what is shown is the best that the search found. Its probability "
        f"of {PROBABILITY:g} is decided by how many draws err on {BOUND:g} or more, with the exact "
        "binomial interval; their mean error is measured. "
        "The linear classifier adds up noise of standard deviation log(k), so it errs with the "
        "normal probability of -1 / log(k): section 3's 0.49 takes a k of e^39.9 or more."
    ]
    return Report(
        title=config.title,
        tables=tables,
        claims=decide_all(make_claims(_sizes(runs)), runs),
        figures={"kernel_bound": functools.partial(draw, kernels, network)},
        notes=notes,
    )
