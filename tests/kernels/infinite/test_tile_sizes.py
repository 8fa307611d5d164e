"""Tiles of infinite-width kernels stay in the cache and leave few lanes of a processor empty."""

import itertools
import math

import pytest

from lsa_jax import backend
from lsa_jax.kernels.infinite import tile_sizes

# Covariances of a pair of examples: fully connected, and positions of 2, 13, 20 and 32 a side.
POSITIONS = (1, 4, 169, 400, 1024)
SIZES = (1, 7, 64, 100, 129, 500, 1024, 5000)


def _tile(platform, numbers, n1, n2, before_pools=False):
    with backend.built_for(platform):
        return tile_sizes.tile_size(numbers, n1, n2, before_pools=before_pools)


@pytest.mark.parametrize("positions", POSITIONS)
def test_tiles_of_accelerators_have_whole_vectors_and_those_of_tpus_stay_in_vector_memory(
    positions,
):
    for platform in ("gpu", "tpu"):
        rows, columns = _tile(platform, positions, 1024, 1024)
        assert columns % 128 == 0
        if platform == "tpu":  # what comes in and what goes out, of both covariances, of 128 MiB
            assert 4 * 4 * positions * rows * columns <= 100e6


@pytest.mark.parametrize("n2", SIZES)
def test_a_cpus_columns_are_whole_vectors_of_which_little_is_to_be_filled_up(n2):
    for positions, n1 in itertools.product(POSITIONS, SIZES):
        _, columns = _tile("cpu", positions, n1, n2)
        assert columns % 8 == 0
        filled_up = math.ceil(n2 / columns) * columns - n2
        assert filled_up < 8 or filled_up <= 0.2 * n2


@pytest.mark.parametrize("positions", POSITIONS)
def test_tiles_are_as_large_as_the_cache_and_no_larger(positions):
    rows, columns = _tile("cpu", positions, 4096, 4096)
    most = 4.5e5 / positions
    assert rows * columns <= most
    # Up to what cutting 4,096 into equal rows gives away, or the largest side that is tried.
    assert rows == 256 or 1.5 * rows * columns >= most
    assert 24 <= columns <= 256


@pytest.mark.parametrize(
    "platform, largest, least", [("cpu", 256, 24), ("gpu", 1024, 128), ("tpu", 1024, 128)]
)
def test_no_side_is_larger_than_the_largest(platform, largest, least):
    with backend.built_for(platform):
        assert tile_sizes.largest_side() == largest
    rows, columns = _tile(platform, 1, 100_000, 100_000)
    assert rows <= largest and least <= columns <= largest
    assert max(rows, columns) >= largest // 2


def test_columns_are_three_quarters_of_what_suits_or_more_and_half_as_many_again_at_most():
    # 1,024 positions suit 32 columns.
    found = {_tile("cpu", 1024, 1024, n2)[1] for n2 in range(25, 2000)}
    assert found == {24, 32, 40}
    for positions in (1, 4, 169):
        suit = int(math.sqrt(4.5e5 / positions))
        found = {_tile("cpu", positions, 1024, n2)[1] for n2 in range(suit, 2000)}
        assert 0.75 * min(suit, 256) <= min(found) and max(found) <= min(1.5 * suit, 256)


def test_of_columns_that_leave_as_little_the_nearest_is_taken():
    assert _tile("cpu", 1024, 1024, 960)[1] == 32  # 24, 40 and 48 divide it, too


def test_tiles_beyond_the_cache_are_one_row_of_columns():
    assert _tile("cpu", 10**6, 1024, 1024) == (1, 32)
    assert _tile("tpu", 10**7, 1024, 1024) == (1, 128)


@pytest.mark.parametrize("n1, n2", [*itertools.product((1, 5, 31), (1, 3, 8, 30))])
def test_a_matrix_smaller_than_a_tile_is_one(n1, n2):
    assert _tile("cpu", 1, n1, n2) == (n1, 8 * math.ceil(n2 / 8))


@pytest.mark.parametrize(
    "positions, tile",
    [(32**2, (27, 16)), (64**2, (6, 16)), (300_000, (1, 16)), (10**6, (1, 4)), (10**7, (1, 1))],
)
def test_before_pools_columns_get_fewer_where_a_vector_of_them_is_ten_caches(positions, tile):
    # 16 columns are two vectors. Ten times the cache's 450,000 numbers hold 4 pairs of 10^6.
    assert _tile("cpu", positions, 100_000, 100_000, before_pools=True) == tile


def test_a_tpu_has_a_larger_budget_before_pools_and_a_gpu_the_same():
    for platform, before, after in (("tpu", 3e7, 5e6), ("gpu", 3e7, 3e7)):
        for before_pools, most in ((True, before), (False, after)):
            rows, columns = _tile(platform, 1000, 1024, 1024, before_pools=before_pools)
            assert most / 2 < 1000 * rows * columns <= most
