"""Decisions on made-up pairs and paths whose right answer is known."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.stability.claims import make_claims, path_claims
from lsa_jax.experiments.stability.fits import fall_table, fit_all
from lsa_jax.experiments.stability.samples import QUANTITIES
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


def pairs_of(config, exponents, *, pairs=40, seeds=(0,), fitted=1.0, tail=1e-3, other=0.05):
    """Returns pairs whose quantities are powers of m, with exponential deviations from the law."""
    rng, rows = np.random.default_rng(2), []
    for seed in seeds:
        for m in config.sweep.m:
            for pair in range(pairs):
                noise = np.exp(tail * rng.exponential(size=len(QUANTITIES)))
                powers = [m ** exponents.get(name, other) for name in QUANTITIES]
                row = dict(zip(QUANTITIES, powers * noise, strict=True))
                rows.append(row | {"seed": seed, "m": m, "pair": pair})
    fixed = {"learner": config.learner, "perturbation": "swap", "step": STEP}
    return pd.DataFrame(rows).assign(train_error=1 - fitted, **fixed)


def decided(config, pairs, resamples=20):
    start = config.fit.region_start if config.paper == "figA_1" else None
    runs = Runs.of(SETTINGS.sweep(config), fit_all(pairs, resamples, start))
    return decide_all(make_claims(config), runs)


@pytest.mark.parametrize(
    ("below", "above", "status"),
    [
        (-0.9, -0.3, "shown of one seed"),
        (-0.3, -0.9, "shown of one seed"),
        (-0.3, -0.3, "not shown"),
        (-0.9, 0.3, "condition not met"),
        (0.3, 0.9, "condition not met"),
    ],
)
def test_figure_a1_has_two_rates_of_fall_or_one(below, above, status):
    sizes = (1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000)
    config = configure("figA_1", sweep__m=sizes, sweep__num_pairs=20)
    pairs = pairs_of(config, {"loss_gap": 0.0}, pairs=20)
    rate = np.where(pairs["m"] < 15_000, below, above)
    pairs["loss_gap"] *= (pairs["m"] / 15_000) ** rate
    (row,) = decided(config, pairs)
    assert row.status == status
    if status != "condition not met":
        assert row.ours == pytest.approx(abs(below - above), abs=0.02)
    (few,) = decided(config, pairs[pairs["m"] < 20_000])
    assert few.status == "not run"


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
