"""Decides claims: the one place where a stated claim and the runs of a sweep become a status.

A claim is data: the statement, the statistic, the range that its mean must lie in, the conditions
under which it speaks for or against the paper, and whether it is primary. Thresholds are the
paper's, or were stated before anything was run. A claim is

* shown, if the whole 95 % interval lies in the range;
* shown of one seed, if it does and there is one seed: other seeds may differ;
* not shown, if the whole interval lies outside of the range;
* undecided, if the interval contains an end of the range: the note says what would decide it;
* condition not met, if a condition fails, whatever the interval;
* measured, if the claim has no range, and not run, if there is no result.

A claim of agreement (`within`) is two one-sided tests at 5 %, so that its interval is of 90 %
(Schuirmann, 1987). Only primary claims are corrected for multiplicity; the others are exploratory.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np
import pandas as pd
import scipy.optimize
import scipy.stats

from lsa_jax.reporting.report import Row, Status
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import (
    DOMAINS,
    SCALES,
    TAIL,
    Sample,
    Statistic,
    Variance,
    binomial_error,
    ends,
    half_length,
    interval,
    needed,
    share_ends,
    variance,
)
from lsa_jax.reporting.statistics import accuracy

# Fewer test examples decide nothing: their mean is not taken to be normal.
FEWEST_EXAMPLES = 30

# A learner has fitted its training set from this accuracy on: the one definition for all claims.
FITTED = 0.99
SINGLE_PRECISION = 1e-6


@dataclass(frozen=True)
class Condition:
    """A statement that must hold before a claim says anything about the paper.

    Attributes:
        words: the condition, as the report prints it.
        unmet: from the runs to the numbers that contradict it; "" where it holds.
    """

    words: str
    unmet: Callable[[Runs], str]


@dataclass(frozen=True)
class Claim:
    """A claim, stated before the runs.

    Attributes:
        item: the quantity, in words.
        statistic: `(runs) -> Sample`, see `reporting.statistics`.
        paper: the paper's statement, or with `within` its number.
        above: lower end of the range.
        below: upper end of the range.
        within: margin around the paper's number; the range of a claim of agreement.
        seed_sd: expected standard deviation over seeds of a claim of agreement. The claim is only
            measured where the planned seeds and test examples could not show it.
        paper_error: standard error of the paper's number, where it can be computed.
        every: whether each value must be 1: the claim is about all runs. A value is 1 where a run
            holds, 0 where it does not, and NaN where that is undecided.
        luck: of `every`: the probability that a run holds without anything being learned.
        conditions: under which the claim is decided.
        primary: whether it is one of the work's main claims.
        ours: words in place of our number, computed from the runs.
        digits: decimal places of our number, more where its interval is narrower; None means 2 of
            percentages and 4 of others. On a logarithmic scale it has 4 significant ones.
    """

    item: str
    statistic: Statistic
    _: KW_ONLY
    paper: str | float = ""
    above: float = -math.inf
    below: float = math.inf
    within: float | None = None
    seed_sd: float | None = None
    paper_error: float = 0.0
    every: bool = False
    luck: float = 0.0
    conditions: tuple[Condition, ...] = ()
    primary: bool = False
    ours: Callable[[Runs], str] | None = None
    digits: int | None = None

    def __post_init__(self) -> None:
        if self.within is None:
            if not isinstance(self.paper, str):
                raise ValueError(f"{self.item}: a number of the paper needs a margin, `within`")
        elif self.seed_sd is None or isinstance(self.paper, str):
            raise ValueError(f"{self.item}: agreement needs a number and the expected `seed_sd`")

    @property
    def range(self) -> tuple[float, float]:
        """Lower and upper end of the range, in natural units."""
        if self.within is None:
            return self.above, self.below
        return self.paper - self.within, self.paper + self.within

    @property
    def tail(self) -> float:
        """Probability outside of the interval on either side."""
        return TAIL if self.within is None else 2 * TAIL

    @property
    def statement(self) -> str | float:
        """The paper's cell of the report: what the claim tests."""
        low, high = self.range
        if self.paper != "" or self.within is not None or self.every:
            return self.paper
        bounds = [f"above {low:g}"] * (low > -math.inf) + [f"below {high:g}"] * (high < math.inf)
        return ", ".join(bounds)


def chance_warning(
    accuracy: float, classes: int, examples: int | None, constant: float | None = None
) -> str:
    """Returns why an accuracy may be that of a constant answer; "" where it is not.

    Args:
        accuracy: on test examples.
        classes: how many.
        examples: how many test examples; None where that is not known.
        constant: accuracy of the best constant answer; None means that of equal classes.
    """
    constant = 1 / classes if constant is None else constant
    error = binomial_error(accuracy, examples) if examples else 0.0
    if accuracy - scipy.stats.norm.isf(TAIL) * error > constant:
        return ""
    return f"an accuracy of {accuracy:.3f}, where a constant answer has {constant:.3f}"


def decide(claim: Claim, runs: Runs) -> Row:
    """Decides one claim."""
    sample = claim.statistic(runs)
    if not len(sample.values) or sample.values.isna().all() and not claim.every:
        note = sample.lost or ("no number" if len(sample.values) else "")
        words = claim.item, claim.statement, "", None
        return Row(*words, "not run", primary=claim.primary, note=note)
    row = _every(claim, sample) if claim.every else _in_range(claim, sample, runs)
    if claim.ours is not None:
        row = row._replace(ours=claim.ours(runs))
    if row.status == "measured":
        return row._replace(note=row.note or sample.lost)
    return _conditioned(row, claim, sample, runs)


def decide_all(claims: Iterable[Claim | Row], runs: Runs) -> list[Row]:
    """Decides claims, primary ones first, each with its status after Holm's correction.

    Rows are claims that are decided already.
    """
    rows = [one if isinstance(one, Row) else decide(one, runs) for one in claims]
    return holm(sorted(rows, key=lambda row: not row.primary))


def holm(rows: Sequence[Row]) -> list[Row]:
    """Marks the primary claims that hold after Holm's correction over all primary ones."""
    tested = [at for at, row in enumerate(rows) if row.primary and row.p is not None]
    rejected = dict(zip(tested, holm_rejects([rows[at].p for at in tested]), strict=True))
    return [
        row._replace(holm=rejected[at] and row.status == "shown") if at in rejected else row
        for at, row in enumerate(rows)
    ]


def holm_rejects(p_values: Sequence[float]) -> list[bool]:
    """Returns which hypotheses Holm's (1979) correction rejects, of one-sided tests at 2.5 %."""
    left, rejected = len(p_values), [False] * len(p_values)
    for place in np.argsort(p_values, kind="stable"):
        if p_values[place] > TAIL / left:
            break
        left, rejected[place] = left - 1, True
    return rejected


def _conditioned(row: Row, claim: Claim, sample: Sample, runs: Runs) -> Row:
    """Checks a claim's conditions, and the ones that hold for any claim."""
    refuted = claim.every and row.status == "not shown"  # one exception is enough
    unmet = [] if refuted else [sample.lost, "all seeds are equal" if sample.equal else ""]
    if sample.count is not None and sample.count < FEWEST_EXAMPLES:
        unmet.append(f"{sample.count} test examples, {FEWEST_EXAMPLES} needed")
    for condition in claim.conditions:
        if found := condition.unmet(runs):
            unmet.append(f"{condition.words}: {found}")
    if unmet := "; ".join(filter(None, unmet)):
        return row._replace(status="condition not met", condition=f"not met: {unmet}", p=None)
    return row._replace(condition="; ".join(one.words for one in claim.conditions))


def _every(claim: Claim, sample: Sample) -> Row:
    """Decides a claim about all runs by the exact interval of the share that holds."""
    values = sample.values.dropna()
    count, holding = len(values), int((values == 1).sum())
    limits = None if sample.exact or not count else share_ends(holding, count)
    one = (sample.units or count) == 1 and not sample.exact
    status: Status = "shown of one seed" if one else "shown"
    note = "" if limits is None else f"holds in at least {100 * limits[0]:.0f} % of runs like these"
    if holding < count:
        status, note = "not shown", ""
    elif unknown := len(sample.values) - count:
        status, note = "undecided", f"{unknown} of {len(sample.values)} runs are undecided"
    elif claim.luck and claim.luck**count > TAIL:
        runs = math.ceil(math.log(TAIL) / math.log(claim.luck))
        status, note = "undecided", f"by luck alone in {100 * claim.luck**count:.0f} % of cases: "
        note += f"it would take {runs} runs"
    ours = f"{holding} of {count}"
    p = None if sample.exact else claim.luck**count if holding == count and claim.luck else None
    return _row(claim, ours, None, status, limits, note, p)


def _in_range(claim: Claim, sample: Sample, runs: Runs) -> Row:
    """Decides a claim about a mean by its interval."""
    values, (to_scale, back) = sample.values, SCALES[sample.scale]
    with np.errstate(divide="ignore"):
        above, below = (
            float(to_scale(np.clip(end, *DOMAINS[sample.scale]))) for end in claim.range
        )
    sample = sample._replace(extra=claim.paper_error)
    low, high = ends(sample, claim.tail)
    mean, one = float(values.mean()), (sample.units or len(values)) == 1 and not sample.exact
    note, p = "", _p_value(sample, above, below)
    if claim.range == (-math.inf, math.inf):
        status: Status = "measured"
    elif note := _cannot_show(claim, sample, runs):
        status, p = "measured", None
    elif low > above and high < below:
        status = "shown of one seed" if one else "shown"
    elif high <= above or low >= below:
        status, note = "not shown", "one seed" if one else ""
    else:
        status = "undecided"
        distance = min(abs(mean - above), abs(mean - below))
        note = "it would take " + needed(sample, distance, claim.tail)
    spread = float(back(values).std()) if len(values) > 1 else None
    limits = None
    if not (sample.exact or np.isnan(low)):
        limits = tuple(np.clip(back([low, high]), *sample.bounds).tolist())
    ours = float(back(mean))
    # As many places as the interval's width has: a number is shown inside of its interval.
    width = limits[1] - limits[0] if limits else 0.0
    digits = claim.digits or (2 if sample.unit > 1 else 4)
    fine = -math.floor(math.log10(width)) if 0 < width < math.inf else digits
    ours = float(f"{ours:.4g}") if sample.scale == "log" else round(ours, max(digits, fine))
    return _row(claim, ours, spread, status, limits, note, p)


def _cannot_show(claim: Claim, sample: Sample, runs: Runs) -> str:
    """Returns why the planned runs could never show an agreement; "" where they could."""
    if claim.within is None or sample.exact or sample.ends is not None:
        return ""
    planned = max(len(sample.values), runs.planned.get("seed", sample.values).nunique())
    expected = Variance(claim.seed_sd**2, variance(sample).of_examples)
    half = half_length(expected, planned, claim.tail)
    if half < claim.within:
        return ""
    reach = "no interval" if np.isnan(half) else f"an interval of ± {half:.2g}"
    return f"{planned} seeds cannot show agreement within {claim.within:g}: they have {reach}"


def _p_value(sample: Sample, above: float, below: float) -> float | None:
    """Returns the one-sided p-value of a range: the tail at which the interval touches its end."""
    mean = float(sample.values.mean())
    no_range = (above, below) == (-np.inf, np.inf)
    if sample.exact or no_range or not above < mean < below:
        return None

    found = interval(sample)

    def margin(tail: float) -> float:
        low, high = found(tail)
        reach = (
            np.inf if np.isinf(above) else low - above,
            np.inf if np.isinf(below) else below - high,
        )
        least = float(np.min(reach))
        return least if np.isfinite(least) else -1.0  # nothing bounds the error at so small a tail

    most, least = 0.5 - 1e-12, 1e-12
    if np.isnan(found(TAIL)[0]) or margin(most) < 0:
        return None
    return least if margin(least) > 0 else float(scipy.optimize.brentq(margin, least, most))


def _row(
    claim: Claim,
    ours: str | float,
    spread: float | None,
    status: Status,
    limits: tuple[float, float] | None,
    note: str,
    p: float | None,
) -> Row:
    low, high = (None, None) if limits is None else (float(f"{end:.4g}") for end in limits)
    return Row(
        claim.item, claim.statement, ours, spread, status, low, high, note, "", claim.primary, p
    )


# --- conditions of claims ------------------------------------------------------------------------


def shown(claim: Claim, words: str) -> Condition:
    """Returns the condition that another claim is shown, by one seed or more."""
    known: list[tuple[Runs, str]] = []  # claims that share the condition are of the same runs

    def unmet(runs: Runs) -> str:
        if not known or known[0][0] is not runs:
            known[:] = [(runs, decide(claim, runs).status)]
        status = known[0][1]
        return "" if status.startswith("shown") else status

    return Condition(words, unmet)


def unless_refuted(statistic: Statistic, condition: Condition) -> Condition:
    """Returns a condition of a claim about every run, which one exception refutes without it."""

    def unmet(runs: Runs) -> str:
        return "" if (statistic(runs).values == 0).any() else condition.unmet(runs)

    return Condition(f"{condition.words}, unless refuted", unmet)


def fitted(words: str, **settings: object) -> Condition:
    """Returns the condition that all runs with these settings have fitted their training set."""

    def unmet(runs: Runs) -> str:
        accuracies = runs.where(**settings).finished.reindex(columns=["train_accuracy"])
        least = accuracies["train_accuracy"].astype(float).min(skipna=False)
        if not len(accuracies) or least >= FITTED - SINGLE_PRECISION:
            return ""
        share = "an unknown share" if np.isnan(least) else f"{100 * least:.4g} %"
        return f"{share} of the training set right, {100 * FITTED:g} % needed"

    return Condition(f"{words} fits its training set", unmet)


def in_all(words: str, holds: Callable[[pd.DataFrame], pd.Series], **settings: object) -> Condition:
    """Returns the condition that all finished runs with these settings have a property."""

    def unmet(runs: Runs) -> str:
        good = holds(runs.where(**settings).finished)
        return "" if good.all() else f"not in {(~good).sum()} of {len(good)} runs"

    return Condition(words, unmet)


def enough(setting: str, least: int, words: str, **settings: object) -> Condition:
    """Returns the condition that finished runs have so many values of a setting."""

    def unmet(runs: Runs) -> str:
        there = runs.where(**settings).finished.get(setting)
        count = 0 if there is None else there.nunique()
        return "" if count >= least else f"{count}, {least} needed"

    return Condition(words, unmet)


def above_chance(
    words: str,
    *,
    classes: int = 2,
    column: str = "test_accuracy",
    chance: str = "chance",
    **settings: object,
) -> Condition:
    """Returns the condition that test accuracies exceed that of the best constant answer.

    Args:
        words: the learner.
        classes: number of classes, for results that have neither the column `chance` nor
            `num_classes`.
        column: the accuracy.
        chance: the column of the accuracy of the best constant answer.
        settings: of its runs.
    """

    def unmet(runs: Runs) -> str:
        found = accuracy(column, unit=1.0, **settings)(runs)
        if not len(found.values):
            return ""
        constant = runs.where(**settings).chance(classes, chance)
        return chance_warning(float(found.values.mean()), classes, found.count, constant)

    return Condition(f"{words} is above chance", unmet)
