"""How far accuracy falls on the line between two models."""

import ml_collections
import numpy as np
import pandas as pd

from lsa_jax.experiments.stability.fit_table import CURVE
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import Sample, Statistic, binomial_error

_TEST_IMAGES = 10_000
SPLITS = ("train", "test")


def fall_table(config: ml_collections.ConfigDict, paths: pd.DataFrame) -> pd.DataFrame:
    """Returns one row a path: falls of accuracy in points, accuracies at the ends, examples.

    A fall is the lower accuracy of both models less the lowest one between them; NaN where a path
    lacks a model, a place between them or a finite accuracy.

    Args:
        config: of the sweep.
        paths: one row a path and alpha.
    """
    path, rows, keys = config.connectivity, [], [*CURVE, "m", "pair"]
    for names, found in paths.groupby(keys) if len(paths) else ():
        row = dict(zip(keys, names, strict=True))
        row |= {"chance": found["chance"].max()} if "chance" in found else {}
        counts = {"train": row["m"], "test": config.data.num_test or _TEST_IMAGES}
        at_end = np.isclose(found["alpha"], 0) | np.isclose(found["alpha"], 1)
        between = found["alpha"].between(0, 1) & ~at_end
        for split in SPLITS:
            accuracies = found[f"{split}_accuracy"].astype(float)
            ends = accuracies[at_end]
            whole = len(ends) == 2 and between.any() and np.isfinite(accuracies).all()
            lowest = min(ends.min(), accuracies[between].min())
            row[f"{split}_fall"] = 100 * (ends.min() - lowest) if whole else np.nan
            row[f"{split}_accuracy"] = ends.mean()
            row[f"num_{split}"] = min(counts[split], path[f"num_{split}"] or counts[split])
        rows.append(row)
    if not rows:
        return pd.DataFrame(columns=keys)
    table = pd.DataFrame(rows)
    # Of a size, as a network's fit is judged by the mean over pairs.
    return table.assign(train_accuracy=table.groupby("m")["train_accuracy"].transform("mean"))


def fall(split: str) -> Statistic:
    """Returns the statistic of falls of accuracy in points, one value a path.

    Paths share their test examples, whose error is added, and each has its own sample S, so that
    the spread over paths contains the error of the training accuracy.
    """

    def statistic(runs: Runs) -> Sample:
        rows, column = runs.finished.reset_index(drop=True), f"{split}_fall"
        if rows.empty:
            return Sample(pd.Series(dtype=float), lost=runs.lost(column))
        values, end = rows[column].dropna(), float(rows[f"{split}_accuracy"].mean())
        count = int(rows[f"num_{split}"].min())
        accuracies = (end, max(end - values.mean() / 100, 0.0))
        numbers = rows[[f"{split}_{name}" for split in SPLITS for name in ("fall", "accuracy")]]
        return Sample(
            values,
            shared=split == "test",
            error=100 * float(np.hypot(*(binomial_error(one, count) for one in accuracies))),
            count=count,
            lost=runs.lost(column),
            equal=len(rows) > 1 and bool((numbers.nunique() <= 1).all()),
        )

    return statistic
