"""The dial, learning rates and coordinate check of networks that do nothing of the kind."""

import itertools

import numpy as np
import pandas as pd

from lsa_jax.experiments.lazy_rich.coordinate_check.report import (
    make_claims as coordinate_claims,
)
from lsa_jax.experiments.lazy_rich.dial.report import make_claims as dial_claims
from lsa_jax.experiments.lazy_rich.learning_rates.report import make_claims as rate_claims

SCALES, WIDTHS, SEEDS = (0.25, 1.0, 16.0, 256.0), (1, 2, 4), (0, 1, 2)


def dial(accuracy, distance=lambda *point: 0.1, movement=lambda *point: 0.1):
    """Returns a dial's claims of what (learner, parameterization, scale, width, seed) has."""
    points = [("output_scale", "network", "standard", a, 1, s) for a in SCALES for s in SEEDS]
    points += [("output_scale", "linearized", "standard", 1.0, 1, s) for s in SEEDS]
    points += [
        ("width", "network", name, 1.0, width, seed)
        for name, width, seed in itertools.product(("ntk", "mup"), WIDTHS, SEEDS)
    ]
    rows = [
        {
            **dict(zip(("dial", "learner", "parameterization", "output_scale"), p, strict=False)),
            "width_factor": p[4],
            "seed": p[5],
            "num_test": 720,
            "test_accuracy": accuracy(*p[1:]),
            "kernel_distance": distance(*p[1:]),
            "weight_movement": movement(*p[1:]),
        }
        for p in points
    ]
    return dial_claims(pd.DataFrame(rows))


def test_networks_that_no_dial_moves_show_nothing(nothing_shown):
    rng = np.random.default_rng(0)
    nothing_shown(dial(lambda *p: 0.1, lambda *p: 0.0, lambda *p: 1e-3))
    nothing_shown(dial(lambda *p: 0.9))
    nothing_shown(dial(lambda *p: rng.binomial(720, 0.1) / 720))
    nothing_shown(dial(lambda *p: 0.6 + 0.05 * rng.normal(), lambda *p: 0.1 * rng.random()))
    # Movement that falls as it should, where the network is its linearisation at every scale.
    nothing_shown(dial(lambda *p: 0.9, lambda *p: 1e-4, lambda *p: 1 / p[2]))


def test_exchanged_networks_show_nothing(nothing_shown):
    rich = {"linearized": 0.9, "network": 0.3}
    nothing_shown(dial(lambda learner, name, *p: rich[learner] + 0.2 * (name == "ntk")))
    nothing_shown(dial(lambda *p: 0.5, lambda *p: 0.2 * p[3], lambda *p: 0.1))


def rates(best):
    """Returns the claims where (parameterization, width, seed) learns best at 2^that."""
    rows = [
        {
            "parameterization": name,
            "width_factor": width,
            "seed": seed,
            "learning_rate": 2.0**octave,
            "train_loss": float(np.exp((octave - best(name, width, seed)) ** 2 / 10)),
        }
        for name, width, seed, octave in itertools.product(
            ("standard", "mup"), WIDTHS, SEEDS, range(-9, 3)
        )
    ]
    return rate_claims(pd.DataFrame(rows))


def test_rates_that_stay_in_both_or_fall_in_both_show_nothing_of_mup(nothing_shown):
    nothing_shown(rates(lambda name, width, seed: -3.0))
    nothing_shown(rates(lambda name, width, seed: -3.0 - np.log2(width) * (name == "mup")))
    rng = np.random.default_rng(1)
    nothing_shown(rates(lambda name, width, seed: rng.uniform(-6, 0)))
    falls = rates(lambda name, width, seed: -3.0 - np.log2(width))
    assert [claim.status for claim in falls] == ["shown", "not shown"]


def test_rates_that_fall_in_the_standard_one_alone_show_both():
    found = rates(lambda name, width, seed: -2.0 - np.log2(width) * (name == "standard"))
    assert [claim.status for claim in found] == ["shown", "shown"]
    assert [claim.ours for claim in found] == [-2.0, 0.0]


def coordinates(slope, noise=0.02):
    """Returns the claims where changes grow as width to the power of (rule, name, layer)."""
    rng = np.random.default_rng(2)
    layers = ("Relu_0", "Relu_1", "outputs")
    rows = [
        {"optimizer": rule, "parameterization": name, "width_factor": width, "seed": seed}
        | {
            f"change/{layer}": width ** slope(rule, name, layer) * np.exp(noise * rng.normal())
            for layer in layers
        }
        for rule, name, width, seed in itertools.product(
            ("sgd", "adam"), ("ntk", "standard", "mup"), WIDTHS, SEEDS
        )
    ]
    return coordinate_claims(pd.DataFrame(rows))


def test_changes_that_are_flat_or_steep_everywhere_show_nothing_of_mup(nothing_shown):
    nothing_shown(coordinates(lambda *p: 0.0))
    nothing_shown(coordinates(lambda rule, name, layer: 0.5 * (name == "mup")))
    nothing_shown(coordinates(lambda *p: 0.0, noise=2.0))
    steep = coordinates(lambda rule, name, layer: 0.6)
    assert not [c for c in steep if "muP" in c.item and c.status == "shown"]


def test_changes_that_are_flat_in_mup_alone_show_all():
    powers = {"ntk": -0.5, "standard": 0.9, "mup": 0.0}
    found = coordinates(lambda rule, name, layer: powers[name])
    assert {claim.status for claim in found} == {"shown"}
