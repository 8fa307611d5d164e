"""Which images and backgrounds the points of a sweep share, and how bright backgrounds are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

from lsa_jax.data.dataset import Dataset
from lsa_jax.data.tasks import TaskData
from lsa_jax.errors import InputError
from lsa_jax.experiments.lsa.noise_curves import tasks
from lsa_jax.experiments.lsa.noise_curves.settings import SETTINGS
from lsa_jax.sweep.points import make_points
from lsa_jax.sweep.variants import set_fields

PHOTOGRAPHS = {"data.background": "photographs", "data.photographs": "x"}
FIXED = {"data.placement": "fixed_corner"}


def configure(fields):
    return set_fields(SETTINGS.default_config(), fields)


def composed(config, split, index, noise=1.0, which=tasks.TRAIN):
    replica = {"data_key": jax.random.key(0), "noise": jnp.float32(noise)}
    return tasks.compose(config, which, split, replica, jnp.asarray(index), jnp.int32(0))


def images(count, seed=0):
    values = np.random.default_rng(seed).uniform(size=(count, 8, 8, 1)).astype(np.float32)
    return tasks.Split(values, np.eye(count, dtype=np.float32), None)


@pytest.mark.usefixtures("unchecked")
def test_photographs_are_one_pool_or_two_disjoint_ones_and_tiles_of_all(monkeypatch, tmp_path):
    def read(folder, size, synset):
        assert folder == tmp_path / "x"
        return np.broadcast_to(np.arange(11.0).reshape(11, 1, 1, 1), (11, size, size, 1))

    monkeypatch.setattr(tasks.images, "photographs", read)
    sizes = {"data.background_size": 3, "data.image_size": 1}
    for fields in ({}, {"data.photograph_size": 1}):
        own = PHOTOGRAPHS | sizes | fields
        train, test = tasks._pools(configure(own), None, tmp_path)
        assert train.shape == (6, 3, 3, 1) and test.shape == (5, 3, 3, 1)
        assert {*train.flat, *test.flat} == {*map(float, range(11))}
        assert not {*train.flat} & {*test.flat}
        # Of tiles, every photograph is in each of the nine places of one background.
        for places in (train.reshape(6, 9), test.reshape(5, 9)):
            assert all(sorted(of) == sorted(set(places.flat)) for of in places.T)
        shared = tasks._pools(configure(own | {"data.shared_pool": True}), None, tmp_path)
        assert {*shared[0].flat} == {*shared[1].flat} == {*map(float, range(11))}


def test_distractors_of_both_splits_are_apart_unless_they_are_shared():
    white, gray = (np.full((3, 8, 8, 1), value, np.float32) for value in (1.0, 0.5))
    data = Dataset(white, np.eye(3, dtype=np.float32))
    task = TaskData(data, data, ("a", "b", "c"), white, gray)
    for shared, of_test in ((False, 0.5), (True, 1.0)):
        fields = {"data.background": "distractors", "data.shared_pool": shared}
        train, test = tasks._pools(configure(fields), task, None)
        assert (float(train.mean()), float(test.mean())) == (1.0, of_test)


def test_noise_is_of_the_background_or_of_the_image_at_the_power_that_is_asked_for():
    split = images(3)
    one = np.asarray(composed(configure(FIXED), split, range(3), 1.0).inputs)
    around = np.ones((16, 16), bool)
    around[-8:, -8:] = False
    squared = composed(configure(FIXED | {"data.std_power": 2}), split, range(3), 2.0).inputs
    np.testing.assert_allclose(squared[:, around], 4 * one[:, around], rtol=1e-6)
    on_image = composed(configure(FIXED | {"data.image_noise": 0.5}), split, range(3), 1.0).inputs
    np.testing.assert_array_equal(on_image[:, around], one[:, around])
    assert (on_image - one)[:, ~around].std() == pytest.approx(0.5, rel=0.2)


@pytest.mark.usefixtures("unchecked")
def test_the_intensity_of_photographs_is_not_squared():
    split = tasks.Split(np.zeros((1, 8, 8, 1)), np.eye(1), np.ones((2, 16, 16, 1), np.float32))
    config = configure(PHOTOGRAPHS | FIXED | {"data.std_power": 2})
    assert set(np.unique(composed(config, split, [0], noise=0.25).inputs)) == {0.0, 0.25}


def test_a_copy_shows_the_image_of_its_number_modulo_theirs():
    split = images(3)
    twice = split._replace(targets=np.tile(split.targets, (2, 1)))
    for given, index in ((split, np.arange(3)[::-1]), (twice, np.arange(6)[::-1])):
        found = composed(configure(FIXED), given, index, noise=0.0)
        np.testing.assert_array_equal(found.inputs[:, 8:, 8:], split.images[index % 3])
        np.testing.assert_array_equal(found.targets.argmax(axis=1), index % 3)


def test_fresh_backgrounds_differ_by_the_epoch_in_training_alone_and_kernels_see_the_first():
    fields = {"data.fresh_backgrounds": True, "data.num_train": 20, "data.num_test": 10}
    (point,) = make_points(configure(fields), [{"noise": 1.0}], SETTINGS.validate)
    task = tasks.task_of(point, tasks.load([point], None))
    index = jnp.arange(5)

    def at(epoch, which):
        split, replica = (task.train, task.test)[which], tasks.replica_of(point)
        epoch = jnp.int32(epoch)
        return tasks.compose(point.config, which, split, replica, index, epoch).inputs

    first = tasks.composed(point, task, tasks.TRAIN, np.arange(5)).inputs
    np.testing.assert_array_equal(first, at(0, tasks.TRAIN))
    assert not np.array_equal(at(0, tasks.TRAIN), at(1, tasks.TRAIN))
    np.testing.assert_array_equal(at(0, tasks.TEST), at(1, tasks.TEST))


def test_points_share_their_images_unless_these_are_drawn_or_sized_otherwise():
    sizes = {"data.num_train": 20, "data.num_test": 10}

    def point(**fields):
        return make_points(configure(sizes | fields), [{"seed": 1}], SETTINGS.validate)[0]

    same = [point(), point(**FIXED), point(seed=3)]
    other, smaller = point(**{"data.subset_seed": 5}), point(**{"data.image_size": 4})
    data = tasks.load([*same, other, smaller], None)
    assert len(data) == 3 and len({id(tasks.task_of(one, data)) for one in same}) == 1
    found = [tasks.task_of(one, data).train.images for one in (same[0], other, smaller)]
    assert not np.array_equal(found[0], found[1]) and found[2].shape[1:3] == (4, 4)


def test_a_folder_of_one_s_own_is_read_though_a_published_set_has_its_name(tmp_path):
    for name, level in (("cat", 50), ("dog", 200)):
        (tmp_path / "digits" / name).mkdir(parents=True)
        for number in range(5):
            picture = Image.fromarray(np.full((8, 8, 3), level + number, np.uint8))
            picture.save(tmp_path / "digits" / name / f"{number}.png")
    fields = {"data.dataset": "folder", "data.folder": "digits"}
    (point,) = make_points(configure(fields), [{"noise": 0.0}], SETTINGS.validate)
    task = tasks.task_of(point, tasks.load([point], tmp_path))
    assert task.train.targets.shape == (8, 2) and task.test.targets.shape == (2, 2)
    values = {round(255 * float(image.max())) for image in task.train.images}
    assert values == {51, 52, 53, 54, 201, 202, 203, 204}


@pytest.mark.parametrize(
    ("fields", "section", "field"),
    [
        ({"figure_axis": "num_train", "sweep.num_train": (2000,)}, "data", "sweep.num_train has"),
        ({"data.num_train": 2000}, "data", "data.num_train is 2000; accepted: 1 to 1437"),
        ({"data.num_train": 2000}, "mnist", "mnist.num_train is 2000; accepted: 1 to 1437"),
        ({"data.num_test": 999}, "data", "data.num_test is 999; accepted: 1 to 360"),
        ({"data.classes": (3, 12)}, "data", "data.classes holds 12; accepted: 0 to 9"),
    ],
)
def test_what_a_data_set_does_not_have_is_refused_by_the_name_of_its_field(fields, section, field):
    config = configure({"sweep.noise": (0.0,), **fields})
    points = make_points(config, SETTINGS.sweep(config), SETTINGS.validate)
    with pytest.raises(InputError, match=f"^config.{field}"):
        tasks.load(points, None, section)
