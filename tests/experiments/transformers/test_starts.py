"""From which V_0 both are trained to the end: Fisher's test, and successes by scale."""

import math

import numpy as np
import pandas as pd
import pytest
from small_sweeps import maker

from lsa_jax.experiments.transformers import settings
from lsa_jax.experiments.transformers.starts import training_claims

make = maker(settings, {"sweep.cases": ((6, 3, 2),)})


def near_and_random(near, random, seeds, keep=lambda rows: rows):
    """Returns the first claim where so many seeds succeed from near and random starts.

    Only the runs that `keep` leaves count.
    """
    config, _ = make(
        question="value_random", sweep__randomness=(0.0, 1.0), sweep__seed=tuple(range(seeds))
    )
    rows = pd.DataFrame(settings.sweep(config))
    right = np.r_[np.arange(seeds) < near, np.arange(seeds) < random]
    rows = rows.assign(status="ok", success=right.astype(float), loss=np.arange(2.0 * seeds))
    return training_claims(config, keep(rows))[0]


def luck(seeds, random):
    """Returns how likely it is that all that fail of two times `seeds` have a random start."""
    failed = seeds - random
    return math.comb(seeds, failed) / math.comb(2 * seeds, failed)


@pytest.mark.parametrize(("seeds", "random"), [(3, 0), (4, 0), (4, 1), (5, 1), (8, 7), (8, 3)])
def test_near_and_random_starts_are_told_apart_by_fishers_test(seeds, random):
    claim = near_and_random(seeds, random, seeds)
    if luck(seeds, random) <= 0.025:
        assert (claim.status, claim.note) == ("shown", "")
        return
    more = range(seeds + 1, 99)
    first = next(n for n in more if luck(n, round(random * n / seeds)) <= 0.025)
    assert (claim.status, claim.note) == ("undecided", f"it would take about {first} seeds")


def test_no_number_of_seeds_tells_equal_rates_apart():
    assert near_and_random(5, 5, 5).note == "it would take no number of seeds, at these rates"
    assert near_and_random(200, 199, 200).note == "it would take more than 1000 seeds"


def test_one_random_start_does_not_tell_however_many_are_near():
    one = near_and_random(5, 0, 5, lambda rows: rows.drop(index=range(6, 10)))
    assert one.status == "undecided" and "it would take 2 seeds or more" in one.note


@pytest.mark.parametrize("lost", [2, 3])
def test_starts_without_a_number_are_told_with_what_the_others_lack(lost):
    def keep(rows):
        return rows.assign(success=rows["success"].mask(rows.index < lost))

    claim = near_and_random(3, 0, 3, keep)
    assert claim.status == "undecided" and f"{lost} of 3 runs have no number" in claim.note
    assert ("it would take about" in claim.note) == (lost < 3)


def by_scale(successes, scales=(0.1, 1.0, 10.0), shares=(0.0, 0.25, 1.0), seeds=4):
    """Returns the claims where `successes[r]` has the seeds that succeed at each scale."""
    config, _ = make(
        question="value_random",
        sweep__randomness=shares,
        sweep__value_scale=scales,
        sweep__seed=tuple(range(seeds)),
    )
    rows = pd.DataFrame(settings.sweep(config))
    keys = zip(rows["randomness"], rows["value_scale"], rows["seed"], strict=True)
    right = [float(seed < successes[r][scales.index(c)]) for r, c, seed in keys]
    rows = rows.assign(status="ok", success=right, loss=np.arange(float(len(rows))))
    return training_claims(config, rows)


def test_successes_are_told_by_scale_and_where_one_scale_makes_the_difference():
    itself, near, random = by_scale({0.0: (4, 4, 4), 0.25: (4, 4, 4), 1.0: (4, 3, 0)})
    assert itself.item == "runs that succeed from cP itself, r = 0"
    assert near.item == "runs that succeed from V_0 near cP, r = 0.25"
    assert random.ours == "7 of 12: 4 of 4 at c = 0.1, 3 of 4 at c = 1, 0 of 4 at c = 10"
    for claim in (itself, near):
        assert (claim.status, claim.ours) == ("shown", "12 of 12: 4 of 4 at each c")
        assert claim.note == "random starts are shown to succeed less often at c = 10 alone"


def test_no_scale_is_named_where_all_are_alike_or_none_tells():
    alike = by_scale({0.0: (4, 4), 1.0: (0, 0)}, (0.1, 1.0), (0.0, 1.0))
    assert (alike[0].status, alike[0].note) == ("shown", "")
    # Two of five seeds are hard at each scale, other ones at the other: together four.
    config, _ = make(
        question="value_random",
        sweep__randomness=(0.0, 1.0),
        sweep__value_scale=(0.1, 1.0),
        sweep__seed=tuple(range(5)),
    )
    rows = pd.DataFrame(settings.sweep(config)).assign(status="ok")
    hard = {0.1: (0, 1), 1.0: (2, 3)}
    right = [
        float(r == 0 or seed not in hard[c])
        for r, c, seed in zip(rows["randomness"], rows["value_scale"], rows["seed"], strict=True)
    ]
    itself, _ = training_claims(config, rows.assign(success=right, loss=np.arange(20.0)))
    assert itself.status == "shown"
    assert itself.note == "random starts are shown to succeed less often at no c by itself"


def test_the_nearest_start_but_cp_itself_is_claimed_beside_it():
    shares = (0.0, 0.25, 0.5, 1.0)
    fails = {0.0: (4,), 0.25: (4,), 0.5: (1,), 1.0: (0,)}
    itself, near, random = by_scale(fails, (1.0,), shares)
    assert [claim.status for claim in (itself, near, random)] == ["shown", "shown", "measured"]
    assert (near.ours, random.ours) == ("4 of 4", "0 of 4")
    itself, near, _ = by_scale(fails | {0.25: (3,)}, (1.0,), shares)
    assert (itself.status, near.status, near.ours) == ("shown", "not shown", "3 of 4")
    near, _ = by_scale(fails, (1.0,), (0.25, 1.0))
    assert near.item.endswith("r = 0.25") and near.status == "shown"
