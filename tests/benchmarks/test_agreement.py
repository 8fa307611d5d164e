"""The suite `agreement`: both sides compute the same."""

import importlib.util

import numpy as np
import pytest

from benchmarks import agreement, torch_peers
from benchmarks.measure import Contest

pytestmark = pytest.mark.usefixtures("quick_compilation")


def _without(monkeypatch, *modules):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in modules else find(name)
    )


@pytest.mark.parametrize("work", ["infinite NTK, layer Residual", "finite NTK, CNN"])
def test_both_sides_compute_the_same_in_float64(work, monkeypatch):
    _without(monkeypatch, "torch", "nngeometry")
    contest = next(c for c in agreement.contests(quick=True) if c.work.startswith(work))
    assert isinstance(contest, Contest)
    ours, theirs = contest.ours(), next(iter(contest.peers.values()))()
    assert ours.dtype == theirs.dtype == np.float64
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-13 * np.abs(theirs).max())


def test_weights_of_flattened_images_are_reordered_for_channels_first():
    rng = np.random.default_rng(0)
    images, weight = rng.standard_normal((2, 4, 5, 3)), rng.standard_normal((60, 7))
    found = images.transpose(0, 3, 1, 2).reshape(2, 60) @ torch_peers._channels_first(weight, 3)
    np.testing.assert_allclose(found, images.reshape(2, 60) @ weight, atol=1e-13)
