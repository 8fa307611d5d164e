"""Lazy or rich: what accuracies of a network and its kernels say, by rules stated beforehand.

At the largest number of examples, over seeds and test examples:

* rich: the network is above its best fixed kernel, and its kernel after training above the one that
  it started from. Both intervals lie above 0.
* lazy: neither is more than `MARGIN` points above: both intervals end below it.
* rich kernel, no gain: the kernel after training is above the one at the start, but the network is
  no more than `MARGIN` points above its best fixed kernel.
* undecided: an interval contains what would decide it, or the network cannot be told from guessing.
  The sentence then says what it would take.
"""

from typing import NamedTuple

import pandas as pd

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import intervals
from lsa_jax.reporting.report import Claim

# Points of accuracy that are no gain.
MARGIN = 2.0

FIXED = ("ntk_infinite", "ntk_finite")


class Verdict(NamedTuple):
    """What came out.

    Attributes:
        word: "rich", "lazy", "rich kernel, no gain" or "undecided".
        sentence: the same with its numbers.
        claims: the two comparisons that decide it.
    """

    word: str
    sentence: str
    claims: list[Claim]


def _difference(
    item: str, first: pd.DataFrame, second: pd.DataFrame
) -> tuple[Claim, intervals.Interval | None]:
    """Compares accuracies seed by seed, in points; also returns their interval."""
    if first.empty or second.empty:
        return deciding.not_run(item, "above 0"), None
    one, other = (rows.set_index("seed")["test_accuracy"] for rows in (first, second))
    means, count = (one.mean(), other.mean()), int(first["num_test"].iloc[0])
    error = 100 * intervals.difference_error(*means, count)
    points = 100 * (one - other).dropna()
    claim = deciding.compare(item, "above 0", points, above=0.0, examples_error=error, digits=2)
    return claim, intervals.over_seeds(points, error)


def _no_gain(claim: Claim) -> bool:
    """Whether all of the interval is below the margin."""
    return claim.high is not None and claim.high < MARGIN


def _missing(name: str, claim: Claim, interval: intervals.Interval | None) -> str:
    """Returns what would decide whether there is a gain; empty where that is decided."""
    if interval is None or claim.status == "shown" or _no_gain(claim):
        return ""
    nearest = max(interval.mean, MARGIN - interval.mean)
    return f"{deciding.would_take(interval, nearest)} to decide on {name}"


def _word(gap: Claim, learned: Claim, warning: str) -> str:
    if warning:
        return "undecided"
    if learned.status == "shown" and gap.status == "shown":
        return "rich"
    if _no_gain(gap) and _no_gain(learned):
        return "lazy"
    return "rich kernel, no gain" if learned.status == "shown" and _no_gain(gap) else "undecided"


def decide(table: pd.DataFrame) -> Verdict:
    """Returns the verdict on one task.

    Args:
        table: finished runs at one number of examples: `learner`, `seed`, `test_accuracy`,
            `num_train`, `num_test`, `num_classes`, and of networks `kernel_distance`, if measured.
    """
    of = {name: table[table["learner"] == name] for name in ("network", "ntk_trained", *FIXED)}
    fixed = max(FIXED, key=lambda name: of[name]["test_accuracy"].mean() if len(of[name]) else -1)
    label = LEARNERS[fixed].label
    gap, of_gap = _difference(
        f"points of accuracy, network minus {label}, its best fixed kernel",
        of["network"],
        of[fixed],
    )
    learned, of_learned = _difference(
        "points of accuracy, NTK after training minus finite NTK",
        of["ntk_trained"],
        of["ntk_finite"],
    )
    if of["network"].empty:
        return Verdict("undecided", "undecided: no network was trained", [gap, learned])
    first, accuracy = of["network"].iloc[0], of["network"]["test_accuracy"].mean()
    warning = deciding.chance_warning(accuracy, int(first["num_classes"]), int(first["num_test"]))
    word = _word(gap, learned, warning)
    parts = [_moved(of["network"]), _gap(gap, of_gap, label, int(first["num_train"])), warning]
    if len(of["ntk_trained"]):
        away = 100 * (of["ntk_trained"]["test_accuracy"].mean() - accuracy)
        parts.append(f"its kernel after training is {away:+.1f} points from the network")
    if word == "undecided":
        missing = [
            _missing("the network", gap, of_gap),
            _missing("the kernel", learned, of_learned),
        ]
        taken = " and ".join(filter(None, missing))
        parts.append(taken and f"it would take {taken}")
    return Verdict(word, f"{word}: " + ", ".join(filter(None, parts)), [gap, learned])


def _moved(rows: pd.DataFrame) -> str:
    if "kernel_distance" not in rows or rows["kernel_distance"].isna().all():
        return ""
    return f"the kernel moved by {rows['kernel_distance'].mean():.2f}"


def _gap(gap: Claim, interval: intervals.Interval | None, label: str, num_train: int) -> str:
    if interval is None:
        return "no fixed kernel was run"
    reach = (interval.high - interval.low) / 2
    return (
        f"the network is {gap.ours:+.1f} ± {reach:.1f} points from its best fixed kernel "
        f"({label}) at {num_train:,} examples"
    )
