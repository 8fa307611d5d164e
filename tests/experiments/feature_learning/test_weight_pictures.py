import numpy as np
import pytest

from lsa_jax.experiments.feature_learning.filter_clouds.experiment import (
    gradient_cosines,
    nearest_clusters,
)
from lsa_jax.experiments.feature_learning.learning.pictures import (
    picture_rows,
    scale_directions,
    silhouette,
    spherical_means,
)
from lsa_jax.experiments.feature_learning.weight_clouds import experiment as weight_clouds
from lsa_jax.experiments.feature_learning.weight_clouds import settings as neuron_settings
from lsa_jax.experiments.feature_learning.weight_clouds.experiment import (
    best_count,
    make_mixture,
    measure_directions,
)
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields


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


def test_a_silhouette_tells_clusters_from_random_directions_and_from_one_cluster(clusters):
    generator = np.random.default_rng(3)
    random, one = generator.normal(size=(50, 100)), 1 + 0.3 * generator.normal(size=(50, 100))
    assert silhouette(clusters, spherical_means(clusters, 3)[1]) > 0.9
    for vectors in (random, one):
        assert abs(silhouette(vectors, spherical_means(vectors, 2)[1])) < 0.2
    assert silhouette(random, np.zeros(50, int)) == 0


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_cluster_is_covered_if_it_has_a_neuron_near_its_centre(left_out):
    fields = {"data.dataset": "gaussian_mixture", "data.d": 10, "data.k": 4, "clusters": 16}
    fields |= {"data.num_train": 2, "data.num_test": 50, "sweep.seed": (0,)}
    config = set_fields(neuron_settings.default_config(), fields)
    centres = make_mixture(config).centres.inputs
    generator = np.random.default_rng(4)
    start, near = (s * generator.normal(size=(16, 10)) for s in (1.0, 0.1))
    # A cluster left out has its neuron half way to a neighbour: nearer than at the start.
    neighbour = centres[(centres @ centres[0]).round() == 2][:1]
    near[:left_out] += (neighbour - centres[0]) / 2
    row = measure_directions(config, centres + near, np.resize([1.0, -1.0], 16), centres)
    early = measure_directions(config, start, np.resize([1.0, -1.0], 16), centres)
    assert row["least_covered"] > early["least_covered"]
    assert row["share_covered"] == 1 - left_out / 16


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_directions_fall_into_as_many_clusters_as_were_planted(number):
    generator = np.random.default_rng(5)
    centres = generator.permutation(np.concatenate([np.eye(6)[:3], -np.eye(6)[:3]]))[:number]
    planted = np.resize(centres, (48, 6)) + 0.1 * generator.normal(size=(48, 6))
    assert best_count(planted * generator.uniform(0.1, 10, size=(48, 1))) == number


def test_measures_of_a_two_layer_network_are_taken_at_pictures_and_change_nothing(tmp_path):
    fields = {
        "data.dataset": "gaussian_mixture",
        "data.d": 10,
        "data.k": 2,
        "data.num_train": 40,
        "data.num_test": 20,
        "m": 12,
        "init_std": 0.1,
        "batch_size": 8,
        "pictures": (0, 2, 5),
        "sweep.seed": (0, 1),
    }

    def run(directory, **more):
        config = set_fields(neuron_settings.default_config(), fields | more)
        points = make_points(config, neuron_settings.sweep(config), neuron_settings.validate)
        return weight_clouds.run(points, None, directory, lambda fraction: None)

    names = ("kernel_distance", "weight_movement", "agop_correlation")
    measured = run(tmp_path / "measured", measures=names, measured_examples=16)
    for one, other in zip(measured, run(tmp_path / "plain"), strict=True):
        assert one.metrics.items() >= other.metrics.items()
        course = [row for row in one.history if "kernel_distance" in row]
        assert [row["step"] for row in course] == [0, 2, 5]
        assert course[0]["weight_movement/Dense_0"] == 0 < course[1]["weight_movement/Dense_0"]
        assert course[0]["kernel_distance"] == pytest.approx(0, abs=1e-6)
        assert one.metrics["kernel_distance"] == course[-1]["kernel_distance"] > 1e-4
        assert one.metrics["measured_examples"] == 16
