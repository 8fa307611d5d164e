"""Claims of chapter 2 of Karp's thesis (2024), stated before any run.

An exponent b is that of a m^b through the maxima over the pairs of each size m. Seeds are trials;
one trial has the interval by subsampling its pairs. All pairs share their test examples, whose draw
no interval of an exponent covers.
"""

import itertools

import ml_collections
import numpy as np

from lsa_jax.experiments.stability.connectivity import SPLITS, fall
from lsa_jax.experiments.stability.fit_table import RANGES, SUBSAMPLED
from lsa_jax.experiments.stability.fits import LEAST_PAIRS, interval
from lsa_jax.experiments.stability.measures import QUANTITIES
from lsa_jax.experiments.stability.settings import report_step
from lsa_jax.reporting.claims import Claim, Condition
from lsa_jax.reporting.conditions import above_chance, fitted, shown
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic
from lsa_jax.reporting.statistics import minus

# Exponents that differ by less are those of one rate.
ONE_RATE = 0.1
# Maxima of fewer pairs do not represent quantities with heavy tails.
ENOUGH_PAIRS = 40
_LIGHT_TAILED = ("loss_gap", "error_gap", *RANGES)
# Expected standard deviation of exponents over trials: half of the interval of one trial's pairs.
_GAP_SD, _MAXIMA_SD = 0.04, 0.1


def _near(number: float, margin: float, seed_sd: float) -> dict[str, float]:
    return {"paper": number, "within": margin, "seed_sd": seed_sd}


_UNEXPLAINED = {"paper": "no fall that explains the gap: above 0", "above": 0.0}
_SLOWER = [
    (
        "stability",
        "less_gap",
        {"paper": "falls more slowly: above 0", "above": 0.0, "primary": True},
    ),
    ("distance", "less_gap", _UNEXPLAINED),
    ("normalized_distance", "less_gap", _UNEXPLAINED),
]
# Section 2.3, by configuration: quantity, whether its exponent counts or that less the loss gap's,
# and the statement. Margins are 0.1, or half the distance to another exponent of the configuration.
# Of the first three panels of figure 2.1 only the range -1.13 to -1.05 is printed: its middle, and
# 0.1 beyond its ends.
EXPONENTS = {
    "fig2_1": [
        ("loss_gap", "exponent", _near(-1.09, 0.14, _GAP_SD)),
        ("stability", "exponent", _near(-1.09, 0.14, _MAXIMA_SD)),
        ("distance", "exponent", _near(-1.09, 0.14, _MAXIMA_SD)),
        ("error_gap", "exponent", _near(-0.82, 0.1, _GAP_SD)),
        ("stability", "less_gap", _near(0.0, ONE_RATE, _MAXIMA_SD)),  # "fall alike"
    ],
    "1a": [
        ("loss_gap", "exponent", _near(-0.18, 0.045, _GAP_SD)),
        ("stability", "exponent", _near(-0.09, 0.045, _MAXIMA_SD)),
        *_SLOWER,
    ],
    "2a": [
        ("loss_gap", "exponent", _near(-0.48, 0.1, _GAP_SD)),
        ("stability", "exponent", {"paper": "does not decrease: above 0", "above": 0.0}),
        *_SLOWER,
    ],
    "2b": [
        ("loss_gap", "exponent", _near(-0.35, 0.09, _GAP_SD)),
        ("stability", "exponent", _near(-0.17, 0.09, _MAXIMA_SD)),
        *_SLOWER,
    ],
}
_LEFT_OPEN = [("stability", "less_gap", {"paper": "left open"})]

# Section 2.4.2, in points: models are connected unless accuracy falls "significantly", by "roughly
# 2%, per Frankle et al. (2020)". 1a's is "nondecreasing", 2a's "slightly decreasing", which figure
# A.15 counts as connected, 2b's "significantly decreasing". From 5 on, a margin of ours, a fall is
# not slight.
FALLS = {
    "1a": {"paper": "connected: below 2", "below": 2.0},
    "2a": {"paper": "connected, a slight fall at most: below 5", "below": 5.0},
    "2b": {"paper": "a significant fall: above 2", "above": 2.0},
}


def make_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims on exponents, of runs that are the trials' fits (`fit_table.fit_all`)."""
    kinds = list(itertools.product(config.sweep.learner, config.sweep.perturbation))
    claims = []
    for learner, perturbation in kinds:
        own = {"learner": learner, "perturbation": perturbation}
        label = f", {learner}, {perturbation}" if len(kinds) > 1 else ""
        if config.paper == "figA_1":
            claims += [_two_rates(config, {"step": stop} | own) for stop in config.stops]
        else:
            claims += _exponent_claims(config, label, {"step": report_step(config)} | own)
    return claims


def path_claims(config: ml_collections.ConfigDict) -> list[Claim]:
    """Returns the claims on falls of accuracy, of runs that are paths (`fall_table`)."""
    if config.paper not in FALLS or not len(config.connectivity.sizes):
        return []
    network = (fitted("the network"), above_chance("the network", classes=10))
    return [
        Claim(
            item=f"fall of {split} accuracy between W_S and W_S' (points)",
            statistic=fall(split),
            conditions=network,
            digits=2,
            **FALLS[config.paper],
        )
        for split in SPLITS
    ]


def influence_claims() -> list[Claim]:
    """Returns the agreement of influence functions with training again, which is measured."""

    def least(runs: Runs) -> Sample:
        values = runs.finished.astype({"correlation": float}).groupby("seed")["correlation"].min()
        return Sample(values.dropna(), lost=runs.lost("correlation"))

    item = "correlation of predicted with retrained stability, least over sizes"
    return [Claim(item=item, statistic=least)]


def _exponent_claims(
    config: ml_collections.ConfigDict, label: str, own: dict[str, object]
) -> list[Claim]:
    """Returns the claims on one learner and kind of S', at the stop of the report.

    Where the loss gap does not fall, no other exponent says anything; to fall alike both must fall.
    """

    def of(quantity: str, column: str = "exponent") -> Statistic:
        return exponent(quantity, column, count=config.data.num_test, **own)

    def falls(quantity: str) -> Condition:
        name = QUANTITIES[quantity]
        return shown(Claim(item=name, statistic=of(quantity), below=0.0), f"the {name} falls")

    paper, claims = config.paper if own["perturbation"] == "swap" else None, []
    for quantity, column, stated in EXPONENTS.get(paper, _LEFT_OPEN):
        conditions = [*_sound(config, (quantity,), own)]
        conditions += [] if quantity.endswith("gap") else [falls("loss_gap")]
        item = f"exponent of the {QUANTITIES[quantity]}"
        if column == "less_gap":
            item += ", less that of the loss gap"
            conditions += [falls(quantity)] if "within" in stated else []
        item += f", within {stated['within']:g}" if "within" in stated else ""
        claims.append(
            Claim(
                item=item + label,
                statistic=of(quantity, column),
                conditions=tuple(conditions),
                **stated,
            )
        )
    return claims


def _two_rates(config: ml_collections.ConfigDict, own: dict[str, object]) -> Claim:
    """Returns the claim of figure A.1 at one stop."""
    start, end = config.fit.region_start, max(config.sweep.m)
    below, above = (exponent(name, count=config.data.num_test, **own) for name in RANGES)

    def apart(runs: Runs) -> Sample:
        found = minus(below, above)(runs)
        return found if found.values.mean() >= 0 else minus(above, below)(runs)

    return Claim(
        item=f"difference of the loss gap's exponents below m = {start:,} and from there to "
        f"{end:,}, after {own['step']:,} updates",
        paper=f"different regions of decrease: above {ONE_RATE:g}",
        statistic=apart,
        above=ONE_RATE,
        conditions=(
            *_sound(config, RANGES, own),
            *(
                shown(Claim(item="", statistic=one, below=0.0), f"the loss gap falls {where}")
                for one, where in ((below, f"below m = {start:,}"), (above, "from there on"))
            ),
        ),
    )


def exponent(
    quantity: str, column: str = "exponent", *, count: int | None = None, **settings: object
) -> Statistic:
    """Returns the statistic of exponents by trial; one trial has the interval of its pairs.

    Args:
        quantity: of `fit_table`.
        column: "exponent", or "less_gap": less that of the loss gap, on the same subsamples.
        count: test examples, which all pairs share; None means enough.
        settings: of the fits.
    """

    def statistic(runs: Runs) -> Sample:
        own = runs.where(quantity=quantity, **settings)
        values = own.by_seed(column)
        found = Sample(values, count=count, lost=own.lost(column), equal=own.equal_seeds())
        if len(values) != 1:
            return found
        subsampled = own.finished.set_index("seed").loc[values.index[0], SUBSAMPLED[column]]
        return found._replace(units=1, ends=lambda tail: interval(values.iloc[0], subsampled, tail))

    return statistic


def _sound(
    config: ml_collections.ConfigDict, quantities: tuple[str, ...], own: dict[str, object]
) -> tuple[Condition, ...]:
    """Returns the conditions of any exponent: enough pairs, and networks that fit.

    The exponent of the loss gap of networks that do not fit is that of the course of training.
    Convex learners need not fit.
    """
    light = set(quantities) <= {*_LIGHT_TAILED}
    asked, sizes = config.sweep.num_pairs, len(set(config.sweep.m))
    least = max(asked, LEAST_PAIRS if light else ENOUGH_PAIRS)

    def unmet(runs: Runs) -> str:
        rows = runs.where(quantity=quantities, **own).finished
        if rows.empty:
            return ""
        pairs, there = rows["pairs"].min(), rows["sizes"].min()
        if pairs < least or there < sizes:
            return f"{pairs} pairs of {there} sizes"
        tied = rows["tied"].min()
        return "" if np.isnan(tied) else f"all pairs of m = {tied:,.0f} are equal"

    enough = Condition(f"{least} different pairs of {sizes} sizes each", unmet)
    return (enough, fitted("the network", **own)) if own["learner"] == "resnet" else (enough,)
