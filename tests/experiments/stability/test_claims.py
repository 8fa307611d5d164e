"""Decisions on made-up pairs and paths whose right answer is known."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.stability.claims import path_claims
from lsa_jax.experiments.stability.fits import fall_table
from lsa_jax.experiments.stability.settings import SETTINGS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.reporting.samples import binomial_error
from lsa_jax.sweep.variants import set_fields

SIZES, STEP = (1000, 2000, 4000, 8000), 8


def configure(paper, **fields):
    learner = "logistic" if paper in ("fig2_1", None) else "resnet"
    known = {"learner": learner, "sweep.learner": (learner,), "stops": (STEP,), "sweep.m": SIZES}
    known |= {"paper": paper, "connectivity.sizes": (1000,), "sweep.num_pairs": 40}
    known |= {"connectivity.pairs": 3, "connectivity.num_train": 10_000}
    fields = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(SETTINGS.default_config(), known | fields)


def paths_of(falls, accuracy=0.9, fitted=1.0):
    """Returns a path a pair, whose accuracies fall by so much half-way, below the lower end."""
    rows = [
        {"alpha": alpha, "train_accuracy": fitted - lost, "test_accuracy": accuracy - lost}
        | {"pair": pair}
        for pair, fall in enumerate(falls)
        for alpha, lost in ((-1.0, 0.5), (0.0, 0.0), (0.5, fall + 0.002), (1.0, 0.002), (2.0, 0.6))
    ]
    fixed = {"learner": "resnet", "perturbation": "swap", "seed": 0, "step": STEP, "m": 1000}
    return pd.DataFrame(rows).assign(**fixed)


def fallen(paper, paths, **fields):
    config = configure(paper, data__num_test=10_000, **fields)
    planned = [p for p in SETTINGS.sweep(config) if p["m"] == 1000 and p["pair"] < 3]
    return decide_all(path_claims(config), Runs.of(planned, fall_table(config, paths)))


@pytest.mark.parametrize(
    ("paper", "fall", "status"),
    [
        ("1a", 0.001, "shown"),
        ("1a", 0.04, "not shown"),
        ("2a", 0.03, "shown"),
        ("2a", 0.3, "not shown"),
        ("2b", 0.3, "shown"),
        ("2b", 0.0, "not shown"),
    ],
)
def test_falls_between_two_models_are_decided_by_paths_and_examples(paper, fall, status):
    falls = fall + np.array([0.0, 0.001, 0.002])
    train, test = fallen(paper, paths_of(falls))
    assert train.status == test.status == status and train.ours == pytest.approx(100 * falls[1])
    # The paths share their test examples; each has training examples of its own.
    normal = 1.96 * 100 * np.hypot(*(binomial_error(a, 10_000) for a in (0.899, 0.899 - falls[1])))
    student = 4.3027 * 0.1 / 3**0.5
    for row, reach in ((train, student), (test, np.hypot(student, normal))):
        assert row.high - row.low == pytest.approx(2 * reach, rel=1e-2)
