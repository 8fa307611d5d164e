"""Pairs and fits as the tests of stability's claims make them."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.stability import experiment


def draw_pairs_table(sizes, exponents, *, step=8, num_pairs=40):
    rng = np.random.default_rng(0)
    rows = [
        {name: factor * m**-1.0 for name in experiment.MEASURES[:6]}
        | {name: factor * m**b for name, b in exponents.items()}
        | {"m": m, "step": step}
        for m in sizes
        for factor in rng.uniform(0.9, 1, num_pairs)
    ]
    curve = {"learner": "logistic", "perturbation": "swap", "seed": 0, "train_error": 0.0}
    return pd.DataFrame(rows).assign(**curve)


def fits_of(exponents, reach=0.01):
    """Returns fits of one trial; intervals of all exponents are of the same length."""
    row = {"learner": "resnet", "perturbation": "swap", "seed": 0, "step": 8, "pairs": 40}
    row |= {"sizes": 3, "train_accuracy": 1.0, "least_fitted": 12, "tied": np.nan}
    rows = []
    for name in experiment.MEASURES[:6]:
        exponent = exponents.get(name, np.nan)
        less = exponent - exponents.get("loss_gap", np.nan)
        ends = {"exponent": exponent, "low": exponent - reach, "high": exponent + reach}
        ends |= {"less_gap": less, "less_gap_low": less - reach, "less_gap_high": less + reach}
        rows.append({**row, "quantity": name, **ends})
    return pd.DataFrame(rows)
