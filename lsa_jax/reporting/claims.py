"""How a claim of a paper is decided: one rule, by intervals, for every report.

An interval counts what varies between seeds and, where accuracies are compared, which test examples
were drawn. A claim is shown where all of the interval is on the claim's side of its threshold, not
shown where all of it is on the other, and otherwise undecided: then it says what it would take.
Thresholds are the paper's, or margins stated before anything was run.
"""

import bisect
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from lsa_jax.reporting.intervals import (
    LEVEL,
    REACH,
    Interval,
    Values,
    binomial_error,
    half_length,
    over_seeds,
)
from lsa_jax.reporting.report import Claim, Status

# That a statement holds in every run by luck alone is at most as likely as one end of an interval.
LUCK = (1 - LEVEL) / 2

# Of what is decided from one seed, whose interval is of nothing else: others may tell otherwise.
ONE_SEED = "one seed: its test examples alone count"
_MOST_SEEDS = 1000


def largest_of(rows: pd.DataFrame) -> float | None:
    """Returns the share that results keep as `chance`; None where they are older."""
    kept = rows["chance"].dropna() if "chance" in rows else ()
    return float(kept.iloc[0]) if len(kept) else None


def is_near_chance(
    accuracy: float, classes: int, examples: int, largest: float | None = None
) -> bool:
    """Whether an accuracy cannot be told from a constant answer's; no percentage is of such.

    Args:
        accuracy: on the test examples.
        classes: how many.
        examples: of the test.
        largest: share of the most frequent class among them, the column `chance` of results; None
            for equal classes.
    """
    reach = REACH * binomial_error(accuracy, examples)
    return bool(accuracy - reach <= (largest or 1 / classes))


def chance_warning(
    accuracy: float, classes: int, examples: int, largest: float | None = None
) -> str:
    """Returns the warning that an accuracy is near chance; empty where it is not.

    The arguments are those of `is_near_chance`.
    """
    if not is_near_chance(accuracy, classes, examples, largest):
        return ""
    warning = f"near chance: an accuracy of {accuracy:.3f} among {classes} classes"
    if largest is None or largest < 1 / classes + 0.0005:  # as printed
        return warning
    return f"{warning}, the largest of which is {largest:.3f} of the test examples"


def decide(low: float, high: float, above: float, below: float) -> Status:
    """Tells whether what lies between two numbers lies above and below two others."""
    if not (low <= high):
        return "undecided"
    if low > above and high < below:
        return "shown"
    return "not shown" if high <= above or low >= below else "undecided"


def would_take(interval: Interval, distance: float) -> str:
    """Returns what would part a mean from a number, in words, if all else stays as it is.

    Args:
        interval: the mean's, which contains the number.
        distance: between the two.
    """
    of_examples, seeds = REACH * interval.examples_error, interval.seeds
    if seeds < 2 and not of_examples:
        return "2 seeds or more"
    if distance <= 0:
        return "no number of seeds"
    if seeds > 1 and of_examples < distance:
        return _seeds_for(interval, interval.examples_error, distance)
    of_seeds, first = 0.0, "2 seeds or more and " if seeds < 2 else "about "
    if seeds > 1:
        of_seeds = half_length(interval.spread, seeds, 0.0)
    if of_seeds > distance / np.sqrt(2):  # then half of what may be off is left to either
        of_seeds = distance / np.sqrt(2)
        first = f"{_seeds_for(interval, 0.0, of_seeds)} and "
    times = of_examples**2 / (distance**2 - of_seeds**2)
    digits = 1 if times < 10 else 0
    up = np.ceil(times * 10**digits) / 10**digits
    return f"{first}{up:.{digits}f} times as many test examples"


def _seeds_for(interval: Interval, examples_error: float, distance: float) -> str:
    """Returns, in words, the fewest seeds, at least those there are, that do not reach so far."""
    return fewest_seeds(
        interval.seeds,
        lambda seeds: half_length(interval.spread, seeds, examples_error) < distance,
    )


def fewest_seeds(first: int, decide: Callable[[int], bool]) -> str:
    """Returns, in words, the fewest seeds that decide.

    Args:
        first: how many there are.
        decide: tells whether so many would; where some do, more do too.
    """
    counts = range(first, _MOST_SEEDS + 1)
    place = bisect.bisect_left(counts, True, key=decide)
    if place == len(counts):
        return f"more than {_MOST_SEEDS} seeds"
    return f"about {counts[place]} seeds"


def compare(
    item: str,
    paper: str | float,
    values: Values,
    *,
    above: float = -np.inf,
    below: float = np.inf,
    examples_error: float = 0.0,
    unless: str = "",
    digits: int = 4,
) -> Claim:
    """Returns a claim that a mean over seeds lies above one number and below another.

    Args:
        item: what is compared, in words.
        paper: the paper's number or statement.
        values: one a seed; none means not run.
        above: what it has to exceed.
        below: what it has to stay below.
        examples_error: as in `over_seeds`.
        unless: why this cannot speak for the paper, such as a control that failed or
            `chance_warning`; what would be shown is undecided then.
        digits: of ours.
    """
    interval = over_seeds(values, examples_error)
    if not interval.seeds:
        return not_run(item, paper)
    status = decide(interval.low, interval.high, above, below)
    notes = [unless] if unless else []
    if status == "undecided":
        nearest = min(abs(interval.mean - above), abs(interval.mean - below))
        notes.append("it would take " + would_take(interval, nearest))
    if status == "shown" and unless:
        status = "undecided"
    if status != "undecided" and interval.seeds == 1:
        notes.append(ONE_SEED)
    ours = round(interval.mean, digits)
    return _claim(item, paper, ours, interval, status, "; ".join(notes))


def agree(item: str, paper: float, values: Values, margin: float, **options) -> Claim:
    """Returns a claim that a mean is the paper's number, to within a margin stated beforehand.

    All of the interval has to lie within the margin: two one-sided tests, Schuirmann (1987).
    """
    return compare(item, paper, values, above=paper - margin, below=paper + margin, **options)


def margin_of(number: float, others: Sequence[float], widest: float, same: float = 1.0) -> float:
    """Returns a margin by which a number of the paper cannot pass for another of the same table.

    Half the distance to the nearest other number and at most `widest`; numbers within `same` are
    one number to us.
    """
    apart = [abs(number - other) for other in others if abs(number - other) > same]
    return min(widest, *(distance / 2 for distance in apart)) if apart else widest


def every(
    item: str,
    paper: str | float,
    holds: Sequence[bool | np.bool] | np.ndarray | pd.Series,
    ours: str | float,
    *,
    luck: float = 0.0,
    unless: str = "",
    spread: float | None = None,
) -> Claim:
    """Returns a claim that something holds in every run: one exception refutes it.

    Args:
        item: what is compared, in words.
        paper: the paper's statement.
        holds: whether it does, by run; none means not run.
        ours: what came out.
        luck: the chance that it holds in a run in which nothing was learned. Where all hold, there
            have to be so many that luck explains it in no more than 2.5 % of the cases.
        unless: as in `compare`.
        spread: over runs.
    """
    holds = np.asarray(holds, bool)
    if not len(holds):
        return not_run(item, paper)
    if not holds.all():
        return Claim(item, paper, ours, spread, "not shown", note=unless)
    needed = 1 if luck <= LUCK else int(np.ceil(np.log(LUCK) / np.log(min(luck, 0.999))))
    notes = [unless] if unless else []
    if len(holds) < needed:
        notes.append(f"it would take {needed} seeds")
    return Claim(
        item, paper, ours, spread, "undecided" if notes else "shown", note="; ".join(notes)
    )


def not_run(item: str, paper: str | float, note: str = "") -> Claim:
    """Returns the claim of something that was not run."""
    return Claim(item, paper, "", None, "not run", note=note)


def measured(
    item: str,
    paper: str | float,
    ours: str | float,
    values: pd.Series | None = None,
    examples_error: float = 0.0,
) -> Claim:
    """Returns a number about which the paper says nothing that could be shown.

    Args:
        item: what was measured, in words.
        paper: what the paper has beside it.
        ours: what came out.
        values: one a seed, for their spread.
        examples_error: as in `over_seeds`; where there is one, the interval stands beside it.
    """
    if values is None:
        return Claim(item, paper, ours, None, "measured")
    if not examples_error:
        return Claim(item, paper, ours, spread(values), "measured")
    return _claim(item, paper, ours, over_seeds(values, examples_error), "measured", "")


def start_up_check(claims: list[Claim]) -> list[Claim]:
    """Returns claims as not run: what only checks that a program starts is no result."""
    return [not_run(claim.item, claim.paper, "a check that it starts") for claim in claims]


def _claim(
    item: str, paper: str | float, ours: float, interval: Interval, status: Status, note: str
) -> Claim:
    ends = [None if np.isnan(end) else float(f"{end:.4g}") for end in interval[1:3]]
    deviation = None if np.isnan(interval.spread) else interval.spread
    return Claim(item, paper, ours, deviation, status, *ends, note)


def spread(values: pd.Series) -> float | None:
    """Returns the standard deviation over seeds; None where there is one seed or none."""
    return float(values.std()) if values.count() > 1 else None


def cell(values: pd.Series, form: str = ".3f", spread_form: str | None = None) -> str:
    """Returns mean ± standard deviation over seeds, for a table; empty where no seed has any.

    Args:
        values: one a seed; missing ones are left out.
        form: of the mean.
        spread_form: of the deviation; None means as the mean.
    """
    deviation = spread(values)
    if not values.count():
        return ""
    ends = "" if deviation is None else f" ± {format(deviation, spread_form or form)}"
    return format(values.mean(), form) + ends
