"""Lazy or rich: what accuracies of a network and its kernels say, by rules stated beforehand.

At the largest number of examples, over seeds and test examples:

* rich: the network is above its best fixed kernel, and its kernel after training above the one that
  it started from. Both intervals lie above 0.
* lazy: neither is more than `MARGIN` points above: both intervals end below it.
* rich kernel, no gain: the kernel after training is above the one at the start, but the network is
  no more than `MARGIN` points above its best fixed kernel.
* undecided: an interval contains what would decide it, the network cannot be told from guessing,
  a learner was not run, a run has no result, all seeds are equal or there are few test examples.
  The sentence says which, and what it would take.

What speaks against the network (all but rich) says something of a network that was trained to the
end: with a seed that has fewer than `FITTED` of its training examples right it is undecided.

With one seed the test examples alone decide, and the sentence says that it is of one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
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
_COMPARED = ("network", "ntk_trained", *FIXED)


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
        interval: of the difference; None where there is none.
        missing: says why there is none; empty where there is.
        equal: says that each has the same results with all seeds; empty if not.
    """

    claim: Claim
    interval: intervals.Interval | None = None
    missing: str = ""
    equal: str = ""


def _difference(
    item: str, first: tuple[str, pd.DataFrame], second: tuple[str, pd.DataFrame]
) -> _Difference:
    """Compares two learners, each with what it is called."""
    one, other = (rows.set_index("seed")["test_accuracy"] for _, rows in (first, second))
    points = 100 * (one - other).dropna()
    if points.empty:
        absent = [f"no {name}" for name, rows in (first, second) if rows.empty]
        missing = f"there is {' and '.join(absent)}"
        if not absent:
            missing = f"{first[0]} and {second[0]} have no seed in common"
        return _Difference(deciding.not_run(item, "above 0"), missing=missing)
    count = int(first[1]["num_test"].iloc[0])
    error = 100 * intervals.difference_error(one.mean(), other.mean(), count)
    claim = deciding.compare(item, "above 0", points, above=0.0, examples_error=error, digits=2)
    equal = equal_seeds(pd.concat([first[1], second[1]]), setting=["learner"])
    return _Difference(claim, intervals.over_seeds(points, error), equal=equal)


def _no_gain(claim: Claim) -> bool:
    """Whether all of the interval is below the margin."""
    return claim.high is not None and claim.high < MARGIN


def _to_take(name: str, found: _Difference) -> str:
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


def _in_every_seed(table: pd.DataFrame) -> Planned:
    """Returns the settings of every learner that a table has, with every seed that it has."""
    learners, seeds = (sorted(table[name].unique()) for name in ("learner", "seed"))
    return [{"learner": learner, "seed": seed} for learner in learners for seed in seeds]


class _Compared(NamedTuple):
    """The two differences that decide.

    Attributes:
        gap: the network minus its best fixed kernel.
        learned: its kernel after training minus the one at the start.
        label: of the best fixed kernel.
    """

    gap: _Difference
    learned: _Difference
    label: str


def _compare(of: Mapping[str, pd.DataFrame]) -> _Compared:
    """Returns the differences of accuracies by learner."""
    fixed = max(FIXED, key=lambda name: of[name]["test_accuracy"].mean() if len(of[name]) else -1)
    label = LEARNERS[fixed].label if len(of[fixed]) else "fixed kernel"
    gap = _difference(
        f"points of accuracy, network minus {label}, its best fixed kernel",
        ("network", of["network"]),
        (label, of[fixed]),
    )
    trained, start = ((LEARNERS[name].label, of[name]) for name in ("ntk_trained", "ntk_finite"))
    item = f"points of accuracy, {trained[0]} minus {start[0]}"
    return _Compared(gap, _difference(item, trained, start), label)


def decide(table: pd.DataFrame, planned: Planned = ()) -> Verdict:
    """Returns the verdict on one task.

    Args:
        table: finished runs at one number of examples, one a learner and seed: `learner`, `seed`,
            `test_accuracy`, `num_train`, `num_test`, `num_classes`, `largest_class` (the most
            frequent class's share of the test examples, if it is kept), and of networks
            `train_accuracy` and, if measured, `kernel_distance`.
        planned: settings of the runs that are asked for at it, by the table's names; empty asks for
            every learner that the table has, with every seed that it has.
    """
    planned = planned or _in_every_seed(table)
    finite = table[np.isfinite(table["test_accuracy"].astype(float))]
    of = {name: finite[finite["learner"] == name] for name in _COMPARED}
    found, network = _compare(of), of["network"]
    gap, learned, _ = found

    def lost(*learners: str) -> str:
        points = [point for point in planned if point["learner"] in learners]
        return lost_runs(points, table, ["test_accuracy"])

    few = few_examples(int(table["num_test"].iloc[0])) if len(table) else ""
    unfitted = _unfitted(network)
    claims = [
        doubted(
            one.claim, [gone], [one.equal, few, "" if one.claim.status == "shown" else unfitted]
        )
        for one, gone in (
            (gap, lost("network", *FIXED)),
            (learned, lost("ntk_trained", "ntk_finite")),
        )
    ]
    doubts = [lost(*_COMPARED), gap.equal or learned.equal, few]
    if network.empty:
        words = ["undecided: no network was trained", *filter(None, doubts)]
        return Verdict("undecided", ", ".join(words), claims)
    doubts += [gap.missing, learned.missing, _near_chance(network)]
    word = "undecided" if any(doubts) else _word(gap.claim, learned.claim, unfitted)
    doubts += [] if word == "rich" else [unfitted]
    return Verdict(word, _sentence(word, of, found, doubts), claims)


def _near_chance(network: pd.DataFrame) -> str:
    classes, count = (int(network[name].iloc[0]) for name in ("num_classes", "num_test"))
    largest = deciding.largest_of(network)
    return deciding.chance_warning(network["test_accuracy"].mean(), classes, count, largest)


def _sentence(
    word: str, of: Mapping[str, pd.DataFrame], found: _Compared, doubts: Sequence[str]
) -> str:
    """Returns the verdict with its numbers, what speaks against it and what it would take."""
    network, trained = of["network"], of["ntk_trained"]
    parts = [_moved(network), _gap(found, int(network["num_train"].iloc[0])), *doubts]
    if len(trained):
        away = 100 * (trained["test_accuracy"].mean() - network["test_accuracy"].mean())
        parts.append(f"its kernel after training is {away:+.1f} points from the network")
    taken = [_to_take("the network", found.gap), _to_take("the kernel", found.learned)]
    if word == "undecided" and any(taken):
        parts.append("it would take " + " and ".join(filter(None, taken)))
    of_seeds = _of_one_seed(found.gap, found.learned)
    return f"{word}{of_seeds}: " + ", ".join(filter(None, parts))


def _of_one_seed(*differences: _Difference) -> str:
    """Says that there is but one seed, of all differences or of some; empty of none."""
    one = [found.interval.seeds == 1 for found in differences if found.interval is not None]
    if not any(one):
        return ""
    return ", of one seed" if all(one) else ", in part of one seed"


def _moved(rows: pd.DataFrame) -> str:
    if "kernel_distance" not in rows or rows["kernel_distance"].isna().all():
        return ""
    return f"the kernel moved by {rows['kernel_distance'].mean():.2f}"


def _gap(found: _Compared, num_train: int) -> str:
    claim, interval = found.gap.claim, found.gap.interval
    if interval is None:
        return ""
    reach = (interval.high - interval.low) / 2
    return (
        f"the network is {claim.ours:+.1f} ± {reach:.1f} points from its best fixed kernel "
        f"({found.label}) at {num_train:,} examples"
    )
