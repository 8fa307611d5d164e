"""Digits in a corner of a noisy background: read once, composed batch by batch."""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
from jaxtyping import Array

from lsa_jax import training
from lsa_jax.data import backgrounds, images, tasks
from lsa_jax.data.backgrounds import Composition
from lsa_jax.data.dataset import Dataset
from lsa_jax.data.resizing import resize
from lsa_jax.experiments.lazy_rich.streams import Digits
from lsa_jax.sweep.points import Point

TRAIN, TEST = 0, 1


class DigitsTask(NamedTuple):
    """Both splits before images lie on their backgrounds: [n, a, a, c] and one-hot targets."""

    train: Dataset
    test: Dataset


def _key(config: ml_collections.ConfigDict) -> str:
    return json.dumps(config.data.to_dict(), sort_keys=True)


def _read(config: ml_collections.ConfigDict, data_dir: Path | None) -> DigitsTask:
    data = config.data
    _place(config)  # only to refuse what does not fit, before anything is trained
    sizes = {"num_train": data.num_train, "num_test": data.num_test}
    view = tasks.task_view(images.load(data.dataset, data_dir), "all", **sizes)

    def split(dataset: Dataset, copies: int) -> Dataset:
        small = resize(dataset.inputs, data.image_size)
        return Dataset(jnp.tile(small, (copies, 1, 1, 1)), jnp.tile(dataset.targets, (copies, 1)))

    return DigitsTask(split(view.train, 1), split(view.test, data.test_copies))


def load(points: list[Point], data_dir: Path | None) -> dict[str, DigitsTask]:
    """Reads the images that the points need, once for each way of preparing them."""
    return {key: _read(config, data_dir) for key, config in _configs(points).items()}


def _configs(points: list[Point]) -> dict[str, ml_collections.ConfigDict]:
    return {_key(point.config): point.config for point in points}


def task_of(point: Point, data: dict[str, DigitsTask]) -> DigitsTask:
    """Returns the images of a point, of those that `load` read."""
    return data[_key(point.config)]


def data_key(config: ml_collections.ConfigDict) -> Array:
    """Returns the key that draws places and backgrounds of a point's seed."""
    return jax.random.fold_in(jax.random.key(config.seed), Digits.DATA)


def _place(config: ml_collections.ConfigDict) -> Composition:
    data = config.data
    return Composition(data.image_size, data.background_size, "random_corner", "gaussian")


def compose(
    config: ml_collections.ConfigDict, which: int, split: Dataset, key: Array, index: Array
) -> Dataset:
    """Places examples on their backgrounds: a function of (seed, split, example) alone."""
    own, images_of = jax.random.fold_in(key, which), split.inputs[index]
    noise = config.data.noise
    composed = backgrounds.compose(_place(config), own, images_of, index, 0, noise=noise)
    return Dataset(composed, split.targets[index])


def whole(config: ml_collections.ConfigDict, which: int, split: Dataset) -> Dataset:
    """Returns a point's whole split as its learners see it."""
    return compose(config, which, split, data_key(config), jnp.arange(len(split.targets)))


def _fetch(
    config: ml_collections.ConfigDict,
    which: int,
    split: Dataset,
    replica: dict[str, Any],
    index: Array,
    epoch: Array,
) -> Dataset:
    del epoch  # backgrounds stay as they are
    return compose(config, which, split, replica["data_key"], index)


def source(config: ml_collections.ConfigDict, which: int, split: Dataset) -> training.Source:
    """Returns a split as training takes it; a replica has its `data_key`."""
    return training.Source(split, len(split.targets), functools.partial(_fetch, config, which))
