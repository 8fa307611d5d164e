"""Filters of a ResNet: what is measured of them, block by block."""

import numpy as np
import pytest

from lsa_jax.experiments.feature_learning.filter_clouds import experiment, settings
from lsa_jax.sweep.variants import set_fields


def configure(**fields):
    named = {name.replace("__", "."): value for name, value in fields.items()}
    return set_fields(settings.default_config(), {"epochs": (3, 20), **named})


@pytest.fixture
def network(monkeypatch):
    """Returns stages of a network with 8 filters a block, and gradients of three thirds."""
    rng = np.random.default_rng(0)
    start = [rng.normal(size=(1, 1, 5, 8)) for _ in range(4)]
    early = [s + rng.normal(size=s.shape) for s in start]
    end = [e + 0.1 * rng.normal(size=e.shape) for e in early]
    monkeypatch.setattr(experiment, "last_filters", lambda params, block: params[block])
    gradients = [rng.normal(size=(3, 5, 8)) for _ in range(4)]
    return [start, early, end], gradients


def test_directions_turn_by_one_minus_their_mean_cosine_from_picture_to_picture(network):
    stages, gradients = network
    metrics, pictures = experiment._measure(configure(), stages, gradients)
    for block in range(4):
        for (first, before), (last, after) in (
            ((0, stages[0]), (3, stages[1])),
            ((3, stages[1]), (20, stages[2])),
        ):
            a, b = (part[block].reshape(5, 8) for part in (before, after))
            cosines = [
                a[:, f] @ b[:, f] / np.linalg.norm(a[:, f]) / np.linalg.norm(b[:, f])
                for f in range(8)
            ]
            found = metrics[f"block{block + 1}_moved_{first}_{last}"]
            assert found == pytest.approx(1 - np.mean(cosines))
    assert [(row["block"], row["picture"]) for row in pictures] == [
        (block, epoch) for block in (1, 2, 3, 4) for epoch in (0, 3, 20)
    ]


def test_clusters_are_those_of_the_end_and_the_gradients_those_of_their_nearest_filter(network):
    stages, gradients = network
    metrics, pictures = experiment._measure(configure(near_share=0.25), stages, gradients)
    rows = stages[2][3].reshape(5, 8).T
    _, members, measured = experiment.nearest_clusters(rows, 0.25)
    _, _, untrained = experiment.nearest_clusters(stages[0][3].reshape(5, 8).T, 0.25)
    assert metrics["block4_centres_cosine"] == measured["centres_cosine"]
    assert metrics["block4_start_centres_cosine"] == untrained["centres_cosine"]
    own = experiment.gradient_cosines(gradients[3][:, :, members[0][0]])
    assert {name: metrics[name] for name in own} == own
    nearest = pictures[-1]["nearest"]
    assert sorted(np.flatnonzero(nearest == 0)) == sorted(members[0])
    assert sorted(np.flatnonzero(nearest == 1)) == sorted(members[1])
    assert (nearest == -1).sum() == 8 - len(set(members[0]) | set(members[1]))
