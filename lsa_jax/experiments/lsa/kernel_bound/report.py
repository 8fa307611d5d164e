"""Claims, tables and figure of theorem 2: least error of kernels of few filters, and the network's.

Also the claims on section 3's linear classifier. Each draw of the filters and each seed has test
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
from lsa_jax.reporting.claims import Claim, Condition, decide_all, shown
from lsa_jax.reporting.curves import PALETTE, draw_mean, subplots
from lsa_jax.reporting.report import Report, Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, Statistic, binomial_error, share_ends
from lsa_jax.reporting.statistics import value
from lsa_jax.reporting.write import mean_and_spread
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
        item=f"the network's test error, k = {k}",
        paper=f"goes to 0: below {NEXT_TO_ZERO:g} for every seed",
        statistic=_next_to_zero(k),
        every=True,
        ours=lambda runs: _mean(runs.where(learner="network", k=k)),
        primary=True,
    )
    conditions = (shown(network, "the network learns"), _search_works(k))
    claims = []
    for m in sorted(m for m in filters if m <= FEW_FILTERS):
        own = {"learner": "kernel", "k": k, "m": m}
        claims += [
            Claim(
                item=f"mean test error over draws of the kernel, k = {k}, m = {m}",
                statistic=value("test_error", **own),
            ),
            Claim(
                item=f"share of draws of the kernel that err on {BOUND:g} or more, k = {k}, "
                f"m = {m}",
                paper=f"{PROBABILITY:g} or more, for large k",
                statistic=_share(own),
                above=np.nextafter(PROBABILITY, 0),
                conditions=conditions,
                ours=lambda runs, own=own: count_of(runs.where(**own).finished["test_error"]),
                primary=m == FEW_FILTERS,
            ),
        ]
    linear = Claim(
        item=f"error of the linear classifier sum_i <w*, X_i>, k = {k}",
        paper=f"{LINEAR:g} or more",
        statistic=_linear_error(k),
        above=LINEAR,
    )
    return [*claims, network, linear]


def count_of(errors: pd.Series) -> str:
    """Returns how many errors are at least the bound, in words."""
    return f"{(errors >= BOUND).sum()} of {len(errors)}"


def _linear_error(k: int) -> Statistic:
    """Returns the exact error of sum_i <w*, X_i>: signal 1 and noise of variance k / d."""

    def statistic(runs: Runs) -> Sample:
        d = runs.where(learner="linear", k=k).finished["d"].iloc[:1]
        return Sample(d.map(lambda d: float(scipy.stats.norm.sf((d / k) ** 0.5))), exact=True)

    return statistic


def _mean(runs: Runs) -> float | str:
    errors = runs.finished["test_error"]
    return round(float(errors.mean()), 5) if len(errors) else ""


def _reach(rows: pd.DataFrame, tail: float) -> pd.Series:
    """Returns how far each run's error may be off, by its test examples."""
    pairs = zip(rows["test_error"], rows["num_test"], strict=True)
    errors = [binomial_error(error, count) for error, count in pairs]
    return pd.Series(errors, rows.index, dtype=float) * scipy.stats.norm.isf(tail)


def _next_to_zero(k: int) -> Statistic:
    """Returns the statistic of whether each seed's network errs on next to nothing."""

    def statistic(runs: Runs) -> Sample:
        own = runs.where(learner="network", k=k)
        rows = own.finished
        errors, reach = rows["test_error"], _reach(rows, TAIL)
        holds = (errors + reach < NEXT_TO_ZERO).astype(float)
        holds[(errors - reach < NEXT_TO_ZERO) & (holds == 0)] = np.nan
        return Sample(holds, count=_examples(rows), lost=own.lost("test_error"))

    return statistic


def _share(own: dict[str, object]) -> Statistic:
    """Returns the statistic of the share of draws that err on the bound or more.

    Its interval begins at the lower end of the exact one over draws whose test examples are sure
    of it, and ends at the upper end of the one over draws for which it is possible: for all draws
    at once (Bonferroni), as one exception among few draws refutes the theorem.
    """

    def statistic(runs: Runs) -> Sample:
        chosen = runs.where(**own)
        rows = chosen.finished
        errors, draws = rows["test_error"], len(rows)

        def ends(tail: float) -> tuple[float, float]:
            reach = _reach(rows, tail / draws)
            sure = int((errors - reach >= BOUND).sum())
            possible = int((errors + reach >= BOUND).sum())
            return share_ends(sure, draws, tail)[0], share_ends(possible, draws, tail)[1]

        return Sample(
            (errors >= BOUND).astype(float),
            count=_examples(rows),
            lost=chosen.lost("test_error"),
            equal=chosen.equal_seeds(),
            ends=ends,
        )

    return statistic


def _examples(rows: pd.DataFrame) -> int | None:
    return int(rows["num_test"].min()) if len(rows) else None


def _search_works(k: int) -> Condition:
    """Returns the condition that a kernel of more filters gets below the bound.

    Otherwise the search for weights and thresholds may have failed.
    """

    def unmet(runs: Runs) -> str:
        rows = runs.where(learner="kernel", k=k).finished
        below = rows["test_error"] + _reach(rows, TAIL) < BOUND
        return "" if below.any() else "none does"

    return Condition(f"a kernel of more filters errs on less than {BOUND:g}", unmet)


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
    figure, ((axis,),) = subplots(1, 1, 5.5, 3.8)
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
    axis.legend(frameon=False, fontsize="small")
    return figure


def make_report(config: Config, results: pd.DataFrame, workdir: Path) -> Report:
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
