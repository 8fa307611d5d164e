"""Made-up final losses are not told apart from the noise of a seed by what is left of them."""

import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.growing import settings
from lsa_jax.experiments.growing.noise_claims import noise_claims
from lsa_jax.reporting import claims
from lsa_jax.sweep.variants import set_fields

OPERATORS = 12


def noise_of(losses, lost=(), asked=None):
    """Returns the claim on final losses, [seeds, operators], without the `(seed, operator)` lost.

    The sweep has asked for so many seeds.
    """
    losses = np.asarray(losses)
    axes = {"sweep.index": tuple(range(losses.shape[1])), "sweep.block_size": (1,)}
    axes |= {"sweep.source": ("copy",), "sweep.seed": tuple(range(asked or len(losses)))}
    rows = [
        {"seed": seed, "index": index, "final_loss": loss}
        for (seed, index), loss in np.ndenumerate(losses)
        if (seed, index) not in lost
    ]
    table = pd.DataFrame(rows).assign(
        kind="encoder", schedule="constant", block_size=1, source="copy"
    )
    return noise_claims(set_fields(settings.default_config(), axes), table)


def apart(seeds=5, operators=OPERATORS):
    """Returns final losses that differ by ten times the noise of a seed between neighbours."""
    noise = np.random.default_rng(0).normal(size=(seeds, operators))
    return 3 + 0.1 * np.arange(operators) + 0.01 * noise


def test_losses_far_apart_are_told_apart():
    (claim,) = noise_of(apart())
    assert (claim.status, claim.note) == ("shown", "")


def test_final_losses_that_are_noise_or_equal_are_not_told_apart(nothing_shown):
    rng = np.random.default_rng(0)
    for seeds in (1, 2, 5):
        for noise in (*rng.normal(size=(20, seeds, OPERATORS)), np.zeros((seeds, OPERATORS))):
            nothing_shown(noise_of(noise + 5 * rng.normal(size=(seeds, 1))))


def test_operators_that_a_seed_has_lost_leave_the_rest_undecided(nothing_shown):
    lost = {(4, operator) for operator in range(2, OPERATORS)}
    found = noise_of(apart(), lost)
    nothing_shown(found)
    assert found[0].note.startswith("seed 4 has 2 of 12 operators; it would take 4 operators")
    one = noise_of(apart(), {(1, 3)})
    nothing_shown(one)
    assert one[0].note == "seed 1 has 11 of 12 operators"


def test_seeds_that_are_not_there_leave_the_rest_undecided(nothing_shown):
    found = noise_of(apart(3), asked=5)
    nothing_shown(found)
    assert found[0].note == "2 of 5 seeds have no numbers: 3, 4"


def test_what_is_left_still_refutes():
    noise = np.random.default_rng(3).normal(size=(5, OPERATORS))
    (whole,), (rest,) = noise_of(noise), noise_of(noise, {(0, 0)}, asked=6)
    assert whole.status == rest.status == "not shown"


@pytest.mark.parametrize("operators", [2, 3])
def test_three_operators_decide_nothing_about_noise(operators):
    for losses in (apart(20, operators), apart(200, operators) % 0.1):
        (claim,) = noise_of(losses)
        assert claim.status == "undecided"
        assert "it would take 4 operators or more" in claim.note


def exact(ratio, seeds):
    """Returns final losses of so many seeds whose operators differ by exactly so much."""
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(seeds, OPERATORS))
    noise -= noise.mean(axis=0)
    noise -= noise.mean(axis=1, keepdims=True)
    noise *= np.sqrt((seeds - 1) * (OPERATORS - 1) / np.sum(noise**2))
    means = rng.normal(size=OPERATORS)
    means = (means - means.mean()) / means.std(ddof=1)
    return noise + means * np.sqrt(ratio**2 + 1 / seeds)  # noise has its share in the means


@pytest.mark.parametrize("ratio", [1.3, 0.6])
def test_as_many_seeds_as_it_would_take_decide_and_one_less_does_not(ratio, monkeypatch):
    (claim,) = noise_of(exact(ratio, 4))
    assert claim.ours == pytest.approx(ratio, abs=1e-3) and claim.status == "undecided"
    needed = int(claim.note.removeprefix("it would take about ").removesuffix(" seeds"))
    (fewer,), (enough,) = noise_of(exact(ratio, needed - 1)), noise_of(exact(ratio, needed))
    assert fewer.status == "undecided"
    assert enough.status == ("shown" if ratio > 1 else "not shown")
    monkeypatch.setattr(claims, "_MOST_SEEDS", needed)
    assert noise_of(exact(ratio, 4))[0].note == claim.note
    monkeypatch.setattr(claims, "_MOST_SEEDS", needed - 1)
    assert noise_of(exact(ratio, 4))[0].note == f"it would take more than {needed - 1} seeds"


def test_what_is_next_to_the_bound_takes_more_than_a_thousand_seeds():
    (claim,) = noise_of(exact(1.001, 4))
    assert claim.note == "it would take more than 1000 seeds"


def test_losses_without_any_difference_say_so_and_one_seed_what_it_lacks():
    assert noise_of(np.ones((2, OPERATORS)))[0].note == "nothing differs"
    assert noise_of(np.ones((1, OPERATORS)))[0].note == "it would take 2 seeds or more"
