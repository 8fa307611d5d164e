"""What theorems 1 and 2 and section 3 of Karp et al. (2021) say beside what came out."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import scipy.stats

from lsa_jax.reporting.claims import LUCK, compare, decide, every, measured, not_run, spread
from lsa_jax.reporting.doubts import doubted, few_examples, lost_runs, no_sample
from lsa_jax.reporting.intervals import LEVEL, REACH, binomial_error
from lsa_jax.reporting.report import Claim

# Theorem 2's bound on a kernel's error, how probable that is over draws of the filters, and what
# counts as an error next to zero.
BOUND, PROBABILITY, NEXT_TO_ZERO = 0.1, 0.999, 0.01

# So many draws that all err on the bound or more are unlikely where fewer than that share do.
_FEWEST_DRAWS = int(np.ceil(np.log(LUCK) / np.log(PROBABILITY)))

# Section 3 of what sum_i <w*, X_i> errs on, at least, with sigma = log(k) / sqrt(k).
LINEAR = 0.49

# Theorem 2 is about a number of filters that stays fixed as k grows; claims are made up to here.
FEW_FILTERS = 4

_ONE_SEED = "it would take 2 seeds or more"
_NOT_LEARNED = "the network is not shown to learn"


def _reach(errors: pd.Series, num_test: int, reach: float = REACH) -> pd.Series:
    """Returns so many standard errors of each run's error, by its test examples."""
    return pd.Series([reach * binomial_error(e, num_test) for e in errors], errors.index, float)


def _network_claim(item: str, errors: pd.Series, num_test: int) -> Claim:
    """Tells whether the network's error is next to zero for every seed, by its test examples."""
    ours = round(float(errors.mean()), 5) if len(errors) else ""
    reach = _reach(errors, num_test)
    holds, near = (e < NEXT_TO_ZERO for e in (errors - reach, errors + reach))
    unless = "it would take more test examples" if holds.all() and not near.all() else ""
    if near.all() and len(errors) == 1:
        unless = _ONE_SEED
    return every(item, "goes to 0", holds, ours, unless=unless, spread=spread(errors))


def _mean_error(item: str, errors: pd.Series, num_test: int) -> Claim:
    """Returns the mean error over draws of the filters, of which the theorem says nothing."""
    if errors.empty:
        return not_run(item, "-")
    # Draws have test examples of their own.
    error = binomial_error(float(errors.mean()), num_test * len(errors))
    return measured(item, "-", round(float(errors.mean()), 4), errors, error)


def _share_claim(item: str, errors: pd.Series, num_test: int) -> Claim:
    """Tells whether as large a share of draws as theorem 2 says errs on its bound or more.

    By the exact binomial interval (Clopper and Pearson, 1934) of those draws whose test examples
    are sure of it, and at its other end of those that they leave possible: of all draws at once
    (Bonferroni), as one exception among few draws refutes it.
    """
    paper = f"{PROBABILITY:g} or more, for large k"
    if errors.empty:
        return not_run(item, paper)
    draws = len(errors)
    reach = _reach(errors, num_test, float(scipy.stats.norm.ppf(1 - LUCK / draws)))
    sure, possible = int((errors - reach >= BOUND).sum()), int((~(errors + reach < BOUND)).sum())
    low = float(scipy.stats.binomtest(sure, draws).proportion_ci(LEVEL).low)
    high = float(scipy.stats.binomtest(possible, draws).proportion_ci(LEVEL).high)
    status = decide(low, high, np.nextafter(PROBABILITY, 0), np.inf)
    take = []
    if possible < draws:
        take.append("more draws")
    elif draws < _FEWEST_DRAWS:
        take.append(f"{_FEWEST_DRAWS:,} draws")
    if sure < possible:
        take.append("more test examples")
    note = f"it would take {' and '.join(take)}" if status == "undecided" else ""
    ours = f"{(errors >= BOUND).sum()} of {draws}"
    return Claim(item, paper, ours, None, status, round(low, 4), round(high, 4), note)


def _against_kernels(kernels: pd.DataFrame, network: Claim, num_test: int) -> str:
    """Says why kernels that fail tell nothing of kernels; empty where they do.

    Where the network fails, too, nothing can be learned; where kernels of more filters fail as
    well, the search for weights and thresholds may be what fails.
    """
    if network.status != "shown":
        return _NOT_LEARNED
    errors = kernels["test_error"]
    if (errors + _reach(errors, num_test) < BOUND).any():
        return ""
    return f"no kernel of more filters errs on less than {BOUND:g} either"


def _linear_claim(item: str, errors: pd.Series, network: Claim, num_test: int) -> Claim:
    """Tells whether the linear classifier fails as often as section 3 says.

    It says something of linear classifiers where a network learns.
    """
    unless = "" if network.status == "shown" else _NOT_LEARNED
    # Seeds have test examples of their own.
    error = binomial_error(float(errors.mean()), num_test * len(errors))
    paper = f"{LINEAR:g} or more"
    return compare(item, paper, errors, above=LINEAR, examples_error=error, unless=unless)


def _lost(planned: Sequence[Mapping[str, object]], rows: pd.DataFrame, **at: object) -> str:
    """Names the runs with these settings that have no result."""
    points = [point for point in planned if at.items() <= point.items()]
    return lost_runs(points, rows, ["test_error"])


def _kernel_claims(
    kernels: pd.DataFrame,
    network: Claim,
    k: int,
    num_test: int,
    planned: Sequence[Mapping[str, object]],
) -> list[Claim]:
    """Returns the errors of kernels by their number of filters, those planned and those there."""
    unless, few, claims = _against_kernels(kernels, network, num_test), few_examples(num_test), []
    asked = {p["m"] for p in planned if (p["learner"], p["k"]) == ("kernel", k)}
    for m in sorted(m for m in asked | {*kernels["m"]} if m <= FEW_FILTERS):
        draws = kernels[kernels["m"] == m]
        item = f"mean test error over draws of the kernel, k = {k}, m = {m}"
        claims.append(_mean_error(item, draws["test_error"], num_test))
        item = f"share of draws of the kernel that err on {BOUND:g} or more, k = {k}, m = {m}"
        claim = _share_claim(item, draws["test_error"], num_test)
        equal = no_sample(draws, ["test_error"])
        lost = _lost(planned, draws, learner="kernel", k=k, m=m)
        claims.append(doubted(claim, [unless, lost, equal], [few]))
    return claims


def make_claims(
    results: pd.DataFrame, num_test: int, planned: Sequence[Mapping[str, object]] = ()
) -> list[Claim]:
    """Returns what theorems 1 and 2 and section 3 say beside what came out.

    A network's claim is shown when its error is next to zero for every seed.

    Args:
        results: one row a run, with its learner, k, m, test error and status.
        num_test: test examples of each run.
        planned: settings of the runs that the sweep asks for; where one has no result, what the
            others say of its learner shows nothing.
    """
    fine, few = results[results["status"] == "ok"], few_examples(num_test)
    claims = []
    for k in dict.fromkeys(map(int, [*results["k"], *(point["k"] for point in planned)])):
        here = fine[fine["k"] == k]
        rows = {name: here[here["learner"] == name] for name in ("network", "kernel", "linear")}
        item = f"the network's test error, k = {k}"
        claim = _network_claim(item, rows["network"]["test_error"], num_test)
        network = doubted(claim, [_lost(planned, here, learner="network", k=k)], [few])
        claims += _kernel_claims(rows["kernel"], network, k, num_test, planned)
        claims.append(network)
        item = f"error of the linear classifier sum_i <w*, X_i>, k = {k}"
        claim = _linear_claim(item, rows["linear"]["test_error"], network, num_test)
        lost = _lost(planned, here, learner="linear", k=k)
        equal = no_sample(rows["linear"], ["test_error"])
        claims.append(doubted(claim, [lost], [equal, few]))
    return claims
