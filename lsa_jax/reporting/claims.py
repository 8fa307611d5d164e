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

import numpy as np
import pandas as pd
import scipy

from lsa_jax.reporting import samples
from lsa_jax.reporting.report import Claim, Condition, Row, Status
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import TAIL, Sample
from lsa_jax.reporting.statistics import accuracy

# Fewer test examples decide nothing: their mean is not taken to be normal.
FEWEST_EXAMPLES = 30

# A learner has fitted its training set from this accuracy on: the one definition for all claims.
FITTED = 0.99
SINGLE_PRECISION = 1e-6

Limits = tuple[float, float] | None


def decide(claim: Claim, runs: Runs) -> Row:
    """Decides one claim."""
    sample = claim.statistic(runs)
    row = Row(claim.item, claim.statement, "", None, "not run", primary=claim.primary)
    if not len(sample.values) or sample.values.isna().all() and not claim.every:
        return row._replace(note=sample.lost or ("no number" if len(sample.values) else ""))
    row, limits = _every(row, claim, sample) if claim.every else _in_range(row, claim, sample, runs)
    if limits is not None:
        low, high = (float(f"{end:.4g}") for end in limits)
        row = row._replace(low=low, high=high)
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
    rows.sort(key=lambda row: not row.primary)
    tested = [at for at, row in enumerate(rows) if row.primary and row.p is not None]
    rejected = holm_rejects([rows[at].p for at in tested])
    for at, is_rejected in zip(tested, rejected, strict=True):
        rows[at] = rows[at]._replace(holm=is_rejected and rows[at].status == "shown")
    return rows


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
    alternative = ", or one run refutes the claim" * claim.refutable
    for condition in () if refuted and claim.refutable else claim.conditions:
        if found := condition.unmet(runs):
            unmet.append(f"{condition.words}{alternative}: {found}")
    if unmet := "; ".join(filter(None, unmet)):
        return row._replace(status="condition not met", condition=f"not met: {unmet}", p=None)
    words = [f"{condition.words}{alternative}" for condition in claim.conditions]
    return row._replace(condition="; ".join(words))


def _shown(sample: Sample, count: int) -> Status:
    is_one = (sample.units or count) == 1 and not sample.exact
    return "shown of one seed" if is_one else "shown"


def _every(row: Row, claim: Claim, sample: Sample) -> tuple[Row, Limits]:
    """Decides a claim about all runs by the exact interval of the share that holds."""
    values = sample.values.dropna()
    count, holding = len(values), int((values == 1).sum())
    limits = None if sample.exact or not count else samples.share_ends(holding, count)
    status = _shown(sample, count)
    note = "" if limits is None else f"holds in at least {100 * limits[0]:.0f} % of runs like these"
    if holding < count:
        status, note = "not shown", ""
    elif unknown := len(sample.values) - count:
        status, note = "undecided", f"{unknown} of {len(sample.values)} runs are undecided"
    elif claim.luck and claim.luck**count > TAIL:
        status, note = "undecided", f"by luck alone in {100 * claim.luck**count:.0f} % of cases: "
        if claim.luck == 1:
            note += "no number of runs would show it"
        else:
            note += f"it would take {math.ceil(math.log(TAIL) / math.log(claim.luck))} runs"
    tested = holding == count and claim.luck and not sample.exact
    p = claim.luck**count if tested else None
    return row._replace(ours=f"{holding} of {count}", status=status, note=note, p=p), limits


def _in_range(row: Row, claim: Claim, sample: Sample, runs: Runs) -> tuple[Row, Limits]:
    """Decides a claim about a mean by its interval."""
    values, (to_scale, back) = sample.values, samples.SCALES[sample.scale]
    with np.errstate(divide="ignore"):
        above, below = (
            float(to_scale(np.clip(end, *samples.DOMAINS[sample.scale]))) for end in claim.range
        )
    sample = sample._replace(extra=claim.paper_error)
    low, high = samples.ends(sample, claim.tail)
    mean, status = float(values.mean()), _shown(sample, len(values))
    note, p = "", _p_value(sample, above, below)
    if claim.range == (-math.inf, math.inf):
        status = "measured"
    elif note := _cannot_show(claim, sample, runs):
        status, p = "measured", None
    elif high <= above or low >= below:
        status, note = "not shown", "one seed" if status == "shown of one seed" else ""
    elif claim.within is not None and high - low >= below - above:
        status, p = "measured", None
        note = f"an interval of ± {(high - low) / 2:.2g} cannot show agreement within "
        note += f"{claim.within:g}: it would take "
        note += samples.needed(sample, claim.within, claim.tail)
    elif not (low > above and high < below):
        distance = min(abs(mean - above), abs(mean - below))
        status, note = "undecided", "it would take " + samples.needed(sample, distance, claim.tail)
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
    return row._replace(ours=ours, spread=spread, status=status, note=note, p=p), limits


def _cannot_show(claim: Claim, sample: Sample, runs: Runs) -> str:
    """Returns why the planned runs could never show an agreement; "" where they could."""
    if claim.within is None or sample.exact or sample.ends is not None:
        return ""
    planned = max(len(sample.values), runs.planned.get("seed", sample.values).nunique())
    expected = samples.Variance(claim.seed_sd**2, samples.variance(sample).of_examples)
    half = samples.half_length(expected, planned, claim.tail)
    if half < claim.within:
        return ""
    reach = "no interval" if np.isnan(half) else f"an interval of ± {half:.2g}"
    return f"{planned} seeds cannot show agreement within {claim.within:g}: they have {reach}"


def _p_value(sample: Sample, above: float, below: float) -> float | None:
    """Returns the one-sided p-value of a range: the tail at which the interval touches its end."""
    if sample.exact or (above, below) == (-np.inf, np.inf):
        return None
    if not above < float(sample.values.mean()) < below:
        return None
    found = samples.interval(sample)

    def margin(tail: float) -> float:
        low, high = found(tail)
        # An end of the interval may be as infinite as one of the range, which does not count.
        gaps = [low - above] if above > -np.inf else []
        gaps += [below - high] if below < np.inf else []
        least = float(np.min(gaps))
        return least if np.isfinite(least) else -1.0  # nothing bounds the error at so small a tail

    most, least = 0.5 - 1e-12, 1e-12
    if np.isnan(found(TAIL)[0]) or margin(most) < 0:
        return None
    return least if margin(least) > 0 else float(scipy.optimize.brentq(margin, least, most))


# --- conditions of claims ------------------------------------------------------------------------


def shown(claim: Claim | Sequence[Claim], words: str) -> Condition:
    """Returns the condition that a claim, or one of several, is shown, by one seed or more."""
    several = [claim] if isinstance(claim, Claim) else claim
    known: list[tuple[Runs, list[Status]]] = []  # claims that share it are of the same runs

    def unmet(runs: Runs) -> str:
        if not known or known[0][0] is not runs:
            known[:] = [(runs, [decide(one, runs).status for one in several])]
        found = known[0][1]
        return "" if any(one.startswith("shown") for one in found) else ", ".join(found) or "no run"

    return Condition(words, unmet)


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

    The latter is the column `chance`, or else 1 over `num_classes` or `classes`; the learner's
    runs have the `settings`.
    """

    def unmet(runs: Runs) -> str:
        found = accuracy(column, unit=1.0, **settings)(runs)
        if not len(found.values):
            return ""
        constant = runs.where(**settings).chance(classes, chance)
        mean = float(found.values.mean())
        error = samples.binomial_error(mean, found.count) if found.count else 0.0
        if mean - scipy.stats.norm.isf(TAIL) * error > constant:
            return ""
        return f"an accuracy of {mean:.3f}, where a constant answer has {constant:.3f}"

    return Condition(f"{words} is above chance", unmet)
