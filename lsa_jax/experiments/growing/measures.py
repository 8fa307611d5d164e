"""How well early losses foretell the final ones, from a table of losses.

`losses` are [steps, operators]: the validation loss of each operator's network at each measured
step after growing; `final` are [operators].

Source: Karp (thesis, 2024), section 5.3.3 and equations 5.1 and 5.2.
"""

from typing import NamedTuple

import numpy as np
import scipy.optimize
import scipy.stats
from jaxtyping import Bool, Float, Int

from lsa_jax.reporting.samples import TAIL

Losses = Float[np.ndarray, "steps operators"]

# Two phases that leave more than this share of the correlations' variance are none. Ours: smoothed
# noise leaves about half at least, and 3 of 100 random walks as little as this.
MOST_UNEXPLAINED = 0.25


def smooth(losses: Losses, steps: Int[np.ndarray, " steps"], window: int) -> Losses:
    """Averages each step's losses with those at most window // 2 steps away.

    Windows are cut off at the ends. Step 0 is neither averaged nor part of another's mean: it is
    the loss of growing itself, without training.
    """
    out = losses.astype(np.float64)
    for row in np.flatnonzero(steps > 0):
        near = (np.abs(steps - steps[row]) <= window // 2) & (steps > 0)
        out[row] = losses[near].mean(axis=0, dtype=np.float64)
    return out


def final_losses(
    losses: Losses, steps: Int[np.ndarray, " steps"], share: float
) -> Float[np.ndarray, " operators"]:
    """Returns the mean over the measurements in the last `share` of the steps."""
    last = steps >= (1 - share) * steps[-1]
    return losses[last].mean(axis=0, dtype=np.float64)


def lag_losses(
    losses: Losses, steps: Int[np.ndarray, " steps"], lag: int, window: int
) -> Float[np.ndarray, " operators"]:
    """Returns what LAG@lag decides by: the mean over the last `window` steps up to `lag`."""
    first = max(lag - window, 0) if lag else -1
    return losses[(steps > first) & (steps <= lag)].mean(axis=0, dtype=np.float64)


def pearson(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Returns the correlation; NaN where one of the two does not vary."""
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(scipy.stats.pearsonr(a, b).statistic)


def spearman(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Returns the correlation of the ranks; NaN where one of the two does not vary."""
    return pearson(scipy.stats.rankdata(a), scipy.stats.rankdata(b))


def rank_correlations(losses: Losses, final: Float[np.ndarray, " operators"]) -> np.ndarray:
    """Returns Spearman's correlation with the final losses, step by step."""
    return np.array([spearman(row, final) for row in losses])


def self_correlation(losses: Losses) -> Float[np.ndarray, "steps steps"]:
    """Returns Spearman's correlation of the operators' losses at every pair of steps."""
    ranks = scipy.stats.rankdata(losses, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):  # a step at which all are equal has no correlation
        ranks /= np.linalg.norm(ranks, axis=1, keepdims=True)
    return ranks @ ranks.T


def recall(
    losses: Losses, final: Float[np.ndarray, " operators"], k: int
) -> Bool[np.ndarray, " steps"]:
    """Says of every step whether the finally best operator is among its k lowest losses."""
    order = np.argsort(losses, axis=1, kind="stable")[:, :k]
    return (order == np.argmin(final)).any(axis=1)


def regret(choice: int, final: Float[np.ndarray, " operators"]) -> float:
    """Returns how much higher the choice's final loss is than the lowest (equation 5.1)."""
    return float(final[choice] - final.min())


def relative_regret(choice: int, final: Float[np.ndarray, " operators"]) -> float:
    """Returns the regret over that of the worst choice (equation 5.2); 0 where all are equal."""
    span = float(np.ptp(final))
    return regret(choice, final) / span if span else 0.0


def relative_regrets(losses: Losses, final: Float[np.ndarray, " operators"]) -> np.ndarray:
    """Returns the relative regret of choosing the lowest loss of each step."""
    return np.array([relative_regret(int(best), final) for best in np.argmin(losses, axis=1)])


class Spread(NamedTuple):
    """How far operators differ, in standard deviations of one seed's noise, and where it may be.

    Attributes:
        ratio: standard deviation of the operators' expected losses over that of the noise.
        low: lower end of its interval, of 95 % by default.
        high: upper end.
    """

    ratio: float
    low: float
    high: float


def spread_over_noise(final: Float[np.ndarray, "seeds operators"], tail: float = TAIL) -> Spread:
    """Returns the differences of operators' final losses over the noise of one seed.

    A final loss is taken as the operator's own plus the seed's own plus normal noise. The ratio of
    the mean squares of operators and of what is left then has a noncentral F distribution, whose
    noncentrality gives the interval exactly. All not-a-number for fewer than two seeds or
    operators, or without noise.

    Source: Fleishman (1980), confidence intervals for effects of fixed factors.
    """
    seeds, operators = final.shape
    if min(seeds, operators) < 2:
        return Spread(np.nan, np.nan, np.nan)
    of_operators, of_seeds = final.mean(axis=0), final.mean(axis=1, keepdims=True)
    left = final - of_operators - of_seeds + final.mean()
    noise = np.square(left).sum() / ((operators - 1) * (seeds - 1))
    if noise <= 1e-12 * np.var(final):  # rounding
        return Spread(np.nan, np.nan, np.nan)
    found, top = seeds * of_operators.var(ddof=1) / noise, operators - 1
    # The noncentrality is seeds x (operators - 1) x ratio^2.
    ends = [_noncentrality(found, top, top * (seeds - 1), share) for share in (1 - tail, tail)]
    low, high = np.sqrt(np.divide(ends, seeds * top))
    return Spread(float(np.sqrt(max(found - 1, 0) / seeds)), float(low), float(high))


def _noncentrality(found: float, top: int, bottom: int, tail: float) -> float:
    """Returns that with which the ratio is below what was found with a probability of `tail`."""

    def excess(noncentrality: float) -> float:
        return float(scipy.stats.ncf.cdf(found, top, bottom, noncentrality)) - tail

    if scipy.stats.f.cdf(found, top, bottom) <= tail:
        return 0.0
    most = 1.0
    while excess(most) > 0:
        most *= 2
    return float(scipy.optimize.brentq(excess, 0.0, most))


class Transition(NamedTuple):
    """Where two phases fit the operators' order best, be there phases or not.

    Attributes:
        place: the row with which the later phase begins.
        late: mean correlation of two different steps of the later phase.
        across: mean correlation of an earlier and a later step.
        unexplained: share of the correlations' variance that two phases do not explain.
    """

    place: int
    late: float
    across: float
    unexplained: float


def _above_diagonal(block: np.ndarray) -> np.ndarray:
    return block[np.triu_indices(len(block), k=1)]


def phase_transition(correlation: Float[np.ndarray, "steps steps"]) -> Transition | None:
    """Finds the step that splits a self-correlation best into two phases.

    The entries above the diagonal are taken as constant within the early phase, within the late
    one, and between them; the split is that of least squares. None where there are fewer than three
    steps, or where an entry is missing.

    Source: ours; the thesis reads it off the picture.
    """
    count = len(correlation)
    if count < 3 or not np.isfinite(correlation).all():
        return None
    whole = _above_diagonal(correlation)
    total = np.square(whole - whole.mean()).sum()
    varies = np.ptp(whole) > 1e-9  # more than by rounding
    best = None
    for place in range(1, count - 1):
        early = _above_diagonal(correlation[:place, :place])
        late = _above_diagonal(correlation[place:, place:])
        across = correlation[:place, place:].ravel()
        blocks = [block for block in (early, late, across) if len(block)]
        rest = sum(np.square(block - block.mean()).sum() for block in blocks)
        if best is None or rest < best[0]:
            unexplained = rest / total if varies else 1.0
            best = rest, Transition(place, late.mean(), across.mean(), unexplained)
    return best[1]


def is_clear(transition: Transition | None) -> bool:
    """Says whether there are two phases: they explain the correlations, and later steps agree.

    Without the first condition noise has phases, as the best of many splits always fits somewhat.
    """
    if transition is None:
        return False
    explained = transition.unexplained <= MOST_UNEXPLAINED
    return bool(explained and transition.late > transition.across)
