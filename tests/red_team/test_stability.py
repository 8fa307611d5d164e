"""Made-up results of stability show nothing."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.stability import settings
from lsa_jax.experiments.stability.claims import make_claims, region_claims
from lsa_jax.experiments.stability.measures import QUANTITIES
from lsa_jax.experiments.stability.report import fit_all
from lsa_jax.sweep.variants import set_fields

SIZES = (1000, 2000, 4000, 8000)
PAPERS = ("fig2_1", "1a", "2a", "2b")


def claims(paper, quantity, accuracy=0.9, half_way=None, pairs=40):
    """Returns the claims of quantities (name, size, pair) and of accuracies between models."""
    fields = {"paper": paper, "report_step": 8, "stops": (8,), "connectivity.sizes": (1000,)}
    config = set_fields(settings.default_config(), fields)
    fixed = {"learner": "resnet", "perturbation": "swap", "seed": 0, "step": 8}
    rows = [
        {name: quantity(name, m, pair) for name in QUANTITIES} | fixed | {"m": m}
        for m in SIZES
        for pair in range(pairs)
    ]
    inside = accuracy if half_way is None else half_way
    ends = [
        {"alpha": alpha, "train_accuracy": value, "test_accuracy": value, "pair": pair, "m": 1000}
        for alpha, value in ((0.0, accuracy), (0.5, inside), (1.0, accuracy))
        for pair in range(3)
    ]
    paths = pd.DataFrame(ends).assign(**fixed)
    return make_claims(config, fit_all(pd.DataFrame(rows), 50), paths)


@pytest.mark.parametrize("paper", PAPERS)
def test_models_that_never_change_or_do_not_generalise_at_any_rate(paper, nothing_shown):
    nothing_shown(claims(paper, lambda *of: 0.0, accuracy=0.1))
    nothing_shown(claims(paper, lambda *of: 1.0, accuracy=0.1))
    # Everything falls at the same rate, which is nobody's.
    nothing_shown(claims(paper, lambda name, m, pair: m**-3.0 * (1 + pair / 100), accuracy=0.1)[:2])
    nothing_shown(claims(paper, lambda name, m, pair: float(m), accuracy=0.1))


@pytest.mark.parametrize("paper", PAPERS)
def test_noise_has_no_exponent(paper, nothing_shown):
    rng = np.random.default_rng(0)
    nothing_shown(claims(paper, lambda *of: np.exp(2 * rng.normal()), accuracy=0.1))


def test_exponents_that_the_wide_margins_accepted_are_not_the_thesis(nothing_shown):
    # -1.38 was within 0.25 of -1.13.
    found = claims("fig2_1", lambda name, m, pair: m**-1.38 * (1 + pair / 1000), half_way=0.5)
    nothing_shown([claim for claim in found if claim.item.startswith("exponent of the")])


def test_exchanged_exponents_are_not_the_thesis(nothing_shown):
    exponents = {"loss_gap": -0.09, "stability": -0.18}

    def swapped(name, m, pair):
        return m ** exponents.get(name, -0.1) * (1 + pair / 1000)

    nothing_shown(claims("1a", swapped, accuracy=0.1))


def test_models_that_guess_are_not_connected(nothing_shown):
    for paper in ("1a", "2a", "2b"):
        guessed = claims(paper, lambda *of: 1.0, accuracy=0.1)
        nothing_shown([claim for claim in guessed if "fall of" in claim.item])


def test_one_rate_has_no_regions(nothing_shown):
    rng = np.random.default_rng(1)
    sizes = (1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000)
    for deviation in (0.001, 1.0):
        rows = [
            {"m": m, "step": 8, "loss_gap": m**-0.5 * np.exp(deviation * rng.normal())}
            for m in sizes
            for _ in range(20)
        ]
        pairs = pd.DataFrame(rows).assign(learner="logistic", perturbation="swap", seed=0)
        nothing_shown(region_claims(pairs, 50, 15_000))
