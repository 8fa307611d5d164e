"""Claims about networks of small norm, stated before any run.

Source: Allen-Zhu and Li (NeurIPS 2019), section 8.2, figures 1 and 4.
"""

import pandas as pd

from lsa_jax.reporting.claims import Claim, Condition, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Statistic
from lsa_jax.reporting.statistics import computed
from lsa_jax.sweep.fields import Config

# Networks made by hand: |W*|_F / sqrt(d), and the paper's bound on their error.
HAND_MADE: tuple[tuple[float, float], ...] = ((9.7, 0.12), (12.5, 0.037), (13.8, 0.011))
# By d: the best test error that SGD found, and the largest width at which it was looked for.
BY_SGD: dict[int, tuple[float, int]] = {40: (0.69, 100_000), 100: (0.98, 50_000)}
# The paper's bound on the test error of a network of nearly minimal norm.
GENERALISES = 0.3
# A norm is the paper's to within this factor: less than half of the way to its next one.
NEAR = 1.05
# A norm that is "not comparable" to one made by hand is this many times as large, or larger.
FAR = 2.0


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims: errors by hand; no seed of SGD finds a small error or norm."""
    by_hand = []
    for norm, error in HAND_MADE:
        item = f"error by hand, |W*|_F / sqrt(d) = {norm:g} to within 5 %"
        stated = {"paper": f"at most {error:g}", "below": error, "digits": 6}
        by_hand.append(Claim(item, _error_by_hand(norm), **stated))
    (norm, error), (best, most) = HAND_MADE[0], BY_SGD.get(config.d, (None, 0))
    widest = max(config.sweep.width)
    searched = [
        Condition("every seed fits the training examples", _unfitted),
        Condition(f"m was searched to {most:,}", lambda runs: f"to {widest:,}" * (widest < most)),
    ]
    made = shown(by_hand[0], f"a network of norm {norm:g} is made by hand")
    small_norm = f"least |W|_F / sqrt(d) by SGD with training error at most {error:g}"
    never = [
        ("best test error by SGD", "test_error", best, searched),
        ("best test error by SGD, as of no small norm", "test_error", GENERALISES, searched),
        (small_norm, "fitted_norm", FAR * norm, [*searched, made]),
    ]
    return by_hand + [_never_below(*one) for one in never if one[2]]


def _never_below(item: str, column: str, bound: float, conditions: list[Condition]) -> Claim:
    """Returns the claim that no seed's search finds less than a bound."""

    def holds(rows: pd.DataFrame) -> pd.Series:
        return 1.0 - (rows.groupby("seed")[column].min() <= bound)

    return Claim(
        item,
        computed(holds, "test_error", examples="num_test", part="search"),
        paper=f"above {bound:g} in every seed",
        every=True,
        conditions=tuple(conditions),
        refutable=True,
        primary=bound == GENERALISES,
        ours=lambda runs: _in_words(_least(runs, column)),
    )


def _error_by_hand(norm: float) -> Statistic:
    """Returns the least error by hand for a norm: over all inputs, so exact."""

    def least(rows: pd.DataFrame) -> pd.Series:
        near = rows["relative_norm"].between(norm / NEAR, norm * NEAR)
        return rows.loc[near, "test_error"].nsmallest(1)

    return computed(least, "test_error", exact=True, part="construction")


def _least(runs: Runs, column: str) -> pd.Series:
    """Returns the least of a column over the searches of each seed."""
    return runs.where(part="search").finished.groupby("seed")[column].min()


def _in_words(values: pd.Series) -> str:
    return f"{values.min():.4g} at least" if values.notna().any() else "no such run"


def _unfitted(runs: Runs) -> str:
    return "" if _least(runs, "fitted_norm").notna().all() else "not all do"
