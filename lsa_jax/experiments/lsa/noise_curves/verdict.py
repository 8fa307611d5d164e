"""Lazy or rich: a verdict on a network and its kernels, by rules stated before any run.

* rich: the network is above its best fixed kernel, and its kernel after training is above the one
  at the start.
* lazy: neither differs by `MARGIN` points or more, above or below.
* rich kernel, no gain: the kernel after training is above the one at the start, but the network is
  less than `MARGIN` points above its best fixed kernel.
* undecided: none of these is shown.

Lazy and "no gain" need a network that has fitted its training set: one that was stopped too early
is below its kernels whatever it would have learned. Kernels with several ridges are taken at the
best one. With one seed the test examples alone decide.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.reporting import claims as engine
from lsa_jax.reporting.claims import Claim
from lsa_jax.reporting.conditions import above_chance, fitted
from lsa_jax.reporting.report import Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample
from lsa_jax.reporting.statistics import accuracy, minus

# Points of accuracy that are no difference.
MARGIN = 2.0

FIXED = ("ntk_infinite", "ntk_finite")


class Verdict(NamedTuple):
    """A verdict.

    Attributes:
        word: "rich", "lazy", "rich kernel, no gain" or "undecided".
        sentence: the word with its numbers; where undecided, the missing evidence too.
        claims: the two comparisons that decide it.
    """

    word: str
    sentence: str
    claims: list[Row]


def decide(runs: Runs) -> Verdict:
    """Returns the verdict on one task.

    Args:
        runs: at one number of examples: `learner`, `seed`, `test_accuracy`, `num_test`,
            `num_classes`, of networks `train_accuracy` and, where it was measured,
            `kernel_distance`, and of kernels `ridge`, where a seed has several.
    """
    runs = _at_best_ridge(runs)
    claims, fits = _make_claims(runs), fitted("the network", learner="network")

    def row(claim: Claim, **ends: float) -> Row:
        conditions = (*claim.conditions, fits)
        return engine.decide(replace(claim, **ends, conditions=conditions), runs)

    above = [engine.decide(claim, runs) for claim in claims]
    needed = {
        "rich": above,
        "lazy": [row(claim, above=-MARGIN, below=MARGIN) for claim in claims],
        "rich kernel, no gain": [row(claims[0], above=-np.inf, below=MARGIN), above[1]],
    }
    words = [word for word, rows in needed.items() if all(map(_is_shown, rows))]
    word = words[0] if words else "undecided"
    one_seed = any(found.status == "shown of one seed" for found in needed.get(word, ()))
    rows = [of if _is_shown(of) else row(claim) for claim, of in zip(claims, above, strict=True)]
    distance = runs.where(learner="network").by_seed("kernel_distance").mean()
    parts = [f"the kernel moved by {distance:.2f}"] if np.isfinite(distance) else []
    parts += [_in_words(found, with_status=not words) for found in rows]
    return Verdict(word, f"{word}{', of one seed' * one_seed}: {'; '.join(parts)}", rows)


def _make_claims(runs: Runs) -> list[Claim]:
    """Returns the claims that the network gains, and that its kernel does."""
    means = {name: accuracy(learner=name)(runs).values.mean() for name in FIXED}
    best = max(FIXED, key=lambda name: np.nan_to_num(means[name], nan=-1.0))
    trained, start = (LEARNERS[name].label for name in ("ntk_trained", "ntk_finite"))

    def gain(runs: Runs) -> Sample:
        # A kernel that is missing could have been the best one.
        lost = runs.where(learner=("network", *FIXED)).lost("test_accuracy")
        found = minus(accuracy(learner="network"), accuracy(learner=best))(runs)
        return found._replace(lost=lost)

    return [
        Claim(
            item=f"points of accuracy, network minus {LEARNERS[best].label}, its best fixed kernel",
            statistic=gain,
            above=0.0,
            conditions=(above_chance("the network", learner="network"),),
            digits=2,
        ),
        Claim(
            item=f"points of accuracy, {trained} minus {start}",
            statistic=minus(accuracy(learner="ntk_trained"), accuracy(learner="ntk_finite")),
            above=0.0,
            digits=2,
        ),
    ]


def _is_shown(row: Row) -> bool:
    return row.status.startswith("shown")


def _at_best_ridge(runs: Runs) -> Runs:
    """Returns the runs, with kernels of several ridges at the one of best mean accuracy."""
    rows = runs.finished
    if "ridge" not in rows or not rows.duplicated(["learner", "seed"]).any():
        return runs
    kept = []
    for _, own in rows.groupby("learner", sort=False):
        means = own.groupby("ridge", dropna=False)["test_accuracy"].transform("mean")
        several = own.duplicated(["learner", "seed"]).any()
        kept.append(own[means == means.max()] if several else own)
    return runs._replace(finished=pd.concat(kept).drop_duplicates(["learner", "seed"]))


def _in_words(row: Row, *, with_status: bool) -> str:
    words = row.item.removeprefix("points of accuracy, ")
    if row.low is not None:
        words += f": {row.ours:+.1f} ± {(row.high - row.low) / 2:.1f} points"
    why = row.condition.removeprefix("not met: ") if "not met" in row.status else row.note
    return words + f" ({row.status}{': ' * bool(why)}{why})" * with_status
