"""Placements and sizes as axes, and the authors' own choices as options."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lsa_jax import models
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import experiment, learners, settings, tasks
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields


def _config(**fields):
    return set_fields(settings.default_config(), fields)


def test_placements_and_sizes_multiply_the_points_and_name_them():
    sizes = {"sweep.placement": ("random_corner", "fixed_corner"), "sweep.size": ((8, 16), (8, 8))}
    config = _config(**sizes, **{"sweep.learner": ("network",), "sweep.noise": (0.0, 1.0)})
    points = make_points(config, settings.sweep(config), settings.validate)
    assert len(points) == 8 and len({point.id for point in points}) == 8
    assert points[0].settings.keys() >= {"data.placement", "data.background_size"}
    assert {p.config.data.background_size for p in points} == {16, 8}
    # Noise levels of one arrangement share a program; arrangements do not.
    assert [len(group) for group in experiment.groups(points)] == [2] * 4
    row = experiment.describe(points[0].config)
    assert (row["placement"], row["image_size"], row["background_size"]) == (
        "random_corner",
        8,
        16,
    )


def test_where_no_arrangement_is_swept_points_keep_their_names():
    config = _config(**{"sweep.learner": ("network",), "sweep.noise": (0.0,)})
    assert settings.sweep(config) == [
        {"learner": "network", "width_factor": 1, "noise": 0.0, "seed": 0}
    ]


def test_growing_backgrounds_take_one_noise_level():
    config = _config(figure_axis="background_size", **{"sweep.noise": (0.0, 1.0)})
    with pytest.raises(InputError, match="config.sweep.noise is .*one noise level"):
        settings.validate(config)


def _compose(which, replica_noise, **fields):
    config = _config(**fields)
    split = tasks.Split(np.ones((50, 8, 8, 1), np.float32), np.eye(50), None)
    replica = {"data_key": jax.random.key(0), "noise": jnp.float32(replica_noise)}
    composed = tasks.compose(config, which, split, replica, jnp.arange(50), jnp.int32(0))
    return np.asarray(composed.inputs)


def test_the_squared_standard_deviation_squares_only_gaussian_noise():
    fields = {"data.placement": "fixed_corner", "data.std_power": 2}
    squared = _compose(0, 2.0, **fields)[:, :8]
    assert squared.std() == pytest.approx(4.0, rel=0.05)
    plain = _compose(0, 4.0, **fields | {"data.std_power": 1})[:, :8]
    np.testing.assert_allclose(squared, plain, rtol=1e-6)


@pytest.mark.usefixtures("unchecked")
def test_one_pool_or_two_disjoint_ones(monkeypatch, tmp_path):
    pool = np.arange(11, dtype=np.float32).reshape(11, 1, 1, 1)
    monkeypatch.setattr(tasks.images, "photographs", lambda *arguments: pool)
    fields = {"data.background": "photographs", "data.photographs": "x"}
    train, test = tasks._pools(_config(**fields), None, tmp_path)
    assert sorted([*train.flat, *test.flat]) == sorted(pool.flat)
    train, test = tasks._pools(_config(**fields, **{"data.shared_pool": True}), None, tmp_path)
    assert sorted(train.flat) == sorted(test.flat) == sorted(pool.flat)
    tiled = fields | {"data.photograph_size": 1, "data.background_size": 3, "data.image_size": 1}
    train, test = tasks._pools(_config(**tiled), None, tmp_path)
    assert train.shape == (6, 3, 3, 1) and not set(train.flat) & set(test.flat)
    # Every photograph is in each of the nine places of one background.
    for places in (train.reshape(6, 9), test.reshape(5, 9)):
        assert all(sorted(of) == sorted(set(places.flat)) for of in places.T)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("factor", [0.5, 1.0])
def test_the_penalty_factor_reaches_the_optimiser(monkeypatch, tmp_path, factor):
    """Its gradient is 2 x factor x lambda x theta."""
    updates = {}

    def record(key, model, source, loss, optimizer, **options):
        params = jnp.array([3.0])
        update, _ = optimizer.update(jnp.zeros(1), optimizer.init(params), params)
        updates["step"] = float(update[0])
        return None, None

    monkeypatch.setattr(experiment.training, "train", record)
    fields = {
        "network.optimizer": "sgd",
        "network.learning_rate": 1.0,
        "network.weight_decay": 0.1,
        "network.penalty_factor": factor,
    }
    points = make_points(_config(**fields), [{}], settings.validate)
    split = tasks.Split(np.zeros((4, 8, 8, 1), np.float32), np.eye(4), None)
    task = tasks.ImageTask(split, split)
    trained = learners.Trained(models.mlp())
    experiment.train_group(points, task, trained, tmp_path, None)
    assert updates["step"] == pytest.approx(-2 * factor * 0.1 * 3.0)


@pytest.mark.parametrize(
    "fields", [{"data.background": "gaussian"}, {"data.background": "photographs"}]
)
def test_photographs_that_do_not_tile_the_background_are_refused(fields):
    given = {"data.photographs": "x", "data.photograph_size": 5, "data.background_size": 16}
    config = _config(**fields | given)
    with pytest.raises(InputError, match="photograph_size is 5"):
        settings.check_data(config)
