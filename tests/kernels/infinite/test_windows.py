"""Windows over positions against loops."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax.kernels.infinite.windows import Windows, positions_after, shifted

WINDOWS = [
    Windows((3, 2), (1, 1), "VALID"),
    Windows((2, 3), (2, 1), "VALID"),
    Windows((3, 2), (2, 2), "SAME"),
    Windows((4, 3), (1, 2), "SAME"),
]


def cut(x, windows):
    """Cuts all windows out of an image [h, w], with zeros around it: [rows, columns, h, w]."""
    sizes, pads = [], []
    for size, window, stride in zip(x.shape, windows.shape, windows.strides, strict=True):
        starts = range(0, size - window + 1, stride)
        missing = 0
        if windows.padding == "SAME":  # a window at each stride, zeros half before, half behind
            starts = range(0, size, stride)
            missing = max(0, starts[-1] + window - size)
        sizes.append(starts)
        pads.append((missing // 2, missing - missing // 2))
    x, (h, w) = np.pad(x, pads), windows.shape
    return np.array([[x[top : top + h, left : left + w] for left in sizes[1]] for top in sizes[0]])


@pytest.mark.parametrize("windows", WINDOWS)
def test_shifts_are_what_each_window_has_at_an_offset(windows):
    x = np.arange(30.0).reshape(6, 5) + 1
    expected = cut(x, windows)
    assert positions_after(x.shape, windows) == expected.shape[:2]
    assert windows.size == np.prod(expected.shape[2:])
    offsets = itertools.product(*map(range, windows.shape))
    found = shifted(jnp.array(x), windows, [[0], [1]])
    for part, (down, right) in zip(found, offsets, strict=True):
        np.testing.assert_array_equal(part, expected[:, :, down, right])


def test_the_window_moves_along_all_axes_of_one_kind_together():
    x = np.random.default_rng(0).normal(size=(5, 4, 5, 4)).astype(np.float32)
    parts = shifted(jnp.array(x), WINDOWS[0], [[0, 2], [1, 3]])
    for (down, right), part in zip(np.ndindex(3, 2), parts, strict=True):
        rows, columns = slice(down, down + 3), slice(right, right + 3)
        np.testing.assert_array_equal(part, x[rows, columns, rows, columns])


def test_where_no_window_fits_there_are_no_positions():
    assert max(positions_after((2, 1), WINDOWS[0])) <= 0
