"""Which images and backgrounds the points of a sweep share, and how bright backgrounds are."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from lsa_jax.data.dataset import Dataset
from lsa_jax.data.tasks import TaskData
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import settings, tasks
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

PHOTOGRAPHS = {"data.background": "photographs", "data.photographs": "x"}


def configure(**fields):
    return set_fields(settings.default_config(), fields)


def composed(config, which, split, index, noise=1.0, epoch=0):
    replica = {"data_key": jax.random.key(0), "noise": jnp.float32(noise)}
    found = tasks.compose(config, which, split, replica, jnp.asarray(index), jnp.int32(epoch))
    return np.asarray(found.inputs), np.asarray(found.targets)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("own", "side"), [({}, 16), ({"data.photograph_size": 4}, 4)])
def test_photographs_are_read_at_the_side_of_a_tile_or_of_the_background(monkeypatch, own, side):
    seen = []

    def read(folder, size, synset):
        seen.append((folder, size))
        return np.zeros((4, size, size, 1), np.float32)

    monkeypatch.setattr(tasks.images, "photographs", read)
    config = configure(**PHOTOGRAPHS, **own, **{"data.background_size": 16})
    train, test = tasks._pools(config, None, Path("data"))
    assert seen == [(Path("data/x"), side)]
    assert train.shape == test.shape == (2, 16, 16, 1)


def test_distractors_of_both_splits_are_apart_unless_they_are_shared():
    white, gray = (np.full((3, 8, 8, 1), value, np.float32) for value in (1.0, 0.5))
    data = Dataset(white, np.eye(3, dtype=np.float32))
    task = TaskData(data, data, ("a", "b", "c"), white, gray)
    for shared, of_test in ((False, 0.5), (True, 1.0)):
        fields = {"data.background": "distractors", "data.shared_pool": shared}
        train, test = tasks._pools(configure(**fields), task, None)
        assert (float(train.mean()), float(test.mean())) == (1.0, of_test)


@pytest.mark.usefixtures("unchecked")
def test_the_intensity_of_photographs_is_not_squared():
    split = tasks.Split(np.zeros((1, 8, 8, 1)), np.eye(1), np.ones((2, 16, 16, 1), np.float32))
    config = configure(**PHOTOGRAPHS, **{"data.std_power": 2, "data.placement": "fixed_corner"})
    images, _ = composed(config, 0, split, [0], noise=0.25)
    assert set(np.unique(images)) == {0.0, 0.25}


@pytest.mark.parametrize("size", [8, 16])
def test_noise_multiplies_the_background_and_leaves_the_image_as_it_is(size):
    config = configure(**{"data.background_size": size, "data.placement": "fixed_corner"})
    images = np.random.default_rng(0).uniform(size=(3, 8, 8, 1)).astype(np.float32)
    split = tasks.Split(images, np.eye(3, dtype=np.float32), None)
    none, one, two = (composed(config, 0, split, range(3), noise)[0] for noise in (0.0, 1.0, 2.0))
    around = np.ones((size, size), bool)
    around[-8:, -8:] = False
    for found in (none, one, two):
        np.testing.assert_array_equal(found[:, -8:, -8:], images)
    assert (none[:, around] == 0).all() and (one[:, around] != 0).all()
    np.testing.assert_allclose(two[:, around], 2 * one[:, around], rtol=1e-6)


def test_a_copy_shows_the_image_of_its_number_modulo_theirs():
    levels = np.arange(1, 4, dtype=np.float32) / 4
    images = np.broadcast_to(levels[:, None, None, None], (3, 8, 8, 1))
    config = configure(**{"data.placement": "fixed_corner"})
    for copies in (1, 2):
        split = tasks.Split(images, np.tile(np.eye(3, dtype=np.float32), (copies, 1)), None)
        index = np.arange(3 * copies)[::-1]
        found, targets = composed(config, 0, split, index, noise=0.0)
        np.testing.assert_array_equal(found.max(axis=(1, 2, 3)), levels[index % 3])
        np.testing.assert_array_equal(targets.argmax(axis=1), index % 3)


def test_fresh_backgrounds_differ_by_the_epoch_in_training_alone_and_kernels_see_the_first():
    fields = {"data.fresh_backgrounds": True, "data.num_train": 20, "data.num_test": 10}
    (point,) = make_points(configure(**fields), [{"noise": 1.0}], settings.validate)
    task = tasks.task_of(point, tasks.load([point], None))
    replica = tasks.replica_of(point)

    def at(epoch, which):
        index = jnp.arange(5)
        found = tasks.compose(point.config, which, task.train, replica, index, jnp.int32(epoch))
        return np.asarray(found.inputs)

    np.testing.assert_array_equal(tasks.compose_training(point, task, 5), at(0, tasks.TRAIN))
    assert not np.array_equal(at(0, tasks.TRAIN), at(1, tasks.TRAIN))
    np.testing.assert_array_equal(at(0, tasks.TEST), at(1, tasks.TEST))


def test_points_share_their_images_unless_these_are_drawn_or_sized_otherwise():
    sizes = {"data.num_train": 20, "data.num_test": 10}

    def point(**fields):
        return make_points(configure(**sizes, **fields), [{"seed": 1}], settings.validate)[0]

    same = [point(), point(**{"data.placement": "fixed_corner"}), point(seed=3)]
    other = point(**{"data.subset_seed": 5})
    smaller = point(**{"data.image_size": 4})
    data = tasks.load([*same, other, smaller], None)
    assert len(data) == 3 and len({id(tasks.task_of(one, data)) for one in same}) == 1
    images = [tasks.task_of(one, data).train.images for one in (same[0], other, smaller)]
    assert not np.array_equal(images[0], images[1]) and images[2].shape[1:3] == (4, 4)


def test_a_folder_of_one_s_own_is_read_though_a_published_set_has_its_name(tmp_path):
    for name, level in (("cat", 50), ("dog", 200)):
        (tmp_path / "digits" / name).mkdir(parents=True)
        for number in range(5):
            picture = Image.fromarray(np.full((8, 8, 3), level + number, np.uint8))
            picture.save(tmp_path / "digits" / name / f"{number}.png")
    fields = {"data.dataset": "folder", "data.folder": "digits"}
    (point,) = make_points(configure(**fields), [{"noise": 0.0}], settings.validate)
    task = tasks.task_of(point, tasks.load([point], tmp_path))
    assert task.train.targets.shape == (8, 2) and task.test.targets.shape == (2, 2)
    values = {round(255 * float(image.max())) for image in task.train.images}
    assert values == {51, 52, 53, 54, 201, 202, 203, 204}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"figure_axis": "num_train", "sweep.num_train": (2000,)},
            "config.sweep.num_train has 2000; accepted: 1 to 1437",
        ),
        ({"data.num_train": 2000}, "config.data.num_train is 2000; accepted: 1 to 1437, or None"),
        ({"data.num_test": 999}, "config.data.num_test is 999; accepted: 1 to 360, or None"),
        ({"data.classes": (3, 12)}, "config.data.classes holds 12; accepted: 0 to 9"),
    ],
)
def test_what_a_data_set_does_not_have_is_refused_by_the_name_of_its_field(fields, message):
    config = configure(
        **{"data.dataset": "digits", "sweep.seed": (0,), "sweep.noise": (0.0,), **fields}
    )
    points = make_points(config, settings.sweep(config), settings.validate)
    with pytest.raises(InputError, match=f"^{message}"):
        tasks.load(points, None)


def test_what_another_experiment_makes_of_its_own_fields_is_refused_by_their_names():
    config = configure(**{"data.dataset": "digits", "data.num_train": 2000})
    points = make_points(config, [{"seed": 0}], settings.validate)
    with pytest.raises(InputError, match="^config.mnist.num_train is 2000; accepted: 1 to 1437"):
        tasks.load(points, None, section="mnist")
