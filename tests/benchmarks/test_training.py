"""The suite `training`: both sides train the same network, and without a peer it is skipped."""

import importlib.util

import jax
import numpy as np
import pytest

from benchmarks import training
from benchmarks.measure import Skipped
from benchmarks.works import WORKS


def test_every_work_is_listed_and_skipped_where_its_peer_is_not_installed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    skipped = list(training.contests(quick=True))
    assert tuple(work.work for work in skipped) == WORKS["training"]
    assert all(isinstance(work, Skipped) for work in skipped)
    assert skipped[0].reason == "torch is not installed"


@pytest.mark.parametrize("work", WORKS["training"])
def test_networks_have_an_output_for_each_target(work):
    work = training._work(work, quick=True)
    inputs, targets = training._data(work)[0]
    params = jax.eval_shape(lambda key: work.model.init(key, work.example), jax.random.key(0))
    outputs = jax.eval_shape(work.model.apply, params, inputs)
    assert outputs.shape[: targets.ndim] == targets.shape


# PyTorch's, on its own functions.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("work", WORKS["training"])
def test_loss_and_gradient_are_those_of_pytorch(work):
    pytest.importorskip("torch", reason="the peer is not installed")
    contest = training._contest(work, training._work(work, quick=True))
    ours = contest.ours()
    assert contest.count == 6 and len(ours) > 500
    for way in set(contest.peers) - {"torch.compile"}:  # which takes a minute
        theirs = contest.peers[way]()
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
        np.testing.assert_allclose(ours[1:], theirs[1:], atol=1e-4 * np.abs(theirs[1:]).max())
