"""Decisions on made-up numbers of families whose right answer is known."""

import numpy as np
import pandas as pd

from lsa_jax.experiments.growing.claims import family_claims, noise_claims
from lsa_jax.experiments.growing.settings import SETTINGS
from lsa_jax.reporting.claims import decide_all
from lsa_jax.reporting.runs import Runs
from lsa_jax.sweep.variants import set_fields

EARLY = "Spearman of the loss after 200 steps"
TOP = "share of"


def families(initial, early, operators=12, **columns):
    """Returns families by seed and strategy; seeds draw networks of other losses."""
    seeds = np.arange(len(initial))
    found = {"seed": seeds, "base_loss": 3 + 0.01 * seeds, "initial_spearman": initial}
    found |= {"early_spearman 5000": early, "lag_spearman": early, "operators": operators}
    found |= {"picks_random_top": 1.0, "clear_phases": 1.0}
    table = pd.DataFrame(found | {"kind": "encoder", "schedule": "constant"} | columns)
    regrets = {"oracle": 0.0, "lag": 0.0, "lag_0": 0.8, "stack_random": 0.9}
    return pd.concat(
        [table.assign(strategy=name, relative_regret=r) for name, r in regrets.items()]
    )


def decided(numbers, seeds=None, operators=12, claims=family_claims, **fields):
    """Decides the claims of so many operators, one of them a random block on top."""
    axes = {"sweep.index": tuple(range(4, 4 - operators, -1)), "sweep.block_size": (2,)}
    axes |= {"sweep.seed": tuple(range(seeds or numbers["seed"].nunique()))}
    axes |= {"sweep.source": ("random",), "lag_steps": 200}
    config = set_fields(SETTINGS.default_config(), axes | fields)
    return decide_all(claims(config), Runs.of(SETTINGS.sweep(config), numbers))


def of(rows, start):
    (row,) = (row for row in rows if row.item.startswith(start))
    return row


def test_a_correlation_has_the_error_of_its_operators():
    """Fieller, Hartley and Pearson (1957): the variance of atanh(r) is 1.06 / (n - 3)."""
    for early, centre in ((0.4, np.arctanh(0.4)), (1.0, np.arctanh(1 - 6 / (12**3 - 12)))):
        row = of(decided(families([0.1], [early])), EARLY)
        reach = 1.96 * (1.06 / 9) ** 0.5 * np.r_[-1, 1]
        np.testing.assert_allclose((row.low, row.high), np.tanh(centre + reach), rtol=1e-3)


def test_a_random_block_on_top_may_be_luck():
    # One of twelve: by luck in one seed of 12, in two of 144; one of four in two of 16.
    for seeds, operators, status in ((1, 12, "undecided"), (2, 12, "shown"), (2, 4, "undecided")):
        numbers = families([0.0] * seeds, [0.9] * seeds, operators)
        assert of(decided(numbers, seeds, operators), TOP).status == status


def test_schedules_are_contrasted_seed_by_seed():
    constant, cosine = [0.1, 0.5, 0.3], [0.9, 0.6, 0.8]
    both = [
        families(initial, [0.9] * 3, schedule=schedule)
        for schedule, initial in (("constant", constant), ("cosine", cosine))
    ]
    rows = decided(pd.concat(both), 3, **{"sweep.schedule": ("constant", "cosine")})
    row = next(row for row in rows if "cosine minus constant" in row.item)
    differences = np.subtract(cosine, constant)
    reach = 4.3027 * differences.std(ddof=1) / 3**0.5
    np.testing.assert_allclose((row.low, row.high), differences.mean() + reach * np.r_[-1, 1], 1e-3)
    assert row.status == "undecided"


def noise_status(losses, lost=(), asked=None):
    """Decides on final losses [seeds, operators] without the lost (seed, operator)."""
    rows = [
        {"seed": seed, "index": 4 - place, "final_loss": loss}
        for (seed, place), loss in np.ndenumerate(losses)
        if (seed, place) not in lost
    ]
    fixed = {"kind": "encoder", "schedule": "constant", "block_size": 2, "source": "random"}
    table = pd.DataFrame(rows).assign(**fixed)
    (row,) = decided(table, asked or len(losses), losses.shape[1], noise_claims)
    return row.status


def test_final_losses_are_told_apart_where_they_differ_by_more_than_noise():
    rng = np.random.default_rng(0)
    noise = 0.01 * rng.normal(size=(5, 6))
    apart = 3 + 0.1 * np.arange(6) + noise
    assert noise_status(apart) == "shown" and noise_status(noise) == "not shown"
    for losses in (*rng.normal(size=(4, 2, 12)), np.ones((2, 12)), apart[:1]):
        assert not noise_status(losses).startswith("shown")
    spoiled = (noise_status(apart, {(1, 3)}), noise_status(apart, asked=6))
    assert {*spoiled, noise_status(apart[:, :3])} == {"condition not met"}
