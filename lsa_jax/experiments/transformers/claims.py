"""Claims about decision lists, stated before any run. One run refutes a claim about all runs.

Source: Karp (thesis, 2024), chapter 4: theorems 4.3 and 4.4, figure 4.1, and the open question
from which V_0 both matrices can be trained.
"""

from collections.abc import Callable

import pandas as pd
import scipy

from lsa_jax.reporting.claims import Claim, Condition, in_all, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Statistic
from lsa_jax.reporting.statistics import computed, holds, value
from lsa_jax.sweep.fields import Config

# V has picked up P where its correlation with P is above this.
PICKED_UP = 0.9

CASE = {"vocabulary_size": "L", "sequence_length": "n", "list_length": "M"}


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims of a sweep's question."""
    makers = {"value_step": _step_claims, "value_random": _start_claims}
    return makers.get(config.question, _theorem_claims)(config)


# Claims about every descent: item, the thesis' statement, column, rule, and words of ours, as of
# `_every`. By question theorem 4.3 (V = cP, W trained) or 4.4 (V near cP, both trained).
# fmt: off
_BOUND = "share_of_bound", lambda x: x <= 1, "{count}; after {high:.1g} of the bound at most"
_PROOFS = (
    ("runs whose loss falls at every step", "all (proofs of both theorems)",
     "largest_rise", lambda x: x < 0, "{count}"),
    ("squared gradient in W while a token is wrong, over the proof's",
     "above 1: misclassification implies a large gradient",
     "least_slope_ratio", lambda x: x > 1, "{low:.3g} at least"),
)
_THEOREMS = {
    "value_fixed": (
        ("runs that classify perfectly within the bound, V = cP",
         "all: a step t <= 32 M lambda_max / log L (theorem 4.3)", *_BOUND),
        *_PROOFS,
        ("share of W's columns in list order at perfect classification",
         "1: weights follow the list (section 4.3.2)",
         "ordered", lambda x: x == 1, "{low:.4g}"),
    ),
    "value_near": (
        ("runs that classify perfectly within the bound, V near cP",
         "all: a step t <= lambda_max epsilon / (2 max(1, loss at 0)) (theorem 4.4)", *_BOUND),
        *_PROOFS,
        ("largest distance of V from cP, over epsilon", "1 at most (lemma 4.1)",
         "value_distance", lambda x: x <= 1, "{high:.4g} at most"),
    ),
}
# fmt: on


def _theorem_claims(config: Config) -> list[Claim]:
    """Theorem 4.3 or 4.4."""
    first, *others = _THEOREMS[config.question]
    within = _every(*first, primary=True)
    # A descent that never classifies perfectly may still satisfy the proofs' inequalities.
    perfect = shown(within, "all runs are perfect within the bound")
    return [within, *(_every(*one, perfect) for one in others)]


def _step_claims(config: Config) -> list[Claim]:
    """Figure 4.1: P shows in V after one step, the whole population's and the largest sample's."""
    sampled = {"gradient": "sampled", "num_sequences": max(config.sweep.num_sequences)}
    exact = {"gradient": "exact"}
    tokens = min(case[0] for case in config.sweep.cases)

    def is_clear(rows: pd.DataFrame) -> pd.Series:
        # The largest of 2 L^2 entries of V_0, in 97.5 % of the draws.
        beyond = scipy.stats.norm.isf(TAIL / (2 * rows["vocabulary_size"] ** 2))
        return rows["on_min"] - rows["off_max"] > 2 * config.value_std * beyond

    draw = in_all("P exceeds the rest of V by more than another draw of V_0", is_clear, **exact)
    right = "columns_right", lambda x: x == 1, "a share of {low:.4g} of the columns"
    shows = "P shows in V (figure 4.1)"
    stated = {"paper": f"above {PICKED_UP:g}: {shows}", "above": PICKED_UP}
    by_luck = float(tokens) ** -tokens  # each of L columns is right in one of L cases
    claims = []
    for name, own, known in (("exact step", exact, (draw,)), ("largest sample", sampled, ())):
        runs = own | {"exact": own == exact}
        item = f"columns of V with their largest entry at pi, {name}"
        claims.append(_every(item, f"all: {shows}", *right, *known, luck=by_luck, **runs))
        correlation = value("correlation", scale="fisher", **runs)
        item = f"correlation of V with P, {name}"
        claims.append(Claim(item, correlation, conditions=known, **stated))
    # That V does not suffice means something only where V has picked up all of P.
    item = "share of tokens that any V can get right at W = 0"
    paper = "below 1: attention is needed"
    most = "uniform_attention_limit", lambda x: x < 1, "{high:.3f} at most"
    return [*claims, _every(item, paper, *most, shown(claims[0], "V shows P"), **sampled)]


def _start_claims(config: Config) -> list[Claim]:
    """Starts near cP: all succeed, where fewer do from a random V_0."""
    starts = [("cP itself", r) for r in config.sweep.randomness if r == 0]
    nearest = min((r for r in config.sweep.randomness if 0 < r < 1), default=None)
    starts += [] if nearest is None else [("V_0 near cP", nearest)]
    return [
        Claim(
            f"runs that succeed from {start}, r = {r:g}",
            _successes(r),
            paper="all where near enough",
            every=True,
            conditions=(_rarer(r),),
            refutable=True,
        )
        for start, r in starts
    ]


def share_of_bound(results: pd.DataFrame, max_steps: int) -> pd.Series:
    """Returns the steps to perfect classification over the bound on them.

    A run that ended without it took more than `max_steps`. Where the bound is larger than that,
    the run decides nothing and has no number.
    """
    perfect, bound = (results[name].astype(float) for name in ("first_perfect", "bound"))
    share = perfect.fillna(max_steps + 1) / bound
    return share.where(perfect.notna() | (share > 1))


def _every(
    item: str,
    paper: str,
    column: str,
    rule: Callable[[pd.Series], pd.Series],
    ours: str,
    *conditions: Condition,
    luck: float = 0.0,
    primary: bool = False,
    exact: bool = False,
    **settings: object,
) -> Claim:
    """Returns the claim that a column of all runs obeys a rule, refuted whatever the condition.

    `ours` may have the {count} of runs that obey it, and the {low} and {high} of the column.
    """
    statistic = holds(column, rule, exact=exact, **settings)

    def in_words(runs: Runs) -> str:
        passed, rows = statistic(runs).values, runs.where(**settings).finished
        numbers = rows.reindex(columns=[column])[column].astype(float)
        count = f"{int(passed.sum())} of {len(numbers)}"
        return ours.format(count=count, low=numbers.min(), high=numbers.max())

    stated = {"paper": paper, "luck": luck, "primary": primary, "conditions": conditions}
    return Claim(item, statistic, every=True, refutable=True, ours=in_words, **stated)


def _successes(r: float) -> Statistic:
    """Returns the statistic of starts of one r: 1 for sizes and seeds that succeed at all c."""

    def at_all_scales(rows: pd.DataFrame) -> pd.Series:
        return rows.groupby([*CASE, "seed"])["success"].min()

    return computed(at_all_scales, "success", randomness=r)


def _rarer(r: float) -> Condition:
    """Returns the condition that random starts succeed less often than those of r."""

    def unmet(runs: Runs) -> str:
        near, random = (_successes(one)(runs).values for one in (r, 1.0))
        table = [[own.sum(), len(own) - own.sum()] for own in (near, random)]
        p = scipy.stats.fisher_exact(table, alternative="greater").pvalue
        words = f"{near.sum():g} of {len(near)}, {random.sum():g} of {len(random)}"
        return "" if p <= TAIL else f"{words}: p = {p:.2g} (Fisher's exact test)"

    return Condition("random starts succeed less often", unmet)
