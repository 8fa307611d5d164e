"""Claims of chapter 5 of Karp's thesis (2024) on growing; thresholds were fixed before any run.

An early loss predicts the final one, and the loss on growing does not. Rank correlations are over
operators, which the seeds share: their error stands in for that of test examples.
"""

import itertools
from typing import Any

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


def strategies(config: Config) -> dict[str, str]:
    """Returns the headings of the strategies of tables 5.1 and 5.2."""
    lag = f"LAG@{config.lag_steps}"
    names = ("oracle", lag, "LAG@0", "last block on top", "random block on top")
    return dict(zip(families.STRATEGIES, names, strict=True))


def family_claims(config: Config) -> list[Claim]:
    """Returns the claims on families of operators: a row a seed and strategy."""
    claims = [claim for own in _settings(config) for claim in _setting_claims(config, own)]
    for kind in config.sweep.kind if {"constant", "cosine"} <= {*config.sweep.schedule} else ():
        own, whole = {"kind": kind, "strategy": "oracle"}, _operators(config, {"kind": kind})
        rates = (value("initial_spearman", schedule=s, **own) for s in ("cosine", "constant"))
        item = f"{_ON_GROWING}, cosine minus constant rate ({kind})"
        claims.append(Claim(item, minus(*rates), above=0.0, conditions=(whole,)))
    return claims + _downstream_claims(config)


def noise_claims(config: Config) -> list[Claim]:
    """Returns the claims that operators differ beyond noise, of points; ours, not the thesis'.

    Where they do not, the order of the final losses is chance, and nothing can predict it.
    """
    item = "how far operators' final losses differ, in standard deviations of a seed's noise"
    return [
        Claim(
            f"{item} {_where(own)}",
            _spread(own),
            above=NOISE,
            conditions=(_operators(config, own),),
        )
        for own in _settings(config)
    ]


def stacking_claims(config: Config) -> list[Claim]:
    """Returns the claims of table C.2: adaptive stacking ends lower than last stacking."""
    item, claims = "final loss of last minus that of adaptive stacking", []
    for own in _settings(config):
        losses = (value("final_loss", strategy=name, **own) for name in ("last", "adaptive"))
        claims.append(Claim(f"{item} {_where(own)}", minus(*losses), above=0.0))
    return claims


def _setting_claims(config: Config, own: dict[str, str]) -> list[Claim]:
    """Returns the claims on one network and schedule.

    A loss on growing that does not predict, or a choice that costs little, supports the thesis only
    where an early loss predicts: else the final losses may differ by noise alone.
    """
    k, whole, once = config.lag_steps, _operators(config, own), own | {"strategy": "oracle"}
    of_thesis = own["schedule"] == SCHEDULES[own["kind"]]
    initial = _correlation("initial_spearman", once)
    regret, regret_0 = (value("relative_regret", **own, strategy=s) for s in ("lag", "lag_0"))

    def claim(item: str, statistic: Statistic, *conditions: Condition, **rest: Any) -> Claim:
        return Claim(f"{item} {_where(own)}", statistic, conditions=(whole, *conditions), **rest)

    def early(steps: int, *conditions: Condition) -> Claim:
        item = f"Spearman of the loss after {steps} steps with the final one"
        column = "lag_spearman" if steps == k else f"{families.EARLY_SPEARMAN}{steps}"
        stated = {"above": PREDICTIVE, "primary": of_thesis and steps == k}
        return claim(item, _correlation(column, once), *conditions, **stated)

    def predictive(runs: Runs) -> str:
        found = decide(Claim("", initial, above=PREDICTIVE), runs)
        return "it is" if found.status.startswith("shown") else ""

    def equal(runs: Runs) -> str:
        return "" if cheaper.statistic(runs).values.any() else "they cost the same in every seed"

    new = Condition("the loss on growing is not as predictive", predictive)
    predicts = shown(early(k), f"the loss after {k} steps is predictive")
    differ = Condition("the two choices differ", equal)
    name = f"relative regret of LAG@{k}"
    less = f"{name} minus that of LAG@0"
    cheaper = claim(less, minus(regret, regret_0), predicts, differ, below=0.0)
    costs_less = shown(cheaper, f"LAG@{k} costs less than LAG@0")
    phases = "seeds in which the operators' order has two clear phases, leaving "
    phases += f"{families.MOST_UNEXPLAINED:g} of the variance at most"
    on_top = "share of seeds in which LAG@0 takes a random block on top"
    in_every = {"paper": "in every seed", "every": True}
    return [
        early(k, new),
        claim(_ON_GROWING, initial, predicts, below=UNINFORMATIVE),
        claim(name, regret, predicts, costs_less, below=LOW_REGRET),
        cheaper,
        claim(phases, value("clear_phases", **once), **in_every),
        claim(on_top, value("picks_random_top", **once), luck=1 / _asked(config), **in_every),
        *(
            early(steps, new)
            for steps in families.EARLY_STEPS[own["kind"]]
            if of_thesis and steps != k
        ),
    ]


def _downstream_claims(config: Config) -> list[Claim]:
    """Returns the claims of table C.1: LAG's decoder answers more than the others'."""
    names, claims = strategies(config), []
    for own, task in itertools.product(_settings(config), config.downstream.tasks):
        task = task.partition(":")[0]
        right = {
            one: accuracy(
                f"{families.DOWNSTREAM}{task}",
                examples=f"{families.NUM_ITEMS}{task}",
                **own,
                strategy=one,
            )
            for one in ("lag", "lag_0", "stack_last", "stack_random")
        }
        lag = right.pop("lag")
        able = shown(Claim("", lag, above=0.0), "the network of LAG@k can answer")
        known = _operators(config, own), able
        for name, other in right.items():
            item = f"points right in {task}, {names['lag']} minus {names[name]} {_where(own)}"
            claims.append(Claim(item, minus(lag, other), above=0.0, conditions=known))
    return claims


def _settings(config: Config) -> list[dict[str, str]]:
    return product({"kind": config.sweep.kind, "schedule": config.sweep.schedule})


def _where(own: dict[str, str]) -> str:
    return f"({own['kind']}, {own['schedule']} rate)"


def _correlation(column: str, own: dict[str, str]) -> Statistic:
    """Returns the statistic of families' Spearman correlations on Fisher's scale, n operators.

    The variance is 1.06 / (n - 3), by Fieller, Hartley and Pearson (1957). A full agreement, which
    has no finite number on this scale, counts as half a step away: without ties the next lower
    correlation is 1 - 12 / (n^3 - n).
    """

    def statistic(runs: Runs) -> Sample:
        rows = runs.where(**own)
        values = rows.by_seed(column)
        counts = rows.by_seed("operators")[values.index]
        most = 1 - 6 / (counts**3 - counts)
        return Sample(
            SCALES["fisher"][0](values.clip(-most, most)),
            error=float(np.sqrt(1.06 / max(counts.min() - 3, 0.1))) if len(counts) else 0.0,
            scale="fisher",
            lost=rows.lost(column),
            equal=rows.equal_seeds(),
        )

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
