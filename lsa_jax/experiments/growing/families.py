"""The operators of one network, schedule and seed: how well early losses predict the final ones.

Tables of losses are [steps, operators]: the validation loss of each operator's network at each
measured step after growing; final losses are [operators].

Source: Karp (thesis, 2024), section 5.3.3 and equations 5.1 and 5.2.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy
from jaxtyping import Bool, Float, Int

from lsa_jax.reporting import files
from lsa_jax.reporting.samples import TAIL
from lsa_jax.sweep.fields import Config
from lsa_jax.training.growth import Operator, stack_last

Losses = Float[np.ndarray, "steps operators"]
Final = Float[np.ndarray, " operators"]

# Two phases that leave more than this share of the correlations' variance are none. Ours: smoothed
# noise leaves about half at least, and 3 of 100 random walks as little as this.
MOST_UNEXPLAINED = 0.25
# Figures 5.2 and 5.3: steps after growing whose loss the thesis correlates with the final one.
EARLY_STEPS: dict[str, tuple[int, ...]] = {"encoder": (200, 5000), "decoder": ()}
STRATEGIES = ("oracle", "lag", "lag_0", "stack_last", "stack_random")

# Columns of a grown decoder's tasks: accuracy, and number of items.
DOWNSTREAM, NUM_ITEMS = "downstream_", "items_"
# Columns of Spearman's correlation with the final losses, by steps after growing.
EARLY_SPEARMAN = "early_spearman "
# Settings of a family, and of an operator in it.
FAMILY, OPERATOR = ["kind", "schedule", "seed"], list(Operator._fields)


class Family(NamedTuple):
    """One seed's search space."""

    results: pd.DataFrame  # a row an operator; failed ones are absent
    operators: list[Operator]
    steps: Int[np.ndarray, " steps"]  # after growing, at which the loss was measured
    raw: Losses  # the losses as they were measured
    smoothed: Losses  # after `smooth`
    lag: Final  # the losses by which LAG@k decides
    final: Final  # mean over the last steps

    @property
    def settings(self) -> dict[str, Any]:
        """Network, schedule and seed."""
        return self.results[FAMILY].iloc[0].to_dict()


def make_families(config: Config, fine: pd.DataFrame, workdir: Path) -> list[Family]:
    """Returns the families of three or more points without a failed one."""
    families = []
    for _, rows in fine.groupby(FAMILY, sort=False):
        if len(rows) < 3:
            continue
        curves = [pd.DataFrame(files.read_metrics(workdir, run_id)) for run_id in rows["id"]]
        steps = curves[0]["step"].to_numpy()
        raw = np.stack([curve["loss"].to_numpy() for curve in curves], axis=1)
        families.append(
            Family(
                results=rows,
                operators=list(map(Operator._make, rows[OPERATOR].to_numpy().tolist())),
                steps=steps,
                raw=raw,
                smoothed=smooth(raw, steps, config.smooth_steps),
                lag=lag_losses(raw, steps, config.lag_steps, config.lag_window),
                final=final_losses(raw, steps, config.final_share),
            )
        )
    return families


def choices(config: Config, family: Family) -> dict[str, int]:
    """Returns the place of each strategy's operator; absent without one lowest loss."""
    chosen = {"oracle": int(np.argmin(family.final))}
    for name, losses in (("lag", family.lag), ("lag_0", family.raw[0])):
        if np.count_nonzero(losses == losses.min()) == 1:
            chosen[name] = int(np.argmin(losses))
    for source, name in (("copy", "stack_last"), ("random", "stack_random")):
        operator = stack_last(config.layers, config.added, source)
        if operator in family.operators:
            chosen[name] = family.operators.index(operator)
    return chosen


def describe(config: Config, family: Family) -> dict[str, Any]:
    """Returns the numbers of one family; NaN where they are not defined."""
    inside, chosen = family.steps <= config.dense_steps, choices(config, family)
    split = phase_transition(self_correlation(family.smoothed[inside]))
    numbers = family.settings | {"operators": len(family.operators)}
    numbers |= {"base_loss": family.results["base_loss"].iloc[0], "span": np.ptp(family.final)}
    for name, losses in (("initial", family.raw[0]), ("lag", family.lag)):
        numbers[f"{name}_pearson"] = pearson(losses, family.final)
        numbers[f"{name}_spearman"] = spearman(losses, family.final)
    found = (np.nan,) * 6
    if split is not None:
        step = float(family.steps[split.place])
        found = (step, *split[1:], float(split.clear), step if split.clear else np.nan)
    names = ("split", "split_late", "split_across", "split_unexplained")
    numbers |= dict(zip((*names, "clear_phases", "transition"), found, strict=True))
    both = {"lag_0", "stack_random"} <= {*chosen}
    random_top = float(chosen["lag_0"] == chosen["stack_random"]) if both else np.nan
    return numbers | {"picks_random_top": random_top} | _early_correlations(config, family)


def strategy_costs(config: Config, family: Family) -> pd.DataFrame:
    """Returns a row a strategy: the results of its operator, and regrets (5.1 and 5.2)."""
    chosen = choices(config, family)
    kept = family.results.filter(regex=f"^({DOWNSTREAM}|{NUM_ITEMS})")
    table = family.results[FAMILY].assign(
        final_loss=family.final,
        regret=family.final - family.final.min(),
        relative_regret=relative_regret(family.final),
        **kept,
    )
    return table.iloc[list(chosen.values())].assign(strategy=list(chosen))


def _early_correlations(config: Config, family: Family) -> dict[str, float]:
    """Returns Spearman's correlation after each of the thesis' numbers of steps.

    The loss is averaged as for LAG@k; NaN where it was not measured then, or is part of the final
    one.
    """
    found, at = {}, family.steps
    for steps in EARLY_STEPS[family.settings["kind"]]:
        measured = ((at > steps - config.lag_window) & (at <= steps)).any()
        early = measured and steps < (1 - config.final_share) * at[-1]
        losses = lag_losses(family.raw, at, steps, config.lag_window) if early else np.ones(1)
        found[f"{EARLY_SPEARMAN}{steps}"] = spearman(losses, family.final) if early else np.nan
    return found


def smooth(losses: Losses, steps: Int[np.ndarray, " steps"], window: int) -> Losses:
    """Averages each step's losses over the steps at most window // 2 away.

    Windows are cut off at the ends. Step 0 is neither averaged nor part of another's mean: it is
    the loss of growing itself, without training.
    """
    out = losses.astype(np.float64)
    for row in np.flatnonzero(steps > 0):
        near = (np.abs(steps - steps[row]) <= window // 2) & (steps > 0)
        out[row] = losses[near].mean(axis=0, dtype=np.float64)
    return out


def final_losses(losses: Losses, steps: Int[np.ndarray, " steps"], share: float) -> Final:
    """Returns the mean over the measurements in the last `share` of the steps."""
    last = steps >= (1 - share) * steps[-1]
    return losses[last].mean(axis=0, dtype=np.float64)


def lag_losses(losses: Losses, steps: Int[np.ndarray, " steps"], lag: int, window: int) -> Final:
    """Returns the losses by which LAG@lag decides: the mean over the last `window` steps."""
    first = max(lag - window, 0) if lag else -1
    return losses[(steps > first) & (steps <= lag)].mean(axis=0, dtype=np.float64)


def pearson(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Returns the correlation; NaN where one of the two does not vary."""
    return float("nan") if 0 in (np.ptp(a), np.ptp(b)) else float(np.corrcoef(a, b)[0, 1])


def spearman(a: Float[np.ndarray, " n"], b: Float[np.ndarray, " n"]) -> float:
    """Returns the correlation of the ranks; NaN where one of the two does not vary."""
    return pearson(scipy.stats.rankdata(a), scipy.stats.rankdata(b))


def rank_correlations(losses: Losses, final: Final) -> Float[np.ndarray, " steps"]:
    """Returns Spearman's correlation with the final losses, step by step."""
    return np.array([spearman(row, final) for row in losses])


def self_correlation(losses: Losses) -> Float[np.ndarray, "steps steps"]:
    """Returns Spearman's correlation of the operators' losses at every pair of steps."""
    with np.errstate(invalid="ignore"):  # a step at which all are equal has no correlation
        return np.corrcoef(scipy.stats.rankdata(losses, axis=1))


def recall(losses: Losses, final: Final, k: int) -> Bool[np.ndarray, " steps"]:
    """Returns whether the finally best operator is among the k lowest losses of each step."""
    order = np.argsort(losses, axis=1, kind="stable")[:, :k]
    return (order == np.argmin(final)).any(axis=1)


def relative_regret(final: Final) -> Final:
    """Returns regrets (5.1) over that of the worst (5.2); NaN if all are equal."""
    span = np.ptp(final)
    return (final - final.min()) / span if span else np.full(len(final), np.nan)


def spread_over_noise(
    final: Float[np.ndarray, "seeds operators"], tail: float = TAIL
) -> tuple[float, float, float]:
    """Returns the spread of operators' final losses over the noise of one seed, and its interval.

    A final loss is taken as the operator's own plus the seed's own plus normal noise: the
    noncentral F distribution of the ratio of mean squares gives the interval exactly (Fleishman,
    1980). All three are not-a-number for fewer than two seeds or operators, or without noise.
    """
    nothing, (seeds, operators) = (np.nan, np.nan, np.nan), final.shape
    if min(seeds, operators) < 2:
        return nothing
    of_operators, of_seeds = final.mean(axis=0), final.mean(axis=1, keepdims=True)
    left = final - of_operators - of_seeds + final.mean()
    noise = np.square(left).sum() / ((operators - 1) * (seeds - 1))
    if noise <= 1e-12 * np.var(final):  # rounding
        return nothing
    found, top = seeds * of_operators.var(ddof=1) / noise, operators - 1
    # The noncentrality is seeds x (operators - 1) x ratio^2.
    ends = [_noncentrality(found, top, top * (seeds - 1), share) for share in (1 - tail, tail)]
    low, high = np.sqrt(np.divide(ends, seeds * top))
    return float(np.sqrt(max(found - 1, 0) / seeds)), float(low), float(high)


def _noncentrality(found: float, top: int, bottom: int, tail: float) -> float:
    """Returns the noncentrality with which a ratio is below `found` with probability `tail`."""

    def excess(noncentrality: float) -> float:
        return float(scipy.stats.ncf.cdf(found, top, bottom, noncentrality)) - tail

    if scipy.stats.f.cdf(found, top, bottom) <= tail:
        return 0.0
    most = 1.0
    while excess(most) > 0:
        most *= 2
    return float(scipy.optimize.brentq(excess, 0.0, most))


class Transition(NamedTuple):
    """The best split of the operators' order into two phases, be there phases or not."""

    place: int  # the row with which the later phase begins
    late: float  # mean correlation of two different steps of the later phase
    across: float  # mean correlation of an earlier and a later step
    unexplained: float  # share of the correlations' variance that two phases do not explain

    @property
    def clear(self) -> bool:
        """Whether there are two phases: they explain the correlations, and later steps agree.

        Without the first condition noise has phases, as the best of many splits always fits
        somewhat.
        """
        return bool(self.unexplained <= MOST_UNEXPLAINED and self.late > self.across)


def phase_transition(correlation: Float[np.ndarray, "steps steps"]) -> Transition | None:
    """Finds the step that splits a self-correlation best into two phases.

    Entries above the diagonal are taken as constant within the early phase, within the late one,
    and between them; the split is that of least squares. None where there are fewer than three
    steps, or an entry is missing. Ours; the thesis reads it off the picture.
    """
    count = len(correlation)
    if count < 3 or not np.isfinite(correlation).all():
        return None

    def squares(entries: np.ndarray) -> float:
        return float(np.square(entries - entries.mean()).sum()) if len(entries) else 0.0

    rows, columns = np.triu_indices(count, k=1)
    whole, found = correlation[rows, columns], []
    total = squares(whole) if np.ptp(whole) > 1e-9 else 0.0  # more than by rounding
    for place in range(1, count - 1):
        early, late = whole[columns < place], whole[rows >= place]
        across = whole[(rows < place) & (columns >= place)]
        rest = squares(early) + squares(late) + squares(across)
        unexplained = rest / total if total else 1.0
        found.append((rest, Transition(place, late.mean(), across.mean(), unexplained)))
    return min(found, key=lambda one: one[0])[1]
