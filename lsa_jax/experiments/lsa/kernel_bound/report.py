"""The report on theorem 2: least error of kernels of fixed filters against m, and the network's."""

import functools
from pathlib import Path
from typing import Any

import ml_collections
import pandas as pd

from lsa_jax.experiments.lsa.kernel_bound.claims import (
    BOUND,
    PROBABILITY,
    count_of,
    make_claims,
)
from lsa_jax.experiments.lsa.kernel_bound.settings import SETTINGS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.curves import PALETTE, draw_mean, tidy
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.write import mean_and_spread

# Columns of the last table and their headings.
_SHOWN = {
    "test_error": "test error",
    "least_test_error": "least test error of all fits",
    "discriminant_error": "discriminant's test error",
    "predicted_error": "predicted error",
}

_NOTE = (
    "Means over draws of the filters ± their standard deviation. A kernel's test error is the one "
    "of the fit that errs least on validation examples, on fresh examples. The least test error of "
    "all fits is chosen on the test examples themselves, so it is optimistic. The predicted error "
    "is the discriminant's, were its output normal. The theorem is about all weights and "
    "thresholds; the results are the best that the search found. Its probability of "
    f"{PROBABILITY:g} is decided by how many draws err on {BOUND:g} or more, with the exact "
    "binomial interval; their mean error is measured. The linear classifier adds up noise of "
    "standard deviation log(k), so it errs with the normal probability of -1 / log(k): section 3's "
    "0.49 takes a k of e^39.9 or more."
)


def _by_size(kernels: pd.DataFrame, others: pd.DataFrame, summary: Any) -> pd.DataFrame:
    """Returns one row a k and one column an m, and the others': a summary of the test errors."""
    cells = kernels.groupby(["k", "m"])["test_error"].apply(summary).unstack("m")
    cells.columns = [f"m = {m}" for m in cells.columns]
    for learner, rows in others.groupby("learner", sort=False):
        cells = cells.join(rows.groupby("k")["test_error"].apply(summary).rename(learner))
    return cells.fillna("").reset_index()


def _tables(kernels: pd.DataFrame, others: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Returns the errors by number of filters, and means over seeds of every error of the fits."""
    if kernels.empty:
        return []
    rows = kernels.groupby(["k", "m"])
    fits = {heading: rows[name].apply(mean_and_spread) for name, heading in _SHOWN.items()}
    return [
        ("Test error", _by_size(kernels, others, mean_and_spread)),
        (f"Runs with a test error of {BOUND:g} or more", _by_size(kernels, others, count_of)),
        ("Fits of the kernels", pd.DataFrame(fits).reset_index()),
    ]


def _claims(runs: Runs) -> list[Row]:
    """Returns the decided claims at each k, for the kernels that were planned or run."""
    rows = pd.concat([table[["learner", "k", "m"]] for table in runs[:2]])
    claims = []
    for k, own in rows.groupby("k", sort=False):
        filters = own.loc[own["learner"] == "kernel", "m"].unique()
        claims += make_claims(int(k), map(int, filters))
    return decide_all(claims, runs)


def _draw(kernels: pd.DataFrame, network: pd.DataFrame) -> Any:
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
    runs = Runs.of(SETTINGS.sweep(config), results.assign(num_test=config.num_test))
    fine = results[results["status"] == "ok"]
    kernels, others = fine[fine["learner"] == "kernel"], fine[fine["learner"] != "kernel"]
    network = others[others["learner"] == "network"]
    return Report(
        title=config.title,
        tables=_tables(kernels, others),
        claims=_claims(runs),
        figures={"kernel_bound": functools.partial(_draw, kernels, network)},
        notes=[_NOTE],
    )
