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

from typing import Literal, NamedTuple

import numpy as np
import scipy.stats

from lsa_jax.reporting.claims import FEWEST_EXAMPLES
from lsa_jax.reporting.report import Row
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample, ends, needed, variance
from lsa_jax.reporting.statistics import minus, score, value

# Cut-offs of c: below the first a network follows its linearisation, above the second it does not.
FOLLOWS, LEAVES = 0.1, 0.5
# Differences of scores below this many points count as none where the test set can show that.
MARGIN = 2.0
FIXED = ("ntk_infinite", "ntk_finite")

# Planned spread: share of test examples that two learners decide differently, and the standard
# deviation of a difference over seeds, in points.
_DISCORDANT, _SEED_SD = 0.05, 0.5

Word = Literal["follows", "between", "leaves", "above", "equal", "below", "undecided"]


class Grade(NamedTuple):
    """The answer to one of the three questions.

    Attributes:
        question: "dynamics", "features" or "gain".
        measured: the quantity, in words.
        number: its mean over seeds.
        low: lower end of the 95 % interval.
        high: upper end.
        words: all grades that hold: "above" and "equal" where a difference is positive and within
            the margin; "undecided" alone where the interval allows several.
        unit: printed behind numbers.
        help: where undecided: the limits that are shown, and the cheapest way to decide.
    """

    question: str
    measured: str
    number: float
    low: float
    high: float
    words: tuple[Word, ...]
    unit: str = ""
    help: str = ""

    @property
    def text(self) -> str:
        """The grade, in words."""
        return _GRADES[self.question][self.words]

    def __str__(self) -> str:
        form = "+.1f" if self.unit else ".2f"
        numbers = f"{self.number:{form}}{self.unit}"
        if np.isfinite(self.low):
            numbers += f" ({self.low:{form}} to {self.high:{form}})"
        return f"{self.question:<9} {self.measured}: {numbers}: {self.text}"


_DIFFERENCES = {
    ("above",): "{better}",
    ("above", "equal"): "{better}, by less than the margin",
    ("equal",): "no difference",
    ("equal", "below"): "{worse}, by less than the margin",
    ("below",): "{worse}",
    ("undecided",): "undecided",
}


def _differences(better: str, worse: str) -> dict[tuple[str, ...], str]:
    return {k: v.format(better=better, worse=worse) for k, v in _DIFFERENCES.items()}


_GRADES: dict[str, dict[tuple[str, ...], str]] = {
    "dynamics": {
        ("follows",): "follows its linearisation",
        ("between",): "follows its linearisation in part",
        ("leaves",): "does not follow its linearisation",
        ("undecided",): "undecided",
    },
    "features": _differences("better", "worse"),
    "gain": _differences("the network is ahead", "the network is behind"),
}


# Clauses of the sentence for a combination that has no word.
_CLAUSES: dict[str, dict[str, str]] = {
    "dynamics": {
        "follows": "the network follows its linearisation",
        "between": "the network follows its linearisation in part",
        "leaves": "the network leaves its linearisation",
        "undecided": "how far it follows its linearisation is undecided",
    },
    "features": {
        "above": "its kernel is better after training",
        "equal": "its kernel is as good after training as before",
        "below": "its kernel is worse after training",
        "undecided": "whether its kernel is better after training is undecided",
    },
    "gain": {
        "above": "it is ahead of its best fixed kernel",
        "equal": "it is level with its best fixed kernel",
        "below": "it is behind its best fixed kernel",
        "undecided": "whether it is ahead of its best fixed kernel is undecided",
    },
}


class Answer(NamedTuple):
    """Lazy or rich, of one network on one task.

    Attributes:
        word: "lazy", "rich", one of the other words of `WORDS`, or a sentence on the grades.
        grades: dynamics (absent where c was not measured), features, gain.
        margin: points within which differences count as none.
        notes: conditions that limit the answer, such as a network that did not fit.
    """

    word: str
    grades: tuple[Grade, ...]
    margin: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [*map(str, self.grades), f"answer    {self.word}"]
        lines += [f"          {g.question}: {g.help}" for g in self.grades if g.help]
        return "\n".join([*lines, *(f"          {note}" for note in self.notes)])

    @property
    def sentence(self) -> str:
        """The word and the numbers, in one line."""
        numbers = [f"{g.measured} {g.number:+.1f}{g.unit}" for g in self.grades if g.unit]
        numbers = [f"c = {g.number:.2f}" for g in self.grades if not g.unit] + numbers
        return ": ".join(filter(None, (self.word, "; ".join(numbers))))

    @property
    def claims(self) -> list[Row]:
        """The three questions as rows of a report."""
        stated = {
            "dynamics": f"lazy below {FOLLOWS:g}, rich above {LEAVES:g}",
            "features": f"lazy within {self.margin:.2g}, rich above 0",
            "gain": f"lazy within {self.margin:.2g}, rich above 0",
        }
        return [
            Row(
                f"{g.question}: {g.measured}, {g.text}",
                stated[g.question],
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


def grade(
    runs: Runs, *, learned: str = "", unfitted: str = "", more_examples: bool = False
) -> Answer:
    """Returns the answer for one task.

    Args:
        runs: one row a learner and seed: `learner` ("network", "ntk_trained", "ntk_finite" and
            perhaps "ntk_infinite"), `seed`, `test_accuracy` or `test_r2`, `num_test`; of networks
            `linearization_error` (c), where it was measured; of kernels, where it is known,
            `left_out` (error on training examples that are left out one at a time), by which the
            best fixed kernel is chosen.
        learned: why the network counts as one that learned nothing; "" where it learned.
        unfitted: why the network has not fitted its training set; "" where it has.
        more_examples: whether there are examples that were not tested on.
    """
    best, label = best_fixed(runs)
    gain = minus(score(learner="network"), score(learner=best))(runs)
    features = minus(score(learner="ntk_trained"), score(learner="ntk_finite"))(runs)
    margin, grades = planned_margin(len(gain.values), gain.count or 1), []
    if unmet := _unmet(runs, (gain, features)):
        return Answer(f"undecided: {unmet}", (), margin)
    if "linearization_error" in runs.finished:
        measured = value("linearization_error", learner="network", bounds=(0.0, np.inf))(runs)
        grades += [_dynamics(measured)] if len(measured.values) else []
    grades += [
        _difference("features", "NTK after training minus NTK at the start", features, margin,
                    more_examples),
        _difference("gain", f"network minus {label}", gain, margin, more_examples),
    ]  # fmt: skip
    word = f"undecided: {learned}" if learned else _word(grades, bool(unfitted))
    notes = [unfitted] if unfitted else []
    if len(gain.values) == 1:
        notes.append("one seed: other seeds may differ")
    if margin > MARGIN:
        notes.append(f"differences within {margin:.2g} points count as none on so few examples")
    return Answer(word, tuple(grades), margin, tuple(notes))


def _unmet(runs: Runs, samples: tuple[Sample, ...]) -> str:
    """Returns why the runs decide nothing, such as a missing one; "" where they do."""
    column = "test_r2" if "test_r2" in runs.finished else "test_accuracy"
    learners = ("network", "ntk_trained", *FIXED)
    if lost := runs.where(learner=learners).lost(column):
        return lost  # a kernel that is missing could have been the best one
    if not all(len(sample.values) for sample in samples):
        there = ", ".join(runs.finished["learner"].unique()) or "no learner"
        return f"runs of {there} alone; a network, its NTK at the start and after training needed"
    if any(sample.equal for sample in samples):
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
    normal = scipy.stats.norm.isf(2 * TAIL)
    of_seeds = _SEED_SD * scipy.stats.t.isf(2 * TAIL, seeds - 1) / seeds**0.5 if seeds > 1 else 0.0
    half = float(np.hypot(of_seeds, 100 * normal * (_DISCORDANT / examples) ** 0.5))
    return MARGIN if half < MARGIN / 2 else 2 * half


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
    words += ["equal"] if -margin < near and far < margin else []
    words += ["below"] if high < 0 else []
    advice = "" if words else _advice(question, sample, number, (low, high), margin, more_examples)
    return Grade(
        question, measured, number, low, high, tuple(words) or ("undecided",), " points", advice
    )


def _advice(
    question: str,
    sample: Sample,
    number: float,
    limits: tuple[float, float],
    margin: float,
    more_examples: bool,
) -> str:
    """Returns the limits that are shown, and the cheapest way to decide that exists."""
    ups, downs = {"features": ("improvement", "loss"), "gain": ("gain", "loss")}[question]
    if not np.isfinite(limits[0]):
        return "one seed and no test examples kept: 2 seeds or more"
    shown = f"no {ups} above {limits[1]:.1f} points and no {downs} above {-limits[0]:.1f}"
    found = variance(sample)
    of_seeds = found.of_seeds / len(sample.values)
    if found.of_examples > of_seeds and more_examples:
        return f"{shown}; more test examples would help most"
    if found.of_examples > of_seeds:
        return f"{shown}; all examples there are were tested on, so more seeds help little"
    fixed = scipy.stats.norm.isf(TAIL) * found.of_examples**0.5
    distance = max(abs(number), margin - abs(number))
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
    said = {g.question: _CLAUSES[g.question][g.words[0]] for g in grades}
    left = [word for word, wanted in WORDS if len(grades) == 3 and all(map(_fits, grades, wanted))]
    unknown = [one.question for one in grades if one.words == ("undecided",)]
    if left and not unknown and not (unfitted and left[0].startswith("lazy")):
        return left[0]
    dynamics = said.get("dynamics", "c was not measured")
    reasons = f"{dynamics}, {said['features']}, and {said['gain']}"
    if unfitted:
        reasons += ", but it has not fitted its training set"
    pure = [word for word in left if word in ("rich", "lazy")]
    verdict = f"{' or '.join(pure)} is possible" if pure else "neither lazy nor rich"
    return f"{verdict}: {reasons}"
