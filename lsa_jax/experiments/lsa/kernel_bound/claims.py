"""What theorems 1 and 2 and section 3 of Karp et al. (2021) say beside what came out."""

from collections.abc import Mapping, Sequence

import pandas as pd

from lsa_jax.reporting.claims import compare, every, spread
from lsa_jax.reporting.doubts import doubted, few_examples, lost_runs, no_sample
from lsa_jax.reporting.intervals import REACH, binomial_error
from lsa_jax.reporting.report import Claim

# Theorem 2's bound on a kernel's error, and what counts as an error next to zero.
BOUND, NEXT_TO_ZERO = 0.1, 0.01

# Section 3 of what sum_i <w*, X_i> errs on, at least, with sigma = log(k) / sqrt(k).
LINEAR = 0.49

# Theorem 2 is about a number of filters that stays fixed as k grows; claims are made up to here.
FEW_FILTERS = 4

_ONE_SEED = "it would take 2 seeds or more"


def _reach(errors: pd.Series, num_test: int) -> pd.Series:
    """Returns how far from each run's error the true one may be, by its test examples."""
    return pd.Series([REACH * binomial_error(e, num_test) for e in errors], errors.index, float)


def _network_claim(item: str, errors: pd.Series, num_test: int) -> Claim:
    """Tells whether the network's error is next to zero for every seed, by its test examples."""
    ours = round(float(errors.mean()), 5) if len(errors) else ""
    near = (errors + _reach(errors, num_test) < NEXT_TO_ZERO).all()
    unless = "" if near else "it would take more test examples"
    if near and len(errors) == 1:
        unless = _ONE_SEED
    holds = errors < NEXT_TO_ZERO
    return every(item, "goes to 0", holds, ours, unless=unless, spread=spread(errors))


def _kernel_claim(item: str, errors: pd.Series, unless: str, num_test: int) -> Claim:
    """Tells whether kernels err as often as theorem 2 says, in the mean over draws of the filters.

    It says so of all but one draw in a thousand, so one draw that surely errs less refutes it.
    """
    paper = f"{BOUND:g} or more, with probability 0.999 for large k"
    less = errors + _reach(errors, num_test) < BOUND
    if less.any():
        ours, note = round(float(errors.mean()), 4), f"draws with less: {less.sum()}"
        return every(item, paper, ~less, ours, unless=note, spread=spread(errors))
    # Draws have test examples of their own.
    error = binomial_error(float(errors.mean()), num_test * len(errors))
    return compare(item, paper, errors, above=BOUND, examples_error=error, unless=unless)


def _against_kernels(kernels: pd.DataFrame, network: Claim, num_test: int) -> str:
    """Says why kernels that fail tell nothing of kernels; empty where they do.

    Where the network fails, too, nothing can be learned; where kernels of more filters fail as
    well, the search for weights and thresholds may be what fails.
    """
    if network.status != "shown":
        return "the network does not learn"
    errors = kernels["test_error"]
    if (errors + _reach(errors, num_test) < BOUND).any():
        return ""
    return f"no kernel of more filters errs on less than {BOUND:g} either"


def _linear_claim(item: str, errors: pd.Series, network: Claim, num_test: int) -> Claim:
    """Tells whether the linear classifier fails as often as section 3 says.

    It says something of linear classifiers where a network learns.
    """
    unless = "" if network.status == "shown" else "the network does not learn"
    # Seeds have test examples of their own.
    error = binomial_error(float(errors.mean()), num_test * len(errors))
    paper = f"{LINEAR:g} or more"
    return compare(item, paper, errors, above=LINEAR, examples_error=error, unless=unless)


def _lost(planned: Sequence[Mapping[str, object]], rows: pd.DataFrame, **at: object) -> str:
    """Names the runs with these settings that have no result."""
    points = [point for point in planned if at.items() <= point.items()]
    return lost_runs(points, rows, ["test_error"])


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
    for k in results["k"].unique():
        here = fine[fine["k"] == k]
        rows = {name: here[here["learner"] == name] for name in ("network", "kernel", "linear")}

        item = f"the network's test error, k = {k}"
        claim = _network_claim(item, rows["network"]["test_error"], num_test)
        network = doubted(claim, [_lost(planned, here, learner="network", k=k)], [few])
        unless = _against_kernels(rows["kernel"], network, num_test)
        for m, draws in rows["kernel"].groupby("m"):
            if m > FEW_FILTERS:
                continue
            item = f"test error of the kernel, k = {k}, m = {m}"
            claim = _kernel_claim(item, draws["test_error"], unless, num_test)
            equal = no_sample(draws, ["test_error"])
            claims.append(
                doubted(claim, [_lost(planned, here, learner="kernel", k=k, m=m), equal], [few])
            )
        claims.append(network)
        item = f"error of the linear classifier sum_i <w*, X_i>, k = {k}"
        claim = _linear_claim(item, rows["linear"]["test_error"], network, num_test)
        lost, equal = (
            _lost(planned, here, learner="linear", k=k),
            no_sample(rows["linear"], ["test_error"]),
        )
        claims.append(doubted(claim, [lost], [equal, few]))
    return claims
