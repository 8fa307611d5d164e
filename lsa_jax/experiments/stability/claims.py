"""What the thesis claims of stability, beside what came out."""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.fits import Decay, fit_decay
from lsa_jax.experiments.stability.measures import QUANTITIES
from lsa_jax.experiments.stability.numbers import (
    CONNECTIVITY_DROPS,
    STABILITY_EXPONENTS,
    STABILITY_TOLERANCE,
)
from lsa_jax.experiments.stability.settings import report_step
from lsa_jax.reporting.claims import (
    chance_warning,
    compare,
    decide,
    margin_of,
    measured,
    not_run,
    spread,
)
from lsa_jax.reporting.intervals import difference_error, over_seeds
from lsa_jax.reporting.report import Claim, Status

# Maxima of fewer pairs than this say nothing of heavy-tailed quantities.
ENOUGH_PAIRS = 40

CURVE = ["learner", "perturbation", "seed", "step"]
# The exponent less that of the loss gap, and its interval.
DIFFERENCE_COLUMNS = ["less_gap", "less_gap_low", "less_gap_high"]
# What stands in the place of the thesis' statement where it has none.
LEFT_OPEN = "left open"

_HEAVY_TAILED = ("stability", "distance", "normalized_distance")
# Exponents are printed to two decimals: this near they are one number.
_SAME = 0.02
_CLASSES, _TEST_IMAGES = 10, 10_000


def fit_quantity(found: pd.DataFrame, quantity: str, resamples: int) -> Decay | None:
    """Fits a quantity of one curve's pairs."""
    by_size = [(m, part.to_numpy(float)) for m, part in found.groupby("m")[quantity]]
    return fit_decay(np.array([m for m, _ in by_size], float), [v for _, v in by_size], resamples)


def in_words(exponent: float, low: float, high: float) -> str:
    """Returns an exponent, with its interval where there is one; empty without an exponent."""
    if np.isnan(exponent):
        return ""
    return f"{exponent:.2f}" + ("" if np.isnan(low) else f" ({low:.2f} to {high:.2f})")


def _judge(status: Status, fits: pd.DataFrame, unless: str) -> tuple[Status, str]:
    """Returns a status and its note: of too few pairs, or what speaks against showing anything."""
    if fits["pairs"].min() < ENOUGH_PAIRS and fits["quantity"].isin(_HEAVY_TAILED).any():
        return "undecided", f"it would take {ENOUGH_PAIRS} pairs a size"
    if status == "undecided":
        return status, "it would take more pairs or trials"
    return ("undecided", unless) if unless and status == "shown" else (status, "")


def _interval(fits: pd.DataFrame, columns: tuple[str, str, str]) -> tuple[float, float, float]:
    """Returns an exponent with its interval: of trials, or of one trial's pairs by subsampling."""
    if len(fits) == 1:
        return tuple(float(fits[name].iloc[0]) for name in columns)
    found = over_seeds(fits[columns[0]])
    return found.mean, found.low, found.high


def _exponent_claim(
    item: str, paper: str, above: float, below: float, fits: pd.DataFrame, unless: str
) -> Claim:
    """Compares an exponent with a range: all of its interval, of pairs or of trials, decides."""
    fine = fits.dropna(subset=["exponent"])
    if fine.empty:
        return not_run(item, paper)
    mean, low, high = _interval(fine, ("exponent", "low", "high"))
    status, note = _judge(decide(low, high, above, below), fine, unless)
    ours = f"{mean:.2f}" if len(fine) > 1 else in_words(mean, low, high)
    return Claim(item, paper, ours, spread(fine["exponent"]), status, low, high, note)


def _pair_fits(gaps: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Returns the fits of both quantities side by side, a row a trial that has both."""
    both = gaps.merge(others, on="seed", suffixes=("_gap", "_other"))
    return both.dropna(subset=["exponent_gap", "exponent_other"])


def _comparison(
    item: str,
    paper: str,
    between: tuple[float, float],
    fits: tuple[pd.DataFrame, pd.DataFrame],
    unless: str,
) -> Claim:
    """Says by how much stability, or a distance, falls more slowly than the loss gap.

    Args:
        item: what is compared.
        paper: what the thesis says; where it leaves that open there is nothing to show.
        between: what its exponent less that of the gap has to lie between.
        fits: of the loss gap and of stability or the distance.
        unless: why it cannot speak for the thesis.
    """
    both = _pair_fits(*fits)
    if both.empty:
        return not_run(item, paper)
    difference = both["exponent_other"] - both["exponent_gap"]
    means = both[["exponent_other", "exponent_gap"]].mean()
    ours = f"{means.iloc[0]:.2f} and {means.iloc[1]:.2f}"
    _, low, high = _interval(
        both.assign(difference=difference),
        ("difference", *(f"{name}_other" for name in DIFFERENCE_COLUMNS[1:])),
    )
    ours += f", difference {in_words(float(difference.mean()), low, high)}"
    ours += f"; slower in {(difference > 0).sum()} of {len(both)}"
    if paper == LEFT_OPEN:
        return measured(item, paper, ours)
    status, note = _judge(decide(low, high, *between), fits[1], unless)
    return Claim(item, paper, ours, None, status, low, high, note)


def region_claims(pairs: pd.DataFrame, resamples: int, start: int) -> list[Claim]:
    """Says of every stop whether the loss gap falls at different rates in two ranges of sizes.

    These are the sizes from `start` on and those below; rates count as different where their
    intervals have nothing in common, in every trial, and as equal where they do and are shorter
    than the tolerance.
    """
    end = int(pairs["m"].max())
    ranges = ((0, start - 1), (start, end))
    claims = []
    for step, found in pairs.groupby("step"):
        item = f"exponents of the loss gap below m = {start:,} and from there to {end:,}, "
        item += f"after {step:,} updates"
        fits = [
            [
                fit_quantity(trial[trial["m"].between(*sizes)], "loss_gap", resamples)
                for sizes in ranges
            ]
            for _, trial in found.groupby(CURVE)
        ]
        paper = "different regions of decrease"
        if any(fit is None for trial in fits for fit in trial):
            claims.append(not_run(item, paper))
            continue
        ours = [" and ".join(in_words(f.exponent, f.low, f.high) for f in trial) for trial in fits]
        apart = [below.high < above.low or above.high < below.low for below, above in fits]
        sharp = all(f.high - f.low < STABILITY_TOLERANCE for trial in fits for f in trial)
        status = "shown" if all(apart) else "not shown" if sharp else "undecided"
        note = "it would take more pairs" if status == "undecided" else ""
        claims.append(Claim(item, paper, "; ".join(ours), None, status, note=note))
    return claims


def _connectivity_claims(config: ml_collections.ConfigDict, paths: pd.DataFrame) -> list[Claim]:
    """Compares how far accuracy falls between the two models, in percentage points.

    Between models that guess it cannot fall.
    """
    claims = []
    words, above, below = CONNECTIVITY_DROPS[config.paper]
    for split in ("train", "test"):
        item = f"fall of {split} accuracy between W_S and W_S' (points)"
        if paths.empty:
            claims.append(not_run(item, words))
            continue
        column = f"{split}_accuracy"
        examples = int(paths["m"].min())
        if split == "test":
            examples = config.data.num_test or _TEST_IMAGES
        ends = paths[np.isclose(paths["alpha"], 0) | np.isclose(paths["alpha"], 1)][column].mean()
        falls = 100 * connectivity_drops(paths, column)
        error = 100 * difference_error(ends, ends - falls.mean() / 100, examples)
        options = {"above": above, "below": below, "examples_error": error, "digits": 2}
        unless = chance_warning(ends, _CLASSES, examples)
        claims.append(compare(item, words, falls, unless=unless, **options))
    return claims


def connectivity_drops(paths: pd.DataFrame, column: str) -> pd.Series:
    """Returns how far below the lower end the accuracy falls between the models, by path."""

    def drop(path: pd.DataFrame) -> float:
        inside = path[path["alpha"].between(-1e-6, 1 + 1e-6)].sort_values("alpha")
        return min(inside[column].iloc[0], inside[column].iloc[-1]) - inside[column].min()

    keys = [*CURVE, "m", "pair"]
    return paths.groupby(keys)[["alpha", column]].apply(drop)


def _printed_claims(
    config: ml_collections.ConfigDict, label: str, of: dict[str, pd.DataFrame], unless: str
) -> list[Claim]:
    """Returns the thesis' exponents beside ours; a direction has no tolerance."""
    printed, claims = STABILITY_EXPONENTS.get(config.paper, {}), []
    for quantity, (words, low, high) in printed.items():
        item = f"exponent of the {QUANTITIES[quantity]}{label}"
        others = {(least, most) for _, least, most in printed.values()} - {(low, high)}
        finite = [end for ends in others for end in ends if np.isfinite(end)]
        reach = margin_of(low, finite, STABILITY_TOLERANCE, same=_SAME)
        reach = reach if np.isfinite(high) else 0.0
        why = "" if quantity.endswith("gap") else unless
        claims.append(_exponent_claim(item, words, low - reach, high + reach, of[quantity], why))
    return claims


def make_claims(
    config: ml_collections.ConfigDict, fits: pd.DataFrame, paths: pd.DataFrame
) -> list[Claim]:
    """Returns the thesis' exponents and statements beside ours, at the stop of the report.

    Where the loss gap is not shown to fall, nothing is learned from what else falls or does not.
    """
    here = fits[fits["step"] == report_step(config)]
    kinds = list(here.groupby(["learner", "perturbation"], sort=False))
    claims = []
    for (learner, perturbation), found in kinds:
        label = f", {learner}, {perturbation}" if len(kinds) > 1 else ""
        of = {name: found[found["quantity"] == name] for name in QUANTITIES}
        falls = _exponent_claim("", "", -np.inf, 0.0, of["loss_gap"], "")
        unless = "" if falls.status == "shown" else "the loss gap is not shown to fall"
        if perturbation == "swap":
            claims += _printed_claims(config, label, of, unless)
        item, both = (
            f"exponents of stability and of the loss gap{label}",
            (
                of["loss_gap"],
                of["stability"],
            ),
        )
        if config.paper == "fig2_1":
            reach = STABILITY_TOLERANCE
            claims.append(_comparison(item, "fall alike", (-reach, reach), both, unless))
        elif config.paper != "figA_1":
            words = "slower fall of stability" if config.paper else LEFT_OPEN
            claims.append(_comparison(item, words, (0.0, np.inf), both, unless))
        if config.paper in CONNECTIVITY_DROPS:
            claims += [
                _comparison(
                    f"exponents of the {QUANTITIES[name]} and of the loss gap{label}",
                    "no fall that explains the gap",
                    (0.0, np.inf),
                    (of["loss_gap"], of[name]),
                    unless,
                )
                for name in ("distance", "normalized_distance")
            ]
    if config.paper in CONNECTIVITY_DROPS and len(config.connectivity.sizes):
        claims += _connectivity_claims(config, paths)
    return claims
