"""Steps on the covariances of equal positions, and of all pairs of them, against loops."""

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import backend
from lsa_jax.kernels.infinite.layouts import (
    EQUAL_POSITIONS,
    PAIRS_OF_POSITIONS,
    mean_over_positions,
    pool,
)
from lsa_jax.kernels.infinite.pointwise import Scale
from lsa_jax.kernels.infinite.steps import Affine, Pool
from lsa_jax.kernels.infinite.windows import Windows

RNG = np.random.default_rng(0)
H, W, ROWS, COLUMNS = 3, 4, 2, 5
EQUAL, PAIRS = (
    RNG.normal(size=(*shape, ROWS, COLUMNS)).astype(np.float32) for shape in ((H, W), (H, W, H, W))
)
WINDOW = Windows((3, 2), (2, 1), "SAME")
# With windows of 3 a step of 2 apart there is a row of zeros above and below three rows; with
# windows of 2 a column of zeros behind.
PLACES = [(2 * p, q) for p in range(2) for q in range(4)]


def padded(x, axes):
    pads = [(1, 1) if axis in axes[0] else (0, axis in axes[1]) for axis in range(x.ndim)]
    return np.pad(x, pads)


def test_equal_positions_are_the_diagonal_of_all_pairs():
    found = np.asarray(PAIRS_OF_POSITIONS.equal_positions(jnp.array(PAIRS)))
    for h in range(H):
        for w in range(W):
            np.testing.assert_array_equal(found[h, w], PAIRS[h, w, h, w])
    one = jnp.array(EQUAL)
    assert EQUAL_POSITIONS.equal_positions(one) is one
    assert EQUAL_POSITIONS.positions(one) == 12
    assert PAIRS_OF_POSITIONS.positions(jnp.array(PAIRS)) == 12
    assert (EQUAL_POSITIONS.axes(one), PAIRS_OF_POSITIONS.axes(jnp.array(PAIRS))) == (2, 2)
    means = mean_over_positions(jnp.array(PAIRS), 4)
    np.testing.assert_allclose(means, PAIRS.mean((0, 1, 2, 3)), rtol=1e-5, atol=1e-6)


def test_a_convolution_averages_over_a_window_that_moves_in_both_examples_together():
    step = Affine(1, 1.0, None, "ntk", WINDOW)
    equal = np.asarray(EQUAL_POSITIONS.window_mean(jnp.array(EQUAL), step))
    pairs = np.asarray(PAIRS_OF_POSITIONS.window_mean(jnp.array(PAIRS), step))
    one, two = padded(EQUAL, ([0], [1])), padded(PAIRS, ([0, 2], [1, 3]))
    for p, q in PLACES:
        expected = one[p : p + 3, q : q + 2].sum((0, 1)) / 6
        np.testing.assert_allclose(equal[p // 2, q], expected, rtol=1e-5, atol=1e-6)
        for s, t in PLACES:
            shifts = [(i, j) for i in range(3) for j in range(2)]
            expected = sum(two[p + i, q + j, s + i, t + j] for i, j in shifts) / 6
            np.testing.assert_allclose(pairs[p // 2, q, s // 2, t], expected, rtol=1e-5, atol=1e-6)


def test_a_pool_averages_over_windows_of_each_example_alone():
    found = np.asarray(pool(jnp.array(PAIRS), Pool(WINDOW)))
    whole = padded(PAIRS, ([0, 2], [1, 3]))
    for p, q in PLACES:
        for s, t in PLACES:
            expected = whole[p : p + 3, q : q + 2, s : s + 3, t : t + 2].sum((0, 1, 2, 3)) / 36
            np.testing.assert_allclose(found[p // 2, q, s // 2, t], expected, rtol=1e-5, atol=1e-6)
    every = pool(jnp.array(PAIRS), Pool())
    np.testing.assert_allclose(every, PAIRS.mean((0, 1, 2, 3)), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("platform", ["cpu", "gpu"])
def test_what_acts_on_each_position_sees_the_scales_of_both_examples_there(platform):
    own = RNG.normal(size=(H, W, ROWS)).astype(np.float32)
    others = RNG.normal(size=(H, W, COLUMNS)).astype(np.float32)
    for_pairs = np.broadcast_to(own[..., None], (H, W, ROWS, COLUMNS)) * (1 + np.arange(COLUMNS))

    def act(x, scale1, scale2):
        return (x[0] + scale1.std + 10 * scale2.std + scale1.inverse * scale2.inverse,)

    def scale(std):
        return Scale(jnp.array(std), jnp.array(-std), jnp.array(std))

    for first in (own, for_pairs.astype(np.float32)):
        wide = first if first.ndim == 4 else first[..., None]
        cases = (
            (EQUAL_POSITIONS, EQUAL, wide, others[:, :, None]),
            (PAIRS_OF_POSITIONS, PAIRS, wide[:, :, None, None], others[None, None, :, :, None]),
            # Without positions, as after all of them were put in a row.
            (EQUAL_POSITIONS, EQUAL[0, 0], wide[0, 0], others[0, 0, None]),
        )
        for layout, x, one, other in cases:
            sides = [scale(a if x.ndim > 2 else a[0, 0]) for a in (first, others)]
            with backend.built_for(platform):
                (found,) = layout.over_positions(act, (jnp.array(x),), *sides)
            expected = x + one + 10 * other + one * other
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("size", [2, 40])
def test_products_and_distances_are_sums_over_features(platform, size):
    one = RNG.normal(size=(H, W, size, ROWS)).astype(np.float32)
    other = RNG.normal(size=(H, W, size, COLUMNS)).astype(np.float32)
    products = np.einsum("hwka,xykb->hwxyab", one.astype(float), other)
    squares = [(side.astype(float) ** 2).sum(-2) for side in (one, other)]
    distances = (squares[0][:, :, None, None, :, None] + squares[1][:, :, None]) / 2 - products
    for name, expected in (("products", products), ("half_distances", distances)):
        with backend.built_for(platform):
            of = [getattr(layout, name) for layout in (EQUAL_POSITIONS, PAIRS_OF_POSITIONS)]
            equal, pairs = (function(jnp.array(one), jnp.array(other)) for function in of)
            alone = of[0](jnp.array(one[0, 0]), jnp.array(other[0, 0]))
        np.testing.assert_allclose(alone, expected[0, 0, 0, 0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(pairs, expected, rtol=1e-4, atol=1e-5)
        same = [[expected[h, w, h, w] for w in range(W)] for h in range(H)]
        np.testing.assert_allclose(equal, same, rtol=1e-4, atol=1e-5)


def test_products_are_weighed_by_what_depends_on_them():
    weighted = RNG.normal(size=(H, W, COLUMNS, 2, 3)).astype(np.float32)
    equal = EQUAL_POSITIONS.weigh(jnp.array(EQUAL), jnp.array(weighted))
    pairs = PAIRS_OF_POSITIONS.weigh(jnp.array(PAIRS), jnp.array(weighted))
    expected = sum(EQUAL[..., b, None, None] * weighted[:, :, None, b] for b in range(COLUMNS))
    np.testing.assert_allclose(equal, expected, rtol=1e-4, atol=1e-5)
    expected = sum(
        np.tensordot(PAIRS[..., b], weighted[:, :, b], ((2, 3), (0, 1))) for b in range(COLUMNS)
    )
    np.testing.assert_allclose(pairs, expected, rtol=1e-4, atol=1e-5)
