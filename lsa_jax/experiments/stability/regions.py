"""Whether the loss gap falls at different rates in two ranges of sizes: figure A.1."""

from typing import Any

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
from lsa_jax.experiments.stability.fit_table import (
    CURVE,
    describe_pairs,
    fit_quantity,
    in_words,
    tied_size,
)
from lsa_jax.experiments.stability.numbers import STABILITY_TOLERANCE
from lsa_jax.reporting.claims import not_run
from lsa_jax.reporting.report import Claim, Status

# A power law has a curve through three sizes.
_LEAST_SIZES = 3
_SIDES = ("below", "above")


def _fit_ranges(trial: pd.DataFrame, resamples: int, start: int) -> dict[str, Any]:
    """Fits one trial's loss gap below a size and from it on, and the difference of the rates.

    The two have no pair in common: half-lengths of their intervals add in quadrature.
    """
    row = {"quantity": "loss_gap", "tied": tied_size(trial, "loss_gap")} | describe_pairs(trial)
    fits = [
        fit_quantity(trial[inside], "loss_gap", resamples)
        for inside in (trial["m"] < start, trial["m"] >= start)
    ]
    for side, fit in zip(_SIDES, fits, strict=True):
        ends = (np.nan,) * 3 if fit is None else (fit.exponent, fit.low, fit.high)
        row |= dict(zip((side, f"{side}_low", f"{side}_high"), ends, strict=True))
    apart = row["below"] - row["above"]
    reach = np.hypot(*(row[f"{side}_high"] - row[side] for side in _SIDES))
    return row | {"apart": apart, "apart_low": apart - reach, "apart_high": apart + reach}


def _judge(fits: pd.DataFrame, against: list[str]) -> tuple[Status, tuple[float, float], str]:
    """Returns the status, the interval of the difference of both rates, and the note."""
    if against:
        return "undecided", (np.nan, np.nan), "; ".join(against)
    found = interval_of(fits, ("apart", "apart_low", "apart_high"))
    ends = (found.low, found.high)
    if -STABILITY_TOLERANCE < found.low <= 0 <= found.high < STABILITY_TOLERANCE:
        return "not shown", ends, ""
    if not (found.low > 0 or found.high < 0):
        # It ends undecided where the interval has neither 0 nor what differs by the tolerance.
        distance = max(abs(found.mean), STABILITY_TOLERANCE - abs(found.mean))
        return "undecided", ends, more_trials(found, distance)
    falls = [interval_of(fits, (s, f"{s}_low", f"{s}_high")).high < 0 for s in _SIDES]
    if not all(falls):
        return "undecided", ends, "the loss gap is not shown to fall in both ranges"
    return "shown", ends, ""


def region_claims(config: ml_collections.ConfigDict, pairs: pd.DataFrame) -> list[Claim]:
    """Says of every stop whether the loss gap falls at different rates in two ranges of sizes.

    These are the sizes from `config.fit.region_start` on and those below. Rates count as different
    where the interval of their difference does not contain 0 and both are falls, and as equal where
    it does and lies within the tolerance.
    """
    start, end = config.fit.region_start, int(pairs["m"].max())
    sizes = pairs["m"].unique()
    claims = []
    for step, found in pairs.groupby("step"):
        item = f"exponents of the loss gap below m = {start:,} and from there to {end:,}, "
        item += f"after {step:,} updates"
        paper = "different regions of decrease"
        if min((sizes < start).sum(), (sizes >= start).sum()) < _LEAST_SIZES:
            note = f"a rate takes {_LEAST_SIZES} sizes on either side"
            claims.append(not_run(item, paper, note))
            continue
        fits = pd.DataFrame(
            [
                dict(zip(CURVE, curve, strict=True))
                | _fit_ranges(trial, config.fit.resamples, start)
                for curve, trial in found.groupby(CURVE)
            ]
        )
        against = [
            *incomplete(config, fits),
            *unfitted(fits["learner"].iloc[0], fits),
            *unreadable(fits, "apart"),
        ]
        ours = "; ".join(
            " and ".join(in_words(*row[[s, f"{s}_low", f"{s}_high"]]) for s in _SIDES)
            for _, row in fits.iterrows()
        )
        status, ends, note = _judge(fits, against)
        low, high = (None if np.isnan(value) else float(value) for value in ends)
        claims.append(Claim(item, paper, ours, None, status, low, high, note))
    return claims
