"""Pairs trained together and one after the other end at the same weights."""

from benchmarks import stability
from benchmarks.measure import measure


def test_both_ways_of_training_pairs_give_the_same():
    (contest,) = stability.contests(quick=True)
    assert measure(contest, 1)["max_rel_diff"] < 1e-5
