"""Whether accuracy falls on the line between two models, beside what the thesis says."""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.conditions import has_fitted, not_fitted
from lsa_jax.experiments.stability.fit_table import CURVE
from lsa_jax.experiments.stability.numbers import CONNECTIVITY_DROPS, Fall
from lsa_jax.reporting.claims import chance_warning, compare, largest_of, not_run
from lsa_jax.reporting.doubts import doubted, few_examples
from lsa_jax.reporting.intervals import difference_error
from lsa_jax.reporting.report import Claim

_CLASSES, _TEST_IMAGES = 10, 10_000
_PATH = [*CURVE, "m", "pair"]
_LEFT_OPEN = "the thesis' words fit a fall of this size and do not ask for it"


def connectivity_drops(paths: pd.DataFrame, column: str) -> pd.Series:
    """Returns how far below the lower end the accuracy falls between the models, by path."""

    def drop(path: pd.DataFrame) -> float:
        inside = path[path["alpha"].between(-1e-6, 1 + 1e-6)].sort_values("alpha")
        return min(inside[column].iloc[0], inside[column].iloc[-1]) - inside[column].min()

    return paths.groupby(_PATH)[["alpha", column]].apply(drop)


def _at_ends(paths: pd.DataFrame) -> pd.DataFrame:
    return paths[np.isclose(paths["alpha"], 0) | np.isclose(paths["alpha"], 1)]


def _examples(config: ml_collections.ConfigDict, paths: pd.DataFrame) -> dict[str, int]:
    """Returns how many examples the accuracies on the paths are of, by split."""
    path = config.connectivity
    most = {"train": int(paths["m"].min()), "test": config.data.num_test or _TEST_IMAGES}
    asked = {"train": path.num_train, "test": path.num_test}
    return {split: min(count, asked[split] or count) for split, count in most.items()}


def _objections(config: ml_collections.ConfigDict, paths: pd.DataFrame) -> list[str]:
    """Returns why paths show nothing, for or against the thesis. Equal paths count once."""
    notes, ends = [], _at_ends(paths)
    sizes = set(config.connectivity.sizes) & set(config.sweep.m)
    asked = len(sizes) * len(config.sweep.seed) * len(config.sweep.learner)
    asked = max(2, asked * min(config.connectivity.pairs, config.sweep.num_pairs))
    # The accuracies of a path side by side: copies of a path are no more paths.
    columns = ["train_accuracy", "test_accuracy"]
    if not np.isfinite(paths[columns].astype(float)).all(axis=None):
        notes.append("an accuracy on a path is not a number")
    found = len(paths.pivot_table(index=_PATH, columns="alpha", values=columns).drop_duplicates())
    if found < asked:
        notes.append(f"{found} of {asked} paths")
    inside = paths[paths["alpha"].between(1e-6, 1 - 1e-6)].groupby(_PATH).size()
    if len(inside) < paths.groupby(_PATH).ngroups or (ends.groupby(_PATH).size() < 2).any():
        notes.append("no place between the models, or not both of them, on a path")
    accuracy = ends.groupby("m")["train_accuracy"].mean()
    if not has_fitted(accuracy.min()):
        notes.append(not_fitted(float(accuracy.idxmin()), float(accuracy.min())))
    return notes


def _decide(item: str, fall: Fall, falls: pd.Series, **options) -> Claim:
    """Returns what falls show; no number of paths decides one that the thesis leaves open."""
    mean, left_open = falls.mean(), ""
    above, below = fall.shown
    if not above < mean < below:
        above, below = fall.possible
        if above < mean < below:
            above, below, left_open = -np.inf, np.inf, _LEFT_OPEN
    claim = compare(item, fall.words, falls, above=above, below=below, digits=2, **options)
    return doubted(claim, [left_open])


def connectivity_claims(config: ml_collections.ConfigDict, paths: pd.DataFrame) -> list[Claim]:
    """Compares how far accuracy falls between the two models, in percentage points.

    Intervals count the paths, one a pair, by Student's t, and the examples that an accuracy is of.
    Between models that guess it cannot fall.
    """
    fall = CONNECTIVITY_DROPS[config.paper]
    items = {
        split: f"fall of {split} accuracy between W_S and W_S' (points)"
        for split in ("train", "test")
    }
    if paths.empty:
        return [not_run(item, fall.words) for item in items.values()]
    against, claims = _objections(config, paths), []
    for split, item in items.items():
        column, examples = f"{split}_accuracy", _examples(config, paths)[split]
        ends = _at_ends(paths)[column].mean()
        falls = 100 * connectivity_drops(paths, column)
        error = 100 * difference_error(ends, ends - falls.mean() / 100, examples)
        largest = largest_of(paths) if split == "test" else None
        unless = chance_warning(ends, _CLASSES, examples, largest)
        claim = _decide(item, fall, falls, examples_error=error, unless=unless)
        claim = doubted(claim, refuted=[*against, few_examples(examples)])
        note = claim.note.replace("seed", "pair")
        if split == "train":
            note = note.replace("test examples", "examples of S")
        claims.append(claim._replace(note=note))
    return claims
