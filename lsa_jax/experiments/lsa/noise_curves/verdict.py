"""Lazy or rich: what accuracies of a network and its kernels say, by rules stated beforehand.

At the largest number of examples, over seeds and test examples:

* rich: the network is above its best fixed kernel, and its kernel after training above the one that
  it started from. Both intervals lie above 0.
* lazy: neither is more than `MARGIN` points above: both intervals end below it.
* rich kernel, no gain: the kernel after training is above the one at the start, but the network is
  no more than `MARGIN` points above its best fixed kernel.
* undecided: an interval contains what would decide it, the network cannot be told from guessing,
  a run has no result, all seeds are equal or there are few test examples. The sentence says which,
  and what it would take.

What speaks against the network (all but rich) says something of a network that was trained to the
end: with a seed that has fewer than `FITTED` of its training examples right it is undecided.

With one seed the test examples alone decide, and the sentence says that it is of one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from lsa_jax.experiments.lsa.noise_curves.learners import LEARNERS
from lsa_jax.experiments.lsa.noise_curves.series import Planned, equal_seeds
from lsa_jax.reporting import claims as deciding
from lsa_jax.reporting import intervals
from lsa_jax.reporting.doubts import doubted, few_examples, lost_runs
from lsa_jax.reporting.report import Claim

# Points of accuracy that are no gain.
MARGIN = 2.0

# Of its training examples, the share that a network has right which was trained to the end.
FITTED = 0.95

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


class _Difference(NamedTuple):
    """Accuracies of two learners, in points, seed by seed.

    Attributes:
        claim: that the first is above the second.
        interval: of the difference; None where either was not run.
        equal: says that each has the same accuracy with all seeds; empty if not.
    """

    claim: Claim
    interval: intervals.Interval | None
    equal: str


def _difference(item: str, first: pd.DataFrame, second: pd.DataFrame) -> _Difference:
    if first.empty or second.empty:
        return _Difference(deciding.not_run(item, "above 0"), None, "")
    one, other = (rows.set_index("seed")["test_accuracy"] for rows in (first, second))
    means, count = (one.mean(), other.mean()), int(first["num_test"].iloc[0])
    error = 100 * intervals.difference_error(*means, count)
    points = 100 * (one - other).dropna()
    claim = deciding.compare(item, "above 0", points, above=0.0, examples_error=error, digits=2)
    equal = equal_seeds(pd.concat([first, second]), setting=["learner"])
    return _Difference(claim, intervals.over_seeds(points, error), equal)


def _no_gain(claim: Claim) -> bool:
    """Whether all of the interval is below the margin."""
    return claim.high is not None and claim.high < MARGIN


def _missing(name: str, found: _Difference) -> str:
    """Returns what would decide whether there is a gain; empty where that is decided."""
    if found.interval is None or found.claim.status == "shown" or _no_gain(found.claim):
        return ""
    nearest = max(found.interval.mean, MARGIN - found.interval.mean)
    return f"{deciding.would_take(found.interval, nearest)} to decide on {name}"


def _unfitted(rows: pd.DataFrame) -> str:
    """Says that a network was not trained to the end, by the worst seed; empty if all were."""
    if rows.empty:
        return ""
    fits = rows.reindex(columns=["seed", "train_accuracy"]).set_index("seed")["train_accuracy"]
    if fits.isna().any():
        return "it is not known how many of its training examples the network has right"
    if fits.min() >= FITTED - 1e-6:  # of means in single precision
        return ""
    return (
        f"the network has {100 * fits.min():.1f} % of its training examples right with seed "
        f"{fits.idxmin()} where {100 * FITTED:g} % are needed: it takes more epochs or a larger "
        "rate"
    )


def _word(gap: Claim, learned: Claim, unfitted: str) -> str:
    if learned.status == "shown" and gap.status == "shown":
        return "rich"
    if unfitted:
        return "undecided"
    if _no_gain(gap) and _no_gain(learned):
        return "lazy"
    return "rich kernel, no gain" if learned.status == "shown" and _no_gain(gap) else "undecided"


def _lost(table: pd.DataFrame, planned: Planned, learners: Sequence[str]) -> str:
    """Names the runs of some learners that have no result; empty of none."""
    if not planned:
        seeds = sorted(table["seed"].unique())
        planned = [{"learner": of, "seed": s} for of in table["learner"].unique() for s in seeds]
    points = [point for point in planned if point["learner"] in learners]
    return lost_runs(points, table, ["test_accuracy"])


def decide(table: pd.DataFrame, planned: Planned = ()) -> Verdict:
    """Returns the verdict on one task.

    Args:
        table: finished runs at one number of examples: `learner`, `seed`, `test_accuracy`,
            `num_train`, `num_test`, `num_classes`, and of networks `train_accuracy` and, if
            measured, `kernel_distance`.
        planned: settings of the runs that are asked for at it, by the table's names; empty asks for
            every learner that the table has, with every seed that it has.
    """
    of = {name: table[table["learner"] == name] for name in ("network", "ntk_trained", *FIXED)}
    fixed = max(FIXED, key=lambda name: of[name]["test_accuracy"].mean() if len(of[name]) else -1)
    label = LEARNERS[fixed].label
    item = f"points of accuracy, network minus {label}, its best fixed kernel"
    gap = _difference(item, of["network"], of[fixed])
    item = "points of accuracy, NTK after training minus finite NTK"
    learned = _difference(item, of["ntk_trained"], of["ntk_finite"])
    few = few_examples(int(table["num_test"].iloc[0])) if len(table) else ""
    unfitted = _unfitted(of["network"])
    claims = [
        doubted(
            found.claim,
            [_lost(table, planned, learners)],
            [found.equal, few, "" if found.claim.status == "shown" else unfitted],
        )
        for found, learners in (
            (gap, ("network", *FIXED)),
            (learned, ("ntk_trained", "ntk_finite")),
        )
    ]
    doubts = [_lost(table, planned, list(of)), gap.equal or learned.equal, few]
    if of["network"].empty:
        words = ["undecided: no network was trained", *filter(None, doubts)]
        return Verdict("undecided", ", ".join(words), claims)
    first, accuracy = of["network"].iloc[0], of["network"]["test_accuracy"].mean()
    classes, count = int(first["num_classes"]), int(first["num_test"])
    doubts.append(deciding.chance_warning(accuracy, classes, count))
    word = "undecided" if any(doubts) else _word(gap.claim, learned.claim, unfitted)
    doubts += [unfitted] * (word != "rich")
    parts = [_moved(of["network"]), _gap(gap, label, int(first["num_train"])), *doubts]
    if len(of["ntk_trained"]):
        away = 100 * (of["ntk_trained"]["test_accuracy"].mean() - accuracy)
        parts.append(f"its kernel after training is {away:+.1f} points from the network")
    if word == "undecided":
        missing = [_missing("the network", gap), _missing("the kernel", learned)]
        taken = " and ".join(filter(None, missing))
        parts.append(taken and f"it would take {taken}")
    seeds = ", of one seed" if of["network"]["seed"].nunique() == 1 else ""
    return Verdict(word, f"{word}{seeds}: " + ", ".join(filter(None, parts)), claims)


def _moved(rows: pd.DataFrame) -> str:
    if "kernel_distance" not in rows or rows["kernel_distance"].isna().all():
        return ""
    return f"the kernel moved by {rows['kernel_distance'].mean():.2f}"


def _gap(gap: _Difference, label: str, num_train: int) -> str:
    if gap.interval is None:
        return "no fixed kernel was run"
    reach = (gap.interval.high - gap.interval.low) / 2
    return (
        f"the network is {gap.claim.ours:+.1f} ± {reach:.1f} points from its best fixed kernel "
        f"({label}) at {num_train:,} examples"
    )
