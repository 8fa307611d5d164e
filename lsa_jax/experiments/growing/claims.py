"""Claims of chapter 5 of Karp's thesis (2024) on growing; thresholds were fixed before any run.

An early loss predicts the final one, and the loss on growing does not. Rank correlations are over
operators, which the seeds share: their error stands in for that of test examples.
"""

from functools import partial

import numpy as np
import pandas as pd

from lsa_jax.experiments.growing import families
from lsa_jax.reporting.claims import Claim, Condition, decide, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import SCALES, Sample, Statistic
from lsa_jax.reporting.statistics import accuracy, minus, value
from lsa_jax.sweep.fields import Config, product

# A mean rank correlation below the first is uninformative, above the second predictive.
UNINFORMATIVE, PREDICTIVE = 0.3, 0.7
# A relative regret below this is low.
LOW_REGRET = 0.25
# Operators that differ by less than a seed's noise cannot be distinguished by one run of each.
NOISE = 1.0
# Three operators are in the order of their final losses by chance in one of six cases.
FEWEST_OPERATORS = 4
# The learning rate of the thesis' runs.
SCHEDULES = {"encoder": "constant", "decoder": "cosine"}
_ON_GROWING = "Spearman of the loss on growing with the final one"
_AFTER = "Spearman of the loss after {} steps with the final one"
_STACKING = ("last", "adaptive")


def strategies(config: Config) -> dict[str, str]:
    """Returns the headings of the strategies of tables 5.1 and 5.2."""
    lag = f"LAG@{config.lag_steps}"
    names = ("oracle", lag, "LAG@0", "last block on top", "random block on top")
    return dict(zip(families.STRATEGIES, names, strict=True))


def _settings(config: Config) -> list[tuple[dict[str, str], str]]:
    """Returns networks and schedules, as settings of runs and in words."""
    found = product({"kind": config.sweep.kind, "schedule": config.sweep.schedule})
    return [(own, f"({own['kind']}, {own['schedule']} rate)") for own in found]


def noise_claims(config: Config) -> list[Claim]:
    """Returns the claims that operators differ beyond noise, of points; ours, not the thesis'.

    Where they do not, the order of the final losses is chance, and nothing can predict it.
    """
    item = "how far operators' final losses differ, in standard deviations of a seed's noise "
    return [
        Claim(item + where, _spread(own), above=NOISE, conditions=(_operators(config, own),))
        for own, where in _settings(config)
    ]


def stacking_claims(config: Config) -> list[Claim]:
    """Returns the claims of table C.2: adaptive stacking ends lower than last stacking."""
    item = "final loss of last minus that of adaptive stacking "
    loss = partial(value, "final_loss")
    return [
        Claim(item + where, minus(*(loss(strategy=s, **own) for s in _STACKING)), above=0.0)
        for own, where in _settings(config)
    ]


def family_claims(config: Config) -> list[Claim]:
    """Returns the claims on families of operators: a row a seed and strategy."""
    claims = [claim for one in _settings(config) for claim in _setting_claims(config, *one)]
    for kind in config.sweep.kind if {"constant", "cosine"} <= {*config.sweep.schedule} else ():
        own, whole = {"kind": kind, "strategy": "oracle"}, _operators(config, {"kind": kind})
        rates = (value("initial_spearman", schedule=s, **own) for s in ("cosine", "constant"))
        item = f"{_ON_GROWING}, cosine minus constant rate ({kind})"
        claims.append(Claim(item, minus(*rates), above=0.0, conditions=(whole,)))
    for own, where in _settings(config):
        claims += _downstream_claims(config, own, where)
    return claims


def _setting_claims(config: Config, own: dict[str, str], where: str) -> list[Claim]:
    """Returns the claims on one network and schedule.

    A loss on growing that does not predict, or a choice that costs little, supports the thesis only
    where an early loss predicts: else the final losses may differ by noise alone.
    """
    k, whole, once = config.lag_steps, _operators(config, own), own | {"strategy": "oracle"}
    of_thesis = own["schedule"] == SCHEDULES[own["kind"]]
    others = [s for s in families.EARLY_STEPS[own["kind"]] if of_thesis and s != k]
    early, initial = (_correlation(f"{name}_spearman", once) for name in ("lag", "initial"))
    regret, regret_0 = (value("relative_regret", strategy=s, **own) for s in ("lag", "lag_0"))
    less = minus(regret, regret_0)

    def predictive(runs: Runs) -> str:
        found = decide(Claim("", initial, above=PREDICTIVE), runs)
        return "it is" if found.status.startswith("shown") else ""

    def equal(runs: Runs) -> str:
        return "" if less(runs).values.any() else "they cost the same in every seed"

    new = Condition("the loss on growing is not as predictive", predictive)
    differ = Condition("the two choices differ", equal)
    predicts = shown(Claim("", early, above=PREDICTIVE), f"the loss after {k} steps is predictive")
    cheaper = shown(Claim("", less, below=0.0), f"LAG@{k} costs less than LAG@0")
    above, every = {"above": PREDICTIVE}, {"paper": "in every seed", "every": True}
    # Item, statistic, conditions, and the range.
    # fmt: off
    table = [
        (_AFTER.format(k), early, (new,), above | {"primary": of_thesis}),
        (_ON_GROWING, initial, (predicts,), {"below": UNINFORMATIVE}),
        (f"relative regret of LAG@{k}", regret, (predicts, cheaper), {"below": LOW_REGRET}),
        (f"relative regret of LAG@{k} minus that of LAG@0", less, (predicts, differ),
         {"below": 0.0}),
        ("seeds in which the operators' order has two clear phases, leaving "
         f"{families.MOST_UNEXPLAINED:g} of the variance at most",
         value("clear_phases", **once), (), every),
        ("share of seeds in which LAG@0 takes a random block on top",
         value("picks_random_top", **once), (), every | {"luck": 1 / _asked(config)}),
        *((_AFTER.format(s), _correlation(f"{families.EARLY_SPEARMAN}{s}", once), (new,), above)
          for s in others),
    ]
    # fmt: on
    return [
        Claim(f"{item} {where}", statistic, conditions=(whole, *conditions), **stated)
        for item, statistic, conditions, stated in table
    ]


def _downstream_claims(config: Config, own: dict[str, str], where: str) -> list[Claim]:
    """Returns the claims of table C.1: LAG's decoder answers more than the others'."""
    names, claims = strategies(config), []
    for task in (name.partition(":")[0] for name in config.downstream.tasks):
        column, items = f"{families.DOWNSTREAM}{task}", f"{families.NUM_ITEMS}{task}"
        right = partial(accuracy, column, examples=items, **own)
        able = shown(Claim("", right(strategy="lag"), above=0.0), "the network of LAG@k can answer")
        for other in ("lag_0", "stack_last", "stack_random"):
            item = f"points right in {task}, {names['lag']} minus {names[other]} {where}"
            statistic = minus(right(strategy="lag"), right(strategy=other))
            conditions = (_operators(config, own), able)
            claims.append(Claim(item, statistic, above=0.0, conditions=conditions))
    return claims


def _correlation(column: str, own: dict[str, str]) -> Statistic:
    """Returns the statistic of families' Spearman correlations on Fisher's scale, n operators.

    The variance is 1.06 / (n - 3), by Fieller, Hartley and Pearson (1957). A full agreement, which
    has no finite number on this scale, counts as half a step away: without ties the next lower
    correlation is 1 - 12 / (n^3 - n).
    """

    def statistic(runs: Runs) -> Sample:
        found = value(column, **own)(runs)
        counts = runs.where(**own).by_seed("operators")[found.values.index]
        most = 1 - 6 / (counts**3 - counts)
        values = SCALES["fisher"][0](found.values.clip(-most, most))
        error = float(np.sqrt(1.06 / max(counts.min() - 3, 0.1))) if len(counts) else 0.0
        return found._replace(values=values, error=error, scale="fisher")

    return statistic


def _spread(own: dict[str, str]) -> Statistic:
    """Returns the statistic of `families.spread_over_noise`, over operators of all seeds."""

    def statistic(runs: Runs) -> Sample:
        points = runs.where(**own)
        losses = points.finished.pivot_table(
            index="seed", columns=families.OPERATOR, values="final_loss"
        )
        losses = losses.dropna(axis="columns").to_numpy(float)
        return Sample(
            pd.Series([families.spread_over_noise(losses)[0]]).dropna(),
            units=len(losses),
            lost=points.lost("final_loss"),
            equal=points.equal_seeds(),
            ends=lambda tail: families.spread_over_noise(losses, tail)[1:],
        )

    return statistic


def _asked(config: Config) -> int:
    """Returns the number of operators of a sweep."""
    return len(config.sweep.index) * len(config.sweep.block_size) * len(config.sweep.source)


def _operators(config: Config, own: dict[str, str]) -> Condition:
    """Returns the condition that all operators, and enough of them, ended in every seed."""
    least = max(_asked(config), FEWEST_OPERATORS)

    def unmet(runs: Runs) -> str:
        rows = runs.where(**own).finished
        counts = rows["operators"] if "operators" in rows else rows.groupby("seed").size()
        return "" if rows.empty or counts.min() >= least else f"{counts.min():g} in a seed"

    return Condition(f"{least} operators", unmet)
