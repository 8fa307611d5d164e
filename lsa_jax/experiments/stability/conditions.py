"""What exponents have to meet before they show anything, for or against the thesis."""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.fits import LEAST_PAIRS
from lsa_jax.reporting.claims import would_take
from lsa_jax.reporting.doubts import few_examples
from lsa_jax.reporting.intervals import REACH, Interval, over_seeds

# Maxima of fewer pairs than this say nothing of heavy-tailed quantities.
ENOUGH_PAIRS = 40
# A network with less training accuracy at any size has not fitted its examples: the exponent of its
# loss gap is that of how far training has come. Stated before the runs that it judges.
FITTED = 0.99
# Convex learners are not asked to fit.
_ASKED_TO_FIT = "resnet"
_HEAVY_TAILED = ("stability", "distance", "normalized_distance")


def incomplete(config: ml_collections.ConfigDict, fits: pd.DataFrame) -> list[str]:
    """Returns what is missing of one learner's runs: trials, sizes, pairs, test examples.

    Pairs that are equal in every quantity count once. All pairs have the same test examples, which
    no interval counts.
    """
    notes = []
    for name, found, asked in (
        ("trials", fits["seed"].nunique(), len(set(config.sweep.seed))),
        ("sizes", int(fits["sizes"].min()), len(set(config.sweep.m))),
        ("pairs of a size", int(fits["pairs"].min()), config.sweep.num_pairs),
    ):
        if found < asked:
            notes.append(f"{found} of {asked} {name}")
    few = few_examples(config.data.num_test or np.inf)
    return [*notes, few] if few else notes


def unfitted(learner: str, fits: pd.DataFrame) -> list[str]:
    """Returns which network has not fitted its examples: its size and its training accuracy."""
    worst = fits.iloc[int(fits["train_accuracy"].argmin())]
    if learner != _ASKED_TO_FIT or has_fitted(worst["train_accuracy"]):
        return []
    return [not_fitted(float(worst["least_fitted"]), float(worst["train_accuracy"]))]


def has_fitted(accuracy: float) -> bool:
    """Tells whether a mean training accuracy, of numbers in single precision, is that of a fit."""
    return bool(accuracy > FITTED - 1e-6)


def not_fitted(m: float, accuracy: float) -> str:
    """Returns the note on networks that have not fitted their examples."""
    return f"not fitted: a training accuracy of {accuracy:.4g} at m = {m:,.0f}"


def unreadable(fits: pd.DataFrame, column: str = "exponent") -> list[str]:
    """Returns why exponents of one quantity, a row a trial, cannot be judged.

    Args:
        fits: a row a trial.
        column: what is judged: the exponent, or its difference to the loss gap's.
    """
    lacking = fits["seed"][fits[column].isna()]
    if len(lacking):
        return [f"no power law in trial {', '.join(map(str, lacking))}"]
    notes = []
    pairs, heavy = fits["pairs"].min(), fits["quantity"].isin(_HEAVY_TAILED).any()
    least = ENOUGH_PAIRS if heavy else LEAST_PAIRS
    if pairs < least:
        notes.append(f"it would take {least} pairs a size")
    if not np.isnan(tied := fits["tied"].min()):
        notes.append(f"all pairs of m = {tied:,.0f} are equal")
    if fits[column].nunique() < len(fits):
        notes.append("trials are equal")
    return notes


def interval_of(fits: pd.DataFrame, columns: tuple[str, str, str]) -> Interval:
    """Returns an exponent with its interval.

    Args:
        fits: a row a trial.
        columns: of the exponent, and of the ends of each trial's interval.

    Returns:
        Student's t over trials; of one trial the interval that its pairs have by subsampling.
    """
    found = over_seeds(fits[columns[0]])
    if len(fits) > 1:
        return found
    low, high = (float(fits[name].iloc[0]) for name in columns[1:])
    return found._replace(low=low, high=high)


def more_trials(found: Interval, distance: float) -> str:
    """Returns how many trials would decide an exponent, in words, if all else stays as it is.

    One trial does not tell how trials differ: its interval is taken for what a normal exponent
    varies by. More pairs help less: the exponent of heavy-tailed maxima varies hardly less among
    more of them.

    Args:
        found: of trials or of one trial's pairs.
        distance: of its mean to the nearest number that it has to be told from.
    """
    if np.isnan(found.low):
        return "no interval: subsamples of the pairs have no power law"
    alone = found.seeds == 1
    if alone:
        found = found._replace(seeds=2, spread=(found.high - found.low) / 2 / REACH)
    words = f"it would take {would_take(found, distance).replace('seeds', 'trials')}"
    return f"{words}, if they differ as this one's interval says" if alone and distance else words
