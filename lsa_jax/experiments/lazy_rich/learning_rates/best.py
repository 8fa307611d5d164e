"""The learning rate with the least training loss.

The best rate is where the mean over seeds of the logarithm of the training loss is least: of the
polynomial of degree `DEGREE` in the logarithm of the rate that is fitted to the rates around the
least whose loss is up to exp(`DEPTH`) times as large. A wide network's loss is flat there, where
the least of each seed's points, or of a parabola through three of them, is off by up to an octave
on made-up curves, and this by half as much at most. Its error is the jackknife's over seeds.
"""

import numpy as np
import pandas as pd

from lsa_jax.reporting.statistics import jackknife

DEGREE, DEPTH = 4, 1.5


def curve(table: pd.DataFrame, name: str, width: int | np.integer) -> pd.DataFrame:
    """Returns the logarithm of the final training loss: a row a seed, a column log2 of a rate.

    NaN where a run diverged.
    """
    own = table[(table["parameterization"] == name) & (table["width_factor"] == width)]
    heights = np.log(np.maximum(own["train_loss"], 1e-12))
    octaves = np.log2(own["learning_rate"])
    wide = pd.DataFrame({"seed": own["seed"], "octaves": octaves, "height": heights})
    return wide.pivot(index="seed", columns="octaves", values="height").sort_index(axis=1)


def best_rate(heights: pd.DataFrame) -> float:
    """Returns log2 of the rate at which the mean of heights over seeds is least.

    Args:
        heights: as `curve` returns them; a rate at which one is not finite has no mean.

    Returns:
        Where the fitted polynomial is least, within the rates that it is fitted to; NaN where all
        rates have one loss, or none has a mean.
    """
    octaves, means = heights.columns.to_numpy(float), heights.to_numpy().mean(axis=0)
    means[~np.isfinite(means)] = np.inf
    finite = means[np.isfinite(means)]
    if not len(finite) or np.ptp(finite) == 0:
        return np.nan
    first = last = int(np.argmin(means))
    limit, points = means[first] + DEPTH, DEGREE + 1
    while True:
        below = means[first - 1] if first else np.inf
        above = means[last + 1] if last + 1 < len(means) else np.inf
        least = min(below, above)
        if not np.isfinite(least) or (least > limit and last - first + 1 >= points):
            break
        first, last = (first - 1, last) if below <= above else (first, last + 1)
    places = octaves[first : last + 1]
    middle = places.mean()
    fitted = np.polyfit(places - middle, means[first : last + 1], min(DEGREE, last - first))
    fine = np.linspace(places[0], places[-1], 2001)
    return float(fine[np.argmin(np.polyval(fitted, fine - middle))])


def best_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Returns `octaves`, log2 of the best rate, and its `error`, by parameterisation and width."""
    keys, rows = ["parameterization", "width_factor"], []
    for key, _ in table.groupby(keys, sort=False):
        own = curve(table, *key)
        values = jackknife(list(own.index), lambda kept, own=own: best_rate(own.loc[kept]))
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        rows.append((*key, values.mean(), error))
    return pd.DataFrame(rows, columns=[*keys, "octaves", "error"])
