import numpy as np
import pytest

from lsa_jax.experiments._weight_pictures import picture_rows, scale_directions, spherical_means
from lsa_jax.experiments.filter_clouds import gradient_cosines, nearest_clusters


@pytest.fixture(scope="module")
def clusters():
    generator = np.random.default_rng(0)
    centres = np.eye(6)[:3]
    return centres.repeat(8, axis=0) + 0.1 * generator.normal(size=(24, 6))


def test_places_keep_the_order_of_cosine_distances(clusters):
    placed = scale_directions(1e-30 * clusters)
    away = np.linalg.norm(placed[:, None] - placed[None], axis=2)
    same = np.equal.outer(np.arange(24) // 8, np.arange(24) // 8)
    assert away[same].max() < away[~same].min()
    np.testing.assert_array_equal(placed, scale_directions(1e-30 * clusters))


def test_spherical_means_find_planted_clusters(clusters):
    centres, cluster = spherical_means(clusters, 3)
    assert len({tuple(np.unique(own)) for own in cluster.reshape(3, 8)}) == 3
    np.testing.assert_allclose(np.linalg.norm(centres, axis=1), 1)
    assert np.abs(centres @ centres.T - np.eye(3)).max() < 0.2


def test_pictures_leave_out_dead_neurons_and_follow_the_others(clusters):
    dead = clusters.copy()
    dead[0] = 0
    rows = picture_rows([0, 1], [clusters, dead], np.eye(6)[:2])
    assert [len(row["places"]) for row in rows] == [24, 23]
    assert list(rows[0]["nearest"]) == [-1] + [0] * 7 + [1] * 8 + [-1] * 8


def test_the_two_clusters_are_the_filters_nearest_to_opposite_centres():
    generator = np.random.default_rng(1)
    filters = np.concatenate([np.tile([1.0, 0, 0, 0], (10, 1)), np.tile([-1.0, 0, 0, 0], (10, 1))])
    filters += 0.1 * generator.normal(size=filters.shape)
    _, members, measures = nearest_clusters(filters, 0.25)
    assert sorted(int(own.min()) // 10 for own in members) == [0, 1]
    assert [len(own) for own in members] == [5, 5]
    assert measures["centres_cosine"] < -0.9 and measures["first_cosine"] > 0.9


def test_gradient_cosines_are_those_of_the_chunks_and_their_mean():
    found = gradient_cosines(np.array([[3.0, 0.0], [0.0, 3.0], [3.0, 3.0]]))
    assert found["v1_v2"] == pytest.approx(0) and found["v1_v3"] == pytest.approx(0.5**0.5)
    assert found["v3_v"] == pytest.approx(1)
