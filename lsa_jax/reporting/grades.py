"""Lazy or rich: the definition, as three graded questions and a word.

* dynamics: c = |f_T - f_0 - J_0 (theta_T - theta_0)| / |f_T - f_0| on test inputs, the part of the
  trained network's change that its linearisation at the start misses.
* features: score of the NTK after training minus score of the NTK at the start.
* gain: score of the network minus score of its best fixed kernel.

Scores are accuracies or R^2 in percent. Differences are paired over the same test examples and
seeds. Lazy is c below 0.1 and both differences equivalent to 0; rich is c above 0.5 and both above
0. Other combinations have words of their own or are described by their grades. The cut-offs 0.1 and
0.5 and the margin are ours.

Sources: Chizat, Oyallon and Bach (2019) and Geiger et al. (2020) for c; Malladi et al. (2023), who
require linearisation and fixed features.
"""

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import scipy

from lsa_jax.reporting.claims import FEWEST_EXAMPLES, FITTED, SINGLE_PRECISION, above_chance
from lsa_jax.reporting.report import Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, ends, needed, variance
from lsa_jax.reporting.statistics import minus, score, value

# Cut-offs of c: below the first a network follows its linearisation, above the second it does not.
FOLLOWS, LEAVES = 0.1, 0.5
# Differences of scores below this many points count as none where the test set can show that. On
# fewer examples the margin is wider, up to the second; beyond it they are too few to tell.
MARGIN, WIDEST = 2.0, 5.0
FIXED = ("ntk_infinite", "ntk_finite")

# Planned spread: share of test examples that two learners decide differently, and the standard
# deviation of a difference over seeds, in points.
_DISCORDANT, _SEED_SD = 0.05, 0.5

Word = Literal["follows", "between", "leaves", "above", "equal", "below", "undecided"]


class Grade(NamedTuple):
    """The answer to one of the three questions: "dynamics", "features" or "gain"."""

    question: str
    measured: str  # the quantity, in words
    number: float  # its mean over seeds
    low: float  # ends of the 95 % interval
    high: float
    # All grades that hold: "above" and "equal" where a difference is positive and within the
    # margin; "undecided" alone where the interval allows several.
    words: tuple[Word, ...]
    unit: str = ""  # printed behind numbers
    help: str = ""  # where undecided: the limits that are shown, and the cheapest way to decide

    @property
    def text(self) -> str:
        """The grade, in words."""
        if self.question == "dynamics":
            return _DYNAMICS[self.words[0]]
        better, worse = _ABOVE_OR_BELOW[self.question]
        by_margin = ", by less than the margin" * (len(self.words) > 1)
        ends = {"above": better + by_margin, "below": worse + by_margin, "equal": "no difference"}
        return next((text for word, text in ends.items() if word in self.words), "undecided")

    def interval(self, unit: str = "") -> str:
        """The number with its interval, in words."""
        form = "+.1f" if self.unit else ".2f"
        known = f" ({self.low:{form}} to {self.high:{form}})" * bool(np.isfinite(self.low))
        return f"{self.number:{form}}{unit}{known}"

    def __str__(self) -> str:
        return f"{self.question:<9} {self.measured}: {self.interval(self.unit)}: {self.text}"


_DYNAMICS = {
    "follows": "follows its linearisation",
    "between": "follows its linearisation in part",
    "leaves": "does not follow its linearisation",
    "undecided": "undecided",
}
_ABOVE_OR_BELOW = {
    "features": ("better", "worse"),
    "gain": ("the network is ahead", "the network is behind"),
}


class Answer(NamedTuple):
    """Lazy or rich, of one network on one task."""

    word: str  # "lazy", "rich", another word of `WORDS`, or a sentence on the grades
    grades: tuple[Grade, ...]  # dynamics (absent where c was not measured), features, gain
    margin: float  # points within which differences count as none
    notes: tuple[str, ...] = ()  # conditions that limit it, such as a network that did not fit

    def __str__(self) -> str:
        lines = [*map(str, self.grades), f"answer    {self.word}"]
        lines += [f"          {g.question}: {g.help}" for g in self.grades if g.help]
        return "\n".join([*lines, *(f"          {note}" for note in self.notes)])

    @property
    def claims(self) -> list[Row]:
        """The three questions as rows of a report."""
        margin = f"lazy within {self.margin:.2g}, rich above 0"
        stated = {"dynamics": f"lazy below {FOLLOWS:g}, rich above {LEAVES:g}"}
        return [
            Row(
                f"{g.question}: {g.measured}, {g.text}",
                stated.get(g.question, margin),
                round(g.number, 4),
                None,
                "undecided" if g.words == ("undecided",) else "measured",
                *((None, None) if np.isnan(g.low) else (g.low, g.high)),
                g.help,
            )
            for g in self.grades
        ]


# Words for combinations of grades (dynamics, features, gain). The first that holds is taken.
WORDS: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = (
    ("rich", (("leaves",), ("above",), ("above",))),
    ("lazy", (("follows",), ("equal",), ("equal",))),
    ("lazy, behind a better kernel", (("follows",), ("equal", "below"), ("below",))),
    ("rich features without gain", (("leaves",), ("above",), ("equal", "below"))),
    ("gain without better features", (("leaves",), ("equal", "below"), ("above",))),
    ("not lazy, without gain", (("leaves",), ("equal", "below"), ("equal", "below"))),
)


def grade(runs: Runs, *, more_examples: bool = False, epochs: int | None = None) -> Answer:
    """Returns the answer for one task.

    Args:
        runs: one row a learner and seed: `learner` ("network", "ntk_trained", "ntk_finite" and
            perhaps "ntk_infinite"), `seed`, `test_accuracy` or `test_r2`, `num_test`, `chance` or
            `num_classes`; of networks `train_accuracy` or `train_r2`, and `linearization_error`
            (c), where it was measured; of kernels, where it is known, `left_out` (error on training
            examples that are left out one at a time), by which the best fixed kernel is chosen.
        more_examples: whether there are examples that were not tested on.
        epochs: epochs of training, for the note on a training set that is not fitted.
    """
    best, label = best_fixed(runs)
    gain = minus(score(learner="network"), score(learner=best))(runs)
    features = minus(score(learner="ntk_trained"), score(learner="ntk_finite"))(runs)
    seeds, count = len(gain.values), gain.count or 1
    margin, grades = planned_margin(seeds, count), []
    if "linearization_error" in runs.finished:
        measured = value("linearization_error", learner="network", bounds=(0.0, np.inf))(runs)
        grades += [_dynamics(measured)] if len(measured.values) else []
    if unmet := _unmet(runs, (gain, features)):
        return Answer(f"undecided: {unmet}", tuple(grades), margin)
    grades += [
        _difference("features", "NTK after training minus NTK at the start", features, margin,
                    more_examples),
        _difference("gain", f"network minus {label}", gain, margin, more_examples),
    ]  # fmt: skip
    nothing, unfitted = _learned_nothing(runs), _unfitted(runs, epochs)
    word = f"undecided: {nothing}" if nothing else _word(grades, bool(unfitted))
    notes = [unfitted] if unfitted else []
    if seeds == 1:
        notes.append("one seed: other seeds may differ")
    if margin > WIDEST:
        notes.append(f"{count:,} test examples are too few to show that there is no difference: "
                     f"about {_would_do(WIDEST, seeds)} would do")  # fmt: skip
    elif margin > MARGIN:
        notes.append(f"margin: {margin:.2g} points on {count:,} test examples; about "
                     f"{_would_do(MARGIN, seeds)} would allow {MARGIN:g}")  # fmt: skip
    return Answer(word, tuple(grades), margin, tuple(notes))


def _learned_nothing(runs: Runs) -> str:
    """Returns why a network counts as one that learned nothing; "" where it learned."""
    networks = runs.where(learner="network")
    if "test_r2" in networks.finished:
        mean = float(networks.finished["test_r2"].mean())
        found = "" if mean > 0 else f"R^2 of {mean:.3f}, where the mean target has 0"
    else:
        found = above_chance("", learner="network").unmet(runs)
        if found and networks.finished["test_accuracy"].mean() > networks.chance():
            return f"too few test examples to show that the network learned: {found}"
    return found and f"the network learned nothing: {found}"


def _unfitted(runs: Runs, epochs: int | None) -> str:
    """Returns why a network has not fitted its training set; "" where it has."""
    rows = runs.where(learner="network").finished
    column, name = ("train_r2", "R^2") if "train_r2" in rows else ("train_accuracy", "accuracy")
    least = float(rows.reindex(columns=[column])[column].astype(float).min(skipna=False))
    if least >= FITTED - SINGLE_PRECISION:
        return ""
    after = "" if epochs is None else f" after {epochs:,} epochs"
    return (
        f"training ended{after} with {name} {least:.3f} on training examples; from {FITTED:g} they "
        "count as fitted: more epochs may change the answer"
    )


def answers(parts: Iterable[tuple[dict[str, object], Runs]]) -> pd.DataFrame:
    """Returns a row for each setting of a sweep: its cells, its grades, and the word.

    Args:
        parts: cells that name the setting, and its runs. Settings without a grade are left out.
    """
    rows = []
    for cells, runs in parts:
        answer = grade(runs)
        named = {"dynamics": "c"} | {name: f"{name} (points)" for name in _ABOVE_OR_BELOW}
        graded = {named[g.question]: f"{g.interval()}: {g.text}" for g in answer.grades}
        if graded:
            rows.append(cells | graded | {"answer": answer.word.partition(":")[0]})
    return pd.DataFrame(rows).fillna("")


def _unmet(runs: Runs, samples: tuple[Sample, ...]) -> str:
    """Returns why the runs decide nothing, such as a missing one; "" where they do."""
    column = "test_r2" if "test_r2" in runs.finished else "test_accuracy"
    learners = ("network", "ntk_trained", *FIXED)
    if lost := runs.where(learner=learners).lost(column):
        return lost  # a kernel that is missing could have been the best one
    if not all(len(sample.values) for sample in samples):
        there = ", ".join(runs.finished["learner"].unique()) or "no learner"
        return f"runs of {there} alone; a network, its NTK at the start and after training needed"
    if all(sample.equal for sample in samples):  # the kernels of linear networks do not change
        return "all seeds are equal"
    count = min(sample.count or FEWEST_EXAMPLES for sample in samples)
    few = f"{count} test examples, {FEWEST_EXAMPLES} needed"
    return few if count < FEWEST_EXAMPLES else ""


def best_fixed(runs: Runs) -> tuple[str, str]:
    """Returns the best fixed kernel's learner and name, by errors on training examples.

    Without `left_out` errors it is the infinite NTK where there is one.
    """
    there = [name for name in FIXED if len(runs.where(learner=name).finished)]
    left_out = {
        name: runs.where(learner=name).by_seed("left_out", optional=True).mean() for name in there
    }
    known = {name: error for name, error in left_out.items() if np.isfinite(error)}
    best = min(known, key=known.get) if known else (there or ["ntk_finite"])[0]
    labels = {"ntk_infinite": "the infinite NTK", "ntk_finite": "the NTK at the start"}
    return best, labels[best] + (", its best fixed kernel" if len(there) > 1 else "")


def planned_margin(seeds: int, examples: int) -> float:
    """Returns the margin of equivalence, in points, from the planned numbers alone.

    2 points where the planned half-width of the 90 % interval is below 1, else twice that width.
    """
    half = float(np.hypot(_half_of_seeds(seeds), (_spread() / examples) ** 0.5))
    return MARGIN if half < MARGIN / 2 else 2 * half


def _would_do(margin: float, seeds: int) -> str:
    """Returns the fewest test examples, or of seeds that are too few also seeds, for a margin."""
    rest = (margin / 2) ** 2 - _half_of_seeds(seeds) ** 2
    if rest <= 0:
        return f"{_would_do(margin, seeds + 1)} and {seeds + 1} seeds"
    return f"{math.ceil(_spread() / rest):,}"


def _spread() -> float:
    """Returns the squared half-width of the planned 90 % interval on one test example."""
    return float(100 * scipy.special.ndtri(2 * TAIL)) ** 2 * _DISCORDANT


def _half_of_seeds(seeds: int) -> float:
    if seeds < 2:
        return 0.0
    return float(_SEED_SD * scipy.stats.t.isf(2 * TAIL, seeds - 1) / seeds**0.5)


def _dynamics(errors: Sample) -> Grade:
    low, high = ends(errors)
    words: tuple[Word, ...] = ("undecided",)
    least, most = (low, high) if np.isfinite(low) else (float(errors.values.mean()),) * 2
    if most < FOLLOWS:
        words = ("follows",)
    elif least > LEAVES:
        words = ("leaves",)
    elif least > FOLLOWS and most < LEAVES:
        words = ("between",)
    number = float(errors.values.mean())
    advice = ""
    if words == ("undecided",):
        distance = min(abs(number - FOLLOWS), abs(number - LEAVES))
        advice = f"c is between {max(low, 0):.2f} and {high:.2f}; it would take "
        advice += needed(errors, distance)
    return Grade("dynamics", "c", number, max(low, 0.0), high, words, help=advice)


def _difference(
    question: str, measured: str, sample: Sample, margin: float, more_examples: bool
) -> Grade:
    number = float(sample.values.mean())
    low, high = ends(sample)
    near, far = ends(sample, 2 * TAIL)
    words: list[Word] = ["above"] if low > 0 else []
    words += ["equal"] if -margin < near and far < margin <= WIDEST else []
    words += ["below"] if high < 0 else []
    advice = "" if words else _advice(question, sample, margin, more_examples)
    return Grade(
        question, measured, number, low, high, tuple(words) or ("undecided",), " points", advice
    )


def _advice(question: str, sample: Sample, margin: float, more_examples: bool) -> str:
    """Returns the limits that are shown, and the cheapest way to decide that exists."""
    number, (low, high) = float(sample.values.mean()), ends(sample)
    ups, downs = {"features": ("improvement", "loss"), "gain": ("gain", "loss")}[question]
    if not np.isfinite(low):
        return "one seed and no test examples kept: 2 seeds or more"
    limits = [(ups, high), (downs, -low)]
    known = [f"no {word} above {limit:.1f} points" for word, limit in limits if limit < 100]
    shown = " and ".join(known) or "any difference is possible"
    found = variance(sample)
    of_seeds = found.of_seeds / len(sample.values)
    if found.of_examples > of_seeds and more_examples:
        return f"{shown}; more test examples would help most: more minutes, examples or folds"
    if found.of_examples > of_seeds:
        return f"{shown}; every example was tested on: more data would help most"
    fixed = scipy.stats.norm.isf(TAIL) * found.of_examples**0.5
    distance = max(abs(number), (margin - abs(number)) * (margin <= WIDEST))
    if fixed < distance:
        alone = sample._replace(examples=None, error=found.of_examples**0.5)
        return f"{shown}; it would take {needed(alone, distance)}"
    return f"{shown}; more seeds would help most"


def _fits(one: Grade, wanted: tuple[str, ...]) -> bool:
    """Whether a grade is one of the wanted ones, or may still turn out to be."""
    if one.words != ("undecided",):
        return bool({*one.words} & {*wanted})
    inside = {"follows": one.low < FOLLOWS, "leaves": one.high > LEAVES}  # of the interval of c
    return any(inside.get(word, True) for word in wanted)


def _word(grades: list[Grade], unfitted: bool) -> str:
    """Returns the word of `WORDS`, or a sentence with the words that are left and the grades."""
    left = [word for word, wanted in WORDS if len(grades) == 3 and all(map(_fits, grades, wanted))]
    unknown = any(one.words == ("undecided",) for one in grades)
    if left and not unknown and not (unfitted and left[0].startswith("lazy")):
        return left[0]
    reasons = [] if len(grades) == 3 else ["c was not measured"]
    reasons += [f"{one.question} ({one.text})" for one in grades]
    reasons += ["the training set is not fitted"] * unfitted
    pure = [word for word in left if word in ("rich", "lazy")]
    verdict = f"{' or '.join(pure)} is possible" if pure else "neither lazy nor rich"
    return f"{verdict}: {', '.join(reasons)}"
