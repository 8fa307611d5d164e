"""Slow computations of what several files test."""

import numpy as np


def convolved(x, weight, strides, padding):
    """Convolution by its definition, in float64, with the padding rule written out."""
    x, weight = np.asarray(x, np.float64), np.asarray(weight, np.float64)
    window = weight.shape[:2]
    if padding == "SAME":
        out = [-(-x.shape[axis + 1] // strides[axis]) for axis in (0, 1)]
        total = [
            max((out[axis] - 1) * strides[axis] + window[axis] - x.shape[axis + 1], 0)
            for axis in (0, 1)
        ]
        x = np.pad(x, [(0, 0), *((t // 2, t - t // 2) for t in total), (0, 0)])
    out = [(x.shape[axis + 1] - window[axis]) // strides[axis] + 1 for axis in (0, 1)]
    y = np.zeros((len(x), *out, weight.shape[-1]))
    for p in range(out[0]):
        for q in range(out[1]):
            top, left = p * strides[0], q * strides[1]
            patch = x[:, top : top + window[0], left : left + window[1]]
            y[:, p, q] = np.einsum("nhwc,hwcf->nf", patch, weight)
    return y
