"""What the thesis claims of exponents of stability, beside what came out."""

import itertools

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.conditions import (
    incomplete,
    interval_of,
    more_trials,
    unfitted,
    unreadable,
)
from lsa_jax.experiments.stability.connectivity import connectivity_claims
from lsa_jax.experiments.stability.fit_table import DIFFERENCE_COLUMNS, in_words
from lsa_jax.experiments.stability.measures import QUANTITIES
from lsa_jax.experiments.stability.numbers import (
    CONNECTIVITY_DROPS,
    STABILITY_EXPONENTS,
    STABILITY_TOLERANCE,
)
from lsa_jax.experiments.stability.settings import report_step
from lsa_jax.reporting.claims import decide, margin_of, measured, not_run, spread
from lsa_jax.reporting.intervals import Interval
from lsa_jax.reporting.report import Claim, Status

# What stands in the place of the thesis' statement where it has none.
LEFT_OPEN = "left open"

_EXPONENT = ("exponent", "low", "high")
# Exponents are printed to two decimals: this near they are one number.
_SAME = 0.02


def _judge(
    found: Interval, above: float, below: float, against: list[str], unless: list[str]
) -> tuple[Status, str]:
    """Returns a status and its note.

    Args:
        found: the exponent, or the difference of two.
        above: what it has to exceed.
        below: what it has to stay below.
        against: why it shows nothing, neither for nor against the thesis.
        unless: why it cannot speak for the thesis.
    """
    if against:
        return "undecided", "; ".join(against)
    status = decide(found.low, found.high, above, below)
    if status == "not shown":
        return status, ""
    notes = list(unless)
    if status == "undecided":
        distance = min(abs(found.mean - end) for end in (above, below))
        notes.append(more_trials(found, distance))
    return "undecided" if notes else "shown", "; ".join(notes)


def _ends(found: Interval) -> tuple[float | None, float | None]:
    low, high = (None if np.isnan(end) else float(end) for end in (found.low, found.high))
    return low, high


def _exponent_claim(
    item: str,
    paper: str,
    between: tuple[float, float],
    fits: pd.DataFrame,
    against: list[str],
    unless: list[str],
) -> Claim:
    """Compares an exponent with a range: all of its interval, of pairs or of trials, decides."""
    if fits["exponent"].isna().all():
        against = unreadable(fits)
        if fits.empty:
            return not_run(item, paper)
        return Claim(item, paper, "", None, "undecided", note="; ".join(against))
    found = interval_of(fits, _EXPONENT)
    status, note = _judge(found, *between, [*against, *unreadable(fits)], unless)
    ours = f"{found.mean:.2f}" if len(fits) > 1 else in_words(*found[:3])
    return Claim(item, paper, ours, spread(fits["exponent"]), status, *_ends(found), note)


def _direction(found: Interval) -> str:
    """Returns in words what an interval of a difference to the loss gap's exponent decides."""
    if found.low > 0:
        return "slower"
    return "faster" if found.high < 0 else "not decided"


def _comparison(
    item: str,
    paper: str,
    between: tuple[float, float],
    fits: tuple[pd.DataFrame, pd.DataFrame],
    against: list[str],
    unless: list[str],
) -> Claim:
    """Says by how much stability, or a distance, falls more slowly than the loss gap.

    Args:
        item: what is compared.
        paper: what the thesis says; where it leaves that open there is nothing to show, and words
            say what the interval decides.
        between: what its exponent less that of the gap has to lie between.
        fits: of the loss gap and of stability or the distance.
        against: why it shows nothing.
        unless: why it cannot speak for the thesis.
    """
    gaps, others = fits
    name = DIFFERENCE_COLUMNS[0]
    if others.empty:
        return not_run(item, paper)
    against = list(dict.fromkeys([*against, *unreadable(gaps), *unreadable(others, name)]))
    found = interval_of(others, tuple(DIFFERENCE_COLUMNS))
    if np.isnan(found.mean):
        return Claim(item, paper, "", None, "undecided", note="; ".join(against))
    ours = f"{others['exponent'].mean():.2f} and {gaps['exponent'].mean():.2f}"
    ours += f", difference {in_words(*found[:3])}"
    ours += f"; slower in {(others[name] > 0).sum()} of {len(others)}"
    status, note = _judge(found, *between, against, unless)
    if paper == LEFT_OPEN:
        notes = [*against, *unless]
        words = "not decided" if notes else _direction(found)
        note = "; ".join(notes) or (note if words == "not decided" else "")
        return measured(item, paper, f"{ours}: {words}")._replace(note=note)
    return Claim(item, paper, ours, spread(others[name]), status, *_ends(found), note)


def _printed_claims(
    config: ml_collections.ConfigDict,
    label: str,
    of: dict[str, pd.DataFrame],
    against: list[str],
    unless: list[str],
) -> list[Claim]:
    """Returns the thesis' exponents beside ours; a direction has no tolerance."""
    printed, claims = STABILITY_EXPONENTS.get(config.paper, {}), []
    for quantity, (words, low, high) in printed.items():
        item = f"exponent of the {QUANTITIES[quantity]}{label}"
        others = {(least, most) for _, least, most in printed.values()} - {(low, high)}
        finite = [end for ends in others for end in ends if np.isfinite(end)]
        reach = margin_of(low, finite, STABILITY_TOLERANCE, same=_SAME)
        reach = reach if np.isfinite(high) else 0.0
        why = [] if quantity.endswith("gap") else unless
        between = (low - reach, high + reach)
        claims.append(_exponent_claim(item, words, between, of[quantity], against, why))
    return claims


def _falls(fits: pd.DataFrame, name: str) -> list[str]:
    """Returns that a quantity is not shown to fall; empty where it is."""
    falls = _exponent_claim("", "", (-np.inf, 0.0), fits, [], [])
    return [] if falls.status == "shown" else [f"the {name} is not shown to fall"]


def _comparisons(
    config: ml_collections.ConfigDict,
    label: str,
    of: dict[str, pd.DataFrame],
    against: list[str],
    unless: list[str],
) -> list[Claim]:
    """Returns what falls as fast as the loss gap and what does not."""
    claims, both = [], (of["loss_gap"], of["stability"])
    item = f"exponents of stability and of the loss gap{label}"
    if config.paper == "fig2_1":
        reach, why = STABILITY_TOLERANCE, [*unless, *_falls(of["stability"], "stability")]
        claims.append(_comparison(item, "fall alike", (-reach, reach), both, against, why))
    elif config.paper != "figA_1":
        words = "slower fall of stability" if config.paper else LEFT_OPEN
        claims.append(_comparison(item, words, (0.0, np.inf), both, against, unless))
    if config.paper in CONNECTIVITY_DROPS:
        claims += [
            _comparison(
                f"exponents of the {QUANTITIES[name]} and of the loss gap{label}",
                "no fall that explains the gap",
                (0.0, np.inf),
                (of["loss_gap"], of[name]),
                against,
                unless,
            )
            for name in ("distance", "normalized_distance")
        ]
    return claims


def make_claims(
    config: ml_collections.ConfigDict, fits: pd.DataFrame, paths: pd.DataFrame
) -> list[Claim]:
    """Returns the thesis' exponents and statements beside ours, at the stop of the report.

    Where the loss gap is not shown to fall, nothing is learned from what else falls or does not;
    where runs are missing or networks have not fitted their examples, nothing is learned at all.
    """
    here = fits[fits["step"] == report_step(config)]
    kinds = list(itertools.product(config.sweep.learner, config.sweep.perturbation))
    claims = []
    for learner, perturbation in kinds:
        label = f", {learner}, {perturbation}" if len(kinds) > 1 else ""
        found = here[(here["learner"] == learner) & (here["perturbation"] == perturbation)]
        of = {name: found[found["quantity"] == name] for name in QUANTITIES}
        against, unless = [], []
        if len(found):
            against = [*incomplete(config, found), *unfitted(learner, found)]
            unless = _falls(of["loss_gap"], "loss gap")
        if perturbation == "swap":
            claims += _printed_claims(config, label, of, against, unless)
        claims += _comparisons(config, label, of, against, unless)
    if config.paper in CONNECTIVITY_DROPS and len(config.connectivity.sizes):
        claims += connectivity_claims(config, paths)
    return claims
