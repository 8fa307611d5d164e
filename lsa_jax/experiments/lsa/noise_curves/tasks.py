"""Images on backgrounds as the points of a sweep need them: read once, composed batch by batch.

The draws for an example are a function of (seed, split, example) and, for fresh backgrounds, the
epoch: the same for every learner and at every noise level.
"""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from lsa_jax import training
from lsa_jax.data import backgrounds, images, stand_ins, synsets, tasks
from lsa_jax.data.backgrounds import Composition
from lsa_jax.data.dataset import Dataset
from lsa_jax.data.images import ImageSet
from lsa_jax.data.resizing import resize
from lsa_jax.data.tasks import TaskData
from lsa_jax.errors import InputError
from lsa_jax.sweep.fields import Config
from lsa_jax.sweep.points import Point

TRAIN, TEST = 0, 1


class NoiseCurves:
    """Random streams of a seed's key: network, data, examples for gradients, centres."""

    RUN, DATA, POINTS, CENTRES = 0, 1, 3, 4


class Split(NamedTuple):
    """Images before they are placed on backgrounds; example i shows image i modulo m.

    Targets are one-hot. The pool is photographs or distractors; None for other backgrounds.
    """

    images: Float[np.ndarray, "m a a c"]
    targets: Float[np.ndarray, "n classes"]
    pool: Float[np.ndarray, "p h w c"] | None


class ImageTask(NamedTuple):
    """Both splits of one task."""

    train: Split
    test: Split


# Settings that apply only when batches are composed, not when images are read.
_COMPOSED = ("placement", "std_power", "fresh_backgrounds", "image_noise", "transparent")


def _data_key(config: Config) -> str:
    loaded = {name: v for name, v in config.data.to_dict().items() if name not in _COMPOSED}
    return json.dumps(loaded, sort_keys=True)


def tile_pictures(
    pictures: Float[np.ndarray, "m a a c"], side: int, seed: int
) -> Float[np.ndarray, "m b b c"]:
    """Returns as many backgrounds of the side as pictures, each tiled by randomly drawn ones."""
    count, tiles = len(pictures), side // pictures.shape[1]
    generator = np.random.default_rng(seed)
    rows = [
        np.concatenate([pictures[generator.permutation(count)] for _ in range(tiles)], axis=2)
        for _ in range(tiles)
    ]
    return np.concatenate(rows, axis=1)


def _photographs(config: Config, data_dir: Path | None) -> np.ndarray:
    """Returns photographs of the side of a background, or of the tiles of one."""
    data = config.data
    side = data.photograph_size or data.background_size
    if stand_ins.are_wanted():
        return stand_ins.photographs(side)
    if data_dir is None:
        raise InputError(
            f"config.data.photographs is {data.photographs!r}, a folder below --data_dir, "
            "which is missing; accepted: --data_dir=DIR or LSA_DATA_DIR"
        )
    synset = None if data.synset is None else synsets.shipped(data.synset)
    return images.photographs(data_dir / data.photographs, side, synset)


def _pools(
    config: Config, task: TaskData, data_dir: Path | None
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Returns the pools of pictures behind training and test images; None for other backgrounds.

    The pools are disjoint, unless one is to be shared: then it is all photographs, or the
    distractors of the training images.
    """
    data = config.data
    if data.background == "distractors":
        of_test = task.distractors_train if data.shared_pool else task.distractors_test
        return resize(task.distractors_train, data.image_size), resize(of_test, data.image_size)
    if data.background != "photographs":
        return None, None
    pictures = _photographs(config, data_dir)
    if data.shared_pool:
        pools = [pictures, pictures]
    else:
        order = np.random.default_rng(data.subset_seed).permutation(len(pictures))
        pools = [pictures[part] for part in np.array_split(order, 2)]
    if data.photograph_size is not None:
        pools = [tile_pictures(pool, data.background_size, data.subset_seed) for pool in pools]
    return pools[0], pools[1]


def _view(config: Config, image_set: ImageSet, section: str) -> TaskData:
    """Returns a data set's task by the settings; errors name the field to change."""
    data = config.data
    try:
        return tasks.task_view(
            image_set,
            data.task,
            classes=data.classes,
            num_train=data.num_train,
            num_test=data.num_test,
            subset_seed=data.subset_seed,
        )
    except InputError as error:
        field, _, why = str(error).partition(" ")
        if field == "num_train" and config.sweep.get("num_train"):
            why = why.replace("is", "has", 1).removesuffix(", or None for all")
            raise InputError(f"config.sweep.num_train {why}") from None
        raise InputError(f"config.{section}.{field} {why}") from None


def _load_task(config: Config, data_dir: Path | None, section: str) -> ImageTask:
    data = config.data
    if data.dataset == "folder":
        found = images.load_folder(data.folder, data_dir, size=data.image_size, fit=data.fit)
    else:
        found = images.load(data.dataset, data_dir)
    task = _view(config, found, section)

    def split(dataset: Dataset, copies: int, pool: np.ndarray | None) -> Split:
        small = resize(dataset.inputs, data.image_size)
        return Split(small, np.tile(dataset.targets, (copies, 1)), pool)

    pool_train, pool_test = _pools(config, task, data_dir)
    return ImageTask(
        split(task.train, data.copies, pool_train), split(task.test, data.test_copies, pool_test)
    )


def load(points: list[Point], data_dir: Path | None, section: str = "data") -> dict[str, ImageTask]:
    """Reads the images that the points need, once for each way of preparing them.

    Errors name fields of `config.data`, or of another section that these points are made from.
    """
    configs = {_data_key(point.config): point.config for point in points}
    return {key: _load_task(config, data_dir, section) for key, config in configs.items()}


def task_of(point: Point, data: dict[str, ImageTask]) -> ImageTask:
    """Returns the images of a point that `load` read."""
    return data[_data_key(point.config)]


def compose(
    config: Config, which: int, split: Split, replica: dict, index: Array, epoch
) -> Dataset:
    """Places examples on their backgrounds: a function of (seed, split, index, epoch) alone."""
    data = config.data
    names = ("image_size", "background_size", "placement", "background", "transparent")
    fresh = data.fresh_backgrounds and which == TRAIN
    composition = Composition(**{name: data[name] for name in names}, fresh=fresh)
    key = jax.random.fold_in(replica["data_key"], which)
    shown = index if len(split.images) == len(split.targets) else index % len(split.images)
    power = data.std_power if data.background == "gaussian" else 1
    composed = backgrounds.compose(
        composition,
        key,
        split.images[shown],
        index,
        epoch,
        noise=replica["noise"] ** power,
        image_noise=data.image_noise,
        pool=split.pool,
    )
    return Dataset(composed, split.targets[index])


def composed(
    point: Point, task: ImageTask, which: int, index: np.ndarray, **others: Array
) -> Dataset:
    """Returns images of a split as a point's learners see them in the first epoch.

    `others` replace entries of `replica_of`.
    """
    split, replica = (task.train, task.test)[which], replica_of(point) | others
    return compose(point.config, which, split, replica, jnp.asarray(index), jnp.int32(0))


def input_shape(config: Config, task: ImageTask) -> tuple[int, int, int]:
    """Returns the shape of one composed image."""
    side = config.data.background_size
    return (side, side, task.train.images.shape[-1])


def replica_of(point: Point) -> dict[str, Any]:
    """Returns the arrays that vary between the points of a group."""
    key = jax.random.fold_in(jax.random.key(point.config.seed), NoiseCurves.DATA)
    return {"data_key": key, "noise": jnp.float32(point.config.noise)}


def source(config: Config, which: int, split: Split) -> training.Source:
    """Returns a split as training takes it: composed batch by batch, on the device."""
    return training.Source(split, len(split.targets), functools.partial(compose, config, which))
