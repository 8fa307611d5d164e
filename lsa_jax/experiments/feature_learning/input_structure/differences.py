"""Differences of accuracies of students, of parts of their mixtures and of networks beside them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from lsa_jax.experiments.feature_learning.doubts import answers_a_constant, doubt
from lsa_jax.experiments.feature_learning.input_structure.tasks import mixture_parts
from lsa_jax.reporting.claims import compare
from lsa_jax.reporting.intervals import binomial_error
from lsa_jax.reporting.report import Claim

# What seeds differ in.
MEASURES = ("test_accuracy", "test_labelled_part", "test_injected_part", "test_loss")


class Labels(NamedTuple):
    """What a data set's labels are.

    Attributes:
        test: test images.
        largest: share of the most frequent label, which a constant answer has right.
        seeds: of the networks that a sweep asks for.
        no_trend: sizes of the students of which the paper says that nothing is significant.
    """

    test: int
    largest: float = 0.1
    seeds: Sequence[int] = ()
    no_trend: Sequence[int] = ()


class Side(NamedTuple):
    """One side of a difference of accuracies.

    Attributes:
        accuracy: by seed.
        examples: test inputs that it is of.
        runs: that it is of.
        seen: share of the labelled training images that they were trained on.
    """

    accuracy: pd.Series
    examples: int
    runs: pd.DataFrame
    seen: float = 1.0

    def error(self) -> float:
        """Returns the standard error of the accuracy, in points, from its own test inputs."""
        return 100 * binomial_error(self.accuracy.mean(), self.examples)


def by_seed(rows: pd.DataFrame, column: str) -> pd.Series:
    """Returns a column of some runs, one value a seed; not-a-number where there is none."""
    return rows.set_index("seed").reindex(columns=[column])[column].astype(float)


def parts_of(rows: pd.DataFrame, accuracies: pd.DataFrame, test: int) -> list[Side]:
    """Returns the two parts of a mixture, with accuracies by seed that may not be those at the end.

    Args:
        rows: the mixture's runs, of one share.
        accuracies: of either part.
        test: test images of the data set.
    """
    share = rows["share"].iloc[0]
    seen = min(1.0, (1 - share) / share)
    return [
        Side(by_seed(accuracies, f"test_{part}_part"), max(count, 1), rows, seen)
        for part, count in zip(("labelled", "injected"), mixture_parts(share, test), strict=True)
    ]


def largest_label(rows: pd.DataFrame, labels: Labels) -> pd.Series:
    """Returns by seed the share that no label of a teacher exceeds on the data set.

    Of runs that did not record it: a class has the share that it has in the data set, and at most
    all that the teacher has wrong.
    """
    wrong = 1 - by_seed(rows, "teacher_accuracy").fillna(1.0)
    return by_seed(rows, "largest_label").fillna((labels.largest + wrong).clip(upper=1.0))


def guesses(rows: pd.DataFrame, labelled: Side, level: pd.Series, labels: Labels) -> str:
    """Says whose answers may be a constant: direct training's, a student's, its teacher's."""
    of_direct = answers_a_constant(level, labels.largest, labels.test)
    own = answers_a_constant(labelled.accuracy, largest_label(rows, labels), labelled.examples)
    if own and by_seed(rows, "largest_label").isna().any():
        own += ": its teacher's most frequent label is not recorded"
    if of_direct or own or "teacher_accuracy" not in rows:
        return of_direct or own
    of_teacher = answers_a_constant(rows["teacher_accuracy"], labels.largest, labels.test)
    return of_teacher and f"the teacher: {of_teacher}"


def difference_claim(
    item: str, paper: str, sides: tuple[Side, Side], least: float, unless: str, labels: Labels
) -> Claim:
    """Returns the claim that one side is above the other by more than so many points.

    Seeds share data, and start from the same network: differences are of a seed. Test inputs count
    as independent, as nothing tells which of them both have right.
    """
    first, second = sides
    gap = 100 * (first.accuracy - second.accuracy).dropna()
    options = {"examples_error": math.hypot(first.error(), second.error()), "unless": unless}
    found = compare(item, paper, gap, above=least, digits=2, **options)
    if found.status == "not run":
        return found._replace(note="what it is held against is not there")
    pairs = gap.index.to_frame(index=False, name="seed")
    fewest = min(first.examples, second.examples)
    found = doubt(found, [first.runs, second.runs, pairs], labels.seeds, MEASURES, fewest)
    less = ""
    if first.seen != second.seen:
        share = f"{100 * min(first.seen, second.seen):.0f} %"
        less = f"the mixture has {share} of the labelled images: not only what is injected differs"
    if first.runs["size"].iloc[0] in labels.no_trend:
        return found._replace(paper="no significant trend", status="measured", note=less)
    return found._replace(status="measured", note=less) if less else found
