"""A matrix is gone through in blocks that are small and leave nothing out."""

import numpy as np
import pytest

from lsa_jax.kernels.solve import blocks


@pytest.mark.parametrize(
    ("shape", "ends"),
    [
        ((20, 10**6), [0, 8, 16, 20]),  # 64 MB of float64
        ((2, 10**8), [0, 1, 2]),  # a row that is larger goes alone
        ((3, 0), [0, 3]),
    ],
)
def test_blocks_of_rows_take_64_mb_and_are_all_rows_once(shape, ends):
    found = list(blocks.row_blocks(shape))
    assert found == [slice(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]


def test_a_product_is_the_same_in_any_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    matrix, vectors = rng.normal(size=(7, 5)).astype(np.float32), rng.normal(size=(5, 2))
    monkeypatch.setattr(blocks, "_ROWS", 8 * 5 * 3)
    np.testing.assert_allclose(blocks.multiply(matrix, vectors), matrix.astype(float) @ vectors)
    assert blocks.is_finite(matrix)
    matrix[6, 4] = np.inf
    assert not blocks.is_finite(matrix)


def test_an_asymmetry_is_found_wherever_it_is(monkeypatch):
    monkeypatch.setattr(blocks, "_SIDE", 3)
    half = np.random.default_rng(0).normal(size=(8, 8))
    for row, column in np.ndindex(8, 8):
        matrix = half + half.T
        matrix[row, column] += 2.0
        expected = 2.0 * (row != column)
        np.testing.assert_allclose(blocks.asymmetry(matrix), expected, atol=1e-12)
