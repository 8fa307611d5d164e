"""What a plan says is what the calls keep and move, and what its formulas say."""

import math

import numpy as np
import pytest

from lsa_jax.errors import InputError
from lsa_jax.kernels import Hosts, gram, plan
from lsa_jax.kernels.matrices import packed
from lsa_jax.kernels.solve.disk_factor import choose_rows
from lsa_jax.processes import ALONE, ProcessGroup

ONE = Hosts(
    count=1,
    pairs=1e6,
    memory=20e9,
    disk=50e9,
    disk_rate=1e9,
    factorises=1e11,
    multiplies=1e10,
    network=1e9,
    price=3.6,
)


def test_small_matrices_are_factorised_and_larger_ones_iterated_then_kept_on_disk_then_on_centres():
    found = [plan(n, ONE) for n in (1000, 30_000, 50_000, 100_000, 400_000)]
    assert [(one.call, one.where) for one in found] == [
        ("regress", "memory"),
        ("regress", "memory"),  # 9e12 operations at 1e11, against 80 times 1.8e10 at 1e10
        ("regress_cg with a factor", "disk"),  # a third of 9.6e13 at 1e11, against 400 s
        ("regress_cg", "disk"),
        ("regress_nystrom", "memory"),
    ]
    few = plan(50_000, ONE, targets=5)
    assert (few.call, few.where) == ("regress_cg", "memory")


def test_times_and_cost_are_those_of_the_formulas():
    small = plan(1000, ONE, test=100)
    np.testing.assert_allclose(small.kept, 4 * 1000 * 1100)
    np.testing.assert_allclose(small.matrix_seconds, (1000 * 1001 / 2 + 1e5) / 1e6)
    np.testing.assert_allclose(small.seconds - small.matrix_seconds, 1e9 / 3 / 1e11)
    assert small.moved == 0 and small.iteration_seconds == 0
    streamed = plan(400_000, ONE, test=100, centres=3000)
    np.testing.assert_allclose(streamed.kept, 8 * 4 * 3000**2)
    np.testing.assert_allclose(streamed.matrix_seconds, 400_000 * 3000 / 1e6)
    solving = 2 * 400_000 * 3000**2 / 1e11
    np.testing.assert_allclose(streamed.seconds - streamed.matrix_seconds, solving)
    factor = plan(50_000, ONE, test=100)
    solving = 50_000**3 / 3 / 1.3e11 + 8 * 2 * 50_000**2 * 10 / 1e10
    np.testing.assert_allclose(factor.seconds - factor.matrix_seconds, solving)
    np.testing.assert_allclose(factor.kept, 4 * 50_000 * (50_000 + 100))
    # Each panel, which with its square part is a fifth of the memory, reads those before it.
    slow = plan(50_000, ONE._replace(disk_rate=1e7), test=100, iterations=400)
    rows = choose_rows(50_000, 20e9)
    solving = 4 * (50_000**3 / 6 / rows + 50_000**2 / 2) / 1e7 + 8 * 2 * 50_000**2 * 10 / 1e10
    assert slow.call == "regress_cg with a factor"
    np.testing.assert_allclose(slow.seconds - slow.matrix_seconds, solving)
    large = plan(100_000, ONE, test=0 + 1, targets=2, iterations=50)
    np.testing.assert_allclose(large.iteration_seconds, large.kept / 1e9)  # slower than 4 s
    np.testing.assert_allclose(large.seconds, large.matrix_seconds + 50 * large.iteration_seconds)
    np.testing.assert_allclose(large.cost, large.seconds / 1000)


@pytest.mark.parametrize("count", [64, 1024])
def test_more_hosts_share_all_but_what_each_moves(count):
    few, many = (plan(10**6, ONE._replace(count=c, disk=1e12)) for c in (count, 2 * count))
    assert few.call == many.call == "regress_cg" and few.where == many.where
    np.testing.assert_allclose(few.matrix_seconds, 2 * many.matrix_seconds)
    np.testing.assert_allclose(few.kept, 2 * many.kept)
    assert few.moved == many.moved == 32 * 10**6 * 10
    moving = few.moved / ONE.network
    np.testing.assert_allclose(
        few.iteration_seconds - moving, 2 * (many.iteration_seconds - moving)
    )


def test_what_a_process_keeps_is_what_is_planned():
    n, side = 400, 10
    for group in (ALONE, ProcessGroup(2, 4)):
        kept = 4 * math.prod(packed.stored_shape(n, side, group))
        planned = plan(n, ONE._replace(count=group.size, memory=1e6), test=1, iterations=1).kept
        np.testing.assert_allclose(kept, planned, rtol=1.5 * side / n)
    whole = gram(lambda x1, x2: x1 @ x2.T, np.ones((n, 1), np.float32))
    assert plan(n, ONE, test=1).kept - whole.nbytes == 4 * n


def test_what_is_no_host_is_refused():
    with pytest.raises(InputError, match="n is 0; accepted"):
        plan(0, ONE)
    with pytest.raises(InputError, match="network is 0; accepted"):
        plan(10, ONE._replace(network=0))
