"""Claims of chapter 2 of Karp's thesis (2024), stated before any run.

An exponent b is that of a m^b through the maxima over the pairs of each size m. Seeds are trials;
one trial has the interval by subsampling its pairs. All pairs share their test examples, whose draw
no interval of an exponent covers.
"""

import itertools
from typing import Any

import numpy as np

from lsa_jax.experiments.stability.fits import LEAST_PAIRS, RANGES, exponent, fall
from lsa_jax.experiments.stability.samples import QUANTITIES
from lsa_jax.experiments.stability.settings import report_step
from lsa_jax.reporting.claims import Claim, Condition, above_chance, fitted, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample
from lsa_jax.reporting.statistics import minus
from lsa_jax.sweep.fields import Config

# Exponents that differ by less belong to one rate.
ONE_RATE = 0.1
# Maxima of fewer pairs do not represent quantities with heavy tails.
ENOUGH_PAIRS = 40
_LIGHT_TAILED = {"loss_gap", "error_gap", *RANGES}
_Own = dict[str, Any]

# Claims of section 2.3 by configuration: quantity, column of its fit, statement. Margins are 0.1,
# or half the distance to another exponent of the configuration. Of the first three panels of figure
# 2.1 the thesis prints only the range -1.13 to -1.05: the claims have its middle, and 0.1 beyond
# its ends. Expected deviations over trials are half of the interval of one trial's pairs.
_GAP, _MAXIMA = {"seed_sd": 0.04}, {"seed_sd": 0.1}
_UNEXPLAINED = {"paper": "no fall that explains the gap: above 0", "above": 0.0}
_SLOWER = (
    (
        "stability",
        "less_gap",
        {"paper": "falls more slowly: above 0", "above": 0.0, "primary": True},
    ),
    ("distance", "less_gap", _UNEXPLAINED),
    ("normalized_distance", "less_gap", _UNEXPLAINED),
)
_EXPONENTS: dict[str, tuple[tuple[str, str, _Own], ...]] = {
    "fig2_1": (
        ("loss_gap", "exponent", {"paper": -1.09, "within": 0.14} | _GAP),
        ("stability", "exponent", {"paper": -1.09, "within": 0.14} | _MAXIMA),
        ("distance", "exponent", {"paper": -1.09, "within": 0.14} | _MAXIMA),
        ("error_gap", "exponent", {"paper": -0.82, "within": 0.1} | _GAP),
        ("stability", "less_gap", {"paper": 0.0, "within": ONE_RATE} | _MAXIMA),
    ),
    "1a": (
        ("loss_gap", "exponent", {"paper": -0.18, "within": 0.045} | _GAP),
        ("stability", "exponent", {"paper": -0.09, "within": 0.045} | _MAXIMA),
        *_SLOWER,
    ),
    "2a": (
        ("loss_gap", "exponent", {"paper": -0.48, "within": 0.1} | _GAP),
        ("stability", "exponent", {"paper": "does not decrease: above 0", "above": 0.0}),
        *_SLOWER,
    ),
    "2b": (
        ("loss_gap", "exponent", {"paper": -0.35, "within": 0.09} | _GAP),
        ("stability", "exponent", {"paper": -0.17, "within": 0.09} | _MAXIMA),
        *_SLOWER,
    ),
}


def make_claims(config: Config) -> list[Claim]:
    """Returns the claims on exponents, of runs that are the trials' fits (`fits.fit_all`)."""
    kinds = list(itertools.product(config.sweep.learner, config.sweep.perturbation))
    claims = []
    for learner, perturbation in kinds:
        own = {"learner": learner, "perturbation": perturbation}
        label = f", {learner}, {perturbation}" if len(kinds) > 1 else ""
        if config.paper == "figA_1":
            claims += [_two_rates(config, {"step": stop} | own) for stop in config.stops]
        elif perturbation == "swap":
            own["step"] = report_step(config)
            table = _EXPONENTS.get(config.paper, ())
            claims += [_of_exponent(config, label, own, *row) for row in table]
    return claims


def _of_exponent(
    config: Config, label: str, own: _Own, quantity: str, column: str, stated: _Own
) -> Claim:
    """Returns a claim of `_EXPONENTS` on one learner, at the stop of the report."""
    less, within = column == "less_gap", "within" in stated
    item = f"exponent of the {QUANTITIES[quantity]}" + ", less that of the loss gap" * less
    item += f", within {stated['within']:g}" if within else ""
    # Where the loss gap does not fall, no other exponent means anything; equal ones are of falls.
    falling = () if quantity.endswith("gap") else ("loss_gap",)
    falling += (quantity,) if less and within else ()
    conditions = (
        *_sound(config, {quantity}, own),
        *(_falls(config, name, own) for name in falling),
    )
    statistic = exponent(quantity, column, count=config.data.num_test, **own)
    return Claim(item + label, statistic, conditions=conditions, **stated)


def path_claims(config: Config) -> list[Claim]:
    """Returns the claims of section 2.4.2 on falls of accuracy, of runs that are paths, in points.

    Models are connected unless accuracy falls "significantly", by "roughly 2%, per Frankle et al.
    (2020)". 1a's is "nondecreasing", 2a's "slightly decreasing", which figure A.15 counts as
    connected, 2b's "significantly decreasing". From 5 on, a margin of ours, a fall is not slight.
    """
    stated = {
        "1a": {"paper": "connected: below 2", "below": 2.0},
        "2a": {"paper": "connected, a slight fall at most: below 5", "below": 5.0},
        "2b": {"paper": "a significant fall: above 2", "above": 2.0},
    }
    if config.paper not in stated or not len(config.connectivity.sizes):
        return []
    own = stated[config.paper] | {
        "conditions": (fitted("the network"), above_chance("the network", classes=10)),
        "digits": 2,
    }
    item = "fall of {} accuracy between W_S and W_S' (points)"
    return [Claim(item.format(split), fall(split), **own) for split in ("train", "test")]


def _two_rates(config: Config, own: _Own) -> Claim:
    """Returns the claim of figure A.1 at one stop."""
    start, end = config.fit.region_start, max(config.sweep.m)
    below, above = (exponent(name, count=config.data.num_test, **own) for name in RANGES)

    def apart(runs: Runs) -> Sample:
        found = minus(below, above)(runs)
        return found if found.values.mean() >= 0 else minus(above, below)(runs)

    falls = {f"below m = {start:,}": below, "from there on": above}
    return Claim(
        f"difference of the loss gap's exponents below m = {start:,} and from there to "
        f"{end:,}, after {own['step']:,} updates",
        apart,
        paper=f"different regions of decrease: above {ONE_RATE:g}",
        above=ONE_RATE,
        conditions=(
            *_sound(config, {*RANGES}, own),
            *(shown(Claim("", of, below=0.0), f"the gap falls {at}") for at, of in falls.items()),
        ),
    )


def _falls(config: Config, quantity: str, own: _Own) -> Condition:
    statistic = exponent(quantity, count=config.data.num_test, **own)
    return shown(Claim("", statistic, below=0.0), f"the {QUANTITIES[quantity]} falls")


def _sound(config: Config, quantities: set[str], own: _Own) -> tuple[Condition, ...]:
    """Returns the conditions of any exponent: enough pairs, and networks that fit.

    The exponent of the loss gap of networks that do not fit is that of the course of training.
    Convex learners need not fit.
    """
    fewest = LEAST_PAIRS if quantities <= _LIGHT_TAILED else ENOUGH_PAIRS
    least, sizes = max(config.sweep.num_pairs, fewest), len(set(config.sweep.m))

    def unmet(runs: Runs) -> str:
        rows = runs.where(quantity=tuple(quantities), **own).finished
        if rows.empty:
            return ""
        pairs, there = rows["pairs"].min(), rows["sizes"].min()
        if pairs < least or there < sizes:
            return f"{pairs} pairs of {there} sizes"
        tied = rows["tied"].min()
        return "" if np.isnan(tied) else f"all pairs of m = {tied:,.0f} are equal"

    enough = Condition(f"{least} different pairs of {sizes} sizes each", unmet)
    return (enough, fitted("the network", **own)) if own["learner"] == "resnet" else (enough,)
