"""The suite `solvers`: every way solves the same system."""

import numpy as np
import pytest

from benchmarks import solvers
from benchmarks.measure import Contest
from benchmarks.works import WORKS


@pytest.fixture(scope="module")
def contests():
    return list(solvers.contests(quick=True))


def test_every_work_is_listed(contests):
    names = [work.work.removesuffix(", 60 examples") for work in contests]
    assert tuple(names) == WORKS["solvers"]


def test_both_sides_solve_the_same_system(contests):
    run = [contest for contest in contests if isinstance(contest, Contest)]
    assert len(run) >= 2  # against scipy, and other installed peers
    expected = run[0].ours()
    assert expected.shape == (60, 10)
    for contest in run:
        for way in (contest.ours, *contest.peers.values()):
            np.testing.assert_allclose(way(), expected, atol=1e-6 * np.abs(expected).max())
