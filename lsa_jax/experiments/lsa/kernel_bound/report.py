"""Claims, tables and figure of theorem 2: least error of kernels of few filters, and the network's.

Also the claim on section 3's linear classifier. Each draw of the filters and each seed has test
examples of its own.
"""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.stats

from lsa_jax.experiments.lsa.kernel_bound.settings import SETTINGS
from lsa_jax.reporting.claims import Claim, Condition, shown
from lsa_jax.reporting.curves import PALETTE, draw_series, subplots
from lsa_jax.reporting.report import Report
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic, binomial_error, share_ends
from lsa_jax.reporting.statistics import computed, holds
from lsa_jax.reporting.write import table_of_means
from lsa_jax.sweep.fields import Config

# Theorem 2's bound on a kernel's error, how probable that is over draws of the filters, and the
# error that counts as next to zero.
BOUND, PROBABILITY, NEXT_TO_ZERO = 0.1, 0.999, 0.01
# Section 3: the least error of sum_i <w*, X_i>, with sigma = log(k) / sqrt(k).
LINEAR = 0.49
# Theorem 2 is about a number of filters that stays fixed as k grows; claims are made up to here.
FEW_FILTERS = 4


def make_claims(k: int, filters: Iterable[int]) -> list[Claim]:
    """Returns the claims at one k, for kernels of these numbers of filters."""
    network = Claim(
        f"the network's test error, k = {k}",
        _next_to_zero(k),
        paper=f"goes to 0: below {NEXT_TO_ZERO:g} for every seed",
        every=True,
        primary=True,
    )
    shares = [
        Claim(
            f"share of draws of the kernel that err on {BOUND:g} or more, k = {k}, m = {m}",
            _share({"learner": "kernel", "k": k, "m": m}),
            paper=f"{PROBABILITY:g} or more, for large k",
            above=np.nextafter(PROBABILITY, 0),
            conditions=(shown(network, "the network learns"), _search_works(k)),
            primary=m == FEW_FILTERS,
        )
        for m in sorted(m for m in filters if m <= FEW_FILTERS)
    ]

    def of_linear(rows: pd.DataFrame) -> pd.Series:  # exactly: signal 1 and noise of variance k / d
        return pd.Series(scipy.stats.norm.sf((rows["d"].iloc[:1] / k) ** 0.5))

    linear = Claim(
        f"error of the linear classifier sum_i <w*, X_i>, k = {k}",
        computed(of_linear, "test_error", exact=True, learner="linear", k=k),
        paper=f"{LINEAR:g} or more",
        above=LINEAR,
    )
    return [*shares, network, linear]


def _reach(rows: pd.DataFrame, tail: float) -> pd.Series:
    """Returns how far each run's error may be off, by its test examples."""
    pairs = zip(rows["test_error"], rows["num_test"], strict=True)
    errors = [binomial_error(error, count) for error, count in pairs]
    return pd.Series(errors, rows.index, dtype=float) * scipy.stats.norm.isf(tail)


def _next_to_zero(k: int) -> Statistic:
    """Returns the statistic of whether each seed's network errs on next to nothing."""

    def holds(rows: pd.DataFrame) -> pd.Series:
        errors, reach = rows["test_error"], _reach(rows, TAIL)
        sure = (errors + reach < NEXT_TO_ZERO).astype(float)
        return sure.mask((errors - reach < NEXT_TO_ZERO) & (sure == 0))

    found = computed(holds, "test_error", examples="num_test", learner="network", k=k)
    # Errors of 0 in all seeds are equal by themselves.
    return lambda runs: found(runs)._replace(equal=False)


def _share(own: dict[str, object]) -> Statistic:
    """Returns the statistic of the share of draws that err on the bound or more.

    Its interval begins at the lower end of the exact one over draws whose test examples are sure
    of it, and ends at the upper end of the one over draws for which it is possible: for all draws
    at once (Bonferroni), as one exception among few draws refutes the theorem.
    """
    share = holds("test_error", lambda error: error >= BOUND, examples="num_test", **own)

    def statistic(runs: Runs) -> Sample:
        rows = runs.where(**own).finished
        errors, draws = rows["test_error"], len(rows)

        def ends(tail: float) -> tuple[float, float]:
            reach = _reach(rows, tail / draws)
            sure, possible = (int((errors + way * reach >= BOUND).sum()) for way in (-1, 1))
            return share_ends(sure, draws, tail)[0], share_ends(possible, draws, tail)[1]

        return share(runs)._replace(ends=ends)

    return statistic


def _search_works(k: int) -> Condition:
    """Returns the condition that a kernel of more filters gets below the bound.

    Otherwise the search for weights and thresholds may have failed.
    """

    def unmet(runs: Runs) -> str:
        rows = runs.where(learner="kernel", k=k).finished
        below = rows["test_error"] + _reach(rows, TAIL) < BOUND
        return "" if below.any() else "none does"

    return Condition(f"a kernel of more filters errs on less than {BOUND:g}", unmet)


_COLUMNS = {
    "test_error": "test error",
    "above": f"share of {BOUND:g} or more",
    "least_test_error": "least test error of all fits",
    "discriminant_error": "discriminant's test error",
    "predicted_error": "predicted error",
}

_NOTE = (
    "Means over draws of the filters ± their standard deviation. A kernel's test error is the one "
    "of the fit that errs least on validation examples, on fresh examples; the theorem is about "
    "all weights and thresholds, and these are the best that the search found. The least test "
    "error of all fits is chosen on the test examples themselves, so it is optimistic. The "
    "predicted error is the discriminant's, were its output normal. The linear classifier adds up "
    "noise of standard deviation log(k), so it errs with the normal probability of -1 / log(k): "
    "section 3's 0.49 takes a k of e^39.9 or more."
)


def _draw(rows: pd.DataFrame) -> Any:
    """Draws test error against m, one line a k; bands are ± 1 std; the network is dashed."""
    figure, ((axis,),) = subplots(1, 1, 5.5, 3.8)
    named = rows.assign(k="k = " + rows["k"].astype(str))
    kernels = named[named["learner"] == "kernel"]
    style = {"limits": (0, 1), "marker": "o", "markersize": 4}
    draw_series(axis, kernels, "m", "test_error", "k", **style)
    errors = named[named["learner"] == "network"].groupby("k", sort=False)["test_error"].mean()
    for (k, error), color in zip(errors.items(), PALETTE, strict=False):
        axis.axhline(error, color=color, linestyle="--", label=f"network, {k}")
    axis.axhline(BOUND, color="grey", linestyle=":", label="bound of theorem 2")
    axis.set_xscale("log", base=2)
    axis.set(xlabel="filters of the kernel, m", ylabel="test error", ylim=(-0.01, 0.5))
    axis.legend(frameon=False, fontsize="small")
    return figure


def make_report(config: Config, runs: Runs, workdir: Path) -> Report:
    """Returns the table, the claims and the figure of a sweep."""
    del workdir
    rows = runs.finished.assign(above=1.0 * (runs.finished["test_error"] >= BOUND))
    points = [point for point in SETTINGS.sweep(config) if point["learner"] == "kernel"]
    return Report(
        tables=[("Test error", table_of_means(rows, ["k", "learner", "m"], _COLUMNS))],
        # Kernels with too many features are no points.
        claims=[
            claim
            for k in config.sweep.k
            for claim in make_claims(k, {point["m"] for point in points if point["k"] == k})
        ],
        runs=runs.assign(num_test=config.num_test),
        figures={"kernel_bound": functools.partial(_draw, rows)},
        notes=[_NOTE],
    )
