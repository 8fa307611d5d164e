"""Places of directions in the plane, and their clusters."""

import numpy as np
import pytest

from lsa_jax.experiments.feature_learning.pictures import (
    picture_rows,
    scale_directions,
    silhouette,
    spherical_means,
)
from lsa_jax.experiments.feature_learning.weight_clouds.experiment import best_count


@pytest.fixture(scope="module")
def clusters():
    generator = np.random.default_rng(0)
    centres = np.eye(6)[:3]
    return centres.repeat(8, axis=0) + 0.1 * generator.normal(size=(24, 6))


def test_places_of_directions_in_a_plane_are_at_their_distances():
    angles = np.array([0.0, 0.3, 0.5])
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1) * [[1], [5], [0.2]]
    placed = scale_directions(rows)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        expected = 1 - np.cos(angles[i] - angles[j])
        assert np.linalg.norm(placed[i] - placed[j]) == pytest.approx(expected, abs=0.02)


def test_spherical_means_find_planted_clusters(clusters):
    centres, cluster = spherical_means(clusters, 3)
    assert len({tuple(np.unique(own)) for own in cluster.reshape(3, 8)}) == 3
    unit = clusters / np.linalg.norm(clusters, axis=1, keepdims=True)
    for own, centre in zip(unit.reshape(3, 8, 6), centres[cluster[::8]], strict=True):
        mean = own.mean(axis=0)
        np.testing.assert_allclose(centre, mean / np.linalg.norm(mean))


def test_pictures_leave_out_dead_neurons_and_follow_the_others(clusters):
    dead = clusters.copy()
    dead[0] = 0
    rows = picture_rows([0, 1], [clusters, dead], np.eye(6)[:2])
    assert [len(row["places"]) for row in rows] == [24, 23]
    assert list(rows[0]["nearest"]) == [-1] + [0] * 7 + [1] * 8 + [-1] * 8


def test_a_silhouette_parts_clusters_from_random_directions_and_from_one_cluster(clusters):
    generator = np.random.default_rng(3)
    random, one = generator.normal(size=(50, 100)), 1 + 0.3 * generator.normal(size=(50, 100))
    assert silhouette(clusters, spherical_means(clusters, 3)[1]) > 0.9
    for vectors in (random, one):
        assert abs(silhouette(vectors, spherical_means(vectors, 2)[1])) < 0.2
    assert silhouette(random, np.zeros(50, int)) == 0


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_directions_fall_into_as_many_clusters_as_were_planted(number):
    generator = np.random.default_rng(5)
    centres = generator.permutation(np.concatenate([np.eye(6)[:3], -np.eye(6)[:3]]))[:number]
    planted = np.resize(centres, (48, 6)) + 0.1 * generator.normal(size=(48, 6))
    assert best_count(planted * generator.uniform(0.1, 10, size=(48, 1))) == number
    assert best_count(np.eye(3)) == 2  # of three neurons
