"""The row of a contest has its rates and differences."""

import time

import numpy as np
import pytest

from benchmarks import kernels, stability
from benchmarks.measure import Contest, measure
from benchmarks.works import WORKS
from lsa_jax.errors import NumericalError


def _takes(seconds, value):
    def run():
        time.sleep(seconds)
        return np.full(3, value)

    return run


def test_the_ratio_is_to_the_fastest_peer_and_the_difference_to_its_result():
    peers = {"slow": _takes(0.2, 7.0), "fast": _takes(0.06, 2.0)}
    row = measure(Contest("sleep", "3", 30, _takes(0.02, 2.5), "bed", peers), 3)
    assert row["peer"] == "bed, fast"
    assert row["max_rel_diff"] == 0.25
    assert 2 < row["ratio"] < 4.5
    np.testing.assert_allclose(row["ratio"], row["ours_per_s"] / row["peer_per_s"])


def test_waiting_is_no_processor_time():
    def run(busy, wait):
        time.sleep(wait)
        end = time.process_time() + busy
        while time.process_time() < end:
            pass
        return np.ones(3)

    ours, peer = (lambda: run(0.02, 0.1)), {"p": lambda: run(0.06, 0.0)}
    row = measure(Contest("work", "3", 1, ours, "peer", peer), 2)
    np.testing.assert_allclose([row["ours_processor_s"], row["processor_ratio"]], [0.02, 3], 0.2)
    assert row["ratio"] < row["processor_ratio"]


def test_results_that_are_not_finite_do_not_count():
    with pytest.raises(NumericalError, match="nothing: the results are not all finite"):
        contest = Contest("nothing", "1", 1, _takes(0, np.nan), "peer", {"p": _takes(0, 1.0)})
        measure(contest, 1)


def test_every_work_is_listed():
    for name, suite in (("kernels", kernels), ("stability", stability)):
        assert tuple(dict.fromkeys(c.work for c in suite.contests(quick=True))) == WORKS[name]


@pytest.mark.usefixtures("quick_compilation")
@pytest.mark.parametrize("work", ["infinite NTK, 3-layer FC, test-train", "trace over logits"])
def test_both_sides_of_a_contest_compute_the_same(work):
    # neural-tangents in float32 errs by some 1e-4 on the diagonal.
    contest = next(c for c in kernels.contests(quick=True) if work in c.work)
    assert measure(contest, 1)["max_rel_diff"] < 1e-3
