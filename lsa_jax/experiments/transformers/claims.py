"""Claims about decision lists, stated before any run. One run refutes a claim about all runs.

Source: Karp (thesis, 2024), chapter 4: theorems 4.3 and 4.4, figure 4.1, and the question from
which V_0 both matrices are trained to the end.
"""

import operator
from collections.abc import Mapping

import ml_collections
import numpy as np
import pandas as pd
import scipy.stats

from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import shown, unless_refuted
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample
from lsa_jax.reporting.statistics import value

# V has picked up P where its correlation with P is above this.
PICKED_UP = 0.9

# Claims about all runs: item, the thesis' statement, test of a column, our number in words.
WITHIN_BOUND = {
    "value_fixed": (
        "runs that classify perfectly within the bound, V = cP",
        "all: a step t <= 32 M lambda_max / log L (theorem 4.3)",
        ("share_of_bound", "<=", 1),
        "{count}; after {high:.1g} of the bound at most",
    ),
    "value_near": (
        "runs that classify perfectly within the bound, V near cP",
        "all: a step t <= lambda_max epsilon / (2 max(1, loss at 0)) (theorem 4.4)",
        ("share_of_bound", "<=", 1),
        "{count}; after {high:.1g} of the bound at most",
    ),
}
LOSS_FALLS = (
    "runs whose loss falls at every step",
    "all (proofs of both theorems)",
    ("largest_rise", "<", 0),
    "{count}",
)
LARGE_GRADIENT = (
    "squared gradient in W while a token is wrong, over the proof's",
    "above 1: misclassification implies a large gradient",
    ("least_slope_ratio", ">", 1),
    "{low:.3g} at least",
)
LAST = {
    "value_fixed": (
        "share of W's columns in list order at perfect classification",
        "1: weights follow the list (section 4.3.2)",
        ("ordered", "==", 1),
        "{low:.4g}",
    ),
    "value_near": (
        "largest distance of V from cP, over epsilon",
        "1 at most (lemma 4.1)",
        ("value_distance", "<=", 1),
        "{high:.4g} at most",
    ),
}
COLUMNS_RIGHT = (
    "columns of V with their largest entry at pi, {}",
    "all: P shows in V (figure 4.1)",
    ("columns_right", "==", 1),
    "{low:.4g} of the columns",
)
ATTENTION_NEEDED = (
    "share of tokens that any V can get right at W = 0",
    "below 1: attention is needed",
    ("uniform_attention_limit", "<", 1),
    "{high:.3f} at most",
)

CASE = {"vocabulary_size": "L", "sequence_length": "n", "list_length": "M"}
_EXACT = {"gradient": "exact"}
_TESTS = {"<": operator.lt, "<=": operator.le, "==": operator.eq, ">": operator.gt}
Config = ml_collections.ConfigDict


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims of a sweep's question."""
    makers = {"value_step": _step_claims, "value_random": _start_claims}
    return makers.get(config.question, _theorem_claims)(config)


def share_of_bound(results: pd.DataFrame, max_steps: int) -> pd.Series:
    """Returns the steps to perfect classification over the bound on them.

    A run that ended without it has taken more than `max_steps`; where the bound is larger, that
    decides nothing, and there is no number.
    """
    perfect, bound = (results[name].astype(float) for name in ("first_perfect", "bound"))
    share = perfect.fillna(max_steps + 1) / bound
    return share.where(perfect.notna() | (share > 1))


def _in_all(
    item: str,
    paper: str,
    test: tuple[str, str, float],
    ours: str,
    runs: Mapping[str, object] = {},
    condition: Condition | None = None,
    **options,
) -> Claim:
    """Claims that all runs pass a test: those of these settings."""
    column, sign, bound = test

    def numbers_of(own: Runs) -> pd.Series:
        # The column is missing where no run has it, such as where all samples failed.
        return own.finished.reindex(columns=[column])[column].astype(float)

    def statistic(every: Runs) -> Sample:
        own = every.where(**runs)
        numbers, exact = numbers_of(own), runs == _EXACT
        passed = _TESTS[sign](numbers, bound).astype(float).where(np.isfinite(numbers))
        return Sample(passed, exact=exact, lost=own.lost(column), equal=own.equal_seeds())

    def in_words(every: Runs) -> str:
        numbers = numbers_of(every.where(**runs))
        count = f"{int(statistic(every).values.sum())} of {len(numbers)}"
        return ours.format(count=count, low=numbers.min(), high=numbers.max())

    conditions = (unless_refuted(statistic, condition),) if condition else ()
    named = {"item": item, "paper": paper, "conditions": conditions, "ours": in_words}
    return Claim(statistic=statistic, every=True, **named, **options)


def _theorem_claims(config: Config) -> list[Claim]:
    """Theorem 4.3 (V = cP, W trained) or 4.4 (V near cP, both trained)."""
    within = _in_all(*WITHIN_BOUND[config.question], primary=True)
    # A descent that gets nowhere may do as the proofs say.
    perfect = shown(within, "all runs are perfect within the bound")
    rows = LOSS_FALLS, LARGE_GRADIENT, LAST[config.question]
    return [within, *(_in_all(*row, condition=perfect) for row in rows)]


def _step_claims(config: Config) -> list[Claim]:
    """Figure 4.1: P shows in V after one step, the whole population's and the largest sample's."""
    sampled = {"gradient": "sampled", "num_sequences": max(config.sweep.num_sequences)}
    tokens, claims = min(case[0] for case in config.sweep.cases), []

    def of_draw(runs: Runs) -> str:
        rows = runs.where(**_EXACT).finished
        # The largest of 2 L^2 entries of V_0, in 97.5 % of the draws.
        beyond = scipy.stats.norm.isf(TAIL / (2 * rows["vocabulary_size"] ** 2))
        clear = rows["on_min"] - rows["off_max"] > 2 * config.value_std * beyond
        return "" if clear.all() else "P exceeds the rest of V by less than V_0 may"

    draw = Condition("another draw of V_0 would change nothing", of_draw)
    for name, runs, condition in (("exact step", _EXACT, draw), ("largest sample", sampled, None)):
        item, *row = COLUMNS_RIGHT
        luck = float(tokens) ** -tokens  # a column is right in one of L cases
        claims += [
            _in_all(item.format(name), *row, runs, condition, luck=luck),
            Claim(
                item=f"correlation of V with P, {name}",
                statistic=value("correlation", exact=runs == _EXACT, scale="fisher", **runs),
                paper=f"above {PICKED_UP:g}: P shows in V (figure 4.1)",
                above=PICKED_UP,
                conditions=(condition,) if condition else (),
            ),
        ]
    # That V is not enough says something where it has all that it can have.
    whole = shown(claims[0], "V shows P")
    return [*claims, _in_all(*ATTENTION_NEEDED, sampled, whole)]


def _units(runs: Runs, r: float) -> pd.Series:
    """Returns, from starts of one r, 1 for the sizes and seeds that succeed at all scales c."""
    rows = runs.where(randomness=r).finished
    return rows.groupby([*CASE, "seed"])["success"].min().astype(float)


def _by_scale(runs: Runs, r: float) -> str:
    """Returns how many runs succeed, and how many at each scale c."""
    rows = runs.where(randomness=r).finished
    counts = rows.groupby("value_scale")["success"].agg(["sum", "size"]).itertuples()
    scales = {f"at c = {c:g}": f"{right:g} of {size}" for c, right, size in counts}
    if len(set(scales.values())) == 1:
        scales = {"at each c": next(iter(scales.values()))}
    whole = f"{rows['success'].sum():g} of {len(rows)}: "
    return whole + ", ".join(f"{count} {at}" for at, count in scales.items())


def _start_claims(config: Config) -> list[Claim]:
    """Starts near cP: all succeed, where fewer do from a random V_0."""

    def from_start(item: str, r: float) -> Claim:
        def statistic(runs: Runs) -> Sample:
            own = runs.where(randomness=r)
            return Sample(_units(runs, r), lost=own.lost("success"), equal=own.equal_seeds())

        def alike(runs: Runs) -> str:
            near, random = (_units(runs, one) for one in (r, 1.0))
            table = [[own.sum(), len(own) - own.sum()] for own in (near, random)]
            p = scipy.stats.fisher_exact(table, alternative="greater").pvalue
            words = f"{near.sum():g} of {len(near)}, {random.sum():g} of {len(random)}"
            return "" if p <= TAIL else f"{words}: p = {p:.2g} (Fisher's exact test)"

        fewer = Condition("random starts succeed less often", alike)
        return Claim(
            item=f"{item}, r = {r:g}",
            statistic=statistic,
            paper="all where near enough",
            every=True,
            conditions=(unless_refuted(statistic, fewer),),
            ours=lambda runs: _by_scale(runs, r),
        )

    shares = sorted(config.sweep.randomness)
    claims = [from_start("runs that succeed from cP itself", r) for r in shares if r == 0]
    near = [r for r in shares if 0 < r < 1]
    claims += [from_start("runs that succeed from V_0 near cP", r) for r in near[:1]]
    random = Claim(
        item="runs that succeed from a random V_0",
        statistic=value("success", randomness=1.0),
        paper="left open",
        ours=lambda runs: _by_scale(runs, 1.0),
    )
    return [*claims, random]
