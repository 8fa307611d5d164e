"""Kernels of random examples for tests of all solvers."""

import numpy as np
import pytest


def rbf(a, b):
    """A Gaussian kernel of vectors, in float64."""
    return np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 4)


@pytest.fixture(scope="session")
def drawn():
    """Returns a function that draws K, Y, K_test and the kernel of the test examples."""

    def draw(n, m=8, outputs=3, dimensions=3, noise=0.2):
        rng = np.random.default_rng(n)
        x, test = rng.normal(size=(n, dimensions)), rng.normal(size=(m, dimensions))
        # A diagonal that is neither 1 nor constant: a ridge is a share of its mean.
        s, t = rng.uniform(0.7, 2, size=(n, 1)), rng.uniform(0.7, 2, size=(m, 1))
        targets = np.tanh(x @ rng.normal(size=(dimensions, outputs)))
        targets += noise * rng.normal(size=targets.shape)
        return s * rbf(x, x) * s.T, targets, t * rbf(test, x) * s.T, t * rbf(test, test) * t.T

    return draw
