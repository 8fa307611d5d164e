import numpy as np
import pandas as pd
import pytest

from lsa_jax.experiments.feature_learning.filter_clouds import report, settings
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
from lsa_jax.experiments.feature_learning.numbers import FILTER_CLUSTERS, GRADIENT_COSINES
from lsa_jax.experiments.feature_learning.weight_clouds import experiment as weight_clouds
from lsa_jax.experiments.feature_learning.weight_clouds import report as weight_clouds_report
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


def filter_row(generator, turn, common):
    """Returns a network whose filters turn to +-1 along an axis, whose gradients have a part."""
    start = generator.normal(size=(40, 144))
    axis = turn * np.sign(start[:, :1]) * np.eye(144)[:1]
    row = {"filters": 2, "status": "ok", "test_accuracy": 0.9}
    for block in range(1, 5):
        for when, filters in (("start_", start), ("", start + axis)):
            _, _, measured = nearest_clusters(filters, 0.1)
            row |= {f"block{block}_{when}{name}": value for name, value in measured.items()}
        row |= {f"block{block}_moved_0_3": 0.5, f"block{block}_moved_3_20": 0.1}
    return row | gradient_cosines(generator.normal(size=(3, 144)) + common)


@pytest.mark.parametrize(
    ("turn", "common", "status"), [(0.0, 0.0, "not shown"), (30.0, 3.0, "shown")]
)
def test_clusters_and_agreement_are_shown_of_filters_that_have_them_and_not_of_random_ones(
    turn, common, status
):
    generator = np.random.default_rng(0)
    results = pd.DataFrame([filter_row(generator, turn, common) for _ in range(3)])
    config = set_fields(settings.default_config(), {"sweep.seed": (0, 1, 2), "near_share": 0.5})
    claims = report.make_claims(config, results.assign(filters=6))
    assert [claim.status for claim in claims[:2]] == [status] * 2


def test_the_paper_s_own_cosines_are_shown_and_those_of_its_other_width_not_all():
    config = set_fields(settings.default_config(), {"sweep.seed": (0, 1)})
    config.epochs = ()
    for source, statuses in ((128, {"shown"}), (256, {"shown", "not shown"})):
        row = {"filters": 128, "status": "ok", "test_accuracy": 0.9575}
        for block, cosines in enumerate(FILTER_CLUSTERS[source], start=1):
            row[f"block{block}_centres_cosine"] = cosines[2]
            row[f"block{block}_start_centres_cosine"] = 0.0
        row |= GRADIENT_COSINES[source]
        claims = report.make_claims(config, pd.DataFrame([row, row | {"test_accuracy": 0.957}]))
        printed = [claim.status for claim in claims if "within 0.1" in claim.item]
        assert len(printed) == 7 and set(printed) == statuses


def test_a_silhouette_tells_clusters_from_random_directions_and_from_one_cluster(clusters):
    generator = np.random.default_rng(3)
    random, one = generator.normal(size=(50, 100)), 1 + 0.3 * generator.normal(size=(50, 100))
    assert silhouette(clusters, spherical_means(clusters, 3)[1]) > 0.9
    for vectors in (random, one):
        assert abs(silhouette(vectors, spherical_means(vectors, 2)[1])) < 0.2
    assert silhouette(random, np.zeros(50, int)) == 0


@pytest.mark.parametrize(("left_out", "status"), [(0, "shown"), (1, "not shown")])
def test_every_cluster_is_covered_only_if_each_has_a_neuron_near_its_centre(left_out, status):
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
    row |= {f"start_{name}": value for name, value in early.items()}
    row |= {"status": "ok", "test_accuracy": 1.0}
    claim, _ = weight_clouds_report.make_claims(config, pd.DataFrame([row]))
    assert (claim.ours, claim.status) == (1 - left_out / 16, status)


@pytest.mark.parametrize(("value", "status"), [(0.2, "not shown"), (0.8, "shown")])
def test_neurons_on_images_form_clusters_only_if_their_silhouette_says_so(value, status):
    row = {"start_silhouette": 0.1, "test_accuracy": 0.9, "status": "ok"}
    rows = [row | {"silhouette": value + by, "best_count": 2} for by in (0.0, 0.01, 0.02)]
    config = set_fields(neuron_settings.default_config(), {"sweep.seed": (0, 1, 2)})
    clusters, count = weight_clouds_report.make_claims(config, pd.DataFrame(rows))
    assert clusters.status == status
    # How many clusters there are says nothing where there are none.
    assert count.status == ("shown" if status == "shown" else "undecided")
    (_, few) = weight_clouds_report.make_claims(config, pd.DataFrame(rows[:2]))
    assert few.status == "undecided"
    (_, other) = weight_clouds_report.make_claims(config, pd.DataFrame(rows).assign(best_count=4))
    assert other.status == "not shown"


@pytest.mark.parametrize("number", [2, 3, 4, 6])
def test_directions_fall_into_as_many_clusters_as_were_planted(number):
    generator = np.random.default_rng(5)
    centres = generator.permutation(np.concatenate([np.eye(6)[:3], -np.eye(6)[:3]]))[:number]
    planted = np.resize(centres, (48, 6)) + 0.1 * generator.normal(size=(48, 6))
    assert best_count(planted * generator.uniform(0.1, 10, size=(48, 1))) == number


def test_each_scale_of_the_initial_weights_has_a_claim_of_its_own():
    fields = {"data.dataset": "gaussian_mixture", "sweep.init_std": (0.01, 0.1)}
    config = set_fields(neuron_settings.default_config(), fields)
    assert [p["init_std"] for p in neuron_settings.sweep(config)] == [0.01] * 5 + [0.1] * 5
    rows = pd.DataFrame({"init_std": [0.01, 0.01, 0.1, 0.1], "share_covered": [1, 1, 1, 0.5]})
    rows = rows.assign(start_share_covered=0.0, test_accuracy=1.0, status="ok")
    rows["least_covered"] = [0.9, 0.91, 0.92, 0.8]
    config.sweep.seed = (0, 1)
    claims = weight_clouds_report.make_claims(config, rows)
    assert [claim.status for claim in claims[::2]] == ["shown", "not shown"]
    assert [claim.item[-4:] for claim in claims] == ["0.01", "0.01", " 0.1", " 0.1"]
    claims = weight_clouds_report.make_claims(config, rows[rows["init_std"] == 0.1])
    assert [claim.status for claim in claims] == ["not run", "not run", "not shown", "measured"]


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
